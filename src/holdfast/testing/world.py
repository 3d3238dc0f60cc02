"""A world in virtual time: one real server, clients that are processes of their own, a network, a clock in your hand.

For tests of programs that use Holdfast: the client and the server are the real ones, and only what lies between them,
time included, is ours. Nothing about locks is decided here.
"""

import random
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.testing.program import Program
from holdfast.testing.timeline import Event, Timeline
from holdfast.testing.turns import Task, Turns
from holdfast.testing.virtual_network import Route
from holdfast.testing.virtual_server import Holding, StoreName, VirtualServer
from holdfast.words import FOREVER, SECOND, Mode, Reason

if TYPE_CHECKING:
    from holdfast import aio
    from holdfast.sync import Client

T = TypeVar("T")

URL = "holdfast://world:6388"
PREFIXES = {"lock": b"lock:", "semaphore": b"sem:"}


class World:
    """A server and its clients. One seed, one course of events."""

    def __init__(self, seed: int = 0, *, store: StoreName = "durable", **settings: Any) -> None:
        self.dice = random.Random(seed)
        self.timeline = Timeline()
        self.turns = Turns(self.timeline)
        self.clock = WorldClock(self)
        self.server = VirtualServer(self.timeline, self.dice, store=store, **settings)
        self.net = Net(self)
        self.programs: dict[str, Program] = {}
        self._clients: list[tuple[Client, Program]] = []
        self.server.on_death.append(self._server_died)

    def __enter__(self) -> "World":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception:
            if error is None:
                raise

    def close(self) -> None:
        """End everything; nothing is waited for. What a callback of a client has raised is raised here."""
        self.turns.close()
        for program in self.programs.values():
            program.kill()
            if program.errors:
                raise program.errors[0]

    # --- clients ---

    def connect(self, name: str | None = None, url: str = URL, **options: Any) -> "Client":
        """Make a client in a process of its own; `options` are those of `holdfast.connect`."""
        from holdfast.sync import connect

        program = self.program(name)
        client = connect(url, name=program.name, world=program.world(), **options)
        self._clients.append((client, program))
        return client

    def run(
        self, main: "Callable[[aio.Client], Awaitable[T]]", name: str | None = None, url: str = URL, **options: Any
    ) -> T:
        """Run a coroutine function as `asyncio.run` does, in a process of its own; it gets an asyncio client."""
        from holdfast.aio import connect
        from holdfast.testing import virtual_loop

        program = self.program(name)

        async def live() -> T:
            async with connect(url, name=program.name, world=program.world(), **options) as client:
                return await main(client)

        return virtual_loop.run(program, live())

    def program(self, name: str | None = None) -> Program:
        """Give the process of this name; it is made when it is first asked for."""
        if name is None:
            name = f"client-{len(self.programs) + 1}"
        if name not in self.programs:
            self.programs[name] = Program(name, self.timeline, self.turns, self.server, self.dice.getrandbits(64))
        return self.programs[name]

    def process_of(self, client: "Client | Program | str") -> Program:
        """Find the process that a client lives in."""
        if isinstance(client, Program):
            return client
        if isinstance(client, str):
            return self.programs[client]
        for known, program in self._clients:
            if known is client:
                return program
        raise LookupError(f"{client!r} is no client of this world: make clients with world.connect()")

    def freeze(self, client: "Client | Program | str") -> None:
        """Let a client's process stand still, as under SIGSTOP, while time goes on."""
        self.process_of(client).freeze()

    def thaw(self, client: "Client | Program | str") -> None:
        self.process_of(client).thaw()

    def kill(self, client: "Client | Program | str") -> None:
        """Let a client's process die on the spot, as under SIGKILL."""
        self.process_of(client).kill()

    # --- what happens beside ---

    def spawn(self, function: Callable[..., Any], *arguments: Any, name: str | None = None) -> Task:
        """Call a function in a thread of its own; it runs whenever all others wait, so it is always the same."""
        return self.turns.spawn(lambda: function(*arguments), name or str(getattr(function, "__name__", "task")))

    def sleep(self, seconds: float) -> None:
        """Wait, in virtual time; what a program under test calls in the place of `time.sleep`.

        All that is due by then has happened when this returns.
        """
        timeline = self.timeline
        end = timeline.after(round(seconds * SECOND), lambda: None)
        over = lambda: end.is_off and timeline.next_at() > timeline.now  # noqa: E731  a name tells what it is
        self.turns.wait(over, FOREVER, f"for {seconds:g} s to pass", told=True, last=True)

    def wait(self, ready: "Callable[[], bool] | Any", seconds: float | None = None) -> bool:
        """Wait until something is so: an event that is set (`held.lost`), or a function that says yes."""
        until = FOREVER if seconds is None else self.timeline.now + round(seconds * SECOND)
        asks = ready if callable(ready) else ready.is_set
        return self.turns.wait(asks, until, "for something to come true", told=seconds is not None)

    # --- what the server knows ---

    def lock(self, key: str) -> "Held":
        """Look at a lock as the server sees it, and take it away."""
        return Held(self, PREFIXES["lock"] + key.encode())

    def semaphore(self, key: str) -> "Held":
        return Held(self, PREFIXES["semaphore"] + key.encode())

    def _server_died(self) -> None:
        for program in self.programs.values():
            program.route.server_died()


class Held:
    """A key, as the server knows it."""

    def __init__(self, world: World, key: bytes) -> None:
        self._world = world
        self._key = key

    @property
    def holders(self) -> list[Holding]:
        """Show who holds it, those who have held it for longest first."""
        return [holding for holding in self._world.server.holdings() if holding.key == self._key]

    @property
    def fences(self) -> list[int]:
        return [holding.claim.fence for holding in self.holders]

    @property
    def modes(self) -> list[str]:
        return [Mode(holding.claim.mode).name for holding in self.holders]

    @property
    def held(self) -> bool:
        """Whether anybody holds it."""
        return bool(self.holders)

    def lose(self) -> None:
        """Take it from all who hold it, as `holdfast break` does; they hear of it when they can be reached."""
        self._end(Reason.BROKEN)

    def expire(self) -> None:
        """Let the leases of all who hold it have run out."""
        self._end(Reason.EXPIRED)

    def _end(self, reason: Reason) -> None:
        holders = self.holders
        if not holders:
            raise LookupError(f"nobody holds {self._key.decode(errors='replace')!r}, so nobody can lose it")
        for holding in holders:
            self._world.server.end(holding, reason)
        self._world.clock.settle()


class WorldClock:
    """The clock of a world: it goes on when somebody waits, and when it is told to."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._start = world.timeline.now

    @property
    def now(self) -> float:
        """How many seconds have passed since the world began."""
        return (self._world.timeline.now - self._start) / SECOND

    def step(self, seconds: float) -> None:
        """Let time pass; everything happens at its instant, in clients and server."""
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds} s")
        self._world.sleep(seconds)

    def settle(self) -> None:
        """Let happen what is due at this very instant."""
        self._world.sleep(0)

    def after(self, seconds: float, act: Callable[[], Any]) -> Event:
        """Have something happen later, while others wait; it can be called off."""
        return self._world.timeline.after(round(seconds * SECOND), act)

    def drift(self, who: "Client | Program | str | VirtualServer", percent: float) -> None:
        """Let the clock of a client, or of the server, run faster from now on, or slower if `percent` is negative."""
        process = who if isinstance(who, VirtualServer) else self._world.process_of(who)
        process.drift(round(percent * 10_000))

    def step_wall_clock(self, seconds: float) -> None:
        """Step the wall clock of the server's machine, as a time service does; leases must not care."""
        self._world.server.step_wall_clock(round(seconds * SECOND))


class Net:
    """The network of a world, by client. Without a client, it is about all that there are."""

    def __init__(self, world: World) -> None:
        self._world = world

    def partition(self, client: "Client | Program | str | None" = None, *, up: bool = True, down: bool = True) -> None:
        """Let nothing through: `up` is what goes to the server, `down` what comes from it."""
        for route in self._routes(client):
            route.partition(up=up, down=down)

    def heal(self, client: "Client | Program | str | None" = None) -> None:
        for route in self._routes(client):
            route.heal()

    def drop_answers(self, count: int = 1, client: "Client | Program | str | None" = None) -> None:
        """Lose the next so many answers of the server, each together with its connection."""
        for route in self._routes(client):
            route.drop_answers(count)

    def reset(self, client: "Client | Program | str | None" = None) -> None:
        """Break all connections."""
        for route in self._routes(client):
            route.reset()

    def cut_after(
        self, client: "Client | Program | str", *, sent: int | None = None, received: int | None = None
    ) -> None:
        """Break a connection when the client has sent, or been sent, so many bytes more; those still arrive."""
        for route in self._routes(client):
            if sent is not None:
                route.fuse_up.set(sent)
            if received is not None:
                route.fuse_down.set(received)

    def delay(self, seconds: float, client: "Client | Program | str | None" = None) -> None:
        """Let bytes take so long, each way."""
        for route in self._routes(client):
            route.delay_ns = lambda: round(seconds * SECOND)

    def _routes(self, client: "Client | Program | str | None") -> list[Route]:
        programs = list(self._world.programs.values()) if client is None else [self._world.process_of(client)]
        return [program.route for program in programs]
