"""What dead processes of this machine have left in the table, and who has what now.

A row is ended only if its process is dead for certain, and only if it has not changed hands since it was looked at.
"""

from collections.abc import Sequence
from typing import Any

from holdfast.leases.identity import is_dead
from holdfast.leases.sharing import backend_of, named
from holdfast.leases.words import Hold, Row


def clear_stale_locks(backend: Any = None) -> int:
    """End what dead processes of this machine have left, as is good to do at a start; say how many there were.

    Nothing depends on it: their leases run out by themselves.
    """
    opened = backend_of(named(backend))
    stale = stale_among(opened.list())
    count: int = opened.clear(stale) if stale else 0
    return count


def get_existing_locks(backend: Any = None) -> dict[str, dict[str, Any]]:
    """Say who has which lock: the holder for each key that is held. What has lapsed is held by nobody."""
    return held_among(backend_of(named(backend)).list())


def stale_among(rows: Sequence[Row]) -> list[Hold]:
    """Pick what dead processes have left. Rows are read before processes are looked at, so none is too new for that."""
    dead: dict[str, bool] = {}
    for row in rows:
        if row.process not in dead:
            dead[row.process] = is_dead(row.process)
    return [Hold(row.key, row.lock_id) for row in rows if dead[row.process]]


def held_among(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Show holders by their keys, as text."""
    return {row.key.decode(errors="backslashreplace"): dict(row.holder) for row in rows if not row.lapsed}
