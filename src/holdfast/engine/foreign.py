"""Keys that somebody else has changed behind our back: who holds them now, and what becomes of those we knew.

Their word counts over ours, since they may have given the key to somebody. How we hear of it is not known here.
"""

from typing import Final

from holdfast.engine.resource import Resource, hold, holders, note
from holdfast.secret import secret_of
from holdfast.words import EX, GONE, HELD, SECOND, Claim, Effect, Ended, Reason

# The lease of a holder that does not tell how long it asked for; it is renewed in its own words anyway.
LEASE_NS: Final = 30 * SECOND


def stranger(r: Resource, owner: bytes, fence: int, lease_id: bytes, spare: bytes, deadline: int) -> Claim:
    """Let somebody hold a key whom somebody else has granted it; `spare` is the secret of one with an odd lease id."""
    secret = secret_of(fence, lease_id) or b"%016x" % fence + spare[16:]
    c = Claim(r.key, EX, 1, r.limit, LEASE_NS, 0)
    c.ticket = b"stranger:%b:%b" % (secret, r.key)
    c.owner = owner
    c.state = HELD
    c.mode = EX
    c.fence = fence
    c.secret = secret
    c.deadline = deadline
    c.since = max(0, deadline - LEASE_NS)
    r.fence = max(r.fence, fence)
    hold(r, c)
    note(r, c, deadline)
    return c


def usurp(old: Resource, new: Resource, out: list[Effect]) -> list[Claim]:
    """Put `new` in the place of `old`: whoever held is out. Gives those who waited; they keep their order."""
    for c in holders(old):
        was, c.state, c.reason = c.state, GONE, Reason.BROKEN
        out.append(Ended(c, Reason.BROKEN, was))
    new.fence = max(new.fence, old.fence)
    new.touched = old.touched
    return old.waiting.values() if old.waiting is not None else []
