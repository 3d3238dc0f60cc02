"""The state of one key, the one rule that admits a claim, and the two primitive moves: grant and remove.

Every other transition is built from these. No order, no time-out and no protocol is decided here.
"""

from collections import OrderedDict
from heapq import heappush
from typing import Final

from holdfast.engine.queue import Queue
from holdfast.secret import lease_id_of
from holdfast.words import (
    ASKED,
    BIT,
    CLASH,
    CONVERTING,
    EX,
    FOREVER,
    GONE,
    HELD,
    TOKEN_BYTES,
    WAITING,
    Claim,
    Mode,
    Proof,
    Reason,
)

MODES: Final = len(Mode)

# How many entries an agenda may have for each claim before it is thrown away and made anew.
AGENDA_PER_CLAIM: Final = 4

# When a claim's time comes, in an order that its own state decides: the instant, holders before waiters, age.
Turn = tuple[int, bool, int, Claim]


class Resource:
    """All that is known of one key. `mask`, `used`, `tally` and `wanted` are sums, kept so that nobody has to count."""

    __slots__ = (
        "agenda",
        "converting",
        "fence",
        "key",
        "limit",
        "listed",
        "listeners",
        "many",
        "mask",
        "orders",
        "sole",
        "soonest",
        "sought",
        "stuck",
        "tally",
        "touched",
        "used",
        "value",
        "value_seq",
        "value_valid",
        "version",
        "waiting",
        "wake",
    )

    def __init__(self, key: bytes, limit: int, fence: int = 0) -> None:
        self.key = key
        self.limit = limit
        self.fence = fence  # the last one granted
        # Who holds, converting ones included. Nearly every key has at most one holder, and a dict for each of them
        # would cost more than the claim: `sole` is the only one, or `many` has them all by token, in order of grants.
        self.sole: Claim | None = None
        self.many: dict[bytes, Claim] | None = None
        self.waiting: Queue | None = None  # made when somebody first waits, gone with the last one
        self.converting: OrderedDict[int, Claim] | None = None  # by arrival of the conversion
        self.mask = 0  # modes granted now
        self.used = 0  # units granted now
        self.tally: list[int] | None = None  # how many hold each mode; EX is left out: it is never held twice
        self.listeners = 0  # how many holders want nudges
        self.orders = 0  # arrivals so far
        self.soonest = FOREVER  # no deadline in here is earlier; it may be too early, never too late
        self.wake = FOREVER  # when the table will look at this key
        self.agenda: list[Turn] | None = None  # see deadline.py; only for crowded keys
        # What is yes or no stands together, where it takes a byte each.
        self.listed = False  # the table has it among those that may be idle
        self.sought = False  # the table has it among those that somebody may wait for
        self.stuck = False  # somebody fits and is not granted, because no fence could be had
        self.value_valid = True
        self.touched = 0  # last time that a command changed or tried this key
        self.version = 0  # counts grants, renewals and ends: all that a reader of the key can see change
        self.value: bytes | None = None  # the value block
        self.value_seq = 0

    def __repr__(self) -> str:
        waiting = len(self.waiting or ())
        return f"<Resource {self.key!r} fence={self.fence} held={holders_count(self)} waiting={waiting}>"


def holder(r: Resource, token: bytes) -> Claim | None:
    """Find the holder who shows this token."""
    sole = r.sole
    if sole is not None:
        return sole if sole.token == token else None
    return r.many.get(token) if r.many is not None else None


def first_holder(r: Resource) -> Claim | None:
    """Find who has held the key for longest."""
    if r.sole is not None:
        return r.sole
    return next(iter(r.many.values())) if r.many is not None else None


def is_proven(c: Claim, proof: Proof) -> bool:
    """Say whether somebody who shows the token has also shown the rest."""
    return c.owner == proof.owner and lease_id_of(c.secret) == proof.lease_id


def holders(r: Resource) -> list[Claim]:
    """List the holders in the order of their grants."""
    if r.sole is not None:
        return [r.sole]
    return list(r.many.values()) if r.many is not None else []


def holders_count(r: Resource) -> int:
    if r.sole is not None:
        return 1
    return len(r.many) if r.many is not None else 0


def is_idle(r: Resource) -> bool:
    """Say whether nobody holds the key and nobody waits for it."""
    return r.sole is None and r.many is None and r.waiting is None


def fits(r: Resource, c: Claim) -> bool:
    """Say whether the claim can live beside all that is granted: the one rule of admission."""
    return not r.mask & CLASH[c.want] and r.used + c.units <= r.limit


def mask_beside(r: Resource, c: Claim) -> int:
    """Give the mask of what everyone but this holder has."""
    alone = c.mode == EX or (r.tally is not None and r.tally[c.mode] == 1)
    return r.mask & ~BIT[c.mode] if alone else r.mask


def grant(r: Resource, c: Claim, now: int, fence: int, secret: bytes) -> None:
    """Make the claim a holder. The caller has made sure that it fits and that it stands in no queue."""
    assert fence > r.fence
    c.state = HELD
    c.mode = c.want
    c.fence = r.fence = fence
    c.token = secret[:TOKEN_BYTES]
    c.tail = secret[TOKEN_BYTES:]
    c.since = now
    c.deadline = deadline = now + c.lease_ns
    if r.value is not None:
        c.seen = (r.value, r.value_valid)
    r.version += 1
    hold(r, c)
    if deadline < r.soonest or r.agenda is not None:
        note(r, c, deadline)


def remove(r: Resource, c: Claim, reason: Reason) -> None:
    """Take the claim out of wherever it stands. It is gone for good; who may come next is not asked here."""
    state = c.state
    if state is HELD:
        _drop(r, c)
        r.version += 1
    elif state is WAITING:
        leave_waiting(r, c)
    else:
        assert state is CONVERTING
        leave_converting(r, c)
        _drop(r, c)
        r.version += 1
    c.state = GONE
    c.reason = reason
    if c.book is not None:
        del c.book[c.ticket]
        c.book = None


def hold(r: Resource, c: Claim) -> None:
    """Add a holder to what is held and to all sums."""
    if r.sole is None and r.many is None:
        r.sole = c
    else:
        if r.many is None:
            assert r.sole is not None
            r.many = {r.sole.token: r.sole}
            r.sole = None
        assert c.token not in r.many
        r.many[c.token] = c
    r.used += c.units
    mode = c.mode
    r.mask |= BIT[mode]
    if mode != EX:
        if r.tally is None:
            r.tally = [0] * MODES
        r.tally[mode] += 1
    if c.listens:
        r.listeners += 1


def _drop(r: Resource, c: Claim) -> None:
    if r.many is None:
        assert r.sole is c
        r.sole = None
    else:
        del r.many[c.token]
        if not r.many:
            r.many = None
    r.used -= c.units
    mode = c.mode
    if mode == EX:
        r.mask &= ~BIT[mode]
    else:
        assert r.tally is not None
        r.tally[mode] -= 1
        if not r.tally[mode]:
            r.mask &= ~BIT[mode]
    if c.listens:
        r.listeners -= 1


def change_mode(r: Resource, c: Claim, want: int) -> None:
    """Move a holder from one granted mode to another."""
    _drop(r, c)
    r.version += 1
    c.mode = want
    c.want = want
    c.nudged = 0
    if r.value is not None:
        c.seen = (r.value, r.value_valid)
    hold(r, c)


def restart_lease(r: Resource, c: Claim, now: int) -> None:
    """Start the lease again after a conversion; a renewal may have promised more than that, and keeps its word."""
    c.deadline = max(c.deadline, now + c.lease_ns)
    note(r, c, c.deadline)


def join_waiting(r: Resource, c: Claim) -> None:
    """Put a claim at the end of the queue."""
    if r.waiting is None:
        r.waiting = Queue()
    r.orders += 1
    c.order = r.orders
    c.state = WAITING
    r.waiting.append(c)


def leave_waiting(r: Resource, c: Claim) -> None:
    """Take a claim out of the queue; what becomes of it is said next."""
    assert r.waiting is not None
    c.state = ASKED
    r.waiting.left()
    if not r.waiting:
        r.waiting = None


def join_converting(r: Resource, c: Claim, want: int, now: int) -> None:
    """Queue a holder for another mode; the one it has stays in force (S7)."""
    if r.converting is None:
        r.converting = OrderedDict()
    r.orders += 1
    c.order = r.orders
    c.state = CONVERTING
    c.want = want
    c.asked = now
    r.converting[c.order] = c


def leave_converting(r: Resource, c: Claim) -> None:
    """Take a holder out of the conversion queue; it keeps its old mode."""
    assert r.converting is not None
    del r.converting[c.order]
    if not r.converting:
        r.converting = None
    c.state = HELD
    c.want = c.mode
    c.asked = 0
    c.convert_deadline = FOREVER


def note(r: Resource, c: Claim, deadline: int) -> None:
    """Remember that something happens to this claim at `deadline`."""
    if deadline < r.soonest:
        r.soonest = deadline
    if r.agenda is not None and (turn := turn_of(c))[0] < FOREVER:
        heappush(r.agenda, turn)
        if len(r.agenda) > AGENDA_PER_CLAIM * (holders_count(r) + len(r.waiting or ())):
            r.agenda = None  # most entries are stale; whoever looks next makes a new one


def everybody(r: Resource) -> list[Claim]:
    """List the holders in the order of their grants, then the waiters in the order of their arrival."""
    everybody = holders(r)
    if r.waiting is not None:
        everybody.extend(r.waiting.values())
    return everybody


def turn_of(c: Claim) -> Turn:
    """Tell when something next happens to the claim by itself; at one instant a lease ends before patience does."""
    due = c.deadline if c.deadline < c.convert_deadline else c.convert_deadline
    if c.state is WAITING:
        return due, True, c.order, c
    return due, False, c.fence, c
