"""A server in virtual time: the real doors, desk, engine and stores, wired as `holdfast.server` wires them.

It can be paused, killed and started again. What it keeps over a restart is in its backend, and in nothing else.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from holdfast.config import Config
from holdfast.desk import Desk
from holdfast.doors.line import LineDoor, LineSettings
from holdfast.doors.native import NativeDoor
from holdfast.doors.native_connection import NativeSettings
from holdfast.engine.invariants import check_table
from holdfast.engine.resource import holders
from holdfast.engine.table import Table
from holdfast.stores.fence import DenseMint, Fences, Mint
from holdfast.stores.memory import MemoryStore
from holdfast.stores.shelf import Outcome, Shelf
from holdfast.system import not_before
from holdfast.testing.cable import Cable
from holdfast.testing.paper_backend import PaperBackend
from holdfast.testing.timeline import START_NS, Event, Timeline
from holdfast.words import FOREVER, RESIDENT, Claim, End, Reason

PPM: Final = 1_000_000
StoreName = Literal["durable", "memory"]


class Dice:
    """Random bytes under a seed."""

    def __init__(self, source: random.Random) -> None:
        self.roll = source.randbytes


class PaperShelf(Shelf):
    """A shelf whose table can be looked at."""

    @property
    def table(self) -> Table:
        return self._table


class TimedRunner:
    """Runs a shelf's transactions in virtual time; each takes so long, and is told of as long after that again."""

    def __init__(self, run: "Run") -> None:
        self._run = run

    def soon(self, act: Callable[[], None]) -> None:
        self._run.after(0, act)

    def run(self, work: Callable[[], Outcome], done: Callable[[Outcome], None]) -> None:
        span_ns = self._run.commit_ns

        def perform() -> None:
            outcome = work()
            self._run.looked()
            self._run.after(span_ns, lambda: done(outcome))

        self._run.after(span_ns, perform)

    def close(self) -> None:
        """A virtual server is never closed in good order: what it leaves is what a kill leaves."""


class Run:
    """One life of a server, from its start to its end. Whatever it set going ends with it."""

    def __init__(self, server: "VirtualServer") -> None:
        self.over = False
        self._server = server
        self._timer: Event | None = None
        self._timer_at = FOREVER
        self._swept_at = server.timeline.now
        config = server.config
        limits: dict[str, int] = {
            "keys_max": config.keys_max,
            "waiters_max": config.waiters_max,
            "idle_max_ns": config.gc_idle_max_ns,
        }
        dice = Dice(server.dice)
        self.clock = server.clock
        self.store: MemoryStore | PaperShelf
        if server.store == "memory":
            # The fences of a former life are below, as with a fence file.
            server.fences = Fences(max(server.clock(), 0 if server.fences is None else server.fences.last))
            self.store = MemoryStore(Mint(server.fences, dice).__call__, self._alarm, **limits)
        else:
            server.backend = server.backend.restarted()
            self.clock = not_before(server.clock, server.backend.open())
            self.store = PaperShelf(
                server.backend,
                TimedRunner(self),
                self.clock,
                DenseMint(dice).__call__,
                self._alarm,
                **limits,
                batch_max=config.store_batch_max,
                resident=RESIDENT,
            )
            self.store.open()
        self.desk = Desk(self.store, release_on_disconnect=config.release_on_disconnect, tickets=server.timeline.now)
        self.store.sink = self.desk
        self.native = NativeDoor(
            self.desk, self.clock, self._alarm, dice, native_settings(config), lambda act: self.after(0, act)
        )
        self.line = LineDoor(self.desk, self.clock, self._alarm, line_settings(config), self.native)
        self._alarm(self.store.next_deadline())

    @property
    def table(self) -> Table:
        return self.store.table

    @property
    def commit_ns(self) -> int:
        """How long a transaction takes."""
        return self._server.commit_ns()

    def after(self, span_ns: int, act: Callable[[], None]) -> None:
        self._server.timeline.after(span_ns, lambda: self.act(act))

    def act(self, act: Callable[[], None]) -> None:
        """Do something in this process: now, or when it goes on, or never."""
        if not self.over:
            self._server.act(act)

    def looked(self) -> None:
        check_table(self.table, self.clock())

    # --- time ---

    def _alarm(self, when: int) -> None:
        if when >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        at = max(self._server.instant(when, self.clock), self._server.timeline.now)
        self._timer = self._server.timeline.at(at, lambda: self.act(self._tick))

    def _tick(self) -> None:
        self._timer_at = FOREVER
        now = self.clock()
        parts = (self.store, self.line, self.native)
        for part in parts:
            part.tick(now)
        self.sweep()
        self._alarm(min(part.next_deadline() for part in parts))

    def sweep(self) -> None:
        """Do the chores, if it is time for them."""
        now = self._server.timeline.now
        if now - self._swept_at >= self._server.config.sweep_interval_ns:
            self._swept_at = now
            self.desk.sweep()
            self.store.sweep(self.clock())


@dataclass(frozen=True, slots=True)
class Holding:
    """A claim that is held, as the server knows it: nobody whom it clashes with can be granted the key."""

    key: bytes  # with its kind in front, as the engine spells it
    limit: int
    until: int  # an instant of the world
    claim: Claim


class VirtualServer:
    """The one server of a world."""

    def __init__(
        self, timeline: Timeline, dice: random.Random, *, store: StoreName = "durable", **settings: Any
    ) -> None:
        self.timeline = timeline
        self.dice = dice
        self.store: StoreName = store
        self.config = Config(**settings)
        self.fences: Fences | None = None
        self.backend = PaperBackend()
        self.paused = False
        self.run: Run | None = None
        self.commit_ns: Callable[[], int] = lambda: 0
        self.on_death: list[Callable[[], None]] = []
        self._backlog: deque[Callable[[], None]] = deque()
        self.wall_clock_steps_ns = 0  # which the next server will see
        self._ppm = 0
        self._clock_from = timeline.now
        self._clock_shows = START_NS
        self.start()

    # --- its clock ---

    def clock(self) -> int:
        elapsed = self.timeline.now - self._clock_from
        return self._clock_shows + elapsed + elapsed * self._ppm // PPM

    def instant(self, when: int, clock: Callable[[], int] | None = None) -> int:
        """Say at which instant of the world its clock shows so much."""
        if when >= FOREVER:
            return FOREVER
        left = when - (clock or self.clock)()
        return self.timeline.now - (-left * PPM // (PPM + self._ppm))

    def drift(self, parts_per_million: int) -> None:
        """Let its clock run faster (or slower) by so much from now on."""
        shows = self.clock()
        self._clock_from, self._clock_shows, self._ppm = self.timeline.now, shows, parts_per_million

    def step_wall_clock(self, span_ns: int) -> None:
        """Step the wall clock of its machine. A server that runs does not look at it; the next one does."""
        if self.run is None:
            self._clock_shows += span_ns
        else:
            self.wall_clock_steps_ns += span_ns

    # --- life ---

    @property
    def alive(self) -> bool:
        return self.run is not None

    def start(self) -> None:
        if self.run is None:
            self._clock_shows += self.wall_clock_steps_ns
            self.wall_clock_steps_ns = 0
            self.paused = False
            self.run = Run(self)

    def kill(self) -> None:
        """Let it die on the spot; its system resets its connections."""
        if self.run is not None:
            self.run.over = True
            self.run = None
            self.paused = False
            self._backlog.clear()
            for heard in self.on_death:
                heard()

    def restart(self) -> None:
        """Kill it, and start another one on what it had kept."""
        self.kill()
        self.start()

    def drain(self) -> None:
        """Have it take no new requests, as before an orderly stop; `kill` then stops it."""
        run = self.run
        if run is not None:
            run.native.drain(self.config.shutdown_timeout_ns)
            run.desk.drain(run.clock())

    def pause(self) -> None:
        """Let it stand still, as under SIGSTOP; its system still accepts connections and bytes."""
        self.paused = True

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self.timeline.soon(self._catch_up)

    def act(self, act: Callable[[], None]) -> None:
        if self.paused or self._backlog:
            self._backlog.append(act)
        else:
            act()

    def _catch_up(self) -> None:
        while self._backlog and not self.paused:
            self._backlog.popleft()()

    # --- connections ---

    def accept(self, cable: Cable) -> bool:
        """Take a connection, as the system does for whoever listens."""
        run = self.run
        if run is None:
            return False
        end = cable.accept()
        cable.wake = lambda end: run.act(end.read)

        def welcome() -> None:
            if not end.ended:
                end.connect(run.line.connect(lambda: None))
                end.read()

        run.act(welcome)
        return True

    # --- what is held ---

    def holdings(self) -> Iterator[Holding]:
        """Show what is held: what nobody else could be granted now."""
        run = self.run
        if run is None:
            return
        now = run.clock()
        for key, resource in run.table.resources.items():
            for claim in holders(resource):
                if claim.deadline > now:
                    until = self.instant(claim.deadline, run.clock)
                    yield Holding(key, resource.limit, until, claim)

    def end(self, holding: Holding, reason: Reason) -> None:
        """End what is held, as an operator does (BROKEN), or as if its lease had run out (EXPIRED)."""
        run = self.run
        assert run is not None
        run.act(lambda: run.store.submit(End(holding.key, holding.claim.token, reason), run.clock()))


def line_settings(config: Config) -> LineSettings:
    return LineSettings(
        read_timeout_ns=config.line_read_timeout_ns,
        idle_timeout=config.line_idle_timeout,
        write_timeout_ns=config.line_write_timeout_ns,
        pending_bytes_max=config.line_pending_bytes_max,
        lease_default_ns=config.lease_default_ns,
        auth_token=None if config.auth_token is None else config.auth_token.encode(),
    )


def native_settings(config: Config) -> NativeSettings:
    return NativeSettings(
        read_timeout_ns=config.line_read_timeout_ns,
        write_timeout_ns=config.line_write_timeout_ns,
        pending_bytes_max=config.line_pending_bytes_max,
        lease_default_ns=config.lease_default_ns,
        session_grace_ns=config.session_grace_ns,
        sessions_max=config.connections_max,
    )
