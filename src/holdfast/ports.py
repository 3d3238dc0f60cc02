"""The narrow openings between the parts, and through which time, chance and alarms reach them.

Only types live here: what implements them (stores, the desk, system clocks, fakes under a seed) lives elsewhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from mypy_extensions import mypyc_attr

from holdfast.words import Answer, Census, Claim, Command, Effect, Look, Request, View, Wait

# Tells the time in nanoseconds; never steps back.
Clock = Callable[[], int]

# Asks to be ticked no later than at an instant of that clock.
Alarm = Callable[[int], None]


class Dice(Protocol):
    """Give random bytes that nobody can guess (or, under a seed, that everybody can replay)."""

    def roll(self, count: int) -> bytes: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Sink(ABC):
    """Where a store's answers and news go, once its state is safe. Each command but a hangup gets one answer."""

    @abstractmethod
    def answer(self, command: Request | Wait, answer: Answer, claim: Claim | None) -> None:
        """Take the answer to a command; `claim` is set where the answer is about one.

        What a group was granted stands in its request, or in the one that waited for it.
        """

    @abstractmethod
    def seen(self, look: Look, views: list[View]) -> None:
        """Take the answer to a look."""

    def foresee(self, effects: list[Effect]) -> None:  # noqa: B027  # most sinks have nothing to note
        """Hear what news will tell, before answers that go along with it: whoever is answered may ask on at once."""

    @abstractmethod
    def news(self, effects: list[Effect]) -> None:
        """Take what happened to third parties, in order."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Store(ABC):
    """What holds the truth. `submit` returns at once; answers and news reach the sink now or later, in order."""

    @property
    @abstractmethod
    def fault(self) -> str | None:
        """Say why nothing can be kept now, or None."""

    @abstractmethod
    def submit(self, command: Command, now: int) -> None:
        """Take a command."""

    @abstractmethod
    def tick(self, now: int) -> None:
        """Do all timed work that is due."""

    @abstractmethod
    def sweep(self, now: int) -> None:
        """Hygiene: forget what nobody has used for long."""

    @abstractmethod
    def next_deadline(self) -> int:
        """Say when `tick` has to come next; FOREVER when nothing is timed."""

    @abstractmethod
    def probe(self, done: Callable[[str | None], None]) -> None:
        """Try out whether something could be granted and kept; tell why not, or None."""

    @abstractmethod
    def count(self, done: Callable[[Census], None]) -> None:
        """Count who holds and who waits."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; what is durable stays."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Face(ABC):
    """What a door shows the desk of one caller."""

    @abstractmethod
    def answer(self, request: Request, answer: Answer, claim: Claim | None) -> None:
        """Take the one answer to a request; `claim` is set where the answer is about one.

        What a group was granted stands in its request, or in the one that waited for it.
        """

    def waits(self, request: Request) -> None:  # noqa: B027  most callers do not mind
        """Hear that a request has to wait for others; its answer comes later."""

    @abstractmethod
    def seen(self, views: list[View]) -> None:
        """Take the answer to a look."""

    @abstractmethod
    def news(self, effect: Effect) -> None:
        """Take news that no request asked for: nudges, and how a claim of this caller ended."""

    def about(self) -> bytes:
        """Tell what to show of this caller where its claims say nothing of themselves, spelled like theirs."""
        return b""


@mypyc_attr(allow_interpreted_subclasses=True)
class Observer(ABC):
    """Who wants to know of all that happens to keys, whoever caused it. Nobody waits for it to do anything."""

    @abstractmethod
    def answered(self, command: Request | Wait, answer: Answer, claim: Claim | None) -> None:
        """Hear what a command came to."""

    @abstractmethod
    def heard(self, effect: Effect) -> None:
        """Hear what happened to somebody's claim besides."""
