"""The thread in which a shelf's transactions run, one after the other, beside the event loop of the callers.

What they do is handed in; nothing of locks or databases is known here.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from holdfast.stores.shelf import Outcome

Work = Callable[[], Outcome]
Done = Callable[[Outcome], None]


class Writer:
    """One thread. It ends when it is closed, and not before it has finished."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop
        self._asked: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        self._finished: deque[tuple[Done, Outcome]] = deque()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="holdfast-writer", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to work for the callers in this loop."""
        self._loop = loop
        self._thread.start()

    def soon(self, act: Callable[[], None]) -> None:
        self._loop.call_soon(act)

    def run(self, work: Work, done: Done) -> None:
        self._asked.put((work, done))

    def close(self) -> None:
        """Finish what runs, end the thread, and hand over what is left."""
        if self._thread.is_alive():
            self._asked.put(None)
            self._thread.join()
        self._hand_over()

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            work, done = asked
            try:
                self._finished.append((done, work()))
            except BaseException as error:  # noqa: BLE001  handed to the loop, which stops the server
                self._failed = error
            self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        while self._finished:
            done, outcome = self._finished.popleft()
            done(outcome)
        if self._failed is not None:
            failed, self._failed = self._failed, None
            # Whatever this was, the table may be half changed: the state cannot be trusted any more.
            raise AssertionError("a transaction failed in a way that nobody expected") from failed
