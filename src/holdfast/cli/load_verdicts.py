"""What the callers of a load saw, and whether the lock service kept its promises to them.

Pure: times come in as numbers of one clock, and every verdict is drawn from what callers know by themselves.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

EVIDENCE_MAX = 5


@dataclass(slots=True, kw_only=True)
class Hold:
    """One lease, as its holder saw it: times are those of the holder."""

    lock: str
    token: int
    asked: int  # before the request left
    seen: int  # when the grant had been read
    until: int  # how long the holder relied on it, if it was right to do so
    written: bool  # the resource took the holder's write
    released: bool  # the service took the release, so that nobody had the lock in between


@dataclass(slots=True)
class Resource:
    """What the locks protect: it takes a write only if no higher token has written before."""

    last: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    accepted_count: int = 0
    rejected_count: int = 0

    def write(self, lock: str, token: int) -> bool:
        """Try to write."""
        if token < self.last.get(lock, token):
            self.rejected_count += 1
            return False
        self.last[lock] = token
        self.accepted[lock].append(token)
        self.accepted_count += 1
        return True


@dataclass(frozen=True, slots=True)
class Verdict:
    """One promise, and what speaks against its having been kept."""

    promise: str
    evidence: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        return not self.evidence


def believed_until(*, asked: int, ttl_ns: int, left: int, released: bool) -> int:
    """Tell how long a holder could rely on its lease, which it gave up when its release `left`.

    A release that was taken proves the lease up to then. Otherwise only the time since the request is certain: the
    service began to count later than that.
    """
    return left if released else min(left, asked + ttl_ns)


def judge(holds: Iterable[Hold], resource: Resource) -> list[Verdict]:
    """Draw all verdicts."""
    by_lock: dict[str, list[Hold]] = defaultdict(list)
    for hold in holds:
        by_lock[hold.lock].append(hold)
    drawn = {
        "something was granted": [] if by_lock else ["no acquire succeeded, so nothing was put to the test"],
        "tokens of accepted writes never fall": _falling(resource),
        "no two holders at once": [text for taken in by_lock.values() for text in _overlaps(taken)],
        "tokens rise in the order of grants": [text for taken in by_lock.values() for text in _disorder(taken)],
        "no write of a holder is rejected": [text for taken in by_lock.values() for text in _shut_out(taken)],
        "last_token is one that was granted": _last_tokens(by_lock, resource),
    }
    return [Verdict(promise, tuple(evidence[:EVIDENCE_MAX])) for promise, evidence in drawn.items()]


def _falling(resource: Resource) -> list[str]:
    return [
        f"{lock}: a write with {later} was taken after one with {earlier}"
        for lock, tokens in resource.accepted.items()
        for earlier, later in pairwise(tokens)
        if later < earlier
    ]


def _overlaps(holds: Sequence[Hold]) -> list[str]:
    """Find holders who could both rely on the lock at the same moment."""
    found = []
    last: Hold | None = None
    for hold in sorted((hold for hold in holds if hold.seen < hold.until), key=lambda hold: hold.seen):
        if last is not None and hold.seen < last.until:
            found.append(f"{hold.lock}: {hold.token} was granted while {last.token} was held")
        if last is None or hold.until > last.until:
            last = hold
    return found


def _disorder(holds: Sequence[Hold]) -> list[str]:
    """Find tokens that were given twice, or that are not above those that had been seen before they were asked for."""
    found = []
    tokens = sorted(hold.token for hold in holds)
    found += [f"{holds[0].lock}: {one} was granted twice" for one, other in pairwise(tokens) if one == other]
    seen = sorted(holds, key=lambda hold: hold.seen)
    highest, passed = 0, 0
    for hold in sorted(holds, key=lambda hold: hold.asked):
        while passed < len(seen) and seen[passed].seen <= hold.asked:
            highest = max(highest, seen[passed].token)
            passed += 1
        if hold.token < highest:
            found.append(f"{hold.lock}: {hold.token} was granted after {highest}")
    return found


def _shut_out(holds: Sequence[Hold]) -> list[str]:
    """Find holders who held the lock all along, and whose write was refused as coming from a former one."""
    return [
        f"{hold.lock}: the write of {hold.token} was rejected, and its release was taken"
        for hold in holds
        if hold.released and not hold.written
    ]


def _last_tokens(by_lock: dict[str, list[Hold]], resource: Resource) -> list[str]:
    found = []
    for lock, last in resource.last.items():
        granted = [hold.token for hold in by_lock.get(lock, ())]
        if last not in granted:
            found.append(f"{lock}: the last write was made with {last}, which nobody was granted")
        elif last != max(hold.token for hold in by_lock[lock] if hold.written):
            found.append(f"{lock}: the last write was made with {last}, although a higher one had been taken")
        # Tokens may be skipped, by other callers or by a grant whose answer was lost, but they cannot be stretched.
        elif max(granted) - min(granted) + 1 < len(granted):
            found.append(f"{lock}: {len(granted)} grants from {min(granted)} to {max(granted)}")
    return found
