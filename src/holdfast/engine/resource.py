"""The state of one key, the one rule that admits a claim, and the two primitive moves: grant and remove.

Every other transition is built from these. No order, no time-out and no protocol is decided here.
"""

from collections import OrderedDict
from heapq import heappush
from typing import Final

from holdfast.words import (
    BIT,
    CLASH,
    CONVERTING,
    EX,
    FOREVER,
    GONE,
    HELD,
    WAITING,
    Claim,
    Mode,
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
        "held",
        "key",
        "limit",
        "listeners",
        "mask",
        "orders",
        "soonest",
        "stuck",
        "tally",
        "touched",
        "used",
        "value",
        "value_seq",
        "value_valid",
        "waiting",
        "wake",
        "wanted",
    )

    def __init__(self, key: bytes, limit: int, fence: int = 0) -> None:
        self.key = key
        self.limit = limit
        self.fence = fence  # the last one granted
        self.held: dict[bytes, Claim] = {}  # by token, in the order of their grants; converting ones included
        self.waiting: OrderedDict[int, Claim] | None = None  # by arrival; made when somebody first waits
        self.converting: OrderedDict[int, Claim] | None = None  # by arrival of the conversion
        self.mask = 0  # modes granted now
        self.used = 0  # units granted now
        self.tally = [0] * MODES  # how many hold each mode (EX is left out: it is never held twice)
        self.wanted: list[int] | None = None  # how many wait or convert to each mode
        self.listeners = 0  # how many holders want nudges
        self.orders = 0  # arrivals so far
        self.soonest = FOREVER  # no deadline in here is earlier; it may be too early, never too late
        self.wake = FOREVER  # when the table will look at this key
        self.agenda: list[Turn] | None = None  # see deadline.py; only for crowded keys
        self.stuck = False  # somebody fits and is not granted, because no fence could be had
        self.touched = 0  # last time that a command changed or tried this key
        self.value: bytes | None = None  # the value block
        self.value_seq = 0
        self.value_valid = True

    def __repr__(self) -> str:
        waiting = len(self.waiting or ())
        return f"<Resource {self.key!r} fence={self.fence} held={len(self.held)} waiting={waiting}>"


def fits(r: Resource, c: Claim) -> bool:
    """Say whether the claim can live beside all that is granted: the one rule of admission."""
    return not r.mask & CLASH[c.want] and r.used + c.units <= r.limit


def mask_beside(r: Resource, c: Claim) -> int:
    """Give the mask of what everyone but this holder has."""
    alone = c.mode == EX or r.tally[c.mode] == 1
    return r.mask & ~BIT[c.mode] if alone else r.mask


def grant(r: Resource, c: Claim, now: int, fence: int, secret: bytes) -> None:
    """Make the claim a holder. The caller has made sure that it fits and that it stands in no queue."""
    assert fence > r.fence
    mode = c.want
    token = secret[:32]
    c.state = HELD
    c.mode = mode
    c.fence = r.fence = fence
    c.secret = secret
    c.token = token
    c.deadline = deadline = now + c.lease_ns
    r.held[token] = c
    r.used += c.units
    r.mask |= BIT[mode]
    if mode != EX:
        r.tally[mode] += 1
    if c.listens:
        r.listeners += 1
    if deadline < r.soonest or r.agenda is not None:
        note(r, c, deadline)


def remove(r: Resource, c: Claim, reason: Reason) -> None:
    """Take the claim out of wherever it stands. It is gone for good; who may come next is not asked here."""
    state = c.state
    if state is HELD:
        _drop(r, c)
    elif state is WAITING:
        leave_waiting(r, c)
    else:
        assert state is CONVERTING
        leave_converting(r, c)
        _drop(r, c)
    c.state = GONE
    c.reason = reason
    if c.book is not None:
        del c.book[c.ticket]
        c.book = None


def _drop(r: Resource, c: Claim) -> None:
    del r.held[c.token]
    r.used -= c.units
    mode = c.mode
    if mode == EX:
        r.mask &= ~BIT[mode]
    else:
        r.tally[mode] -= 1
        if not r.tally[mode]:
            r.mask &= ~BIT[mode]
    if c.listens:
        r.listeners -= 1


def change_mode(r: Resource, c: Claim, want: int) -> None:
    """Move a holder from one granted mode to another."""
    _drop(r, c)
    r.held[c.token] = c
    r.used += c.units
    c.mode = want
    c.want = want
    r.mask |= BIT[want]
    if want != EX:
        r.tally[want] += 1
    if c.listens:
        c.nudged = 0
        r.listeners += 1


def restart_lease(r: Resource, c: Claim, now: int) -> None:
    """Start the lease again after a conversion; a renewal may have promised more than that, and keeps its word."""
    c.deadline = max(c.deadline, now + c.lease_ns)
    note(r, c, c.deadline)


def join_waiting(r: Resource, c: Claim) -> None:
    """Put a claim at the end of the queue."""
    if r.waiting is None:
        r.waiting = OrderedDict()
    r.orders += 1
    c.order = r.orders
    c.state = WAITING
    r.waiting[c.order] = c
    _want(r, c.want, 1)


def leave_waiting(r: Resource, c: Claim) -> None:
    assert r.waiting is not None
    del r.waiting[c.order]
    _want(r, c.want, -1)
    if not r.waiting:
        r.waiting = None


def join_converting(r: Resource, c: Claim, want: int) -> None:
    """Queue a holder for another mode; the one it has stays in force (S7)."""
    if r.converting is None:
        r.converting = OrderedDict()
    r.orders += 1
    c.order = r.orders
    c.state = CONVERTING
    c.want = want
    r.converting[c.order] = c
    _want(r, want, 1)


def leave_converting(r: Resource, c: Claim) -> None:
    """Take a holder out of the conversion queue; it keeps its old mode."""
    assert r.converting is not None
    del r.converting[c.order]
    _want(r, c.want, -1)
    if not r.converting:
        r.converting = None
    c.state = HELD
    c.want = c.mode
    c.convert_deadline = FOREVER


def _want(r: Resource, mode: int, count: int) -> None:
    if r.wanted is None:
        r.wanted = [0] * MODES
    r.wanted[mode] += count


def note(r: Resource, c: Claim, deadline: int) -> None:
    """Remember that something happens to this claim at `deadline`."""
    if deadline < r.soonest:
        r.soonest = deadline
    if r.agenda is not None and (turn := turn_of(c))[0] < FOREVER:
        heappush(r.agenda, turn)
        if len(r.agenda) > AGENDA_PER_CLAIM * (len(r.held) + len(r.waiting or ())):
            r.agenda = None  # most entries are stale; whoever looks next makes a new one


def everybody(r: Resource) -> list[Claim]:
    """List the holders in the order of their grants, then the waiters in the order of their arrival."""
    everybody = list(r.held.values())
    if r.waiting is not None:
        everybody.extend(r.waiting.values())
    return everybody


def turn_of(c: Claim) -> Turn:
    """Tell when something next happens to the claim by itself; at one instant a lease ends before patience does."""
    due = c.deadline if c.deadline < c.convert_deadline else c.convert_deadline
    if c.state is WAITING:
        return due, True, c.order, c
    return due, False, c.fence, c
