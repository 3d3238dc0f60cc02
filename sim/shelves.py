"""The shelf of a world: its transactions run when the world says so, and all that it does is written into the history.

What becomes of a command is the shelf's own business; what breaks below it is that of `files.py`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.engine.table import Table
from holdfast.stores.shelf import Outcome, Shelf, Sweep, Tick, Work
from holdfast.words import Cancel, Claim, Command, Convert, End, Hangup, Look, Renew, Wait
from sim.history import Applied, Freed, Handed, History, Occupied, Performing, Told

KINDS: dict[type, str] = {Hangup: "hangup", Cancel: "cancel", Tick: "tick", Sweep: "sweep"}


class PaperRunner:
    """Does what a thread would do, a piece at a time: gather, perform, tell."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._soon: list[Callable[[], None]] = []
        self._job: tuple[Callable[[], Outcome], Callable[[Outcome], None]] | None = None
        self._over: Callable[[], None] | None = None
        self._occupied = False

    @property
    def has_work(self) -> bool:
        return bool(self._soon or self._job or self._over)

    def soon(self, act: Callable[[], None]) -> None:
        self._occupy()
        self._soon.append(act)

    def run(self, work: Callable[[], Outcome], done: Callable[[Outcome], None]) -> None:
        assert self._job is None
        self._occupy()
        self._job = work, done

    def advance(self) -> None:
        """Do the next piece."""
        if self._over is not None:
            self._tell()
        elif self._job is not None:
            self._perform()
        else:
            soon, self._soon = self._soon, []
            for act in soon:
                act()
        if self._occupied and not self.has_work:
            self._occupied = False
            self._history.add(Freed)

    def close(self) -> None:
        """Finish what runs."""
        if self._job is not None:
            self._perform()
        if self._over is not None:
            self._tell()

    def _perform(self) -> None:
        assert self._job is not None
        (work, done), self._job = self._job, None
        self._over = partial(done, work())

    def _tell(self) -> None:
        assert self._over is not None
        tell, self._over = self._over, None
        self._history.add(Told)
        tell()

    def _occupy(self) -> None:
        if not self._occupied:
            self._occupied = True
            self._history.add(Occupied)


class WitnessShelf(Shelf):
    """A shelf that writes down what it is handed and what it turns to."""

    def __init__(self, history: History, *arguments: Any, **limits: Any) -> None:
        super().__init__(*arguments, **limits)
        self.peer_of: Callable[[int], int]  # by the number of a session
        self._history = history

    @property
    def table(self) -> Table:
        """What the shelf has on its table; for assertions only."""
        return self._table

    def submit(self, command: Command, now: int) -> None:
        self._history.add(Handed, *self._name(command))
        super().submit(command, now)

    def _perform(self, batch: list[Work]) -> Outcome:
        self._history.add(Performing, tuple(map(self._name, batch)))
        return super()._perform(batch)

    def _apply_all(self, batch: list[Work], now: int, outcome: Outcome) -> None:
        for work in batch:
            self._history.add(Applied, *self._name(work))
            super()._apply_all([work], now, outcome)

    def _name(self, work: Work) -> tuple[int, str]:
        """Say whose work it is, and of which kind."""
        if isinstance(work, (Claim, Wait, Renew, Convert, End, Look, Cancel, Hangup)):
            return self.peer_of(work.session), KINDS.get(type(work), "request")
        return 0, KINDS.get(type(work), "other")
