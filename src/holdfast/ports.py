"""The narrow openings between the parts, and through which time, chance and alarms reach them.

Only types live here: what implements them (stores, the desk, system clocks, fakes under a seed) lives elsewhere.
"""

from collections.abc import Callable
from typing import Protocol

from holdfast.words import Answer, Claim, Command, Effect, Look, Request, View, Wait


# Tells the time in nanoseconds; never steps back.
Clock = Callable[[], int]


class Dice(Protocol):
    """Give random bytes that nobody can guess (or, under a seed, that everybody can replay)."""

    def roll(self, count: int) -> bytes: ...


# Asks to be ticked no later than at an instant of that clock.
Alarm = Callable[[int], None]


class Store(Protocol):
    """What holds the truth. `submit` returns at once; answers and news reach the sink now or later, in order."""

    def submit(self, command: Command, now: int) -> None: ...

    def tick(self, now: int) -> None:
        """Do all timed work that is due."""

    def sweep(self, now: int) -> None:
        """Hygiene: forget what nobody has used for long."""

    def next_deadline(self) -> int: ...

    def close(self) -> None: ...


class Sink(Protocol):
    """Where a store's answers and news go, once its state is safe. Each command but a hangup gets one answer."""

    def answer(self, command: Request | Wait, answer: Answer, claim: Claim | None) -> None: ...

    def seen(self, look: Look, views: list[View]) -> None: ...

    def news(self, effects: list[Effect]) -> None: ...
