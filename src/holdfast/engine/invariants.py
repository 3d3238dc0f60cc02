"""What is true of a resource between any two transitions, as assertions for tests, the simulator and a worried reader.

Nothing here changes anything, and nothing here is called while the service runs: it looks at everybody.
"""

from collections.abc import Collection
from itertools import combinations, pairwise

from holdfast.engine.bond import fits_everywhere, members
from holdfast.engine.resource import MODES, Resource, everybody, fits, holder, holders, turn_of
from holdfast.engine.serve import may_convert
from holdfast.engine.table import Table
from holdfast.words import (
    BIT,
    CLASH,
    CONVERTING,
    EX,
    FOREVER,
    GONE,
    HELD,
    NL,
    SECRET_BYTES,
    TOKEN_BYTES,
    WAITING,
    Claim,
    Mode,
)


def check(r: Resource, now: int) -> None:
    """Assert all invariants of one key."""
    assert r.touched <= now
    _check_places(r)
    for c in everybody(r):
        _check_claim(r, c, now)
    _check_exclusion(r)
    _check_sums(r)
    _check_fences(r)
    _check_queues(r)
    _check_deadlines(r)


def _check_places(r: Resource) -> None:
    """Everybody is where their state says, and no empty queue is kept."""
    assert all(c.state in (HELD, CONVERTING) for c in holders(r))
    assert r.sole is None or r.many is None
    assert r.many is None or r.many
    assert all(holder(r, c.token) is c for c in holders(r))
    waiting = {c.order: c for c in (r.waiting.values() if r.waiting is not None else [])}
    assert r.waiting is None or len(r.waiting) == len(r.waiting.values()) == len(waiting)
    converting: dict[int, Claim] = dict(r.converting or {})
    assert (r.waiting is None) == (not waiting)
    assert (r.converting is None) == (not converting)
    assert all(c.state is WAITING for c in waiting.values())
    assert converting == {c.order: c for c in holders(r) if c.state is CONVERTING}
    for queue in (waiting, converting):
        assert all(order == c.order for order, c in queue.items())
        assert all(older < younger for older, younger in pairwise(queue))
        assert all(order <= r.orders for order in queue)


def _check_claim(r: Resource, c: Claim, now: int) -> None:
    assert c.key == r.key
    assert c.limit == r.limit
    assert 0 <= c.units <= r.limit
    assert c.state is not GONE
    assert c.reason is None
    assert c.book is None or c.book.get(c.ticket) is c
    if c.state is WAITING:
        assert c.mode == NL
        assert not c.token
        assert c.deadline <= now + c.patience_ns
    else:
        assert len(c.token) == TOKEN_BYTES
        assert len(c.secret) == SECRET_BYTES
    if c.state is CONVERTING:
        assert c.want != c.mode
    else:
        assert c.convert_deadline == FOREVER
    if c.state is HELD:
        assert c.want == c.mode


def _check_exclusion(r: Resource) -> None:
    """No two holders clash, and no more units are held than there are. A converting one counts with its old mode."""
    for one, other in combinations(holders(r), 2):
        assert not CLASH[one.mode] & BIT[other.mode]
    assert sum(c.units for c in holders(r)) <= r.limit


def _check_sums(r: Resource) -> None:
    """What is kept so that nobody has to count equals what counting gives."""
    held = holders(r)
    assert r.used == sum(c.units for c in held)
    assert r.mask == sum(BIT[mode] for mode in {c.mode for c in held})
    assert (r.tally or [0] * MODES) == [0 if mode == EX else _count(held, mode) for mode in Mode]
    assert r.listeners == sum(c.listens for c in held)


def _count(claims: Collection[Claim], mode: int) -> int:
    return sum(c.mode == mode for c in claims)


def _check_fences(r: Resource) -> None:
    fences = [c.fence for c in holders(r)]
    assert len(set(fences)) == len(fences)
    assert all(0 < fence <= r.fence for fence in fences)


def _check_queues(r: Resource) -> None:
    """Whoever is next could not have been granted, unless no fence could be had; and only then is the key stuck."""
    if r.converting:
        c = next(iter(r.converting.values()))
        assert r.stuck == may_convert(r, c, c.want)
    elif r.waiting:
        c = r.waiting.first()
        # Of a group, a key may find out later than the others that it is stuck no more.
        assert r.stuck == fits(r, c) if c.bond is None else r.stuck or not fits_everywhere(c)
    else:
        assert not r.stuck


def _check_deadlines(r: Resource) -> None:
    """Nothing that happens by itself is missed: `soonest` may be too early, never too late; the agenda is exact."""
    turns = [turn_of(c) for c in everybody(r)]
    assert all(r.soonest <= turn[0] for turn in turns)
    assert not r.stuck or r.soonest < FOREVER
    if r.agenda is None:
        return
    for place, entry in enumerate(r.agenda[1:], start=1):
        assert r.agenda[(place - 1) // 2] <= entry  # a heap
    noted = {(entry[:3], id(entry[3])) for entry in r.agenda}
    for turn in turns:
        assert turn[0] >= FOREVER or (turn[:3], id(turn[3])) in noted


def check_table(table: Table, now: int) -> None:
    """Assert the invariants of every key, of the sessions' books, and that nobody's time is slept through."""
    for key, r in table.resources.items():
        assert r.key == key
        check(r, now)
        assert r.wake <= r.soonest
        assert r.wake >= table.soonest
        assert r.sought or (r.waiting is None and r.converting is None)
        assert table._sought.count(r) == r.sought
    for session, book in table.sessions.items():
        for ticket, c in book.items():
            assert (c.session, c.ticket) == (session, ticket)
            assert c.book is book
            assert c in everybody(table.resources[c.key])
    for ticket, c in table.orphans.items():
        assert c.kept
        assert c.ticket == ticket
        assert c.book is table.orphans
        assert c in holders(table.resources[c.key])
    assert table.soonest <= table.next_deadline()
    _check_groups(table)


def _check_groups(table: Table) -> None:
    """A group waits everywhere or nowhere, and two of them stand in the same order wherever they meet."""
    assert not table.ties.loose
    met: set[tuple[Claim, Claim]] = set()  # by their first members: the older group, and the younger
    for r in table.resources.values():
        tied = [c for c in (r.waiting.values() if r.waiting is not None else []) if c.bond is not None]
        for c in tied:
            _check_group(table, r, c)
        met.update(combinations([members(c)[0][1] for c in tied], 2))
    assert all((younger, older) not in met for older, younger in met)


def _check_group(table: Table, r: Resource, c: Claim) -> None:
    bond, group = c.bond, members(c)
    assert bond is not None
    assert bond.ties is table.ties
    assert len(group) == bond.count
    assert len({id(other) for other, _ in group}) == bond.count
    assert group[bond.index] == (r, c)
    for other, member in group:
        assert table.resources[member.key] is other
        assert member.state is WAITING
        assert member.bond is not None
        assert (member.bond.ticket, member.bond.count, member.bond.number) == (bond.ticket, bond.count, bond.number)
        assert (member.session, member.deadline, member.tracked) == (c.session, c.deadline, c.tracked)
        assert member.blocks_caller is c.blocks_caller
