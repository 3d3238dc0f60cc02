"""What a shelf stands on: something that keeps records in transactions, such as a database.

A record is what is kept of one key. No rule about locks lives here, and no database is known.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Record:
    """One key as it is kept. Beside the document there is what a person or another program may want to read."""

    key: bytes
    fence: int  # the last one granted; it is kept for ever
    version: int
    document: bytes | None = None  # None: nobody holds the key or waits for it
    owner: bytes | None = None  # None: nobody holds it
    lease_id: bytes | None = None
    held_fence: int = 0
    deadline: int = 0


@dataclass(slots=True)
class Keeping:
    """What one transaction is to keep."""

    records: Sequence[Record]
    granted: Sequence[Record]  # those of them whose fence has risen
    forgotten: Collection[bytes]  # keys that have been idle for long; of them only the fence is kept
    now: int


class Backend(ABC):
    """One transaction at a time, from one thread at a time. Everything may raise StoreFailed."""

    @abstractmethod
    def open(self) -> int:
        """Make ready; give the highest time that was ever kept."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction that nobody else can write in; raise StoreBusy when somebody else does for too long."""

    def hurry(self, hurried: bool) -> None:
        """Say whether the transactions that follow are to begin at once or not at all. Not every backend waits."""
        return

    @abstractmethod
    def has_changed(self) -> bool:
        """Say, within a transaction, whether somebody else has written since our last one."""

    @abstractmethod
    def load(self, keys: Sequence[bytes]) -> Iterable[Record]:
        """Give what is kept of these keys; keys that were never granted have no record."""

    @abstractmethod
    def load_busy(self) -> Iterable[Record]:
        """Give the records of all keys that somebody holds or waits for."""

    @abstractmethod
    def keep(self, keeping: Keeping) -> None:
        """Write; it is safe after `commit`."""

    @abstractmethod
    def commit(self) -> None:
        """Make the transaction last; when this returns, no power cut undoes it."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo the transaction, as far as there is one."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the files or connections."""
