"""What a caller may do with a claim: enqueue, wait, renew, end. Each is one transition on one key.

The caller is answered by value; third parties hear through `out`. Changing modes lives in convert.py.
"""

from collections.abc import Callable

from holdfast.engine import value as block
from holdfast.engine.bond import end_waiting, rival_of
from holdfast.engine.nudge import nudge_holders
from holdfast.engine.resource import Resource, first_holder, fits, grant, holder, is_proven, join_waiting, note, remove
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
    End,
    Ended,
    Mint,
    Reason,
    Renew,
)

# Says whether a claim would close a cycle by waiting.
Closes = Callable[[Claim], bool]


def enqueue(
    r: Resource, c: Claim, now: int, mint: Mint, waiters_max: int, out: list[Effect], closes: Closes | None = None
) -> Answer:
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
    return _queue(r, c, now, waiters_max, out, closes)


def _queue(r: Resource, c: Claim, now: int, waiters_max: int, out: list[Effect], closes: Closes | None) -> Answer:
    if c.units > r.limit:
        return Answer.LIMIT_MISMATCH
    if not c.queue:
        c.rival = first_holder(r)
        return Answer.BUSY  # S6: leaves no state and nudges nobody
    if waiters_max and r.waiting is not None and len(r.waiting) >= waiters_max:
        return Answer.TOO_MANY_WAITERS
    if c.patience_ns == 0:
        c.rival = first_holder(r)
        return Answer.TIMED_OUT
    if closes is not None and closes(c):
        return Answer.WOULD_DEADLOCK
    join_waiting(r, c)
    c.since = now
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
        c.rival = rival_of(r, c)
        end_waiting(r, c, Reason.TIMED_OUT, now, out)
        serve(r, now, mint, out)
        return Answer.TIMED_OUT
    c.awaited = True
    c.patience_ns = patience_ns
    c.deadline = now + patience_ns
    note(r, c, c.deadline)
    return QUEUED


def renew(r: Resource, how: Renew, now: int) -> Answer:
    """Start the lease again; only who shows the token may (a lapsed claim is gone and stays gone)."""
    c = holder(r, how.token)
    if c is None or (how.proof is not None and not is_proven(c, how.proof)):
        return NOT_HELD
    r.touched = now
    r.version += 1
    deadline = now + how.lease_ns
    if how.shortens or deadline > c.deadline:
        c.deadline = deadline
        note(r, c, deadline)
    return RENEWED


def end(r: Resource, how: End, now: int, mint: Mint, out: list[Effect]) -> Answer:
    """Give back what is held, and serve whoever is next."""
    c = holder(r, how.token)
    if c is None or (how.proof is not None and not is_proven(c, how.proof)):
        return NOT_HELD
    r.touched = now
    was, mode = c.state, c.mode
    remove(r, c, how.reason)
    if how.value is not None or r.value is not None:
        block.on_end(r, mode, how.reason, how.value)
    if c.tracked or c.listens or was is not HELD or (isinstance(c.ticket, bytes) and how.session != c.session):
        out.append(Ended(c, how.reason, was))
    if r.waiting is not None or r.converting is not None:
        serve(r, now, mint, out)
    return ENDED


def give_back(
    r: Resource, c: Claim, reason: Reason, value: bytes | None, now: int, mint: Mint, out: list[Effect]
) -> Answer:
    """End what its own session holds, and serve whoever is next."""
    r.touched = now
    was, mode = c.state, c.mode
    remove(r, c, reason)
    block.on_end(r, mode, reason, value)
    if was is not HELD:
        out.append(Ended(c, reason, was))
    serve(r, now, mint, out)
    return ENDED
