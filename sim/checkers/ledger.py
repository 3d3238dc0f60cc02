"""The ledger: walks through a history, keeps the book, and finds the first reply that is not what it had to be.

What every request must come to follows from the book alone; no answer of the server changes who holds or waits.
"""

from collections.abc import Iterator

from sim.checkers.asks import AUTH, BAD, ENQUEUE, PING, RELEASE, RENEW, STATS, WAIT
from sim.checkers.book import FENCE_RETRY_NS, FOR_EVER, Book, Claim, Key, Phase
from sim.checkers.dues import DiscrepancyError, Dues
from sim.checkers.sleep import Sleep
from sim.checkers.stats import wrong_in_stats
from sim.checkers.talks import Finding, Request, Talks
from sim.history import (
    Connected,
    Cut,
    Drained,
    Event,
    HungUp,
    Lost,
    Minted,
    Refused,
    Rules,
    Started,
    Stopped,
    Swept,
    Ticked,
    Torn,
)

LEASE_OVER = (b"error_lease_expired", b"error_not_enqueued")


def check_ledger(talks: Talks) -> Iterator[Finding]:
    """Stop at the first discrepancy: after it, book and server speak of different worlds."""
    ledger = _Ledger(talks)
    try:
        ledger.walk()
    except DiscrepancyError as error:
        yield Finding("ledger", ledger.step, str(error))


class _Ledger:
    def __init__(self, talks: Talks) -> None:
        self.step = 0
        self._now = 0
        self._talks = talks
        self._sleep = Sleep(talks.events)
        self._book = Book(Rules())
        self._draining = False
        self._to_drain: list[int] = []  # whose turn it is next to be sent away
        self._last_drained: Request | None = None
        self._sessions: dict[int, int] = {}  # the number of each connection, as the server counts them
        self._alive: list[int] = []
        self._deaf: set[int] = set()  # who cannot be told anything any more
        self._blocked: dict[int, tuple[Key, Claim]] = {}  # by peer
        self._dues = Dues()
        self._soonest = FOR_EVER
        self._newcomer: tuple[Key, Claim, Request] | None = None  # it is not known yet what becomes of it

    def walk(self) -> None:
        for place, event in enumerate(self._talks.events):
            if event.step != self.step:
                self._end_step()
                self._begin_step(event)
            self._see(event)
            request = self._talks.taken.get(place)
            answered = self._talks.answered.get(place, ())
            if request is not None or answered:
                self._conclude()
            if request is not None:
                self._serve(request)
            for one in answered:
                self._match(one)

    # --- steps ---

    def _begin_step(self, event: Event) -> None:
        self.step = event.step
        if event.at != self._now:
            self._now = event.at
            if self._sleep.wake_after(self._soonest) < self._now:
                raise DiscrepancyError("the server slept through a lease, a patience or a fence that it could have had")

    def _end_step(self) -> None:
        self._conclude()
        self._dues.close([peer for peer in self._alive if peer not in self._deaf])
        for key in self._book.keys.values():
            if key.has_room_for_next() and self._sleep.wake_after(key.excused_until) < self._now:
                raise DiscrepancyError(f"{key.name} is free, and somebody waits for it")
        self._soonest = self._book.soonest()

    def _conclude(self) -> None:
        """All grants of one move have their fences by now, unless none could be had; that is excused for a while."""
        for key in self._book.keys.values():
            if key.unfenced:
                if self._sleep.wake_after(key.excused_until) < self._now:
                    raise DiscrepancyError(f"{key.name} is free, and nobody was granted it")
                self._unseat(key)
        if self._newcomer is not None:
            key, claim, request = self._newcomer
            self._newcomer = None
            if key.admits_a_newcomer():
                raise DiscrepancyError(f"{key.name} is free, and {request} was not granted it")
            self._queue(key, claim, request)

    def _match(self, request: Request) -> None:
        """A reply has come. While the server sends everybody away, that means that it goes on to the next."""
        self._dues.pay(request)
        if request is self._last_drained:
            self._drain_on()

    # --- events ---

    def _see(self, event: Event) -> None:
        book = self._book
        match event:
            case Ticked():
                for key in book.keys.values():
                    self._settle(key)
            case Minted():
                self._mint(event)
            case Refused():
                self._refuse(event)
            case Connected():
                self._sessions[event.peer] = len(self._sessions) + 1
                self._alive.append(event.peer)
            case Lost() | HungUp():
                self._hang_up(event.peer)
            case Torn() | Cut():
                self._deaf.add(event.peer)
            case Swept(what="phases"):
                book.sweep_phases()
            case Swept(what="keys"):
                book.sweep_keys(self._now)
            case Drained():
                self._draining = True
                self._to_drain = list(self._alive)
                self._drain_on()
            case Started():
                self._start(event.rules)
            case Stopped():
                self._start(book.rules)

    def _start(self, rules: Rules) -> None:
        self._book = Book(rules)
        self._draining = False
        self._sessions.clear()
        self._alive.clear()
        self._blocked.clear()
        self._dues.clear()
        self._newcomer = None

    def _mint(self, event: Minted) -> None:
        key = self._key_of_fence(event.last)
        if key is not None and not key.unfenced:
            key.promote(self._now)
            self._let_in_newcomer(key)
        if key is None or not key.unfenced:
            raise DiscrepancyError(f"fence {event.fence} was made, and nobody can have been granted anything")
        claim = key.unfenced.pop(0)
        claim.fence = key.fence = event.fence
        request, claim.request = claim.request, None
        if request is not None:
            self._tell(request, key, claim)

    def _tell(self, request: Request, key: Key, claim: Claim) -> None:
        """Somebody has to be told that they hold; for a first phase alone that is not the end."""
        self._blocked.pop(claim.peer, None)
        self._dues.add_grant(request, claim)
        if request.ask.verb == WAIT:
            self._book.forget_phase(claim, key.name)

    def _key_of_fence(self, last: int) -> Key | None:
        """Find whose grant it is; a key that was never granted can only have a newcomer."""
        if last:
            return self._book.key_of_fence(last)
        return self._newcomer[0] if self._newcomer is not None else None

    def _let_in_newcomer(self, key: Key) -> None:
        if self._newcomer is not None and self._newcomer[0] is key and key.admits_a_newcomer():
            claim = self._newcomer[1]
            self._newcomer = None
            key.seat(claim, self._now)
            self._keep_phase(claim, key)

    def _refuse(self, event: Refused) -> None:
        key = self._key_of_fence(event.last)
        if key is None:
            raise DiscrepancyError("a fence was asked for, and nobody can have been granted anything")
        key.excused_until = self._now + FENCE_RETRY_NS
        if key.unfenced:
            self._unseat(key)
        elif self._newcomer is not None and self._newcomer[0] is key and key.admits_a_newcomer():
            self._dues.add(self._newcomer[2], b"error")
            self._newcomer = None

    def _unseat(self, key: Key) -> None:
        for claim in key.unseat():
            if claim.request is not None and claim.patience_due <= self._now:
                self._give_up(key, claim, b"timeout")

    # --- time ---

    def _settle(self, key: Key) -> None:
        """Let everything happen whose time has come, in the order of its time."""
        key.promote(self._now)
        while (claim := key.next_due(self._now)) is not None:
            if claim in key.queue:
                self._give_up(key, claim, b"timeout")
            else:
                key.remove(claim)
                self._book.expire_phase(claim, key.name)
            key.touched = self._now
            key.promote(self._now)

    def _give_up(self, key: Key, claim: Claim, reply: bytes) -> None:
        """Somebody has waited in vain."""
        key.remove(claim)
        key.touched = self._now
        self._book.forget_phase(claim, key.name)
        self._blocked.pop(claim.peer, None)
        if claim.request is not None:
            self._dues.add(claim.request, reply)

    # --- requests ---

    def _serve(self, request: Request) -> None:
        verb = request.ask.verb
        if verb in (BAD, AUTH):
            self._dues.add(request, b"error")
        elif self._draining:
            self._dues.add(request, b"error_draining")
        elif verb == PING:
            self._dues.add(request, b"ok")
        elif verb == STATS:
            self._check_stats(request)
        elif verb == RELEASE:
            self._release(request)
        elif verb == RENEW:
            self._renew(request)
        elif verb == WAIT:
            self._wait(request)
        elif verb == ENQUEUE and self._book.is_enqueued(request.peer, request.ask.key):
            self._dues.add(request, b"error_already_enqueued")
        else:
            self._enqueue(request)

    def _enqueue(self, request: Request) -> None:
        key = self._reach(request)
        if key is None:
            self._dues.add(request, b"error_max_locks")
            return
        self._settle(key)
        key.touched = self._now
        if key.limit != request.ask.limit:
            self._dues.add(request, b"error_limit_mismatch")
            return
        self._newcomer = key, self._make_claim(request), request

    def _reach(self, request: Request) -> Key | None:
        book, ask = self._book, request.ask
        key = book.keys.get(ask.key)
        if key is None and len(book.keys) < book.rules.keys_max:
            key = book.keys[ask.key] = Key(ask.key, ask.limit)
        return key

    def _make_claim(self, request: Request) -> Claim:
        self._book.orders += 1
        tracked = request.ask.verb == ENQUEUE
        due = FOR_EVER if tracked else self._now + request.ask.patience_ns
        return Claim(request.peer, tracked, request.ask.lease_ns, due, self._book.orders, request, due)

    def _keep_phase(self, claim: Claim, key: Key) -> None:
        if claim.tracked:
            self._book.phases[claim.peer, key.name] = Phase(claim)

    def _queue(self, key: Key, claim: Claim, request: Request) -> None:
        waiters_max = self._book.rules.waiters_max
        if waiters_max and len(key.queue) >= waiters_max:
            self._dues.add(request, b"error_max_waiters")
        elif claim.patience_due <= self._now:
            self._dues.add(request, b"timeout")
        else:
            key.queue.append(claim)
            self._keep_phase(claim, key)
            if claim.tracked:
                claim.request = None
                self._dues.add(request, b"queued")
            else:
                self._blocked[claim.peer] = key, claim

    def _wait(self, request: Request) -> None:
        book, name = self._book, request.ask.key
        phase = book.phases.get((request.peer, name))
        if phase is None:
            self._dues.add(request, b"error_not_enqueued")
            return
        key = book.keys.get(name)
        if key is not None and not phase.expired:
            self._settle(key)
        if key is None or phase.expired:
            book.phases.pop((request.peer, name), None)
            self._dues.add(request, *LEASE_OVER)
            return
        key.touched = self._now
        key.promote(self._now)
        self._wait_on(key, phase.claim, request)

    def _wait_on(self, key: Key, claim: Claim, request: Request) -> None:
        if claim in key.held and claim not in key.unfenced:
            claim.due = self._now + claim.lease_ns
            self._tell(request, key, claim)
            return
        claim.request = request
        claim.patience_due = self._now + request.ask.patience_ns
        if claim in key.queue:
            claim.due = claim.patience_due
            if not request.ask.patience_ns:
                self._give_up(key, claim, b"timeout")
                key.promote(self._now)
                return
        self._blocked[claim.peer] = key, claim

    def _release(self, request: Request) -> None:
        key, claim = self._find_proved(request)
        if key is None or claim is None:
            self._dues.add(request, b"error")
            return
        key.remove(claim)
        self._book.forget_phase(claim, key.name)
        key.promote(self._now)
        self._dues.add(request, b"ok")

    def _renew(self, request: Request) -> None:
        key, claim = self._find_proved(request)
        if key is None or claim is None:
            self._dues.add(request, b"error")
            return
        claim.due = self._now + request.ask.lease_ns
        self._dues.add(request, b"ok %d" % (request.ask.lease_ns // 1_000_000_000))

    def _find_proved(self, request: Request) -> tuple[Key | None, Claim | None]:
        """Find the claim that a token is good for now."""
        key = self._book.keys.get(request.ask.key)
        if key is None:
            return None, None
        self._settle(key)
        claim = key.holder(request.ask.token)
        if claim is not None:
            key.touched = self._now
        return key, claim

    def _check_stats(self, request: Request) -> None:
        if request.reply is None or not request.reply.startswith(b"ok {"):
            self._dues.add(request, b"ok {...}")
            return
        self._dues.add(request, request.reply)
        wrong = wrong_in_stats(request.reply[3:], self._book, len(self._alive), self._sessions, self._now)
        if wrong is not None:
            raise DiscrepancyError(f"{request} was told {wrong}")

    # --- ends ---

    def _hang_up(self, peer: int) -> None:
        """A connection is over: what waited goes first, so that nobody who is gone is granted anything."""
        if peer not in self._alive:
            return
        self._conclude()
        self._alive.remove(peer)
        self._blocked.pop(peer, None)
        self._book.forget_phases_of(peer)
        release = self._book.rules.release_on_disconnect
        for key in self._book.keys.values():
            waited = key.withdraw(key.queue, peer, self._now)
            if not waited and not (release and any(claim.peer == peer for claim in key.held)):
                continue
            self._settle(key)
            if release:
                key.withdraw(key.held, peer, self._now)
            key.promote(self._now)

    def _drain_on(self) -> None:
        """Whoever is blocked is sent away, one after the other: what that makes of the others shows in between."""
        while self._to_drain:
            peer = self._to_drain.pop(0)
            if peer not in self._blocked:
                continue
            key, claim = self._blocked[peer]
            self._last_drained = claim.request
            self._settle(key)
            if claim in key.unfenced and claim.request is not None and claim.request.reply == b"error":
                key.unseat()  # it may have been next, but for a fence
            if claim in key.queue:
                self._give_up(key, claim, b"error")
                self._settle(key)
            if peer not in self._deaf:
                return
