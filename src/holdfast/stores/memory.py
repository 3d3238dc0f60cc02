"""The memory store: live objects in this process, answers before `submit` returns.

What a command means is the engine's business; here it is only handed over. Nothing survives a restart but the fences.
"""

from collections.abc import Callable

from holdfast.engine.table import Table
from holdfast.engine.view import census_of
from holdfast.ports import Alarm, Sink, Store
from holdfast.stores.apply import apply
from holdfast.words import (
    FOREVER,
    Census,
    Claim,
    Command,
    Effect,
    End,
    Mint,
)


class MemoryStore(Store):
    """Applies each command at once to the table in memory."""

    def __init__(self, mint: Mint, alarm: Alarm, *, keys_max: int, waiters_max: int, idle_max_ns: int) -> None:
        self.table = Table(mint, keys_max, waiters_max, idle_max_ns)
        self.sink: Sink
        self._alarm = alarm
        self._alarm_at = FOREVER
        self._out: list[Effect] = []  # for the next command; most leave it empty, so it is used again

    def submit(self, command: Command, now: int) -> None:
        if isinstance(command, Claim):
            self._enqueue(command, now)
        elif isinstance(command, End):
            self._end(command, now)
        else:
            apply(self.table, command, now).tell(self.sink)
        if self.table.soonest < self._alarm_at:
            self._alarm_at = self.table.soonest
            self._alarm(self._alarm_at)

    def _enqueue(self, claim: Claim, now: int) -> None:
        out = self._out
        if isinstance(claim.ticket, bytes):
            apply(self.table, claim, now).tell(self.sink)
            return
        answer = self.table.enqueue(claim, now, out)
        if not out:
            self.sink.answer(claim, answer, claim)
            return
        self._out = []
        self.sink.answer(claim, answer, claim)
        self.sink.news(out)

    def _end(self, end: End, now: int) -> None:
        out = self._out
        answer = self.table.end(end, now, out)
        if not out:
            self.sink.answer(end, answer, None)
            return
        self._out = []
        self.sink.answer(end, answer, None)
        self.sink.news(out)

    def tick(self, now: int) -> None:
        out: list[Effect] = []
        self.table.tick(now, out)
        self._alarm_at = self.table.soonest
        if out:
            self.sink.news(out)

    def sweep(self, now: int) -> None:
        self.table.sweep(now)

    def next_deadline(self) -> int:
        return self.table.next_deadline()

    @property
    def fault(self) -> str | None:
        return None

    def probe(self, done: Callable[[str | None], None]) -> None:
        done(None)

    def count(self, done: Callable[[Census], None]) -> None:
        done(census_of(self.table))

    def close(self) -> None:
        """Nothing to keep."""
