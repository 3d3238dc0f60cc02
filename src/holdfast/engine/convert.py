"""Changing the mode of a held claim: at once where it fits, queued where it must wait, refused where it would deadlock.

Statements S7 to S23. The old mode stays in force until the new one is granted; the queue is served in serve.py.
"""

from collections.abc import Callable

from holdfast.engine import value as block
from holdfast.engine.bond import end_waiting
from holdfast.engine.nudge import nudge_holders
from holdfast.engine.resource import (
    Resource,
    change_mode,
    join_converting,
    leave_converting,
    note,
    restart_lease,
)
from holdfast.engine.serve import may_convert, serve
from holdfast.errors import FenceUnavailable
from holdfast.words import (
    BIT,
    CLASH,
    CONVERTING,
    HELD,
    WAITING,
    Answer,
    Claim,
    Convert,
    Effect,
    Mint,
    Reason,
    Stayed,
    covers,
)

# Says whether a holder would close a cycle over other keys by waiting for a mode.
Closes = Callable[[Claim, int], bool]


def convert(
    r: Resource, c: Claim, how: Convert, now: int, mint: Mint, out: list[Effect], closes: Closes | None = None
) -> Answer:
    """Change the mode now, later or not at all; a refused conversion leaves the old mode as it was (S13)."""
    if c.state is not HELD:
        return Answer.BUSY  # S14: one conversion at a time
    r.touched = now
    want = how.want
    if covers(c.mode, want):
        _go_down(r, c, how, now, mint, out)
        return Answer.GRANTED
    if may_convert(r, c, want):
        return _go_up(r, c, how, now, mint, out)
    if not how.queue or how.patience_ns == 0:
        return Answer.BUSY
    if _would_deadlock(r, c) or (closes is not None and closes(c, want)):
        return Answer.WOULD_DEADLOCK
    join_converting(r, c, want, now)
    c.convert_deadline = now + how.patience_ns
    note(r, c, c.convert_deadline)
    nudge_holders(r, want, out, asker=c)
    if r.stuck:
        serve(r, now, mint, out)  # whoever fits and has no fence may have to wait for this conversion now
    return Answer.CONVERTING


def _go_down(r: Resource, c: Claim, how: Convert, now: int, mint: Mint, out: list[Effect]) -> None:
    """S9: keeping out less than before is always possible. The fence stays: nobody can have come between."""
    block.on_convert(r, c, how.want, how.value)
    change_mode(r, c, how.want)
    restart_lease(r, c, now)
    serve(r, now, mint, out)


def _go_up(r: Resource, c: Claim, how: Convert, now: int, mint: Mint, out: list[Effect]) -> Answer:
    try:
        fence, _ = mint(r.fence)
    except FenceUnavailable:
        return Answer.NO_FENCE
    change_mode(r, c, how.want)
    c.fence = r.fence = fence
    restart_lease(r, c, now)
    serve(r, now, mint, out)  # PR to CW and back frees one side while it takes the other
    return Answer.GRANTED


def _would_deadlock(r: Resource, c: Claim) -> bool:
    """S17, S18: whoever converts behind a conversion that its own granted mode blocks waits for itself."""
    ahead = r.converting.values() if r.converting is not None else ()
    return any(CLASH[other.want] & BIT[c.mode] for other in ahead)


def cancel(r: Resource, c: Claim, now: int, mint: Mint, out: list[Effect]) -> Answer:
    """Withdraw what waits: a waiter goes (S21), a conversion falls back (S22), a holder stays (S23)."""
    if c.state is WAITING:
        end_waiting(r, c, Reason.CANCELLED, now, out)
    elif c.state is CONVERTING:
        fall_back(r, c, Reason.CANCELLED, out)
    else:
        return Answer.BUSY
    r.touched = now
    serve(r, now, mint, out)
    return Answer.CANCELLED


def fall_back(r: Resource, c: Claim, reason: Reason, out: list[Effect]) -> None:
    """End a conversion without a grant: one completion, and the old mode as before."""
    leave_converting(r, c)
    note(r, c, c.deadline)
    out.append(Stayed(c, reason))
