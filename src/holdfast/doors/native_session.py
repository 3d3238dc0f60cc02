"""One session of the native protocol: what its connections ask for, who is answered what, and who hears of events.

It outlives its connections for a while. What a line means is in wire/, how lines travel in native_connection.py.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from holdfast.desk import Desk
from holdfast.doors.native_asked import Asked, Batch, Own
from holdfast.doors.native_connection import NativeConnection, NativeSettings
from holdfast.doors.native_sight import SIGHTS, Sight
from holdfast.doors.native_watch import Watches
from holdfast.ports import Clock, Face
from holdfast.wire import native as wire
from holdfast.wire import native_answers as answers
from holdfast.wire import native_meaning as meaning
from holdfast.words import (
    ENDED,
    FOREVER,
    GRANTED,
    NOT_HELD,
    QUEUED,
    RENEWED,
    Answer,
    Cancel,
    Census,
    Claim,
    Convert,
    Effect,
    End,
    Ended,
    Granted,
    Group,
    Renew,
    Request,
    Stayed,
    View,
    Wait,
)

CLAIMS_MAX: Final = 65_536

# What to do with what a request comes to.
Told = Callable[[Asked, Any, Answer, Claim | None], None]

# The answers after which nothing stands that was asked for. Others leave what stood before, or are followed by news.
GONE: Final = (Answer.TIMED_OUT, Answer.NOT_ENQUEUED, Answer.CLOSED)


class Keeper(Protocol):
    """Whoever keeps the sessions: the door."""

    desk: Desk
    clock: Clock
    settings: NativeSettings
    watches: Watches
    marks: dict[bytes, str]  # why claims were taken away, by token

    def stats(self, census: Census) -> dict[str, object]:
        """Tell what is counted."""

    def orphaned(self, session: "NativeSession", now: int) -> None:
        """Hear that the last connection of a session is gone."""

    def over(self, session: "NativeSession") -> None:
        """Hear that a session is over."""


class NativeSession(Face):
    """A caller, for as long as it keeps coming back."""

    def __init__(self, keeper: Keeper, name: str) -> None:
        self.name = name  # known to its client alone
        self.wake = FOREVER
        self.releases = False  # whether what it holds goes too, if nobody comes back
        self.connections: list[NativeConnection] = []
        self.over = False
        self._keeper = keeper
        self._desk = keeper.desk
        self._clock = keeper.clock
        self._lease_ns = keeper.settings.lease_default_ns
        self._claims: dict[bytes, Own] = {}  # by ticket
        self._held: dict[bytes, bytes] = {}  # the tickets of those that are held, by token
        self._asked: dict[Request, tuple[Asked, Told]] = {}
        self._session = keeper.desk.open(self)
        self._sight = Sight(keeper, self.submit)

    # --- connections come and go ---

    def attach(self, connection: NativeConnection) -> None:
        self.wake = FOREVER
        self.connections.append(connection)

    def detach(self, connection: NativeConnection, now: int) -> None:
        self.connections.remove(connection)
        self._keeper.watches.forget(connection)
        if not self.connections and not self.over:
            self._keeper.orphaned(self, now)

    def tick(self, now: int) -> None:
        """Nobody has come back in time: what waits goes; what is held is kept, unless its client said otherwise."""
        self.over = True
        self._asked.clear()
        self._desk.leave(self._session, now, keep_held=not self.releases)
        self._keeper.over(self)

    def _bye(self, connection: NativeConnection, ask: wire.Bye, now: int) -> None:
        """End the session with all that it has, and all its connections."""
        self.over = True
        self._desk.dismiss(self._session, now)
        left = dict.fromkeys(asked for asked, _ in self._asked.values())
        self._asked.clear()
        for asked in left:
            asked.refuse(Answer.CLOSED)
        connection.say(answers.answer(ask.id, b"ok"))
        self._keeper.over(self)
        for each in self.connections:
            each.close()

    def drain(self, left_ns: int) -> None:
        """Tell everybody that the server is about to stop; whoever holds nothing has no reason to stay."""
        facts = {"detail": "the server is about to stop", "left_ms": answers.ms(left_ns)}
        self.push(answers.event(b"draining", facts))
        self._leave_if_done()

    def _leave_if_done(self) -> None:
        if not self._held:
            for connection in self.connections:
                if not connection.in_flight:
                    connection.close()

    # --- requests in ---

    def serve(self, connection: NativeConnection, request: wire.Request, now: int) -> None:
        """Take a request; its answer is said to the connection, now or later."""
        try:
            SERVE[type(request)](self, connection, request, now)
        except wire.BadRequest as bad:
            connection.say(answers.refusal(request.id, "bad_request", bad.detail))

    def submit(self, asked: Asked, request: Request, told: Told, now: int) -> None:
        self._asked[request] = asked, told
        self._desk.submit(self._session, request, now)

    def _conclude(self, asked: Asked, request: Renew | End | Cancel, told: Told, now: int) -> None:
        """Submit what is about something held: that is served also while the service drains."""
        self._asked[request] = asked, told
        self._desk.conclude(self._session, request, now)

    def _ask(self, connection: NativeConnection, ask: wire.Acquire | wire.Enqueue, now: int) -> None:
        request = meaning.claim_of(ask, connection.who, self._lease_ns)
        claims = members(request)
        if len(self._claims) + len(claims) > CLAIMS_MAX:
            connection.say(answers.refusal(ask.id, "too_many", f"a session has at most {CLAIMS_MAX} claims"))
            return
        for claim in claims:
            own = self._claims.get(named(claim))
            if own is None:
                own = self._claims[named(claim)] = Own(claim)
            own.asks += 1
            own.nudge = ask.nudge
        self.submit(Asked(connection, ask.id), request, self._claimed, now)

    def _wait(self, connection: NativeConnection, ask: wire.Wait, now: int) -> None:
        request = Wait(self._session.id, ask.ticket.encode(), meaning.span_ns(ask.patience_ms))
        self.submit(Asked(connection, ask.id), request, self._waited, now)

    def _convert(self, connection: NativeConnection, ask: wire.Convert, now: int) -> None:
        patience_ns, value = meaning.span_ns(ask.patience_ms), meaning.value_of(ask.value)
        mode = meaning.MODES[ask.mode]
        request = Convert(self._session.id, ask.ticket.encode(), mode, patience_ns, ask.queue, value)
        self.submit(Asked(connection, ask.id), request, self._converted, now)

    def _renew(self, connection: NativeConnection, ask: wire.Renew, now: int) -> None:
        if ask.claims is not None:
            meaning.check_absent(ask, "claims", "ticket", "key", "token", "kind", "lease_ms")
            self._renew_all(connection, ask.id, ask.claims, now)
            return
        lease_ns = self._lease_ns
        if ask.ticket is None:
            key, token = meaning.proof_of(ask.key, ask.token, ask.kind)
        else:
            meaning.check_absent(ask, "ticket", "key", "token", "kind")
            own = self._claims.get(ask.ticket.encode())
            if own is None or not own.token:
                connection.say(answers.refused(ask.id, Answer.NOT_ENQUEUED))
                return
            key, token, lease_ns = own.key, own.token, own.lease_ns
        if ask.lease_ms is not None:
            lease_ns = meaning.span_ns(ask.lease_ms)
        self._conclude(Asked(connection, ask.id), Renew(key, token, lease_ns), self._renewed, now)

    def _renew_all(self, connection: NativeConnection, id_: int | str, asks: list[wire.Renewal], now: int) -> None:
        renewals = [meaning.renewal_of(one, number, self._lease_ns) for number, one in enumerate(asks)]
        asked, batch = Asked(connection, id_), Batch(len(renewals))
        for number, renewal in enumerate(renewals):
            self._conclude(asked, renewal, partial(self._one_renewed, batch, number), now)

    def _end(self, connection: NativeConnection, ask: wire.End, now: int) -> None:
        value = meaning.value_of(ask.value)
        if ask.ticket is None:
            key, token = meaning.proof_of(ask.key, ask.token, ask.kind)
            self._conclude(Asked(connection, ask.id), End(key, token, value=value), self._ended, now)
        else:
            meaning.check_absent(ask, "ticket", "key", "token", "kind")
            cancel = Cancel(self._session.id, ask.ticket.encode(), held=True, value=value)
            self._conclude(Asked(connection, ask.id), cancel, self._cancelled, now)

    def _ping(self, connection: NativeConnection, ask: wire.Ping, now: int) -> None:
        connection.say(answers.answer(ask.id, b"ok"))

    def _watch(self, connection: NativeConnection, ask: wire.Watch, now: int) -> None:
        self._keeper.watches.watch(connection, ask)

    def _unwatch(self, connection: NativeConnection, ask: wire.Unwatch, now: int) -> None:
        self._keeper.watches.forget(connection)
        connection.say(answers.answer(ask.id, b"ok"))

    def _look(self, connection: NativeConnection, ask: Any, now: int) -> None:
        self._sight.serve(connection, ask, now)

    # --- answers out ---

    def answer(self, request: Request, answer: Answer, claim: Claim | None) -> None:
        asked, told = self._asked.pop(request)
        told(asked, request, answer, claim)
        if self._desk.draining:
            self._leave_if_done()

    def waits(self, request: Request) -> None:
        entry = self._asked.get(request)
        if entry is None:
            return  # it has been sent home meanwhile, as the service drains
        entry[0].wait()
        if isinstance(request, (Claim, Group)):
            for claim in members(request):
                self._claims[named(claim)].stands = True

    def seen(self, views: list[View]) -> None:
        look, then = self._sight.next()
        self._asked.pop(look)
        then(views)

    def _claimed(self, asked: Asked, request: Claim | Group, answer: Answer, claim: Claim | None) -> None:
        owns = [self._claims[named(each)] for each in members(request)]
        for own in owns:
            own.asks -= 1
        if answer is GRANTED:
            self._granted(asked, request, claim)
        elif answer is QUEUED:
            for own in owns:
                own.stands = True
            facts = answers.place_of(request)
            asked.reply(answers.answer(asked.id, b"queued", facts))
        elif answer is Answer.ALREADY_ENQUEUED:
            detail = "ticket: names a claim on another key"
            asked.reply(answers.refusal(asked.id, "bad_request", detail))
        else:
            asked.refuse(answer, claim)
        for each in members(request):
            self._settle(named(each), gone=answer in GONE)

    def _granted(self, asked: Asked, request: Claim | Group, claim: Claim | None) -> None:
        """Tell of a grant: whoever asked, or all, if that one is gone."""
        if isinstance(request, Claim):
            assert claim is not None
            self._hold(claim)
            facts: Any = answers.grant_of(claim, self._clock())
        else:
            for each in request.claims:
                self._hold(each)
            facts = answers.grants_of(request, self._clock())
        heard = asked.heard
        asked.reply(answers.answer(asked.id, b"granted", facts))
        if not heard:
            self.push(answers.event(b"granted", facts))

    def _waited(self, asked: Asked, request: Wait, answer: Answer, claim: Claim | None) -> None:
        if answer is GRANTED:
            assert claim is not None
            self._granted(asked, claim, claim)
            return
        asked.refuse(answer, claim)
        if answer in GONE and isinstance(request.ticket, bytes):
            self._settle(request.ticket, gone=True)

    def _converted(self, asked: Asked, request: Convert, answer: Answer, claim: Claim | None) -> None:
        if answer is GRANTED:
            assert claim is not None
            self._granted(asked, claim, claim)
        else:
            asked.refuse(answer)

    def _renewed(self, asked: Asked, request: Renew, answer: Answer, claim: Claim | None) -> None:
        if answer is RENEWED:
            asked.reply(answers.answer(asked.id, b"renewed", {"lease_ms": answers.ms(request.lease_ns)}))
        else:
            asked.refuse(answer)

    def _one_renewed(
        self, batch: Batch, number: int, asked: Asked, request: Renew, answer: Answer, claim: Claim | None
    ) -> None:
        batch.renewed[number] = answer is RENEWED
        batch.left -= 1
        if not batch.left:
            asked.reply(answers.answer(asked.id, b"renewed", {"renewed": batch.renewed}))

    def _ended(self, asked: Asked, request: End, answer: Answer, claim: Claim | None) -> None:
        if answer is ENDED:
            asked.reply(answers.answer(asked.id, b"ended"))
            if request.token in self._held:
                self._settle(self._held[request.token], gone=True)  # before it is told, as it is no news to its client
        else:
            asked.refuse(answer)

    def _cancelled(self, asked: Asked, request: Cancel, answer: Answer, claim: Claim | None) -> None:
        assert isinstance(request.ticket, bytes)
        if answer is ENDED or answer is Answer.CANCELLED:
            asked.reply(answers.answer(asked.id, b"ended"))
        else:
            asked.refuse(Answer.NOT_ENQUEUED if answer is NOT_HELD else answer)
            if answer is not NOT_HELD:
                return
        self._settle(request.ticket, gone=True)

    # --- what the session has ---

    def _hold(self, claim: Claim) -> None:
        own = self._claims.get(named(claim))
        if own is None:
            own = self._claims[named(claim)] = Own(claim)
        own.stands = True
        self._held.pop(own.token, None)
        self._held[claim.token] = named(claim)
        own.token = claim.token

    def _settle(self, ticket: bytes, *, gone: bool) -> None:
        """Forget a claim that is gone, unless somebody is asking for it again."""
        own = self._claims.get(ticket)
        if own is None:
            return
        if gone:
            self._held.pop(own.token, None)
            own.token = b""
            own.stands = False
        if not own.stands and not own.asks:
            del self._claims[ticket]

    # --- events ---

    def push(self, line: bytes) -> None:
        """Tell all connections that want to hear."""
        for connection in self.connections:
            if connection.events:
                connection.say(line)

    def news(self, effect: Effect) -> None:
        claim = effect.claim
        own = self._claims.get(named(claim))
        if own is None:
            return  # its own client has ended it
        if isinstance(effect, Granted):
            if own.token != claim.token:  # else somebody was answered
                self._hold(claim)
                self.push(answers.event(b"granted", answers.grant_of(claim, self._clock())))
        elif isinstance(effect, Ended):
            if own.token == claim.token:  # else it has been asked for again
                self._settle(named(claim), gone=True)
                self.push(answers.ended(claim, effect.reason, self._keeper.marks.pop(claim.token, None)))
        elif isinstance(effect, Stayed):
            self.push(answers.stayed(claim, effect.reason))
        elif own.nudge:
            self.push(answers.nudged(claim, effect.want))


def members(request: Claim | Group) -> list[Claim]:
    return request.claims if isinstance(request, Group) else [request]


def named(claim: Claim) -> bytes:
    """Give the name of a claim. All claims of a session have one that its client has made."""
    assert isinstance(claim.ticket, bytes)
    return claim.ticket


SERVE: Final[Mapping[type, Callable[[NativeSession, NativeConnection, Any, int], None]]] = {
    wire.Acquire: NativeSession._ask,
    wire.Enqueue: NativeSession._ask,
    wire.Wait: NativeSession._wait,
    wire.Convert: NativeSession._convert,
    wire.Renew: NativeSession._renew,
    wire.End: NativeSession._end,
    wire.Watch: NativeSession._watch,
    wire.Unwatch: NativeSession._unwatch,
    wire.Ping: NativeSession._ping,
    wire.Bye: NativeSession._bye,
    **dict.fromkeys(SIGHTS, NativeSession._look),
}
