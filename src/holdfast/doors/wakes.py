"""Who wants to be looked at when: a heap of instants, in which each sleeper counts once.

No clock and no timer lives here; whoever has them asks `next_deadline` and calls `tick`.
"""

from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from holdfast.ports import Alarm
from holdfast.words import FOREVER

# How many entries of sleepers that need no waking any more may lie about.
SPARE: Final = 1000


class Sleeper(Protocol):
    """Whoever wants to be woken. `wake`: when that is to be; FOREVER for those who are gone."""

    wake: int

    def tick(self, now: int) -> None:
        """Do what is due, or ask to be woken later."""


class Wakes:
    """The instants at which somebody wants to be looked at."""

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._heap: list[tuple[int, int, Sleeper]] = []
        self._so_far = 0
        self._live_max = SPARE

    def next_deadline(self) -> int:
        return self._heap[0][0] if self._heap else FOREVER

    def tick(self, now: int) -> None:
        """Wake those whose time has come."""
        while self._heap and self._heap[0][0] <= now:
            when, _, sleeper = heappop(self._heap)
            if sleeper.wake == when:
                sleeper.wake = FOREVER
                sleeper.tick(now)

    def watch(self, sleeper: Sleeper, deadline: int) -> None:
        """Wake a sleeper no later than `deadline`."""
        if deadline >= sleeper.wake:
            return
        sleeper.wake = deadline
        self._so_far += 1
        heappush(self._heap, (deadline, self._so_far, sleeper))
        if len(self._heap) > self._live_max:
            self._heap = [entry for entry in self._heap if entry[2].wake == entry[0]]
            heapify(self._heap)
            self._live_max = 2 * len(self._heap) + SPARE
        self._alarm(deadline)
