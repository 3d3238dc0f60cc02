"""A slow and simple book of who holds and who waits, kept by the rules of the line protocol as they are written.

It looks at everybody every time, knows nothing of the engine, and decides nothing about replies: see the ledger.
"""

from dataclasses import dataclass, field

from sim.checkers.talks import Request
from sim.history import Rules

FOR_EVER = 1 << 63

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

    def has_room_for_next(self) -> bool:
        return bool(self.queue) and len(self.held) < self.limit

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
        self.orders = 0

    def key_of_fence(self, last: int) -> Key | None:
        """Find the key that was granted with this fence last."""
        return next((key for key in self.keys.values() if key.fence == last), None)

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

    def sweep_phases(self) -> None:
        for where in [where for where, phase in self.phases.items() if phase.expired]:
            del self.phases[where]

    def sweep_keys(self, now: int) -> None:
        for key in list(self.keys.values()):
            if not key.held and not key.queue and key.touched + self.rules.idle_max_ns < now:
                del self.keys[key.name]

    def soonest(self) -> int:
        """Say when something happens next by itself."""
        dues = [claim.due for key in self.keys.values() for claim in (*key.held, *key.queue)]
        stuck = [key.excused_until for key in self.keys.values() if key.has_room_for_next()]
        return min(dues + stuck, default=FOR_EVER)
