"""What a session of the native protocol asks in order to see inside, and how an operator takes a claim away.

Nothing here grants anything; what is shown of a key is spelled in wire/native_answers.py.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from holdfast.desk import Desk
from holdfast.doors import native_graph as show
from holdfast.doors.native_asked import Asked
from holdfast.doors.native_connection import NativeConnection
from holdfast.doors.whois import introduce
from holdfast.engine import graph
from holdfast.observe.logs import get_logger
from holdfast.ports import Clock
from holdfast.wire import native as wire
from holdfast.wire import native_answers as answers
from holdfast.wire import native_meaning as meaning
from holdfast.words import ENDED, TOKEN_BYTES, Answer, Census, Claim, End, Look, Reason, Request, View

LOOKING_MAX: Final = 16
# How many reasons of what was taken away are remembered until its holders have heard of it.
MARKS_MAX: Final = 1000

log = get_logger(door="native")

Seen = Callable[[list[View]], None]
Submit = Callable[[Asked, Request, Callable[[Asked, Any, Answer, Claim | None], None], int], None]


class Keeper(Protocol):
    """What a look needs of the door."""

    desk: Desk
    clock: Clock
    marks: dict[bytes, str]

    def stats(self, census: Census) -> dict[str, object]:
        """Tell what the door counts, beside what the store does."""


class Sight:
    """The looks of one session; they are answered in their order."""

    def __init__(self, keeper: Keeper, submit: Submit) -> None:
        self._keeper = keeper
        self._submit = submit
        self._looks: dict[Look, Seen] = {}

    def serve(self, connection: NativeConnection, ask: Any, now: int) -> None:
        """Take a request that looks."""
        if connection.looking >= LOOKING_MAX:
            detail = f"at most {LOOKING_MAX} of look, explain, deadlocks and stats at a time"
            connection.say(answers.refusal(ask.id, "too_many", detail))
            return
        SIGHTS[type(ask)](self, connection, ask, now)

    def next(self) -> tuple[Look, Seen]:
        """Take what is to be done with what is seen next."""
        look = next(iter(self._looks))
        then = self._looks.pop(look)
        return look, lambda views: then(introduce(self._keeper.desk, views))

    def _see(self, asked: Asked, look: Look, then: Seen, now: int) -> None:
        self._looks[look] = then
        self._submit(asked, look, self._blind, now)

    def _blind(self, asked: Asked, look: Look, answer: Answer, claim: Claim | None) -> None:
        """The service drains, or the store cannot be read."""
        self._looks.pop(look)
        asked.refuse(answer)

    def _look(self, connection: NativeConnection, ask: wire.Look, now: int) -> None:
        if ask.key is not None:
            look = meaning.look_at(ask)
            asked = Looking(connection, ask.id)
            self._see(asked, look, partial(self._seen, asked, [], 1, deep=True), now)
            return
        looks = meaning.looks_over(ask)
        asked = Looking(connection, ask.id)
        self._go_on(asked, looks, ask.count or wire.LOOK_MAX, [], now)

    def _go_on(self, asked: Asked, looks: list[Look], count: int, found: list[View], now: int) -> None:
        """Look at one kind of keys after the other, as long as there is room for more."""
        look, *rest = looks
        if rest:
            self._see(asked, look, partial(self._seen_some, asked, rest, count, found), now)
        else:
            self._see(asked, look, partial(self._seen, asked, found, count, deep=False), now)

    def _seen_some(self, asked: Asked, rest: list[Look], count: int, found: list[View], views: list[View]) -> None:
        if len(views) > count:
            self._seen(asked, found, count, views, deep=False)
        else:
            self._go_on(asked, rest, count, found + views, self._keeper.clock())

    def _seen(self, asked: Asked, found: list[View], count: int, views: list[View], *, deep: bool) -> None:
        facts = answers.keys_seen(found + views, count, self._keeper.clock(), deep=deep)
        asked.reply(answers.answer(asked.id, b"seen", facts))

    def _explain(self, connection: NativeConnection, ask: wire.Explain, now: int) -> None:
        key = meaning.key_of(ask.key, ask.kind)
        asked = Looking(connection, ask.id)
        self._see(asked, Look(key=key, deep=True, reach=True), partial(self._explained, asked, key), now)

    def _explained(self, asked: Asked, key: bytes, views: list[View]) -> None:
        told = show.explanation(graph.explain(views, key), self._keeper.clock())
        asked.reply(answers.answer(asked.id, b"seen", {"explanation": told}))

    def _deadlocks(self, connection: NativeConnection, ask: wire.Deadlocks, now: int) -> None:
        asked = Looking(connection, ask.id)
        self._see(asked, Look(deep=True, reach=True), partial(self._knotted, asked), now)

    def _knotted(self, asked: Asked, views: list[View]) -> None:
        now = self._keeper.clock()
        cycles = [show.cycle(cycle, now) for cycle in graph.deadlocks(views)]
        asked.reply(answers.answer(asked.id, b"seen", {"cycles": cycles}))

    def _stats(self, connection: NativeConnection, ask: wire.Stats, now: int) -> None:
        asked = Looking(connection, ask.id)
        self._keeper.desk.store.count(partial(self._counted, asked))

    def _counted(self, asked: Asked, census: Census) -> None:
        asked.reply(answers.answer(asked.id, b"seen", {"stats": self._keeper.stats(census)}))

    # --- taking away ---

    def _break(self, connection: NativeConnection, ask: wire.Break, now: int) -> None:
        key = meaning.key_of(ask.key, ask.kind)
        wire.check_text("reason", ask.reason)
        breaking = Breaking(key, ask.reason, connection.who.owner.decode() or "somebody")
        if ask.token is not None:
            self._end_all(Asked(connection, ask.id), breaking, [ask.token.encode()], now)
        else:
            asked = Looking(connection, ask.id)
            self._see(asked, Look(key=key), partial(self._seen_holders, asked, breaking), now)

    def _seen_holders(self, asked: Asked, breaking: "Breaking", views: list[View]) -> None:
        tokens = [holder.secret[:TOKEN_BYTES] for view in views for holder in view.holders]
        self._end_all(asked, breaking, tokens, self._keeper.clock())

    def _end_all(self, asked: Asked, breaking: "Breaking", tokens: list[bytes], now: int) -> None:
        breaking.left = len(tokens)
        if not tokens:
            asked.reply(answers.answer(asked.id, b"ended", {"ended": 0}))
        marks = self._keeper.marks
        for token in tokens:
            marks[token] = f"broken by {breaking.who}: {breaking.reason}"
            if len(marks) > MARKS_MAX:
                del marks[next(iter(marks))]
            self._submit(asked, End(breaking.key, token, Reason.BROKEN), partial(self._broken, breaking), now)

    def _broken(self, breaking: "Breaking", asked: Asked, end: End, answer: Answer, claim: Claim | None) -> None:
        breaking.left -= 1
        if answer is ENDED:
            breaking.ended += 1
            name, kind = answers.name_of(end.key), answers.kind_of(end.key)
            log.warning("broken", key=name, kind=kind, by=breaking.who, reason=breaking.reason)
        else:
            self._keeper.marks.pop(end.token, None)
            if answer is not Answer.NOT_HELD:
                breaking.failed = answer
        if breaking.left:
            return
        if breaking.failed is not None:
            asked.refuse(breaking.failed)
        else:
            asked.reply(answers.answer(asked.id, b"ended", {"ended": breaking.ended}))


class Looking(Asked):
    """A request that may have a lot to show; there may not be many of them at a time."""

    __slots__ = ()

    def __init__(self, connection: NativeConnection, id_: int | str) -> None:
        super().__init__(connection, id_)
        connection.looking += 1

    def reply(self, line: bytes) -> None:
        self.connection.looking -= 1
        super().reply(line)


class Breaking:
    """A key whose holders are being ended."""

    __slots__ = ("ended", "failed", "key", "left", "reason", "who")

    def __init__(self, key: bytes, reason: str, who: str) -> None:
        self.key = key
        self.reason = reason
        self.who = who
        self.left = 0
        self.ended = 0
        self.failed: Answer | None = None


SIGHTS: Final[dict[type, Callable[[Sight, NativeConnection, Any, int], None]]] = {
    wire.Look: Sight._look,
    wire.Explain: Sight._explain,
    wire.Deadlocks: Sight._deadlocks,
    wire.Stats: Sight._stats,
    wire.Break: Sight._break,
}
