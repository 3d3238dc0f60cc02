"""What a request makes of the book, and what time does: who is let in, who waits, who has waited in vain, what is owed.

In which order all that happens is the business of the ledger.
"""

from sim.checkers.asks import AUTH, BAD, ENQUEUE, PING, RELEASE, RENEW, STATS, WAIT
from sim.checkers.book import NOBODY, Book, Claim, Key
from sim.checkers.dues import DiscrepancyError, Dues
from sim.checkers.stats import wrong_in_stats
from sim.checkers.talks import Request
from sim.history import Rules

LEASE_OVER = (b"error_lease_expired", b"error_not_enqueued")


class Moves:
    """The state of a server as the rules have it, and the moves that change it."""

    def __init__(self) -> None:
        self._now = 0
        self._book = Book(Rules())
        self._draining = False
        self._sessions = {NOBODY: 0}  # the number of each connection, as the server counts them
        self._alive: list[int] = []
        self._blocked: dict[int, tuple[Key, Claim]] = {}  # by peer
        self._dues = Dues()
        self._newcomer: tuple[Key, Claim, Request] | None = None  # it is not known yet what becomes of it

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
        if verb in (BAD, AUTH) or request.failed:
            self._dues.add(request, b"error")
        elif self._draining and not request.handed:
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
        key = self._book.reach(request)
        if key is None:
            self._dues.add(request, b"error_max_locks")
            return
        self._settle(key)
        key.touched = self._now
        if key.limit != request.ask.limit:
            self._dues.add(request, b"error_limit_mismatch")
            return
        self._newcomer = key, self._book.make_claim(request, self._now), request

    def _queue(self, key: Key, claim: Claim, request: Request) -> None:
        waiters_max = self._book.rules.waiters_max
        if waiters_max and len(key.queue) >= waiters_max:
            self._dues.add(request, b"error_max_waiters")
        elif claim.patience_due <= self._now:
            self._dues.add(request, b"timeout")
        else:
            key.queue.append(claim)
            self._book.keep_phase(claim, key)
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
        now, connections = request.told_at or self._now, request.connections or len(self._alive)
        wrong = wrong_in_stats(request.reply[3:], self._book, connections, self._sessions, now)
        if wrong is not None:
            raise DiscrepancyError(f"{request} was told {wrong}")

    def _tell(self, request: Request, key: Key, claim: Claim) -> None:
        """Somebody has to be told that they hold; for a first phase alone that is not the end."""
        self._blocked.pop(claim.peer, None)
        self._dues.add_grant(request, claim)
        if request.ask.verb == WAIT:
            self._book.forget_phase(claim, key.name)
