"""What a look shows: who holds which key and how many wait, copied out so that nobody can change anything by looking.

Nothing here changes a resource, not even what is due on it; who may see what is for the doors to say.
"""

from collections.abc import Iterable
from heapq import nsmallest

from holdfast.engine.resource import Resource, holders, holders_count
from holdfast.engine.table import Table
from holdfast.words import UNLIMITED, Census, Holder, Look, View


def view_of(r: Resource) -> View:
    return View(r.key, r.limit, [Holder(c) for c in holders(r)], len(r.waiting or ()), r.touched, r.version)


def views_of(table: Table, look: Look) -> list[View]:
    """Answer a look; in the order of the keys where only a part of them is asked for."""
    found: Iterable[Resource]
    if look.key is not None:
        found = [table.resources[look.key]] if look.key in table.resources else []
    else:
        found = [r for r in table.resources.values() if r.key.startswith(look.prefix) and r.key > look.after]
    if look.held is not None:
        found = [r for r in found if (holders_count(r) > 0) is look.held]
    if look.count:
        found = nsmallest(look.count, found, key=_key_of)
    return [view_of(r) for r in found]


def census_of(table: Table) -> Census:
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
