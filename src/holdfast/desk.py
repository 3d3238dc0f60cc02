"""The desk: sessions, who awaits which answer, the first phase of two, and the way out when the service drains.

Doors hand requests in and get exactly one answer each; stores do the work. No lock rule and no protocol lives here.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.ports import Face, Observer, Sink, Store
from holdfast.words import (
    ENDED,
    GRANTED,
    QUEUED,
    RESIDENT,
    WAITING,
    Answer,
    Cancel,
    Claim,
    Convert,
    Effect,
    End,
    Ended,
    Granted,
    Group,
    Hangup,
    Look,
    Nudged,
    Reason,
    Renew,
    Request,
    Stayed,
    Ticket,
    View,
    Wait,
    WaitFor,
)

CONVERTING: Final = Answer.CONVERTING


class Phase:
    """What is left of a first phase: the ticket, and whether its lease has run out since."""

    __slots__ = ("expired", "ticket")

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.expired = False


class Session:
    """One caller, for as long as it lives."""

    __slots__ = ("awaited", "face", "id", "phases")

    def __init__(self, id_: int, face: Face) -> None:
        self.id = id_
        self.face = face
        self.awaited: dict[Ticket, Request] = {}  # the requests that wait for a claim to be granted
        self.phases: dict[bytes, Phase] | None = None  # by key; made when it first enqueues


class Desk(Sink):
    """Takes requests from callers and gives each exactly one answer."""

    def __init__(self, store: Store, *, release_on_disconnect: bool, tickets: int = 0) -> None:
        self.store = store
        self.release_on_disconnect = release_on_disconnect
        self.sessions: dict[int, Session] = {}
        self.draining = False
        self.grants = 0
        self.no_fences = 0  # requests refused because no fence could be had
        self.busy = {Claim: 0, Renew: 0, End: 0}  # requests refused because the store was busy, by their kind
        self.expired = 0  # leases that ran out
        self.handed_over: Callable[[int], None] | None = None  # told when each claim that had waited was granted
        self.queued: Callable[[], None] | None = None  # told when somebody begins to wait
        self.observer: Observer | None = None  # told everything, while there is one
        self._drained_at = 0
        self._sessions_so_far = 0
        self._tickets_so_far = tickets  # above all that a store still knows from a former run
        self._news: deque[Effect] = deque()
        self._telling = False
        self._expired: list[tuple[Session, bytes]] = []  # first phases whose lease ran out since the last sweep
        self._looks: dict[Look, Callable[[list[View]], None]] = {}  # the service's own

    # --- callers come and go ---

    def open(self, face: Face) -> Session:
        self._sessions_so_far += 1
        session = Session(self._sessions_so_far, face)
        self.sessions[session.id] = session
        return session

    def reside(self, face: Face) -> Session:
        """Open the one session that is never over: claims of callers who are bound to no connection live in it."""
        session = Session(RESIDENT, face)
        self.sessions[RESIDENT] = session
        return session

    def close(self, session: Session, now: int) -> None:
        """The caller is gone: nobody is left to answer, and what it waited for goes to others."""
        if self.sessions.pop(session.id, None) is not None:
            self.store.submit(Hangup(session.id, keep_held=not self.release_on_disconnect), now)

    def dismiss(self, session: Session, now: int) -> None:
        """The caller has said that it is done: what it holds goes too, however those fare who are merely cut off."""
        if self.sessions.pop(session.id, None) is not None:
            self.store.submit(Hangup(session.id), now)

    def leave(self, session: Session, now: int, *, keep_held: bool) -> None:
        """The caller has not come back in time; it has said itself what is to become of what it holds."""
        if self.sessions.pop(session.id, None) is not None:
            self.store.submit(Hangup(session.id, keep_held), now)

    @property
    def connections(self) -> int:
        """Count the callers who come and go."""
        return len(self.sessions) - (RESIDENT in self.sessions)

    def drain(self, now: int) -> None:
        """Take no more requests, and tell those who are blocked that they wait in vain.

        They are told when they are out of the queue, not before: nobody may be granted what they were told they lost.
        """
        self.draining = True
        self._drained_at = now
        for session in list(self.sessions.values()):
            for ticket in list(session.awaited):
                self.store.submit(Cancel(session.id, ticket, quiet=True), now)

    # --- requests in ---

    def submit(self, session: Session, request: Request, now: int) -> None:
        if self.draining:
            session.face.answer(request, Answer.DRAINING, None)
            return
        request.session = session.id
        if isinstance(request, Claim):
            if not request.ticket:
                self._tickets_so_far = request.ticket = self._tickets_so_far + 1
            if request.tracked and self._is_enqueued(session, request.key):
                session.face.answer(request, Answer.ALREADY_ENQUEUED, None)
                return
        elif isinstance(request, WaitFor):
            self._wait_for(session, request, now)
            return
        self.store.submit(request, now)

    def withdraw(self, session: Session, request: Claim | WaitFor, now: int) -> None:
        """The caller does not want the answer to this request any more. Should it be a grant, that is to be ended."""
        if isinstance(request, WaitFor):
            phase = session.phases.get(request.key) if session.phases is not None else None
            if phase is None:
                return  # it has been answered that nothing is enqueued
            ticket = phase.ticket
        else:
            ticket = request.ticket
        if session.awaited.get(ticket) in (None, request):  # else a later request waits for the same claim
            self.store.submit(Cancel(session.id, ticket, quiet=True), now)

    def give_back(self, session: Session, end: End, now: int) -> None:
        """End what somebody was granted who had gone; this is done even while the service drains."""
        end.session = session.id
        self.store.submit(end, now)

    def conclude(self, session: Session, request: Renew | End | Cancel, now: int) -> None:
        """Take what a holder has to say of what it holds: that is served even while the service drains."""
        request.session = session.id
        self.store.submit(request, now)

    def _is_enqueued(self, session: Session, key: bytes) -> bool:
        phase = session.phases.get(key) if session.phases is not None else None
        return phase is not None and not phase.expired

    def _wait_for(self, session: Session, request: WaitFor, now: int) -> None:
        phase = session.phases.get(request.key) if session.phases is not None else None
        if phase is None:
            session.face.answer(request, Answer.NOT_ENQUEUED, None)
        elif phase.expired:
            self._forget(session, request.key, phase.ticket)
            session.face.answer(request, Answer.LEASE_EXPIRED, None)
        else:
            self.store.submit(Wait(session.id, phase.ticket, request.patience_ns, request), now)

    # --- answers and news out ---

    def answer(self, command: Request | Wait, answer: Answer, claim: Claim | None) -> None:
        """Pass on the answer to a command, unless it is only that the caller has to wait."""
        if answer is GRANTED:
            self.grants += len(command.claims) if isinstance(command, Group) else 1
        elif answer is QUEUED or answer is CONVERTING:
            if self.queued is not None:
                self.queued()
        elif answer is Answer.NO_FENCE or answer is Answer.STORE_BUSY:
            self._count_refusal(command, answer)
        if self.observer is not None:
            self.observer.answered(command, answer, claim)
        session = self.sessions.get(command.session)
        if session is None:
            return  # it hung up; the Hangup behind this command ends what it was given
        if isinstance(command, Wait):
            self._answer_wait(session, command, answer, claim)
        elif isinstance(command, Claim) and (answer is QUEUED or command.tracked):
            self._answer_claim(session, command, answer, claim)
        elif isinstance(command, Group) and answer is QUEUED and not command.tracked:
            self._await(session, command.ticket, command, None)
        elif answer is CONVERTING:
            assert isinstance(command, Convert)
            self._await(session, command.ticket, command, claim)
        elif isinstance(command, Cancel):
            self._answer_cancel(session, command, answer, claim)
        else:
            session.face.answer(command, answer, claim)

    def _count_refusal(self, command: Request | Wait, answer: Answer) -> None:
        if answer is Answer.NO_FENCE:
            self.no_fences += 1
        else:
            kind = Claim if isinstance(command, (Group, Wait, Convert)) else type(command)
            self.busy[kind] = self.busy.get(kind, 0) + 1

    def _answer_claim(self, session: Session, command: Claim, answer: Answer, claim: Claim | None) -> None:
        if not command.tracked:
            self._await(session, command.ticket, command, claim)
            return
        if isinstance(command.ticket, bytes):
            session.face.answer(command, answer, claim)  # its caller will name it, so no phase is needed to find it
            return
        if answer is GRANTED or answer is QUEUED:
            if session.phases is None:
                session.phases = {}
            session.phases[command.key] = Phase(command.ticket)
        session.face.answer(command, answer, command)

    def _answer_wait(self, session: Session, command: Wait, answer: Answer, claim: Claim | None) -> None:
        request: Request = command.request or command
        if answer in (Answer.STORE_BUSY, Answer.STORE_FAILED):
            session.face.answer(request, answer, None)  # the first phase is still there, to be asked for again
            return
        if answer is QUEUED:
            self._await(session, command.ticket, request, claim)
            return
        earlier = session.awaited.get(command.ticket)
        if isinstance(earlier, Convert):
            session.face.answer(request, answer, claim)  # held already; that it is to change is another matter
            return
        session.awaited[command.ticket] = request
        self._resolve(session, command.ticket, answer, claim)
        if earlier is not None:
            session.face.answer(earlier, Answer.CANCELLED, claim)

    def _await(self, session: Session, ticket: Ticket, request: Request, claim: Claim | None) -> None:
        """Keep a request until its claim is granted or ended; while the service drains that is right now."""
        earlier = session.awaited.get(ticket)
        session.awaited[ticket] = request
        if self.draining:
            # It was on its way to the store when everybody else who waits was sent home.
            self.store.submit(Cancel(session.id, ticket, quiet=True), self._drained_at)
        session.face.waits(request)
        if earlier is not None:
            session.face.answer(earlier, Answer.CANCELLED, claim)  # its caller has come back and asked again

    def _answer_cancel(self, session: Session, command: Cancel, answer: Answer, claim: Claim | None) -> None:
        if answer is Answer.CANCELLED:
            assert claim is not None
            awaited = [ticket for ticket in _names_of(claim, command.ticket) if ticket in session.awaited]
            for ticket in awaited:
                self._resolve(session, ticket, Answer.CLOSED if self.draining else answer, claim)
            if not awaited:
                self._forget(session, claim.key, command.ticket)
        elif answer is ENDED:
            assert claim is not None
            self._forget(session, claim.key, command.ticket)
        if not command.quiet:
            session.face.answer(command, answer, claim)

    def _resolve(self, session: Session, ticket: Ticket, answer: Answer, claim: Claim | None) -> None:
        """Answer the request that waits for a claim; a first phase is used up by it."""
        request = session.awaited.pop(ticket)
        if isinstance(request, WaitFor):
            self._forget(session, request.key, ticket)
        session.face.answer(request, answer, claim)

    def look(self, look: Look, then: Callable[[list[View]], None], now: int) -> None:
        """Look on behalf of the service itself: also while it drains."""
        self._looks[look] = then
        self.store.submit(look, now)

    def seen(self, look: Look, views: list[View]) -> None:
        then = self._looks.pop(look, None)
        if then is not None:
            then(views)
            return
        session = self.sessions.get(look.session)
        if session is not None:
            session.face.seen(views)

    def foresee(self, effects: list[Effect]) -> None:
        """Note first phases that have ended, now and not when that is told: a caller may enqueue again before."""
        for effect in effects:
            if isinstance(effect, Ended) and effect.claim.tracked:
                self._phase_ended(effect.claim, effect.reason)

    def news(self, effects: list[Effect]) -> None:
        """Tell each caller what happened to its claims.

        Whoever is told may go on and cause more news before this returns: that waits for its turn, so that news is
        told in order and a long chain of callers does not become a deep stack.
        """
        for effect in effects:
            if isinstance(effect, Ended):
                self._note_end(effect.claim, effect.reason)  # not later: its caller may enqueue again before
            elif isinstance(effect, Granted):
                self._note_grant(effect.claim)
            if self.observer is not None:
                self.observer.heard(effect)
        self._news.extend(effects)
        if self._telling:
            return
        self._telling = True
        try:
            while self._news:
                self._tell(self._news.popleft())
        finally:
            self._telling = False  # one caller whose door fails must not silence all others for good

    def _note_end(self, claim: Claim, reason: Reason) -> None:
        self.expired += reason is Reason.EXPIRED
        if claim.tracked:
            self._phase_ended(claim, reason)

    def _note_grant(self, claim: Claim) -> None:
        self.grants += 1
        if self.handed_over is not None:
            self.handed_over(claim.deadline - claim.lease_ns)

    def _tell(self, effect: Effect) -> None:
        claim = effect.claim
        session = self.sessions.get(claim.session)
        if session is None:
            return
        if not isinstance(effect, Nudged):
            if claim.more is not None and claim.more.bond is not None:
                self._tell_group(session, claim.more.bond.ticket, effect)
            if claim.ticket in session.awaited:
                self._resolve(session, claim.ticket, _outcome(effect), claim)
        session.face.news(effect)

    def _tell_group(self, session: Session, ticket: bytes, effect: Granted | Ended | Stayed) -> None:
        """The first of a group to be granted or to go from the queue tells of all."""
        request = session.awaited.get(ticket)
        if not isinstance(request, (Group, Wait)):
            return
        if isinstance(effect, Granted) and effect.together is not None:
            request.claims = effect.together
        elif not (isinstance(effect, Ended) and effect.was is WAITING):
            return  # it is about what one of them holds
        self._resolve(session, ticket, _outcome(effect), effect.claim)

    def _phase_ended(self, claim: Claim, reason: Reason) -> None:
        """A claim of a first phase went away before its second phase asked for it."""
        session = self.sessions.get(claim.session)
        if session is None or claim.ticket in session.awaited:
            return  # whoever is blocked on it is answered, which uses up the phase
        phase = session.phases.get(claim.key) if session.phases is not None else None
        if phase is None or phase.ticket != claim.ticket:
            return  # a later enqueue on the same key stands there now
        if reason is Reason.EXPIRED:
            phase.expired = True
            self._expired.append((session, claim.key))
        else:
            self._forget(session, claim.key, claim.ticket)

    def _forget(self, session: Session, key: bytes, ticket: Ticket) -> None:
        if session.phases is not None and key in session.phases and session.phases[key].ticket == ticket:
            del session.phases[key]

    # --- time ---

    def sweep(self) -> None:
        """Hygiene: a first phase that has expired is remembered until here, so that its caller can be told."""
        for session, key in self._expired:
            phase = session.phases.get(key) if session.phases is not None else None
            if phase is not None and phase.expired:
                self._forget(session, key, phase.ticket)
        self._expired.clear()


def _names_of(claim: Claim, ticket: Ticket) -> list[Ticket]:
    """List all by which somebody may wait for a claim that was withdrawn under this ticket."""
    if claim.bond is None or claim.reason is not Reason.CANCELLED:
        return [ticket]
    return [claim.bond.ticket, claim.ticket]


# What news of the awaited claim means to the caller who is blocked on it.
OUTCOMES = {
    Reason.TIMED_OUT: Answer.TIMED_OUT,
    Reason.EXPIRED: Answer.LEASE_EXPIRED,
}


def _outcome(effect: Effect) -> Answer:
    if isinstance(effect, Granted):
        return GRANTED
    assert isinstance(effect, (Ended, Stayed))
    return OUTCOMES.get(effect.reason, Answer.CLOSED)
