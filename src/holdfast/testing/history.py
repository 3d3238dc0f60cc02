"""What happened to claims, written down: records for a history of your own, which `checkers.py` can judge.

Nothing here records by itself, and nothing is judged. Instants are numbers of one clock, in any unit, that never
step back; a record's place in the history counts where instants are equal.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Record:
    """Something that happened to a claim. A claim has a name of its own: asking a second time is another claim."""

    at: float
    claim: Hashable


@dataclass(frozen=True, slots=True)
class Asked(Record):
    """Somebody wants a key. Write it down before the call."""

    key: str
    mode: str = "EX"
    units: int = 1
    limit: int | None = None  # of a semaphore; a semaphore and a lock of one name are two keys


@dataclass(frozen=True, slots=True)
class Granted(Record):
    """It has it. Write it down after the call has returned."""

    fence: int


@dataclass(frozen=True, slots=True)
class Converted(Record):
    """It holds the key in another mode from here on."""

    mode: str


@dataclass(frozen=True, slots=True)
class Held(Record):
    """`held` was true when it was looked at."""


@dataclass(frozen=True, slots=True)
class Danger(Record):
    """Its holder was told that it is about to lose it."""


@dataclass(frozen=True, slots=True)
class Lost(Record):
    """Its holder was told that it has lost it: from here on it relies on it no more."""


@dataclass(frozen=True, slots=True)
class Grantable(Record):
    """The server could grant the key to another from here on, as far as this claim goes."""


@dataclass(frozen=True, slots=True)
class Released(Record):
    """Its holder gives it back. Write it down before the call."""


@dataclass(frozen=True, slots=True)
class GaveUp(Record):
    """Whoever asked will not get it: timed out, refused, cancelled, or its process is dead."""


History = Sequence[Record]
