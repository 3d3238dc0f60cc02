"""The waiters of one key in order of arrival: small while they are few, and quick while they are many.

Who may be granted is decided elsewhere; here claims only come last, leave anywhere, and one of them is first.
"""

from typing import Final, final

from holdfast.words import WAITING, Claim

# Places that somebody has left are kept until there are this many of them for each one who still waits, and some.
LEFT_PER_WAITER: Final = 2
LEFT_LEAST: Final = 8


@final
class Queue:
    """A list in which those who left are passed over. A claim waits once in its life, so its state tells."""

    __slots__ = ("_at", "_claims", "_count")

    def __init__(self) -> None:
        self._claims: list[Claim] = []
        self._at = 0  # nobody before this place waits any more
        self._count = 0  # how many still wait

    def __len__(self) -> int:
        return self._count

    def append(self, c: Claim) -> None:
        self._claims.append(c)
        self._count += 1

    def left(self) -> None:
        """Note that somebody who stood in here does not wait any more."""
        self._count -= 1
        if len(self._claims) - self._count > LEFT_PER_WAITER * self._count + LEFT_LEAST:
            self._claims = self.values()
            self._at = 0

    def first(self) -> Claim:
        """Return who has waited longest; somebody has to be here."""
        while self._claims[self._at].state is not WAITING:
            self._at += 1
        return self._claims[self._at]

    def values(self) -> list[Claim]:
        """List who waits, the oldest first."""
        return [c for c in self._claims[self._at :] if c.state is WAITING]
