"""One session of the native protocol: what its connections ask for, who is answered what, and who hears of events.

It outlives its connections for a while. What a line means is in wire/, how lines travel in native_connection.py.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from holdfast.desk import Desk
from holdfast.doors.native_asked import CLAIMS_MAX, Asked, Batch, Belongings, members, named
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
        self._claims = Belongings()
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
        if self._claims.holds_nothing:
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
        if not self._claims.has_room(claims):
            connection.say(answers.refusal(ask.id, "too_many", f"a session has at most {CLAIMS_MAX} claims"))
            return
        for claim in claims:
            self._claims.ask(claim, nudge=ask.nudge)
        self.submit(Asked(connection, ask.id), request, self._claimed, now)

    def _wait(self, connection: NativeConnection, ask: wire.Wait, now: int) -> None:
        request = Wait(self._session.id, ask.ticket.encode(), meaning.span_ns(ask.patience_ms))
        self.submit(Asked(connection, ask.id), request, self._waited, now)

    def _convert(self, connection: NativeConnection, ask: wire.Convert, now: int) -> None:
        patience_ns, value = meaning.span_ns(ask.patience_ms), meaning.value_of(ask.value)
        mode = meaning.MODES[ask.mode]
        refuses = ask.deadlock is not None
        ticket = ask.ticket.encode()
        asked = Asked(connection, ask.id)
        own = self._claims.find(ticket)
        earlier = None if own is None else own.conversion
        if earlier is not None and earlier.want == mode and self._asked[earlier][0].waits:
            self._take_over(asked, earlier)
            return
        if earlier is not None and own is not None and own.token:
            # Its client thinks better of it: what waits makes room for what is asked for now.
            self._desk.conclude(self._session, Cancel(self._session.id, ticket, quiet=True), now)
        request = Convert(self._session.id, ticket, mode, patience_ns, ask.queue, value, refuses)
        self._claims.convert(request)
        self.submit(asked, request, self._converted, now)

    def _take_over(self, asked: Asked, request: Convert) -> None:
        """Answer a conversion that waits to whoever asks for it again: it keeps its place, and its patience."""
        before, told = self._asked[request]
        self._asked[request] = asked, told
        asked.wait()
        before.refuse(Answer.CANCELLED)

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
            own = self._claims.find(ask.ticket.encode())
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
                self._claims.queue(claim)

    def seen(self, views: list[View]) -> None:
        look, then = self._sight.next()
        self._asked.pop(look)
        then(views)

    def _claimed(self, asked: Asked, request: Claim | Group, answer: Answer, claim: Claim | None) -> None:
        if answer is GRANTED:
            self._granted(asked, request, claim)
        elif answer is QUEUED:
            for each in members(request):
                self._claims.queue(each)
            facts = answers.place_of(request)
            asked.reply(answers.answer(asked.id, b"queued", facts))
        elif answer is Answer.ALREADY_ENQUEUED:
            detail = "ticket: names a claim on another key"
            asked.reply(answers.refusal(asked.id, "bad_request", detail))
        else:
            asked.refuse(answer, claim)
        for each in members(request):
            self._claims.answered(each, gone=answer in GONE)

    def _granted(self, asked: Asked, request: Claim | Group, claim: Claim | None) -> None:
        """Tell of a grant: whoever asked, or all, if that one is gone."""
        if isinstance(request, Claim):
            assert claim is not None
            self._claims.hold(claim)
            facts: Any = answers.grant_of(claim, self._clock())
        else:
            for each in request.claims:
                self._claims.hold(each)
            facts = answers.grants_of(request, self._clock())
        heard = asked.heard
        asked.reply(answers.answer(asked.id, b"granted", facts))
        if not heard:
            self.push(answers.event(b"granted", facts))

    def _waited(self, asked: Asked, request: Wait, answer: Answer, claim: Claim | None) -> None:
        assert isinstance(request.ticket, bytes)
        if answer is GRANTED:
            assert claim is not None
            group = None if request.claims is None else Group(request.ticket, request.claims, request.patience_ns)
            self._granted(asked, group or claim, claim)
            return
        asked.refuse(answer, claim)
        if answer in GONE:
            self._claims.drop(request.ticket, claim)

    def _converted(self, asked: Asked, request: Convert, answer: Answer, claim: Claim | None) -> None:
        self._claims.converted(request)
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
        if answer is RENEWED or answer is NOT_HELD:
            batch.renewed[number] = answer is RENEWED
        batch.left -= 1
        if not batch.left:
            asked.reply(answers.answer(asked.id, b"renewed", {"renewed": batch.renewed}))

    def _ended(self, asked: Asked, request: End, answer: Answer, claim: Claim | None) -> None:
        if answer is ENDED:
            asked.reply(answers.answer(asked.id, b"ended"))
            ticket = self._claims.ticket_of(request.token)
            if ticket is not None:
                self._claims.settle(ticket, gone=True)  # before it is told, as it is no news to its client
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
        self._claims.drop(request.ticket, claim)

    # --- events ---

    def push(self, line: bytes) -> None:
        """Tell all connections that want to hear."""
        for connection in self.connections:
            if connection.events:
                connection.say(line)

    def _tell_granted(self, effect: Granted) -> None:
        """A group is told of once, with the first of its claims."""
        for each in effect.together or [effect.claim]:
            self._claims.hold(each)
        bond = effect.claim.bond
        facts: Any = answers.grant_of(effect.claim, self._clock())
        if effect.together is not None and bond is not None:
            facts = answers.grants_of(Group(bond.ticket, effect.together, FOREVER), self._clock())
        self.push(answers.event(b"granted", facts))

    def news(self, effect: Effect) -> None:
        claim = effect.claim
        own = self._claims.find(named(claim))
        if own is None:
            return  # its own client has ended it
        if isinstance(effect, Granted):
            if own.token != claim.token:  # else somebody was answered
                self._tell_granted(effect)
        elif isinstance(effect, Ended):
            if own.token == claim.token:  # else it has been asked for again
                self._claims.settle(named(claim), gone=True)
                self.push(answers.ended(claim, effect.reason, self._keeper.marks.pop(claim.token, None)))
                if self._desk.draining:
                    self._leave_if_done()
        elif isinstance(effect, Stayed):
            self.push(answers.stayed(claim, effect.reason))
        elif own.nudge:
            self.push(answers.nudged(claim, effect.want))


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
