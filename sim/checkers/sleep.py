"""What a server that was asleep is excused from: nothing that fell into its sleep could be done before it woke up.

Time only; what has to be done is the business of the other checkers.
"""

from sim.history import Event, Slept


class Sleep:
    """All the times when the server could do nothing."""

    def __init__(self, events: list[Event]) -> None:
        self._naps = sorted((event.at, event.until) for event in events if isinstance(event, Slept))

    def wake_after(self, when: int) -> int:
        """Say when something that was due at `when` could be done at last."""
        for start, end in self._naps:
            if start <= when <= end:
                when = end
        return when
