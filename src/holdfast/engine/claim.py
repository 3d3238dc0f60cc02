"""What a caller may do with a claim: enqueue, wait, renew, end. Each is one transition on one key.

The caller is answered by value; third parties hear through `out`. Changing modes lives in convert.py.
"""

from holdfast.engine import value as block
from holdfast.engine.nudge import nudge_holders
from holdfast.engine.resource import Resource, fits, grant, holder, join_waiting, note, remove
from holdfast.engine.serve import serve
from holdfast.errors import FenceUnavailable
from holdfast.words import (
    ENDED,
    GRANTED,
    HELD,
    NOT_HELD,
    QUEUED,
    RENEWED,
    WAITING,
    Answer,
    Claim,
    Effect,
    Ended,
    Mint,
    Reason,
)


def enqueue(r: Resource, c: Claim, now: int, mint: Mint, waiters_max: int, out: list[Effect]) -> Answer:
    """Grant the claim if nobody is before it and it fits (S1), else queue or refuse it."""
    r.touched = now
    if c.limit != r.limit:
        return Answer.LIMIT_MISMATCH
    if r.stuck:
        serve(r, now, mint, out)  # whoever could not be given a fence is older than this claim
    if r.waiting is None and r.converting is None and fits(r, c):
        try:
            fence, secret = mint(r.fence)
        except FenceUnavailable:
            return Answer.NO_FENCE
        grant(r, c, now, fence, secret)
        return GRANTED
    return _queue(r, c, now, waiters_max, out)


def _queue(r: Resource, c: Claim, now: int, waiters_max: int, out: list[Effect]) -> Answer:
    if c.units > r.limit:
        return Answer.LIMIT_MISMATCH
    if not c.queue:
        return Answer.BUSY  # S6: leaves no state and nudges nobody
    if waiters_max and r.waiting is not None and len(r.waiting) >= waiters_max:
        return Answer.TOO_MANY_WAITERS
    if c.patience_ns == 0:
        return Answer.TIMED_OUT
    join_waiting(r, c)
    c.deadline = now + c.patience_ns
    note(r, c, c.deadline)
    nudge_holders(r, c.want, out)
    return QUEUED


def wait(r: Resource, c: Claim, patience_ns: int, now: int, mint: Mint, out: list[Effect]) -> Answer:
    """Give a claim its patience, or, if it has been granted already, its full lease from now."""
    r.touched = now
    if r.stuck:
        serve(r, now, mint, out)
    if c.state is not WAITING:
        c.deadline = now + c.lease_ns
        note(r, c, c.deadline)
        return GRANTED
    if patience_ns == 0:
        remove(r, c, Reason.TIMED_OUT)
        serve(r, now, mint, out)
        return Answer.TIMED_OUT
    c.patience_ns = patience_ns
    c.deadline = now + patience_ns
    note(r, c, c.deadline)
    return QUEUED


def renew(r: Resource, token: bytes, lease_ns: int, now: int) -> Answer:
    """Start the lease again; only who shows the token may (a lapsed claim is gone and stays gone)."""
    c = holder(r, token)
    if c is None:
        return NOT_HELD
    r.touched = now
    c.deadline = now + lease_ns
    note(r, c, c.deadline)
    return RENEWED


def end(
    r: Resource,
    token: bytes,
    reason: Reason,
    now: int,
    mint: Mint,
    out: list[Effect],
    value: bytes | None = None,
) -> Answer:
    """Give back what is held, and serve whoever is next."""
    c = holder(r, token)
    if c is None:
        return NOT_HELD
    r.touched = now
    was, mode = c.state, c.mode
    remove(r, c, reason)
    if value is not None or r.value is not None:
        block.on_end(r, mode, reason, value)
    if c.tracked or c.listens or was is not HELD:
        out.append(Ended(c, reason, was))
    if r.waiting is not None or r.converting is not None:
        serve(r, now, mint, out)
    return ENDED
