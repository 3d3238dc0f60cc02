"""A client's process in virtual time: its clock, its keeper, its way to the server; it can stand still and die.

What the client does is the client's own code; here is only what it takes from outside.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

from holdfast.client.keeper import Keeper
from holdfast.client.ports import Address, Pipe, Receiver, Signal, Stream, World
from holdfast.testing.cable import Cable
from holdfast.testing.timeline import Event, Timeline
from holdfast.testing.turns import Task, Turns
from holdfast.testing.virtual_network import Route, VirtualPipe, VirtualStream, VirtualTransport
from holdfast.testing.virtual_server import VirtualServer
from holdfast.words import FOREVER, SECOND

PPM: Final = 1_000_000

logger: Final = logging.getLogger("holdfast.client")


class Killed(BaseException):
    """The process is dead: none of its code goes on."""


class Program:
    """One process, with one client or several."""

    def __init__(self, name: str, timeline: Timeline, turns: Turns, server: VirtualServer, seed: int) -> None:
        self._name = name
        self.route = Route(timeline, server)
        self.frozen = False
        self.spells: list[tuple[int, int]] = []  # from when to when it stood still
        self.dead = False
        self.host = VirtualHost(self)
        self.dice = random.Random(seed)
        # Told before each call that may block; what it raises comes out of the call: a signal, for instance.
        self.blocking: Callable[[str], None] = lambda _what: None
        self.bytes_sent = 0
        self.bytes_received = 0
        self.sends_max: int | None = None  # so many bytes leave, and then it is killed
        self.receives_max: int | None = None
        self.timeline = timeline
        self._turns = turns
        self.errors: list[Exception] = []  # what functions that were to be told of something have raised
        self._news: deque[Callable[[], object]] = deque()
        self._teller: Task | None = None
        self._backlog: deque[Callable[[], None]] = deque()  # what has come to it while it stood still
        self._clock_from = timeline.now
        self._clock_shows = self.dice.randrange(1, 10_000_000) * SECOND  # how long its machine has been up
        self._ppm = 0

    @property
    def name(self) -> str:
        return self._name

    # --- for the client ---

    def world(self) -> World:
        """Give the client all that it takes from outside."""
        return World(
            clock=self.clock,
            dice=self.dice.randbytes,
            network=VirtualDialler(self),
            host=lambda: self.host,
            sleep=self.sleep,
            wait=self.wait_for,
            tell=self.tell,
            begin=self.begin,
            lock=lambda: VirtualLock(self),
        )

    def clock(self) -> int:
        elapsed = self.timeline.now - self._clock_from
        return self._clock_shows + elapsed + elapsed * self._ppm // PPM

    def instant(self, local: int) -> int:
        """Say when its clock shows so much."""
        if local >= FOREVER:
            return FOREVER
        span = local - self._clock_shows
        elapsed = -(-span * PPM // (PPM + self._ppm))
        return self._clock_from + elapsed

    def sleep(self, until: int) -> None:
        self.block("sleep")
        self.wait(lambda: False, until, "until its clock shows a certain time")

    def wait_for(self, signal: Signal, until: int) -> bool:
        self.block("wait")
        return self.wait(signal.is_set, until, "for a signal")

    def tell(self, function: Callable[[], object]) -> None:
        """Call a function in a thread that is there for that, so that it may wait."""
        self._news.append(function)
        if self._teller is None:
            self._teller = self._turns.spawn(self._tell, f"notices of {self.name}", daemon=True)

    def begin(self, work: Callable[[], object], name: str) -> Callable[[int], bool]:
        """Do work in a thread of its own; nobody minds if it never ends."""
        task = self._turns.spawn(work, f"{name} of {self.name}", daemon=True)
        return lambda until: self.wait(lambda: task.done, until, f"for {name} to end")

    def _tell(self) -> None:
        while True:
            self.wait(lambda: bool(self._news), FOREVER, "for something to tell")
            try:
                self._news.popleft()()
            except Exception as error:
                logger.exception("a function that was to be told of a lease failed")
                self.errors.append(error)

    # --- standing still, dying, drifting ---

    @property
    def stands_still(self) -> bool:
        return self.frozen and not self.dead

    @property
    def is_dead(self) -> bool:
        return self.dead

    def freeze(self) -> None:
        """Let it stand still, as under SIGSTOP: none of its code runs, and time goes on."""
        if not self.frozen:
            self.frozen = True
            self.spells.append((self.timeline.now, FOREVER))

    def thaw(self) -> None:
        """Let it go on; what has come meanwhile is looked at first."""
        if self.frozen:
            self.frozen = False
            self.spells[-1] = self.spells[-1][0], self.timeline.now
            self.timeline.soon(self._catch_up)

    def _catch_up(self) -> None:
        while self._backlog and not self.frozen and not self.dead:
            self._do(self._backlog.popleft())

    def kill(self) -> None:
        """Let it die on the spot, as under SIGKILL: its system closes its connections."""
        if not self.dead:
            self.dead = True
            self.host.close()
            self._backlog.clear()
            self.route.vanish()

    def drift(self, parts_per_million: int) -> None:
        """Let its clock run faster (or slower) by so much from now on."""
        shows = self.clock()
        self._clock_from, self._clock_shows, self._ppm = self.timeline.now, shows, parts_per_million
        self.host.reset()

    def must_live(self) -> None:
        if self.dead:
            raise Killed(self.name)

    def act(self, act: Callable[[], None]) -> None:
        """Do something in the process: now, or when it goes on, or never."""
        if self.dead:
            return
        if self.frozen or self._backlog:
            self._backlog.append(act)
        else:
            self._do(act)

    def _do(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Killed:
            if not self.dead:
                raise

    # --- for its ends of connections ---

    def wait(self, ready: Callable[[], bool], until: int, what: str) -> bool:
        return self._turns.wait(ready, self.instant(until), what, self)

    def block(self, what: str) -> None:
        """A call begins that may block."""
        self.must_live()
        self.blocking(what)

    def send(self, cable: Cable, data: bytes) -> None:
        """Let bytes leave; it may die in the middle."""
        self.must_live()
        if self.sends_max is not None and self.bytes_sent + len(data) >= self.sends_max:
            data = data[: self.sends_max - self.bytes_sent]
            cable.send_up(data)
            self.kill()
            raise Killed(self.name)
        self.bytes_sent += len(data)
        cable.send_up(data)

    def receive(self, data: bytes) -> bytes:
        """Take bytes in; it may die before it has seen all of them."""
        if self.receives_max is not None and self.bytes_received + len(data) >= self.receives_max:
            self.kill()
            raise Killed(self.name)
        self.bytes_received += len(data)
        return data


class VirtualLock:
    """A lock among threads of one program, who wait for it in virtual time."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking and self._is_held:
            until = FOREVER if timeout < 0 else self._program.clock() + round(timeout * SECOND)
            self._program.wait(lambda: not self._is_held, until, "for another thread of its own")
        if self._is_held:
            return False
        self._is_held = True
        return True

    def release(self) -> None:
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class VirtualDialler:
    """The client's network: everything it dials is the one server of the world."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def dial(self, address: Address, until: int) -> Stream:
        self._program.block("dial")
        stream = VirtualStream(self._program, address)
        stream.wait_for_connection(until)
        return stream

    async def connect(self, address: Address, protocol: asyncio.Protocol, until: int) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        transport = VirtualTransport(self._program, loop, protocol)
        try:
            async with asyncio.timeout((until - self._program.clock()) / SECOND if until < FOREVER else None):
                await transport.stands
        except BaseException:
            transport.close()
            raise
        return transport


class VirtualHost:
    """Keeps a keeper going by the timeline."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._keeper: Keeper | None = None
        self._depth = 0
        self._tick: Event | None = None
        self._due = FOREVER

    @contextmanager
    def keeper(self) -> Iterator[Keeper]:
        program = self._program
        if self._keeper is None:
            self._keeper = Keeper(program.clock, program.dice.random, self._open)
        self._depth += 1
        try:
            yield self._keeper
        finally:
            self._depth -= 1
            if self._depth == 0 and not program.dead:
                self._go_on(self._keeper)

    def _open(self, address: Address, receiver: Receiver) -> Pipe:
        return VirtualPipe(self._program, receiver)

    def _go_on(self, keeper: Keeper) -> None:
        """Do what is due, see to what will be, and tell what there is to tell."""
        now = self._program.clock()
        if now >= keeper.due:
            self._depth += 1
            try:
                keeper.tick(now)
            finally:
                self._depth -= 1
        self._due = keeper.due
        self.reset()
        for notice in keeper.take_notices():
            self._program.tell(notice)

    def reset(self) -> None:
        """Set the alarm again: the keeper has another deadline, or the clock another speed."""
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        if self._due < FOREVER and not self._program.dead:
            self._tick = self._program.timeline.at(self._program.instant(self._due), self._ring)

    def _ring(self) -> None:
        self._program.act(self._wake)

    def _wake(self) -> None:
        with self.keeper():
            pass

    def close(self) -> None:
        self._due = FOREVER
        self.reset()
