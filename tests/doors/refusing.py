"""A store that refuses, for tests of what doors say then: the store of a desk, behind a counter that says no.

Only what is to be refused, and how, is decided here.
"""

from collections.abc import Callable

from holdfast.desk import Desk
from holdfast.stores.memory import MemoryStore
from holdfast.testing.late_store import LateStore
from holdfast.words import Answer, Claim, Command, End, Look, Renew


class RefusingStore(LateStore):
    """Stands between a desk and its store."""

    def __init__(self, desk: Desk, store: MemoryStore, answer: Answer, which: Callable[[Command], bool]) -> None:
        super().__init__(store)
        self.desk, self.answer, self.which = desk, answer, which
        desk.store = self

    def submit(self, command: Command, now: int) -> None:
        if not self.which(command):
            self.store.submit(command, now)
            return
        assert isinstance(command, (Claim, Renew, End, Look))
        self.desk.answer(command, self.answer, None)
