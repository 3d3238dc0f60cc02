"""Stores that refuse or take their time, for tests of what doors say then: the store of a desk, behind a counter.

Only what is done with a command is decided here.
"""

from collections.abc import Callable

from holdfast.desk import Desk
from holdfast.testing.late_store import LateStore
from holdfast.words import Answer, Cancel, Claim, Command, End, Look, Renew


class CounterStore(LateStore):
    """Stands between a desk and its store, and does with each command what it is told to."""

    def __init__(self, desk: Desk, act: Callable[[Command, int], None]) -> None:
        super().__init__(desk.store)
        self.act = act
        desk.store = self

    def submit(self, command: Command, now: int) -> None:
        self.act(command, now)


class RefusingStore(CounterStore):
    """Refuses some commands, each with the same answer."""

    def __init__(self, desk: Desk, answer: Answer, which: Callable[[Command], bool]) -> None:
        super().__init__(desk, self._act)
        self.desk, self.answer, self.which = desk, answer, which

    def _act(self, command: Command, now: int) -> None:
        if not self.which(command):
            self.store.submit(command, now)
            return
        assert isinstance(command, (Claim, Renew, End, Look, Cancel))
        self.desk.answer(command, self.answer, None)
