"""Which keys somebody who waits depends on: over what its holders, and those who wait there, wait for themselves.

Only found here and not judged; nothing is changed, and sessions without anything to do with it are not looked at.
"""

from typing import TYPE_CHECKING, final

from holdfast.engine.resource import Resource, everybody
from holdfast.words import CONVERTING, WAITING, Claim

if TYPE_CHECKING:
    from holdfast.engine.table import Table


@final
class Waits:
    """Who waits for which keys, made for a session when it is first asked about."""

    def __init__(self, table: "Table") -> None:
        self._table = table
        self._keys: dict[int, dict[bytes, list[bytes]]] = {}
        self._owners: dict[int, set[bytes]] = {}

    def keys_of(self, session: int, owner: bytes) -> list[bytes]:
        """List the keys that an owner in a session waits for."""
        if session not in self._keys:
            self._look_up(session)
        return self._keys[session].get(owner, [])

    def holds(self, session: int, owner: bytes) -> bool:
        """Say whether an owner in a session holds anything, or may be given it although it waits for something else."""
        if session not in self._owners:
            self._look_up(session)
        return owner in self._owners[session]

    def _look_up(self, session: int) -> None:
        keys = self._keys[session] = {}
        owners = self._owners[session] = set()
        for c in self._table.sessions.get(session, {}).values():
            if c.state is WAITING or c.state is CONVERTING:
                keys.setdefault(c.owner, []).append(c.key)
            if c.state is not WAITING or not c.blocks_caller:
                owners.add(c.owner)


def reach(table: "Table", starts: list[Resource], asker: Claim | None = None) -> list[Resource]:
    """List what can be reached from some keys, those first; from what `asker` waits for already too."""
    waits = Waits(table)
    found = {r.key: r for r in starts}
    if asker is not None:
        _follow(table, waits, asker, found)
    return _all_behind(table, waits, found)


def tangle(table: "Table") -> list[Resource]:
    """List all keys that a deadlock could go over: what is reached from those who wait although they hold something."""
    waits = Waits(table)
    found: dict[bytes, Resource] = {}
    for r in table.sought():
        if any(_waits_and_holds(waits, c) for c in _asking(r)):
            found[r.key] = r
    return _all_behind(table, waits, found)


def _asking(r: Resource) -> list[Claim]:
    asking = list(r.converting.values()) if r.converting is not None else []
    if r.waiting is not None:
        asking.extend(r.waiting.values())
    return asking


def _waits_and_holds(waits: Waits, c: Claim) -> bool:
    # Most who wait have nothing else in their session, which is seen without looking it up.
    return c.state is CONVERTING or (c.book is not None and len(c.book) > 1 and waits.holds(c.session, c.owner))


def _all_behind(table: "Table", waits: Waits, found: dict[bytes, Resource]) -> list[Resource]:
    """Add whatever can be reached."""
    known: set[tuple[int, bytes]] = set()
    todo = list(found.values())
    while todo:
        for c in everybody(todo.pop()):
            who = c.session, c.owner
            if not c.kept and who not in known:
                known.add(who)
                todo.extend(_follow(table, waits, c, found))
    return list(found.values())


def _follow(table: "Table", waits: Waits, c: Claim, found: dict[bytes, Resource]) -> list[Resource]:
    fresh = [table.resources[key] for key in waits.keys_of(c.session, c.owner) if key not in found]
    found.update({r.key: r for r in fresh})
    return fresh
