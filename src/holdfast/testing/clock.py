"""A clock that stands still until somebody moves it.

For tests and simulations: no real time enters here.
"""

from holdfast.words import SECOND


class HandClock:
    """Tells the time that it was set to, in nanoseconds; it goes forward only."""

    def __init__(self, now: int = 1_700_000_000 * SECOND) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.advance_to(self.now + round(seconds * SECOND))

    def advance_to(self, instant: int) -> None:
        """Let time pass up to an instant."""
        assert instant >= self.now
        self.now = instant
