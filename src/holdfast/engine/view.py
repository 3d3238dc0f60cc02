"""What a look shows: who holds which key and how many wait, copied out so that nobody can change anything by looking.

Nothing here changes a resource, not even what is due on it; who may see what is for the doors to say.
"""

from collections.abc import Iterable
from heapq import nsmallest
from typing import TYPE_CHECKING

from holdfast.engine.reach import reach, tangle
from holdfast.engine.resource import Resource, holders, holders_count
from holdfast.words import UNLIMITED, Census, Holder, Look, View, Waiter

if TYPE_CHECKING:
    from holdfast.engine.table import Table


def view_of(r: Resource, deep: bool = False) -> View:
    queue = queue_of(r) if deep else None
    return View(r.key, r.limit, [Holder(c) for c in holders(r)], len(r.waiting or ()), r.touched, r.version, queue)


def queue_of(r: Resource) -> list[Waiter]:
    """List who waits: conversions first, for they are served first."""
    queue = [Waiter(c) for c in r.converting.values()] if r.converting is not None else []
    if r.waiting is not None:
        queue.extend([Waiter(c) for c in r.waiting.values()])
    return queue


def views_of(table: "Table", look: Look) -> list[View]:
    """Answer a look; in the order of the keys where only a part of them is asked for."""
    if look.reach:
        return [view_of(r, True) for r in _reached(table, look.key)]
    found: Iterable[Resource]
    if look.key is not None:
        found = [table.resources[look.key]] if look.key in table.resources else []
    else:
        found = [r for r in table.resources.values() if r.key.startswith(look.prefix) and r.key > look.after]
    if look.held is not None:
        found = [r for r in found if (holders_count(r) > 0) is look.held]
    if look.count:
        found = nsmallest(look.count, found, key=_key_of)
    return [view_of(r, look.deep) for r in found]


def _reached(table: "Table", key: bytes | None) -> list[Resource]:
    if key is None:
        return tangle(table)
    return reach(table, [table.resources[key]]) if key in table.resources else []


def census_of(table: "Table") -> Census:
    """Count who holds and who waits."""
    held = waiting = seats_held = seats_waiting = 0
    for r in table.resources.values():
        if r.limit == UNLIMITED:
            held += holders_count(r)
            waiting += len(r.waiting or ())
        else:
            seats_held += holders_count(r)
            seats_waiting += len(r.waiting or ())
    return Census(len(table.resources), held, waiting, seats_held, seats_waiting)


def _key_of(r: Resource) -> bytes:
    return r.key
