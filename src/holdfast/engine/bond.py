"""What ties claims on several keys together while they wait: granted in one step, and gone together.

Here is only what one key has to know of the others. Who may ask for a group, and what its ticket means, is in group.py.
"""

from typing import final

from holdfast.engine.resource import Resource, first_holder, fits, grant, leave_waiting, remove
from holdfast.errors import FenceUnavailable
from holdfast.words import WAITING, Bond, Claim, Effect, Ended, Granted, Mint, Reason, member_ticket


@final
class Ties:
    """How the keys of a table reach each other."""

    __slots__ = ("groups", "loose", "resources")

    def __init__(self, resources: dict[bytes, Resource]) -> None:
        self.resources = resources
        self.groups = 0  # so far
        # Keys where something has happened from another key. Whoever made it happen has them served before it returns.
        self.loose: list[Resource] = []


def ties_of(bond: Bond) -> Ties:
    ties = bond.ties
    assert isinstance(ties, Ties)
    return ties


def members(c: Claim) -> list[tuple[Resource, Claim]]:
    """List all of a group that waits, with their keys, in the order in which they were asked for."""
    bond, book = c.bond, c.book
    assert bond is not None
    assert book is not None
    resources = ties_of(bond).resources
    claims = [book[member_ticket(bond.ticket, index)] for index in range(bond.count)]
    return [(resources[claim.key], claim) for claim in claims]


def fits_everywhere(c: Claim) -> bool:
    """Say whether all of a group could be granted now: each is next on its key, and fits."""
    for r, member in members(c):
        assert r.waiting is not None
        if r.converting is not None or r.waiting.first() is not member or not fits(r, member):
            return False
    return True


def rival_of(r: Resource, c: Claim) -> Claim | None:
    """Find who holds what somebody waits for in vain; of a group, on the first key where anybody is in the way."""
    if c.bond is None:
        return first_holder(r)
    return next((first_holder(other) for other, member in members(c) if not fits(other, member)), None)


def grant_all(c: Claim, now: int, mint: Mint, out: list[Effect]) -> None:
    """Grant a group that waits, in one step; without a fence for each of them nobody is granted."""
    bond = c.bond
    assert bond is not None
    loose = ties_of(bond).loose
    everyone = members(c)
    try:
        minted = [mint(r.fence) for r, _ in everyone]
    except FenceUnavailable:
        for r, _ in everyone:
            if not r.stuck:
                r.stuck = True  # each of the keys tries again, whichever is asked for first
                loose.append(r)
        raise
    together = [member for _, member in everyone]
    for (r, member), (fence, secret) in zip(everyone, minted, strict=True):
        leave_waiting(r, member)
        grant(r, member, now, fence, secret)
        r.touched = now
        loose.append(r)
        out.append(Granted(member, together))


def end_waiting(r: Resource, c: Claim, reason: Reason, now: int, out: list[Effect]) -> None:
    """End a claim that waits, and all of its group with it; what becomes of the others is news."""
    bond = c.bond
    if bond is not None:
        loose = ties_of(bond).loose
        for other, member in members(c):
            if member is not c:
                remove(other, member, reason)
                other.touched = now
                loose.append(other)
                out.append(Ended(member, reason, WAITING))
    remove(r, c, reason)
