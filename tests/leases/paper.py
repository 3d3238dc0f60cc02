"""A database of paper for leases: the contract of `words.py` in memory, under a clock that is moved by hand.

It can be out of reach, lose its answers, and be seized by others. No expectation lives here.
"""

import asyncio
import contextlib
from selectors import SelectSelector

from holdfast.leases.beats import Beats
from holdfast.leases.cluster_lock import ClusterLock
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.keeper import Keeper
from holdfast.leases.registry import Registry
from holdfast.leases.words import Got, Hold, Row, Taken
from holdfast.leases.world import World
from holdfast.testing.clock import HandClock

US = 1_000


class PaperBackend:
    """The table. Whoever waits at it lets time pass, and `on_wait` is called after that."""

    def __init__(self, clock):
        self.clock = clock
        self.rows = {}
        self.broken = False  # nothing reaches it
        self.deaf_answers = 0  # so many times it does what it is asked for, and the answer is lost
        self.calls = []
        self.on_wait = lambda: None

    def count(self, call):
        return sum(name == call for name, _ in self.calls)

    @contextlib.contextmanager
    def _asked(self, call, what):
        self.calls.append((call, what))
        if self.broken:
            raise DatabaseUnavailable("the network is down")
        yield
        if self.deaf_answers:
            self.deaf_answers -= 1
            raise DatabaseUnavailable("the answer was lost")

    def acquire(self, ask):
        with self._asked("acquire", ask):
            now = self.clock()
            row = self.rows.get(ask.key)
            if row is None or row["until"] < now:
                fence = 1 if row is None else row["fence"] + 1
                row = {
                    "ask": ask,
                    "lock_id": ask.lock_id,
                    "since": now,
                    "until": now + ask.lease_us * US,
                    "fence": fence,
                }
                self.rows[ask.key] = row
            if row["lock_id"] == ask.lock_id:
                answer = Got(row["fence"])
            else:
                answer = Taken(row["ask"].holder, (row["until"] - now) // US)
        return answer

    def refresh(self, holds, lease_us):
        with self._asked("refresh", holds):
            now = self.clock()
            ours = [self._is(hold) and self.rows[hold.key]["until"] > now for hold in holds]
            for hold, mine in zip(holds, ours, strict=True):
                if mine:
                    self.rows[hold.key]["until"] = now + lease_us * US
        return ours

    def release(self, holds):
        with self._asked("release", holds):
            ours = [self._is(hold) for hold in holds]
            for hold, mine in zip(holds, ours, strict=True):
                if mine:
                    self.rows[hold.key]["until"] = 0
        return ours

    def clear(self, holds):
        with self._asked("clear", holds):
            stale = [hold for hold in holds if self._is(hold) and self.rows[hold.key]["until"] > 0]
            for hold in stale:
                self.rows[hold.key] |= {"until": 0, "lock_id": ""}
        return len(stale)

    def list(self):
        with self._asked("list", None):
            return [self._shown(key, row) for key, row in sorted(self.rows.items()) if row["until"] > 0]

    def look(self, key):
        with self._asked("look", key):
            row = self.rows.get(key)
            return self._shown(key, row) if row is not None and row["until"] > 0 else None

    def _shown(self, key, row):
        ask = row["ask"]
        return Row(
            key=key,
            holder=ask.holder,
            node=ask.node,
            pid=ask.pid,
            process=ask.process,
            lock_id=row["lock_id"],
            fence=row["fence"],
            age_us=(self.clock() - row["since"]) // US,
            left_us=(row["until"] - self.clock()) // US,
        )

    def now(self):
        return self.clock() // US

    def wait(self, _key, seconds):
        with self._asked("wait", seconds):
            self.clock.advance(seconds)
            self.on_wait()

    def close(self):
        """Nothing is open."""

    # --- what others do ---

    def seize(self, key, lock_id="somebody-else-00"):
        """Let somebody else have it, as an operator could."""
        self.rows[key]["lock_id"] = lock_id
        self.rows[key]["fence"] += 1

    def _is(self, hold: Hold):
        return hold.key in self.rows and self.rows[hold.key]["lock_id"] == hold.lock_id

    def held_by(self, key):
        """Give the lock id of whoever has it now."""
        row = self.rows.get(key)
        return None if row is None or row["until"] < self.clock() else row["lock_id"]


class AsyncPaper:
    """The same table for asyncio: each call comes back a turn of the loop later, and `wait` is a sleep."""

    def __init__(self, paper):
        self.paper = paper

    def __getattr__(self, name):
        async def call(*arguments):
            await asyncio.sleep(0)
            return getattr(self.paper, name)(*arguments)

        return call

    async def wait(self, _key, seconds):
        await asyncio.sleep(seconds)


class HandHost:
    """A refresher that works when it is told to."""

    def __init__(self, clock):
        self.clock = clock
        self.keeper = Keeper(lambda: 0.5)
        self.posted = []

    def add(self, backend, holding):
        self.keeper.book(backend, holding.lease.lease_ns).add(holding)

    def remove(self, backend, holding):
        book = self.keeper.find(backend, holding.lease.lease_ns)
        if book is not None:
            book.remove(holding)

    def leave(self, backend, hold, lease_ns):
        self.keeper.book(backend, lease_ns).leave(hold, self.clock())

    def post(self, act):
        self.posted.append(act)

    def turn(self):
        """Do what is due now; say when the next thing is."""
        while self.posted:
            self.posted.pop(0)()
        while True:
            turn = self.keeper.turn(self.clock())
            for tell in turn.news:
                tell()
            if not turn.calls:
                return turn.due
            for call in turn.calls:
                self._ask(call)

    def _ask(self, call):
        backend = call.book.backend
        try:
            ours = backend.refresh(call.holds, call.lease_us) if call.holdings else backend.release(call.holds)
        except DatabaseUnavailable as error:
            call.book.failed(call, error)
        else:
            call.book.answered(call, ours)


class Machine:
    """A process with its locks: what it holds, and a refresher that works as time passes."""

    def __init__(self, clock=None):
        self.clock = clock or HandClock()
        self.host = HandHost(self.clock)
        self.beats = Beats(self.clock)
        self.registry = Registry()
        self.world = World(
            clock=self.clock,
            chance=lambda: 0.5,
            registry=self.registry,
            beats=self.beats,
            host=lambda: self.host,
            sleep=self.passes,
        )

    def passes(self, seconds):
        """Let time pass, and the refresher work at each instant at which something is due."""
        end = self.clock.now + round(seconds * 1e9)
        while (due := self.host.turn()) <= end:
            self.clock.advance_to(max(due, self.clock.now + 1))
        self.clock.advance_to(max(end, self.clock.now))
        self.host.turn()


def lock_of(machine, table, *names, **options):
    """Make a lock of a process on a table."""
    return ClusterLock(*(names or ("cluster",)), backend=table, world=machine.world, **options)


class PaperSelector(SelectSelector):
    """Waits for nothing: time passes at once."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def select(self, timeout=None):
        ready = super().select(0)
        assert ready or timeout is not None, "nothing can happen any more"
        self.clock.advance(1e-6 if ready else max(1e-6, timeout))  # a turn of the loop takes some time, too
        return ready


class PaperLoop(asyncio.SelectorEventLoop):
    """An event loop in the time of a clock that is moved by hand: whoever sleeps in it wakes at once."""

    def __init__(self, clock):
        self._clock = clock
        super().__init__(PaperSelector(clock))
        self._clock_resolution = 1e-6  # what is left of a float that counts since 1970

    def time(self):
        return self._clock.now / 1e9


def run_on_paper(clock, main):
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=lambda: PaperLoop(clock)) as runner:
        return runner.run(main)
