"""The shelf: a store that puts what it knows of each key away in a backend, and tells nobody of it before it is safe.

Commands gather while a transaction runs and form the next one. What a command means is the engine's business, how
records are kept the backend's.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from holdfast.engine.table import Table
from holdfast.errors import DocumentError, HoldfastError, StoreBusy, StoreFailed
from holdfast.observe.logs import get_logger
from holdfast.ports import Alarm, Clock, Sink, Store
from holdfast.stores.apply import Told, apply, claims_of, is_unanswered
from holdfast.stores.backend import Backend, Keeping
from holdfast.stores.records import Ledger
from holdfast.words import (
    FOREVER,
    SECOND,
    Answer,
    Census,
    Command,
    Effect,
    Look,
    Mint,
)

# After a failure, what nobody is answered for (ends of sessions, expiries) is tried again this much later.
RETRY_NS: Final = SECOND

log = get_logger(part="store")


class Tick:
    """Do all timed work that is due."""

    __slots__ = ()


class Sweep:
    """Forget what nobody has used for long."""

    __slots__ = ()


class Probe:
    """Write something, to see whether it can be kept."""

    __slots__ = ("done",)

    def __init__(self, done: Callable[[str | None], None]) -> None:
        self.done = done


class Count:
    """Count who holds and who waits."""

    __slots__ = ("census", "done")

    def __init__(self, done: Callable[[Census], None]) -> None:
        self.done = done
        self.census: Census | None = None


Work = Command | Tick | Sweep | Probe | Count


@dataclass(slots=True)
class Outcome:
    """What a transaction came to; it is told when the transaction is safe."""

    told: list[Told] = field(default_factory=list)
    again: list[Work] = field(default_factory=list)  # what nobody is answered for, and has not been done
    probes: list[tuple[Probe, str | None]] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    soonest: int = FOREVER
    fault: str | None = None
    busy: bool = False
    ticked: bool = False
    commands: int = 0
    commit_ns: int | None = None  # None: there was nothing to commit


class Runner(Protocol):
    """Where transactions run: in a thread of their own, or, in tests and simulations, when somebody says so."""

    def soon(self, act: Callable[[], None]) -> None:
        """Call `act` when all that has arrived together has been taken in."""

    def run(self, work: Callable[[], Outcome], done: Callable[[Outcome], None]) -> None:
        """Do `work` elsewhere, and hand what it comes to to `done`, here."""

    def close(self) -> None:
        """Finish what runs, and hand over what it came to."""


@dataclass(slots=True)
class Tally:
    """What the shelf counts; plain integers, read by whoever wants to show them."""

    batches: int = 0
    commands: int = 0
    busy: int = 0
    failures: int = 0
    observe: Callable[[int, int], None] | None = None  # told of each commit: how many commands, how many nanoseconds


class Shelf(Store):
    """Applies commands to a table in batches, one transaction each."""

    def __init__(
        self,
        backend: Backend,
        runner: Runner,
        clock: Clock,
        mint: Mint,
        alarm: Alarm,
        *,
        keys_max: int,
        waiters_max: int,
        idle_max_ns: int,
        batch_max: int,
        resident: int,
    ) -> None:
        self.sink: Sink
        self.tally = Tally()
        self._fault: str | None = None  # why the last transaction failed
        self._backend = backend
        self._runner = runner
        self._clock = clock
        self._alarm = alarm
        self._batch_max = batch_max
        self._table = Table(mint, keys_max, waiters_max, idle_max_ns)
        self._ledger = Ledger(self._table, backend, resident)
        # These belong to the thread of the callers; the table and the ledger to whoever runs a transaction.
        self._gathered: list[Work] = []
        self._owed: list[Work] = []  # what has failed and nobody is answered for; it comes before what is gathered
        self._closed = False
        self._running = False
        self._late = 0  # how many of the gathered have waited already, behind a transaction that could not begin
        self._hurried = False
        self._called = False
        self._soonest = FOREVER
        self._retry_at = 0
        self._ticking = False
        self._unread = False  # somebody else has written, and no transaction has lasted that took it in

    def open(self) -> None:
        """Read what is kept; raises StoreFailed or DocumentError."""
        self._ledger.read_all()
        self._soonest = self._table.next_deadline()

    # --- commands in, in the thread of the callers ---

    def submit(self, command: Command, now: int) -> None:
        self._gather(command)

    def tick(self, now: int) -> None:
        if self.next_deadline() > now:
            return
        if self._soonest <= now and not self._ticking:
            self._ticking = True
            self._gathered.append(Tick())
        self._call()

    def sweep(self, now: int) -> None:
        self._gather(Sweep())

    @property
    def fault(self) -> str | None:
        return self._fault

    def probe(self, done: Callable[[str | None], None]) -> None:
        self._gather(Probe(done))

    def count(self, done: Callable[[Census], None]) -> None:
        self._gather(Count(done))

    def next_deadline(self) -> int:
        when = FOREVER if self._ticking else self._soonest
        if self._owed and not self._running and not self._called:
            when = 0
        return max(when, self._retry_at)

    def close(self) -> None:
        """Finish all that has been asked for, as far as the backend lets us, and let go of it."""
        self._closed = True
        self._runner.close()
        for _ in range(2):  # what is told may cause more, but nobody is left to ask for much
            batch = self._owed + self._gathered
            self._owed, self._gathered = [], []
            if batch:
                self._deliver(self._perform(batch))
        self._backend.close()

    def _gather(self, work: Work) -> None:
        self._gathered.append(work)
        self._call()

    def _call(self) -> None:
        if not self._running and not self._called:
            self._called = True
            self._runner.soon(self._start)

    def _start(self) -> None:
        self._called = False
        if self._closed or self._running or not (self._owed or self._gathered):
            return
        batch = self._owed + self._gathered[: self._batch_max]
        self._owed = []
        del self._gathered[: self._batch_max]
        self._hurry()
        self._running = True
        self._runner.run(partial(self._perform, batch), self._done)

    def _hurry(self) -> None:
        """Whoever has waited once for the backend to be free does not wait a second time."""
        self._hurried = self._late > 0
        self._late = max(0, self._late - self._batch_max)
        self._backend.hurry(self._hurried)

    def _done(self, outcome: Outcome) -> None:
        """A transaction is over: the next one begins before anybody is told of this one, for telling takes time."""
        self._running = False
        if outcome.ticked:
            self._ticking = False
        self._owed = outcome.again
        if outcome.busy and not self._hurried:
            self._late = len(self._gathered)
        if self._gathered:
            self._start()
        self._deliver(outcome)

    # --- one transaction, in the thread of the runner ---

    def _perform(self, batch: list[Work]) -> Outcome:
        outcome = Outcome(commands=len(batch), ticked=any(isinstance(work, Tick) for work in batch))
        try:
            if all(isinstance(work, (Look, Count)) for work in batch):
                self._apply_all(batch, self._clock(), outcome)
            else:
                self._transact(batch, outcome)
        except (StoreBusy, StoreFailed, DocumentError) as error:
            self._fail(batch, error, outcome)
        outcome.soonest = self._table.next_deadline()
        return outcome

    def _transact(self, batch: list[Work], outcome: Outcome) -> None:
        ledger = self._ledger
        self._backend.begin()
        now = self._clock()  # not before: waiting for the transaction must not use up anybody's lease
        if self._backend.has_changed() or self._unread:
            self._unread = True
            news: list[Effect] = []
            ledger.read_changes(now, news)
            outcome.told.append(Told(None, None, None, news))
        if any(isinstance(work, Sweep) for work in batch):
            self._table.sweep(now)  # before keys are fetched: what it forgets may be asked for in this very batch
        ledger.fetch({claim.key: claim for work in reversed(batch) for claim in claims_of(work)})
        self._apply_all(batch, now, outcome)
        keeping = ledger.changes(now, must=any(isinstance(work, Probe) for work in batch))
        if keeping is not None:
            self._write(keeping, outcome)
        else:
            self._backend.rollback()
        self._unread = False

    def _write(self, keeping: Keeping, outcome: Outcome) -> None:
        started = self._clock()
        self._backend.keep(keeping)
        self._backend.commit()
        outcome.commit_ns = self._clock() - started
        self._ledger.kept(keeping)

    def _apply_all(self, batch: list[Work], now: int, outcome: Outcome) -> None:
        table = self._table
        for work in batch:
            if isinstance(work, Tick):
                news: list[Effect] = []
                table.tick(now, news)
                outcome.told.append(Told(None, None, None, news))
            elif isinstance(work, Sweep):
                pass  # it has been done
            elif isinstance(work, Probe):
                outcome.probes.append((work, None))
            elif isinstance(work, Count):
                outcome.counts.append(work)
            else:
                outcome.told.append(apply(table, work, now))
        for count in outcome.counts:
            count.census = self._ledger.census()

    def _fail(self, batch: list[Work], error: HoldfastError, outcome: Outcome) -> None:
        """Nothing of the batch has happened. Whoever can be told so is told; the rest is done later."""
        self._backend.rollback()
        self._ledger.undo()
        outcome.told.clear()
        outcome.probes.clear()
        outcome.counts.clear()
        outcome.fault = error.detail
        outcome.busy = isinstance(error, StoreBusy)
        answer = Answer.STORE_BUSY if outcome.busy else Answer.STORE_FAILED
        for work in batch:
            if isinstance(work, Probe):
                outcome.probes.append((work, error.detail))
            elif isinstance(work, Look):
                outcome.told.append(apply(self._table, work, 0))  # what was safe before still is
            elif isinstance(work, Count):
                work.census = self._ledger.census()
                outcome.counts.append(work)
            elif isinstance(work, (Tick, Sweep)):
                pass  # the next of them does what this one would have done
            elif is_unanswered(work):
                outcome.again.append(work)
            else:
                outcome.told.append(Told(work, answer, None, []))

    # --- what it came to, in the thread of the callers ---

    def _deliver(self, outcome: Outcome) -> None:
        self._note(outcome)
        for told in outcome.told:
            if told.news:
                self.sink.foresee(told.news)
        for told in outcome.told:
            told.tell(self.sink)
        for probe, fault in outcome.probes:
            probe.done(fault)
        for count in outcome.counts:
            assert count.census is not None
            count.done(count.census)

    def _note(self, outcome: Outcome) -> None:
        """Count, say in the log when it starts and stops failing, and see to it that time is kept."""
        self.tally.batches += 1
        self.tally.commands += outcome.commands
        if outcome.fault is not None:
            self.tally.busy += outcome.busy
            self.tally.failures += not outcome.busy
            self._retry_at = self._clock() + RETRY_NS
            if self._fault != outcome.fault:
                log.error("the store fails", error=outcome.fault, busy=outcome.busy)
        elif outcome.commit_ns is not None:
            self._retry_at = 0
            if self._fault is not None:
                log.info("the store works again")
            if self.tally.observe is not None:
                self.tally.observe(outcome.commands, outcome.commit_ns)
        if outcome.fault is not None or outcome.commit_ns is not None:
            self._fault = outcome.fault
        self._soonest = outcome.soonest
        if (when := self.next_deadline()) < FOREVER:
            self._alarm(when)
