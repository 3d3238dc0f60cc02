"""The keeper: all stewards of a process under one roof, woken by the earliest of their deadlines.

It knows no thread, no socket and no clock of its own: `tick(now)` does what is due and answers when to come back.
"""

import logging
from collections.abc import Callable
from typing import Final

from holdfast.client.lease import Notice
from holdfast.client.link import FOREVER
from holdfast.client.ports import Clock, Opener
from holdfast.client.steward import Steward

logger: Final = logging.getLogger("holdfast.client")


class Keeper:
    """Takes care of everything that is held in a process, whichever face holds it."""

    def __init__(self, clock: Clock, chance: Callable[[], float], opener: Opener) -> None:
        self.clock = clock
        self.chance = chance
        self.opener = opener
        self.due = FOREVER  # no later than this, `tick` has to come
        self.stewards: list[Steward] = []
        self._notices: list[Callable[[], None]] = []

    def add(self, steward: Steward) -> None:
        """Begin to look after what a client has at a server."""
        self.stewards.append(steward)

    def remove(self, steward: Steward) -> None:
        """A client is closed: let go of its connections, as soon as all is ended that was to be."""
        steward.closed = True
        steward.wake(self.clock())

    def recall(self, steward: Steward) -> None:
        """Something is left to be ended for a client that is closed."""
        if steward not in self.stewards:
            self.stewards.append(steward)

    def tick(self, now: int) -> int:
        """Do what is due; answer when to come back."""
        self.due = FOREVER
        for steward in list(self.stewards):
            due = steward.tick(now)
            if steward.closed and not steward.errands:
                self.stewards.remove(steward)
                steward.hang_up()
            elif due < self.due:
                self.due = due
        return self.due

    def fail(self) -> None:
        """Whoever drives it can do so no longer: nothing of what is held will be renewed, so it counts as lost now."""
        for steward in self.stewards:
            steward.fail("the keeper of this process failed; please report it")

    def tell(self, tell: Callable[[Notice], None], notice: Notice) -> None:
        """Note what a holder is to be told, once the keeper is not in the middle of something."""
        self._notices.append(lambda: tell(notice))

    def log(self, sentence: str) -> None:
        """Note what may explain a loss later."""
        self._notices.append(lambda: logger.warning(sentence))

    def take_notices(self) -> list[Callable[[], None]]:
        """Take what is to be done outside; whoever lends the keeper asks for it afterwards."""
        if not self._notices:
            return []
        notices, self._notices = self._notices, []
        return notices
