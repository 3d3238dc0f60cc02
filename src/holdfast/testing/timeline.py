"""Virtual time: what is going to happen, in order; time goes on only when somebody lets the next thing happen.

No real time enters here, and nothing is known of who waits: that is in `turns.py`.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from holdfast.words import FOREVER, SECOND

START_NS: Final = 1_700_000_000 * SECOND


class Event:
    """Something that will happen, unless it is called off."""

    __slots__ = ("_act", "at", "order")

    def __init__(self, at: int, order: int, act: Callable[[], None]) -> None:
        self.at = at
        self.order = order
        self._act: Callable[[], None] | None = act

    def __lt__(self, other: "Event") -> bool:
        return (self.at, self.order) < (other.at, other.order)

    @property
    def is_off(self) -> bool:
        return self._act is None

    def cancel(self) -> None:
        """Call it off; one that has happened may be called off too."""
        self._act = None

    def happen(self) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()


class Timeline:
    """Tells the time in nanoseconds, and keeps what is due later. What is due at one instant happens in its order."""

    def __init__(self, now: int = START_NS) -> None:
        self.now = now
        self.steps = 0  # how many things have happened
        # Each is called after anything has happened, and before time goes on: who watches every instant is told so.
        self.watchers: list[Callable[[], None]] = []
        self._events: list[Event] = []
        self._order = 0

    def __call__(self) -> int:
        return self.now

    def at(self, instant: int, act: Callable[[], None]) -> Event:
        """Have something happen at an instant; what is past happens now."""
        self._order += 1
        event = Event(max(instant, self.now), self._order, act)
        heappush(self._events, event)
        return event

    def after(self, span_ns: int, act: Callable[[], None]) -> Event:
        return self.at(self.now + span_ns, act)

    def soon(self, act: Callable[[], None]) -> Event:
        """Have something happen now, behind what happens already."""
        return self.at(self.now, act)

    def next_at(self) -> int:
        """Say when the next thing happens; FOREVER when nothing will."""
        while self._events and self._events[0].is_off:
            heappop(self._events)
        return self._events[0].at if self._events else FOREVER

    def step(self) -> None:
        """Let the next thing happen, at its instant."""
        assert self.next_at() < FOREVER
        event = heappop(self._events)
        self.now = max(self.now, event.at)  # something may have waited within the event before
        self.steps += 1
        event.happen()
        self.look()

    def advance_to(self, instant: int) -> None:
        """Let time pass up to an instant at which, or before which, nothing happens."""
        assert instant <= self.next_at()
        if instant > self.now:
            self.now = instant
            self.look()

    def look(self) -> None:
        """Let the watchers look at the world as it is now."""
        for watch in self.watchers:
            watch()
