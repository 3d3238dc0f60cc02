"""The memory store: live objects in this process, answers before `submit` returns.

What a command means is the engine's business; here it is only handed over. Nothing survives a restart but the fences.
"""

from holdfast.engine.table import Table
from holdfast.engine.view import views_of
from holdfast.ports import Alarm, Sink, Store
from holdfast.words import (
    FOREVER,
    RENEWED,
    Cancel,
    Claim,
    Command,
    Convert,
    Effect,
    End,
    Hangup,
    Look,
    Mint,
    Renew,
    Wait,
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
            self._other(command, now)
        if self.table.soonest < self._alarm_at:
            self._alarm_at = self.table.soonest
            self._alarm(self._alarm_at)

    def _other(self, command: Renew | Wait | Convert | Cancel | Hangup | Look, now: int) -> None:
        match command:
            case Renew():
                self._renew(command, now)
            case Wait():
                self._wait(command, now)
            case Convert():
                self._convert(command, now)
            case Cancel():
                self._cancel(command, now)
            case Hangup():
                self._hangup(command, now)
            case _:
                self._look(command)

    def _enqueue(self, claim: Claim, now: int) -> None:
        out = self._out
        if isinstance(claim.ticket, bytes) and self._enqueue_again(claim, now):
            return
        answer = self.table.enqueue(claim, now, out)
        if not out:
            self.sink.answer(claim, answer, claim)
            return
        self._out = []
        self.sink.answer(claim, answer, claim)
        self.sink.news(out)

    def _enqueue_again(self, claim: Claim, now: int) -> bool:
        """Answer a ticket that has been seen before with the claim that it was given then."""
        out: list[Effect] = []
        known = self.table.again(claim, now, out)
        if known is not None:
            self.sink.answer(claim, *known)
        self.sink.news(out)
        return known is not None

    def _end(self, end: End, now: int) -> None:
        out = self._out
        answer = self.table.end(end, now, out)
        if not out:
            self.sink.answer(end, answer, None)
            return
        self._out = []
        self.sink.answer(end, answer, None)
        self.sink.news(out)

    def _renew(self, renew: Renew, now: int) -> None:
        out: list[Effect] = []
        answer = self.table.renew(renew, now, out)
        self.sink.answer(renew, answer, self.table.holder(renew.key, renew.token) if answer is RENEWED else None)
        self.sink.news(out)

    def _wait(self, wait: Wait, now: int) -> None:
        out: list[Effect] = []
        answer, claim = self.table.wait(wait, now, out)
        self.sink.answer(wait, answer, claim)
        self.sink.news(out)

    def _convert(self, convert: Convert, now: int) -> None:
        out: list[Effect] = []
        answer, claim = self.table.convert(convert, now, out)
        self.sink.answer(convert, answer, claim)
        self.sink.news(out)

    def _cancel(self, cancel: Cancel, now: int) -> None:
        out: list[Effect] = []
        answer, claim = self.table.cancel(cancel, now, out)
        self.sink.answer(cancel, answer, claim)
        self.sink.news(out)

    def _hangup(self, hangup: Hangup, now: int) -> None:
        out: list[Effect] = []
        self.table.hangup(hangup, now, out)
        self.sink.news(out)

    def _look(self, look: Look) -> None:
        self.sink.seen(look, views_of(self.table, look))

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

    def close(self) -> None:
        """Nothing to keep."""
