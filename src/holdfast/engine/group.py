"""What a caller may do with a group: ask for it, ask again, wait for it, end all that is left of it.

All keys are looked at before anything is changed on one. How a group is granted later on is in bond.py and serve.py.
"""

from typing import TYPE_CHECKING

from holdfast.engine import claim as moves
from holdfast.engine import convert as conversions
from holdfast.engine import refuse
from holdfast.engine.bond import members
from holdfast.engine.nudge import nudge_holders
from holdfast.engine.resource import Resource, first_holder, fits, grant, join_waiting, note
from holdfast.engine.serve import serve
from holdfast.errors import FenceUnavailable
from holdfast.words import (
    GRANTED,
    GROUP_KEYS_MAX,
    NOT_HELD,
    QUEUED,
    WAITING,
    Answer,
    Bond,
    Cancel,
    Claim,
    Effect,
    Ended,
    Group,
    Reason,
    Ticket,
    Wait,
    member_ticket,
)

if TYPE_CHECKING:
    from holdfast.engine.table import Table

# Somebody who is asked for, and the key that it is asked for on.
Place = tuple[Resource, Claim]


def enqueue(table: "Table", group: Group, now: int, out: list[Effect]) -> tuple[Answer, Claim | None]:
    """Grant all of a group, queue all of it, or refuse it; where somebody is in the way, tell on which claim."""
    claims = group.claims
    assert 2 <= len(claims) <= GROUP_KEYS_MAX
    keys = {c.key for c in claims}
    assert len(keys) == len(claims)
    new = keys - table.resources.keys()
    if len(table.resources) + len(new) > table.keys_max:
        return Answer.TOO_MANY_KEYS, None
    places = [(table.meet(c.key, c.limit, now, out), c) for c in claims]
    _name(group)
    _tie(table, group)
    answer, hindered = _admit(table, group, places, now, out)
    if answer is GRANTED or answer is QUEUED:
        book = table.sessions.setdefault(group.session, {})
        for r, c in places:
            assert c.ticket not in book
            book[c.ticket] = c
            c.book = book
            if answer is QUEUED:
                table.seek(r)
    for r, _ in places:
        table.settle(r, now, out)
    return answer, hindered


def _name(group: Group) -> None:
    for index, c in enumerate(group.claims):
        c.session = group.session
        c.ticket = member_ticket(group.ticket, index)


def _tie(table: "Table", group: Group) -> None:
    table.ties.groups += 1
    for index, c in enumerate(group.claims):
        c.patience_ns = group.patience_ns
        c.tracked = group.tracked
        c.bond = Bond(group.ticket, index, len(group.claims), table.ties.groups)
        c.bond.ties = table.ties


def _admit(
    table: "Table", group: Group, places: list[Place], now: int, out: list[Effect]
) -> tuple[Answer, Claim | None]:
    for r, c in places:
        if c.limit != r.limit or c.units > r.limit:
            return Answer.LIMIT_MISMATCH, None
    for r, _ in places:
        if r.stuck:
            serve(r, now, table.mint, out)  # whoever could not be given a fence is older than this group
            table.follow(now, out)
    for r, c in places:
        if r.waiting is not None or r.converting is not None or not fits(r, c):
            return _queue(table, group, places, (r, c), now, out)
    try:
        minted = [table.mint(r.fence) for r, _ in places]
    except FenceUnavailable:
        return Answer.NO_FENCE, None
    for (r, c), (fence, secret) in zip(places, minted, strict=True):
        r.touched = now
        grant(r, c, now, fence, secret)
    return GRANTED, None


def _queue(
    table: "Table", group: Group, places: list[Place], hindered: Place, now: int, out: list[Effect]
) -> tuple[Answer, Claim | None]:
    key, hindered_claim = hindered
    if not group.queue or group.patience_ns == 0:
        hindered_claim.rival = first_holder(key)
        return (Answer.TIMED_OUT if group.queue else Answer.BUSY), hindered_claim
    for r, _ in places:
        if table.waiters_max and r.waiting is not None and len(r.waiting) >= table.waiters_max:
            return Answer.TOO_MANY_WAITERS, None
    if group.refuses and refuse.may_not_wait(table, group.claims):
        return Answer.WOULD_DEADLOCK, None
    for r, c in places:
        r.touched = now
        join_waiting(r, c)
        c.since = now
        c.deadline = now + c.patience_ns
        note(r, c, c.deadline)
        nudge_holders(r, c.want, out)
    return QUEUED, None


def again(table: "Table", group: Group, now: int, out: list[Effect]) -> Answer | None:
    """Find what the ticket of a group was given when it was first shown; None if all of that is over.

    What outlived its session goes to whoever shows the ticket. A part of a group is not what was asked for: that
    answer is no grant, so that nobody takes the part for all of it.
    """
    _name(group)
    for c in group.claims:
        if (same := table.known(c)) is not None:
            table.settle(table.fresh(same.key, now, out), now, out)
    found = [table.known(c) for c in group.claims]
    left = [same for same in found if same is not None]
    if _means_something_else(table, group, found):
        return Answer.ALREADY_ENQUEUED
    if not left:
        return None
    for same, c in zip(found, group.claims, strict=True):
        if same is not None and same.kept:
            table.take_in(same, c)
    if len(left) < len(found):
        return Answer.LEASE_EXPIRED
    group.claims = left
    return QUEUED if left[0].state is WAITING else GRANTED


def _means_something_else(table: "Table", group: Group, found: list[Claim | None]) -> bool:
    """Say whether the ticket has been shown for one claim, for other keys, or for more or fewer of them."""
    if table.find(group.session, group.ticket) is not None:
        return True
    for same, c in zip(found, group.claims, strict=True):
        if same is not None and (same.bond is None or same.key != c.key):
            return True
    known = [*found, *left_of(table, group.session, group.ticket)]
    return any(same is not None and same.bond is not None and same.bond.count != len(found) for same in known)


def left_of(table: "Table", session: int, ticket: Ticket) -> list[Claim]:
    """List what is left of the group that has this ticket."""
    book = table.sessions.get(session)
    if book is None or not isinstance(ticket, bytes):
        return []
    left: list[Claim] = []
    for index in range(GROUP_KEYS_MAX):
        c = book.get(member_ticket(ticket, index))
        if c is not None and c.bond is not None:
            left.append(c)
    return left


def wait(table: "Table", how: Wait, now: int, out: list[Effect]) -> tuple[Answer, Claim | None]:
    """Give a group its patience, or, if it has been granted, all of it its full lease from now."""
    before = left_of(table, how.session, how.ticket)
    left = _fresh(table, before, now, out)
    if not left:
        expired = any(c.reason is Reason.EXPIRED for c in before)
        return (Answer.LEASE_EXPIRED if expired else Answer.NOT_ENQUEUED), None
    bond = left[0].bond
    assert bond is not None
    if len(left) < bond.count:
        return Answer.LEASE_EXPIRED, None
    how.claims = left
    at = len(out)
    answer = _wait(table, left, how.patience_ns, now, out)
    if answer is Answer.TIMED_OUT:
        # None of them was named, so there is news of the first, too; it comes before whatever came of its end.
        out.insert(at, Ended(left[0], Reason.TIMED_OUT, WAITING))
    return answer, left[0]


def wait_together(table: "Table", c: Claim, patience_ns: int, now: int, out: list[Effect]) -> Answer:
    """Let all of a group wait for as long as one of it: there is one patience for it."""
    others = [member for _, member in members(c) if member is not c]
    return _wait(table, [c, *others], patience_ns, now, out)


def _wait(table: "Table", claims: list[Claim], patience_ns: int, now: int, out: list[Effect]) -> Answer:
    answer = QUEUED
    for c in claims:
        r = table.resources[c.key]
        answer = moves.wait(r, c, patience_ns, now, table.mint, out)
        table.settle(r, now, out)
        if answer is Answer.TIMED_OUT:
            break  # and the others with it
    return answer


def cancel(table: "Table", how: Cancel, now: int, out: list[Effect]) -> tuple[Answer, Claim | None]:
    """End all that is left of a group: what waits goes, and what is held too where that is meant."""
    left = _fresh(table, left_of(table, how.session, how.ticket), now, out)
    if not left:
        return NOT_HELD, None
    answer = NOT_HELD
    for c in left:
        r = table.resources[c.key]
        if c.book is None:
            continue  # it waited, and has gone with the first
        if how.held and c.state is not WAITING:
            each = moves.give_back(r, c, Reason.RELEASED, how.value, now, table.mint, out)
        else:
            each = conversions.cancel(r, c, now, table.mint, out)
        if answer is NOT_HELD or each is not Answer.BUSY:
            answer = each
        table.settle(r, now, out)
    return answer, left[0]


def _fresh(table: "Table", claims: list[Claim], now: int, out: list[Effect]) -> list[Claim]:
    """Let everything happen that is due on these keys; give those who are still there."""
    for c in claims:
        table.settle(table.fresh(c.key, now, out), now, out)
    return [c for c in claims if c.book is not None]
