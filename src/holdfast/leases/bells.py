"""Who waits for which lock, and which bells have rung: the book that is kept of them, in threads and in event loops.

A bell is a hint that a lock may have become free, and never the truth. Nobody is connected here.
"""

import threading
from collections.abc import Callable
from typing import Final

# Locks that are asked for at once; beyond that, a bell may be missed, and the poll comes in.
ASKED_MAX: Final = 10_000
# Who waits under this name hears every bell.
ANY: Final = ""


class Bells:
    """The book. `wake` is called in the thread where a bell is rung."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[str, bool] = {}  # whether it has rung since it was last asked for
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def ask(self, bell: str) -> None:
        """Note that somebody is about to try, so that what rings meanwhile is not missed."""
        with self._lock:
            if len(self._asked) < ASKED_MAX:
                self._asked[bell] = False

    def forget(self, bell: str) -> None:
        """Note that nobody is going to wait for it."""
        with self._lock:
            self._asked.pop(bell, None)

    def enter(self, bell: str, wake: Callable[[], None]) -> bool:
        """Begin to wait, unless it has rung since it was last asked for."""
        with self._lock:
            if self._asked.pop(bell, False):
                return False
            self._waiting.setdefault(bell, []).append(wake)
            return True

    def leave(self, bell: str, wake: Callable[[], None]) -> None:
        """Wait no longer."""
        with self._lock:
            waiting = self._waiting.get(bell, [])
            if wake in waiting:
                waiting.remove(wake)
            if not waiting:
                self._waiting.pop(bell, None)

    def ring(self, bell: str) -> None:
        """Wake who waits for it."""
        with self._lock:
            if bell in self._asked:
                self._asked[bell] = True
            woken = [*self._waiting.get(bell, ()), *self._waiting.get(ANY, ())]
        for wake in woken:
            wake()

    def ring_all(self) -> None:
        """Wake everybody: nobody knows what has rung while nobody listened."""
        with self._lock:
            bells = {*self._asked, *self._waiting}
        for bell in bells:
            self.ring(bell)

    @property
    def awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)
