"""What the callers of one key saw, and the rules it must obey: exclusion, rising fences, arrival order.

Pure: the callers tell what they saw, with their own clock; nothing here speaks to a server.
"""

from bisect import bisect_left
from dataclasses import dataclass, field


@dataclass(slots=True)
class Hold:
    """A grant that a caller may rely on until it gives it up, or until the lease as it counts it is over."""

    fence: int
    until_s: float


@dataclass(slots=True)
class History:
    """The grants of one key, in the order in which the callers saw them."""

    key: str
    violations: list[str] = field(default_factory=list)
    hold: Hold | None = None
    fence_last: int = 0
    grants: int = 0
    places: int = 0
    turns: list[tuple[int, int]] = field(default_factory=list)
    seen_s: list[float] = field(default_factory=list)
    highest: list[int] = field(default_factory=list)

    def joined(self) -> int:
        """Give the next place in the queue; the caller must be the only one that joins just now."""
        self.places += 1
        return self.places

    def granted(self, fence: int, *, now_s: float, until_s: float) -> None:
        """Take note of a grant; it must be newer than all others, and nobody may rely on an older one."""
        self.grants += 1
        if self.hold is not None and now_s < self.hold.until_s:
            self.violations.append(f"{self.key}: fence {fence} was granted while {self.hold.fence} is held")
        if fence <= self.fence_last:
            self.violations.append(f"{self.key}: fence {fence} was granted after {self.fence_last}")
        self.fence_last = max(self.fence_last, fence)
        self.hold = Hold(fence, until_s)

    def renewed(self, fence: int, *, until_s: float) -> None:
        """Take note that a caller may rely on its grant until another time."""
        if self.hold is not None and self.hold.fence == fence:
            self.hold.until_s = until_s

    def given_up(self, fence: int) -> None:
        """Take note that a caller relies on its grant no longer; to be told before the server is."""
        if self.hold is not None and self.hold.fence == fence:
            self.hold = None

    def served(self, place: int, fence: int, *, now_s: float) -> None:
        """Take note which grant the waiter in a place got."""
        self.turns.append((place, fence))
        self.seen_s.append(now_s)
        self.highest.append(max(place, self.highest[-1] if self.highest else 0))

    def left(self, place: int, *, until_s: float) -> None:
        """Take note that a waiter went without a grant, and until when it had certainly been waiting."""
        seen = bisect_left(self.seen_s, until_s)
        if seen and self.highest[seen - 1] > place:
            self.violations.append(f"{self.key}: place {place} still waited when a later place was served")

    def finished(self) -> list[str]:
        """Answer all violations, those of the queue's order included.

        Callers may read their answers in another order than the server wrote them, so the order of service
        is taken from the fences: whoever came earlier must have the lower one.
        """
        overtaken = []
        fence_highest = 0
        for place, fence in sorted(self.turns):
            if fence <= fence_highest:
                overtaken.append(f"{self.key}: place {place} got fence {fence}, after a later place")
            fence_highest = max(fence_highest, fence)
        return self.violations + overtaken
