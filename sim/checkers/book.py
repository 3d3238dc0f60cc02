"""A slow and simple book of who holds and who waits, kept by the rules of the line protocol as they are written.

It looks at everybody every time, knows nothing of the engine, and decides nothing about replies: see the ledger.
"""

from dataclasses import dataclass, field

from sim.checkers.asks import ENQUEUE
from sim.checkers.talks import Request
from sim.history import Rules

FOR_EVER = 1 << 63

# Who holds what was held when an earlier server ended.
NOBODY = 0

# A server that could get no fence tries again this much later at the latest.
FENCE_RETRY_NS = 100_000_000


@dataclass(slots=True, eq=False)
class Claim:
    """One caller's place on a key, waiting or holding."""

    peer: int
    tracked: bool  # it came by the first phase of two
    lease_ns: int
    patience_due: int
    order: int
    request: Request | None  # who is to be told of the grant
    due: int = 0
    fence: int = 0
    token: bytes = b""


@dataclass(slots=True, eq=False)
class Key:
    """One key: a number of seats, and a queue."""

    name: str
    limit: int
    held: list[Claim] = field(default_factory=list)
    queue: list[Claim] = field(default_factory=list)
    unfenced: list[Claim] = field(default_factory=list)  # who holds as soon as they have a fence
    fence: int = 0
    touched: int = 0
    excused_until: int = -1  # no fence could be had: whoever is next may have to wait until then
    vague: bool = False  # nobody uses it, and a transaction that failed may have made the server forget it

    def has_room_for_next(self) -> bool:
        return bool(self.queue) and len(self.held) < self.limit

    @property
    def title(self) -> str:
        """The name without its namespace."""
        return self.name.partition(" ")[2]

    @property
    def is_idle(self) -> bool:
        return not self.held and not self.queue

    def holder(self, token: bytes) -> Claim | None:
        return next((claim for claim in self.held if claim.token == token), None)

    def admits_a_newcomer(self) -> bool:
        """Say whether somebody who comes now may go in at once: there is room, and nobody was first."""
        return not self.queue and len(self.held) < self.limit

    def promote(self, now: int) -> None:
        """Let go in whoever is next and finds a seat."""
        while self.has_room_for_next():
            self.seat(self.queue.pop(0), now)

    def seat(self, claim: Claim, now: int) -> None:
        claim.due = now + claim.lease_ns
        self.held.append(claim)
        self.unfenced.append(claim)

    def unseat(self) -> list[Claim]:
        """Let all wait again who got no fence."""
        back, self.unfenced = self.unfenced, []
        for claim in back:
            self.held.remove(claim)
            claim.due = claim.patience_due
        self.queue[:0] = back
        return back

    def remove(self, claim: Claim) -> None:
        for place in (self.held, self.queue, self.unfenced):
            if claim in place:
                place.remove(claim)

    def withdraw(self, place: list[Claim], peer: int, now: int) -> bool:
        """Take out all that a peer has in one place; say whether that was anything."""
        mine = [claim for claim in place if claim.peer == peer]
        for claim in mine:
            place.remove(claim)
            self.touched = now
        return bool(mine)

    def next_due(self, now: int) -> Claim | None:
        """Find whose time has run out first; at one instant leases come before patience."""
        due = [(claim.due, False, claim.fence, claim) for claim in self.held if claim.due <= now]
        due += [(claim.due, True, claim.order, claim) for claim in self.queue if claim.due <= now]
        return min(due, key=lambda entry: entry[:3])[3] if due else None


@dataclass(slots=True, eq=False)
class Phase:
    """What a caller enqueued and has not asked for yet."""

    claim: Claim
    expired: bool = False


class Book:
    """All keys of one server, and the first phases of its callers."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.keys: dict[str, Key] = {}
        self.phases: dict[tuple[int, str], Phase] = {}
        self.fences: dict[str, int] = {}  # the last ones of keys that are not among them
        self.orders = 0

    def key_of_fence(self, last: int) -> Key | None:
        """Find the key that was granted with this fence last."""
        return next((key for key in self.keys.values() if key.fence == last), None)

    def reach(self, request: Request) -> Key | None:
        """Find the key of a request, or make it; None if there are too many."""
        ask = request.ask
        key = self.keys.get(ask.key)
        if key is not None and key.vague and key.is_idle:
            if request.reply == b"error_max_locks" and len(self.keys) > self.rules.keys_max:
                self.drop(key)  # it had been forgotten, and others have taken its place
                return None
            if request.reply != b"error_limit_mismatch":
                key.limit = ask.limit  # it had been forgotten
        if key is not None:
            key.vague = False
        elif len(self.keys) < self.rules.keys_max or self._may_have_room(request):
            key = self.keys[ask.key] = Key(ask.key, ask.limit, fence=self.fences.get(ask.key, 0))
        return key

    def _may_have_room(self, request: Request) -> bool:
        """Where it is not known which keys the server has forgotten, its answer says whether there was room."""
        return any(key.vague for key in self.keys.values()) and request.reply != b"error_max_locks"

    def make_claim(self, request: Request, now: int) -> Claim:
        self.orders += 1
        tracked = request.ask.verb == ENQUEUE
        due = FOR_EVER if tracked else now + request.ask.patience_ns
        return Claim(request.peer, tracked, request.ask.lease_ns, due, self.orders, request, due)

    def keep_phase(self, claim: Claim, key: Key) -> None:
        if claim.tracked:
            self.phases[claim.peer, key.name] = Phase(claim)

    def is_enqueued(self, peer: int, name: str) -> bool:
        phase = self.phases.get((peer, name))
        return phase is not None and not phase.expired

    def forget_phase(self, claim: Claim, name: str) -> None:
        phase = self.phases.get((claim.peer, name))
        if phase is not None and phase.claim is claim:
            del self.phases[claim.peer, name]

    def expire_phase(self, claim: Claim, name: str) -> None:
        phase = self.phases.get((claim.peer, name))
        if phase is not None and phase.claim is claim:
            phase.expired = True

    def forget_phases_of(self, peer: int) -> None:
        for where in [where for where in self.phases if where[0] == peer]:
            del self.phases[where]

    def sweep(self, what: str, now: int) -> None:
        if what == "phases":
            for where in [where for where, phase in self.phases.items() if phase.expired]:
                del self.phases[where]
            return
        for key in list(self.keys.values()):
            if key.is_idle and not key.vague and key.touched + self.rules.idle_max_ns < now:
                self.drop(key)

    def drop(self, key: Key) -> None:
        """Forget a key; a server that keeps its fence for ever goes on from there."""
        del self.keys[key.name]
        if self.rules.durable:
            self.fences[key.name] = key.fence

    def doubt(self) -> None:
        """A transaction has failed: it is not known any more which of the keys that nobody uses the server knows."""
        for key in self.keys.values():
            key.vague = key.is_idle

    def survive(self) -> None:
        """The server is gone. What was held stays held, by nobody in particular; nobody waits any more."""
        self.phases.clear()
        for key in list(self.keys.values()):
            key.queue.clear()
            for claim in key.held:
                claim.peer, claim.tracked, claim.request = NOBODY, False, None
            if key.is_idle:
                self.drop(key)

    def soonest(self) -> int:
        """Say when something happens next by itself."""
        dues = [claim.due for key in self.keys.values() for claim in (*key.held, *key.queue)]
        stuck = [key.excused_until for key in self.keys.values() if key.has_room_for_next()]
        return min(dues + stuck, default=FOR_EVER)
