"""A shelf that looks like a table: stages and machines that were made for a table play on it, one command at a time.

With `trouble`, every transaction fails once before it succeeds, and must have left everything as it was.
"""

from typing import Any

from holdfast.engine.document import decode
from holdfast.engine.resource import Resource, holders, is_idle
from holdfast.engine.table import Table
from holdfast.errors import StoreBusy, StoreFailed
from holdfast.ports import Sink
from holdfast.stores.backend import Backend
from holdfast.stores.shelf import Shelf
from holdfast.testing.clock import HandClock
from holdfast.testing.hand_runner import HandRunner
from holdfast.testing.paper_backend import PaperBackend
from holdfast.words import (
    Answer,
    Cancel,
    Claim,
    Command,
    Convert,
    Effect,
    Group,
    Hangup,
    Look,
    Mint,
    Request,
    View,
    Wait,
)

Trouble = tuple[str, type[StoreBusy] | type[StoreFailed]]


def essence(r: Resource) -> tuple[object, ...]:
    """All that must not be lost of a key. When it was last tried, or will next be looked at, may be."""
    held = [
        (
            (c.session, c.ticket, c.state, c.mode, c.want, c.units, c.lease_ns, c.deadline, c.convert_deadline),
            (c.order, c.fence, c.secret, c.token, c.owner, c.kept, c.tracked, c.listens, c.nudged),
        )
        for c in holders(r)
    ]
    waiting = [
        (c.session, c.ticket, c.want, c.units, c.lease_ns, c.patience_ns, c.deadline, c.order, c.tracked, c.listens)
        for c in (r.waiting.values() if r.waiting is not None else [])
    ]
    return r.fence, r.version, r.limit, held, waiting, r.value, r.value_seq, r.value_valid


def copy_of(command: Command) -> Command:
    """Copy what is asked for, so that it can be asked for again."""
    if isinstance(command, Claim):
        return _copy_of_claim(command)
    if isinstance(command, Group):
        claims = [_copy_of_claim(c) for c in command.claims]
        same = Group(command.ticket, claims, command.patience_ns, command.queue, command.tracked, command.refuses)
        same.session = command.session
        return same
    return command  # nothing becomes of it


def _copy_of_claim(c: Claim) -> Claim:
    same = Claim(
        c.key, c.want, c.units, c.limit, c.lease_ns, c.patience_ns, queue=c.queue, tracked=c.tracked, listens=c.listens
    )
    same.session, same.ticket, same.owner, same.about, same.refuses = c.session, c.ticket, c.owner, c.about, c.refuses
    return same


class ShelfTable(Sink):
    """Answers by value, like a table."""

    def __init__(self, backend: Backend, mint: Mint, now: int, **limits: int) -> None:
        self.backend = backend
        self.clock = HandClock(now)
        self.runner = HandRunner()
        backend.open()
        self.shelf = Shelf(
            backend, self.runner, self.clock, mint, lambda when: None, batch_max=100, resident=0, **limits
        )
        self.shelf.sink = self
        self.shelf.open()
        self.trouble: Trouble | None = None
        self.failures = 0
        self._answered: tuple[Answer, Claim | None] | None = None
        self._out: list[Effect] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.table, name)

    @property
    def table(self) -> Table:
        return self.shelf._table

    # --- the sink ---

    def answer(self, command: Request | Wait, answer: Answer, claim: Claim | None) -> None:
        assert self._answered is None, "a second answer"
        self._answered = answer, claim

    def seen(self, look: Look, views: list[View]) -> None:
        raise AssertionError("nobody looks")

    def news(self, effects: list[Effect]) -> None:
        self._out += effects

    # --- the table ---

    def enqueue(self, command: Claim, now: int, out: list[Effect]) -> Answer:
        return self._do(command, now, out)[0]

    renew = end = enqueue

    def enqueue_all(self, command: Group, now: int, out: list[Effect]) -> Answer:
        return self._do(command, now, out)[0]

    def wait(self, command: Wait | Convert | Cancel, now: int, out: list[Effect]) -> tuple[Answer, Claim | None]:
        return self._do(command, now, out)

    convert = cancel = wait

    def hangup(self, command: Hangup, now: int, out: list[Effect]) -> None:
        self._do(command, now, out)

    def tick(self, now: int, out: list[Effect]) -> None:
        self.clock.advance_to(now)
        self._out = out
        self.shelf.tick(now)
        self.runner.finish()
        self.check_kept()

    def sweep(self, now: int) -> None:
        self.clock.advance_to(now)
        self._out = []
        self.shelf.sweep(now)
        self.runner.finish()
        assert self._out == []
        self.check_kept()

    def next_deadline(self) -> int:
        return self.shelf.next_deadline()

    def probe(self, now: int, out: list[Effect]) -> None:
        """Write, whatever there is to write; what others wrote is read."""
        self.clock.advance_to(now)
        while True:
            faults: list[str | None] = []
            self._answered, self._out = None, out
            self._begin_trouble()
            self.shelf.probe(faults.append)
            self.runner.finish()
            if faults == [None]:
                self.check_kept()
                return
            self._end_trouble()

    # --- how it is done ---

    def _do(self, command: Command, now: int, out: list[Effect]) -> tuple[Answer, Claim | None]:
        self.clock.advance_to(now)
        if self.trouble is not None:
            self._begin_trouble()
            answered = self._submit(copy_of(command), out)
            if not self._end_trouble():
                return answered
            assert out == []
            self._submit_probe()
        answered = self._submit(command, out)
        self.check_kept()
        return answered

    def _submit(self, command: Command, out: list[Effect]) -> tuple[Answer, Claim | None]:
        self._answered, self._out = None, out
        self.shelf.submit(command, self.clock.now)
        self.runner.finish()
        assert (self._answered is None) == isinstance(command, Hangup)
        return self._answered or (Answer.ENDED, None)

    def _submit_probe(self) -> None:
        """See that it works again. A hangup that nobody was answered for is done by that, too."""
        self.shelf.probe(lambda fault: None)
        self.runner.finish()
        self.check_kept()

    def _begin_trouble(self) -> None:
        if self.trouble is not None:
            assert isinstance(self.backend, PaperBackend)
            call, kind = self.trouble
            self.backend.refused = {call: kind}
            self.failures = self.shelf.tally.busy + self.shelf.tally.failures
            self._before = self.picture()

    def _end_trouble(self) -> bool:
        """Say whether there has been any; then all is as it was."""
        assert isinstance(self.backend, PaperBackend)
        self.trouble, self.backend.refused = None, {}
        failed = self.shelf.tally.busy + self.shelf.tally.failures > self.failures
        if failed:
            assert self.picture() == self._before
            if self._answered is not None:
                assert self._answered[0] in (Answer.STORE_BUSY, Answer.STORE_FAILED)
        return failed

    # --- what is known ---

    def picture(self) -> tuple[object, object]:
        """Everything on the table. Free keys that hold nothing may leave it at any time."""
        resources = {key: essence(r) for key, r in self.table.resources.items() if not is_idle(r)}
        books = {
            (session, ticket): (c.key, c.state)
            for session, book in self.table.sessions.items()
            for ticket, c in book.items()
        }
        return resources, books

    def check_kept(self) -> None:
        """What is on the table is what the next start would find."""
        if not isinstance(self.backend, PaperBackend) or not self.shelf.tally.batches:
            return
        durable = self.backend.durable
        for key, r in self.table.resources.items():
            record = durable.get(key)
            if record is None:
                assert is_idle(r)
                assert not r.fence
            elif record.document is None:
                assert is_idle(r)
                assert (r.fence, r.value) == (record.fence, None)
            else:
                assert essence(decode(key, record.document)) == essence(r)
                assert (r.fence, r.version) == (record.fence, record.version)
        assert {key for key, record in durable.items() if record.document} <= self.table.resources.keys()
