"""A runner without threads: a shelf's transactions run when somebody says so, one at a time.

What they do and what comes of them is the shelf's business.
"""

from collections import deque
from collections.abc import Callable

from holdfast.stores.shelf import Outcome


class HandRunner:
    """Collects what a shelf asks for, until `step`.

    With `ahead`, a transaction is over before the one before it has been told of, as may happen with real threads.
    """

    def __init__(self, *, ahead: bool = False) -> None:
        self._ahead = ahead
        self._calls: deque[Callable[[], None]] = deque()
        self._asked: deque[tuple[Callable[[], Outcome], Callable[[Outcome], None]]] = deque()

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do."""
        return not (self._calls or self._asked)

    def soon(self, act: Callable[[], None]) -> None:
        self._calls.append(act)

    def run(self, work: Callable[[], Outcome], done: Callable[[Outcome], None]) -> None:
        assert not self._asked, "a second transaction while one runs"
        if self._ahead:
            outcome = work()
            work = lambda: outcome  # noqa: E731  it has been done
        self._asked.append((work, done))

    def step(self) -> bool:
        """Let the shelf take in what has arrived, and perform its next transaction; say whether there was one."""
        self.take_in()
        if not self._asked:
            return False
        work, done = self._asked.popleft()
        done(work())
        return True

    def take_in(self) -> None:
        """Let the shelf begin with what has arrived."""
        while self._calls:
            self._calls.popleft()()

    def finish(self) -> None:
        """Perform transactions until nothing is left."""
        while self.step():
            pass

    def close(self) -> None:
        """Finish what runs, and hand over what it came to; nothing else begins."""
        if self._asked:
            work, done = self._asked.popleft()
            done(work())
        self._calls.clear()
