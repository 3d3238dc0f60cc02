"""What every database does in words of its own: the operations on the table, each as steps for a driver.

The rules of a lease are stated here once; the SQL stands in `mariadb.py`, `postgres.py` and `sqlite.py`. A row stays
when its lock is given back, so that its fence goes on rising.
"""

import builtins
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from holdfast.leases.errors import BadKey, BadTable
from holdfast.leases.steps import Result, Statement, Steps
from holdfast.leases.words import HOLDER_BYTES_MAX, Ask, Got, Hold, Row, Taken

TABLE: Final = "cluster_locks"
VERSION: Final = 5  # 4 is the last one of Shaken Fist
_spell: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str).encode
# Rows that one statement is about.
BATCH_MAX: Final = 1000


class Dialect(ABC):
    """The operations of a database."""

    name: str

    def acquire(self, ask: Ask) -> Steps[Got | Taken]:
        """Take a lock that is free or has lapsed; tell who has it otherwise."""
        if ask.again:
            seen = yield from self._look(ask)
            if seen is not None:
                return seen
        return (yield from self.take(ask))

    def _look(self, ask: Ask) -> Steps[Got | Taken | None]:
        """Read without locking: those who poll must not stand in the way of the one who gives it back."""
        result = yield self.looking(ask.key)
        if not result.rows:
            return None
        lock_id, fence, holder, left_us = result.rows[0]
        if left_us is None or int(left_us) <= 0:
            return None
        return answer_of(ask, lock_id, fence, holder, left_us)

    def refresh(self, holds: Sequence[Hold], lease_us: int) -> Steps[list[bool]]:
        """Begin leases again, now; one that has lapsed is not revived."""
        renewed: list[bool] = []
        for batch in batches(holds):
            result = yield self.refreshing(batch, lease_us)
            renewed += yield from self._which(batch, result, live=True)
        return renewed

    def release(self, holds: Sequence[Hold]) -> Steps[list[bool]]:
        """Give back what is ours still, lapsed or not."""
        released: list[bool] = []
        for batch in batches(holds):
            result = yield self.releasing(batch)
            released += yield from self._which(batch, result, live=False)
        return released

    def _which(self, batch: Sequence[Hold], result: Result, *, live: bool) -> Steps[list[bool]]:
        """Say which rows a statement was true of: all, as nearly always, or those that a second look finds."""
        if result.count == len(batch):
            return [True] * len(batch)
        found = yield self.finding(batch, live=live)
        ours = {text(row[0]) for row in found.rows}
        return [hold.lock_id in ours for hold in batch]

    def clear(self, holds: Sequence[Hold]) -> Steps[int]:
        """End what dead processes have left, unless it has changed hands."""
        cleared = 0
        for batch in batches(holds):
            result = yield self.clearing(batch)
            cleared += result.count
        return cleared

    def list(self) -> Steps[list[Row]]:
        """Show what is held, and what has lapsed."""
        result = yield self.listing()
        return [row_of(*row) for row in result.rows]

    def look(self, key: bytes) -> Steps[Row | None]:
        """Show one lock; None if it is free."""
        result = yield self.showing(key)
        return row_of(*result.rows[0]) if result.rows else None

    def now(self) -> Steps[int]:
        """Tell the time, in microseconds."""
        result = yield self.telling()
        return int(result.rows[0][0])

    # --- what each database spells in its own way ---

    @abstractmethod
    def take(self, ask: Ask) -> Steps[Got | Taken]:
        """Take it, or say who has it, without a look before."""

    @abstractmethod
    def looking(self, key: bytes) -> Statement:
        """Select lock id, fence, holder, and what is left of the lease in microseconds; without a lock on the row."""

    @abstractmethod
    def refreshing(self, batch: Sequence[Hold], lease_us: int) -> Statement:
        """Begin the leases of live rows again; the count is of rows that matched."""

    @abstractmethod
    def releasing(self, batch: Sequence[Hold]) -> Statement:
        """Free rows; the count is of rows that matched, also those that were free."""

    @abstractmethod
    def clearing(self, batch: Sequence[Hold]) -> Statement:
        """Free rows that are not free yet, and forget whose they were; the count is of those."""

    @abstractmethod
    def finding(self, batch: Sequence[Hold], *, live: bool) -> Statement:
        """Select the lock ids of rows that are still ours; with `live`, of those that have not lapsed."""

    @abstractmethod
    def listing(self) -> Statement:
        """Select key, holder, node, pid, process, lock id, fence, age and what is left; sorted by key."""

    @abstractmethod
    def showing(self, key: bytes) -> Statement:
        """Select the same of one key."""

    @abstractmethod
    def telling(self) -> Statement:
        """Select the time in microseconds since 1970."""

    @abstractmethod
    def prepare(self) -> Steps[builtins.list[str]]:
        """Make the table, or bring it up to date; say what was done. What is held stays held."""

    @abstractmethod
    def verify(self) -> Steps[None]:
        """Raise BadTable unless the table is there, in this version, and rows are counted as they have to be."""


def batches(holds: Sequence[Hold]) -> Sequence[Sequence[Hold]]:
    """Cut a list so that no statement grows without bound."""
    return [holds[at : at + BATCH_MAX] for at in range(0, len(holds), BATCH_MAX)]


def keys_and_ids(batch: Sequence[Hold]) -> list[Any]:
    """Give the values of two lists of equal length: a lock id is only ever used for one key."""
    return [*(hold.key for hold in batch), *(hold.lock_id for hold in batch)]


def spelled(holder: Mapping[str, Any]) -> str:
    """Write down what others may read of a holder."""
    shown = _spell(holder)
    if len(shown.encode()) > HOLDER_BYTES_MAX:
        raise BadKey(f"what is told of a holder has at most {HOLDER_BYTES_MAX} bytes as JSON")
    return shown


def read_holder(stored: Any) -> Mapping[str, Any]:
    """Read what is told of a holder; anything may stand there, since others write to the table too."""
    if isinstance(stored, Mapping):
        return stored
    try:
        holder = json.loads(stored)
    except (TypeError, ValueError):
        return {}
    return holder if isinstance(holder, dict) else {}


def text(stored: str | bytes) -> str:
    return stored.decode() if isinstance(stored, bytes) else stored


def answer_of(ask: Ask, lock_id: str | bytes, fence: Any, holder: Any, left_us: Any) -> Got | Taken:
    """Make an answer of a row that is held: by us, if an earlier answer was lost on its way, or by another."""
    if text(lock_id) == ask.lock_id:
        return Got(int(fence))
    return Taken(read_holder(holder), int(left_us))


def row_of(
    key: bytes, holder: Any, node: str, pid: int, process: str, lock_id: str, fence: Any, age_us: Any, left_us: Any
) -> Row:
    """Make a row of what was selected."""
    return Row(
        key=bytes(key),
        holder=read_holder(holder),
        node=text(node),
        pid=int(pid),
        process=text(process),
        lock_id=text(lock_id),
        fence=int(fence),
        age_us=int(age_us),
        left_us=int(left_us),
    )


def unprepared() -> BadTable:
    """Say that the tables are not there."""
    return BadTable(f"the table {TABLE} has not been prepared here: run `holdfast leases init`")


def need_version(found: Result) -> None:
    """Refuse a table of another version."""
    if not found.rows:
        raise unprepared()
    version = int(found.rows[0][0])
    refuse_later(found)
    if version < VERSION:
        raise BadTable(
            f"the table {TABLE} is of version {version}, and this release works with {VERSION}: "
            "run `holdfast leases init`"
        )


def refuse_later(found: Result) -> None:
    """Leave a table alone that a later release has made."""
    version = int(found.rows[0][0]) if found.rows else VERSION
    if version > VERSION:
        raise BadTable(
            f"the table {TABLE} is of version {version}, and this release works with {VERSION}: install a later release"
        )


def refuse_strange(columns: Iterable[str], needed: Iterable[str]) -> None:
    """Leave a table alone that only has our name."""
    absent = set(needed) - set(columns)
    if absent:
        raise BadTable(f"{TABLE} is there, and is no table of locks: it has no {', '.join(sorted(absent))}")
