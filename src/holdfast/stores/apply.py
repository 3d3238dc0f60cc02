"""One command, applied to a table: what its caller is to be answered, and what third parties are to be told.

When that may be told is the store's business; what a command means is the engine's.
"""

from typing import final

from holdfast.engine import group as groups
from holdfast.engine.table import Table
from holdfast.engine.view import views_of
from holdfast.ports import Sink
from holdfast.words import (
    RENEWED,
    Answer,
    Cancel,
    Claim,
    Command,
    Convert,
    Effect,
    End,
    Group,
    Hangup,
    Look,
    Renew,
    View,
    Wait,
)


@final
class Told:
    """What is to be told of a command, or of the time that has passed, when there is none."""

    __slots__ = ("answer", "claim", "command", "news", "views")

    def __init__(
        self,
        command: Command | None,
        answer: Answer | None,
        claim: Claim | None,
        news: list[Effect],
        views: list[View] | None = None,
    ) -> None:
        self.command = command
        self.answer = answer
        self.claim = claim
        self.news = news
        self.views = views

    def tell(self, sink: Sink) -> None:
        """The answer first: whoever asked must not hear from others what came of it."""
        command = self.command
        if self.views is not None:
            assert isinstance(command, Look)
            sink.seen(command, self.views)
        elif self.answer is not None:
            assert command is not None
            assert not isinstance(command, Hangup)
            sink.answer(command, self.answer, self.claim)
        if self.news:
            sink.news(self.news)


def apply(table: Table, command: Command, now: int) -> Told:
    """Apply a command."""
    out: list[Effect] = []
    if isinstance(command, Claim):
        if isinstance(command.ticket, bytes):
            known = table.again(command, now, out)
            if known is not None:
                return Told(command, known[0], known[1], out)
        answer = table.enqueue(command, now, out)
        return Told(command, answer, command, out)
    if isinstance(command, End):
        return Told(command, table.end(command, now, out), None, out)
    if isinstance(command, Renew):
        answer = table.renew(command, now, out)
        return Told(command, answer, table.holder(command.key, command.token) if answer is RENEWED else None, out)
    return _apply_more(table, command, now, out)


def claims_of(command: object) -> list[Claim]:
    """List the claims that a command asks for."""
    if isinstance(command, Claim):
        return [command]
    return command.claims if isinstance(command, Group) else []


def _apply_more(
    table: Table, command: Group | Wait | Convert | Cancel | Hangup | Look, now: int, out: list[Effect]
) -> Told:
    if isinstance(command, Look):
        return Told(command, None, None, out, views_of(table, command))
    if isinstance(command, Hangup):
        table.hangup(command, now, out)
        return Told(command, None, None, out)
    claim: Claim | None
    if isinstance(command, Group):
        known = groups.again(table, command, now, out)
        answer, claim = (known, None) if known is not None else groups.enqueue(table, command, now, out)
    elif isinstance(command, Wait):
        answer, claim = table.wait(command, now, out)
    elif isinstance(command, Convert):
        answer, claim = table.convert(command, now, out)
    else:
        answer, claim = table.cancel(command, now, out)
    return Told(command, answer, claim, out)


def is_unanswered(command: Command) -> bool:
    """Say whether nobody awaits an answer to it: such a command must never be lost, as nobody would ask again."""
    return isinstance(command, Hangup) or (isinstance(command, Cancel) and command.quiet)
