"""The grant pass: whom a key serves next, conversions first, then waiters, each in order of arrival.

This is the only place where somebody who waited is granted. It never removes anybody.
"""

from holdfast.engine.bond import fits_everywhere, grant_all
from holdfast.engine.nudge import nudge_for_all
from holdfast.engine.resource import (
    Resource,
    change_mode,
    fits,
    grant,
    leave_converting,
    leave_waiting,
    mask_beside,
    restart_lease,
)
from holdfast.errors import FenceUnavailable
from holdfast.words import CLASH, SECOND, Claim, Effect, Granted, Mint

# When no fence can be had, those who could be granted stay where they are and are tried again this much later,
# and before that by every command that comes to take or to give.
FENCE_RETRY_NS = SECOND // 10


def serve(r: Resource, now: int, mint: Mint, out: list[Effect]) -> None:
    """Grant what can be granted, in order."""
    try:
        _serve(r, now, mint, out)
        r.stuck = False
    except FenceUnavailable:
        r.stuck = True
        r.soonest = min(r.soonest, now + FENCE_RETRY_NS)
    if r.waiting or r.converting:
        nudge_for_all(r, out)


def _serve(r: Resource, now: int, mint: Mint, out: list[Effect]) -> None:
    while r.converting:
        c = next(iter(r.converting.values()))
        if not may_convert(r, c, c.want):
            return  # S11: while a conversion waits, no new request is granted.
        finish_conversion(r, c, now, mint)
        out.append(Granted(c))
    while r.waiting:
        c = r.waiting.first()
        if not fits(r, c):
            return
        if c.bond is not None:
            if not fits_everywhere(c):
                return
            grant_all(c, now, mint, out)
            continue
        fence, secret = mint(r.fence)
        leave_waiting(r, c)
        grant(r, c, now, fence, secret)
        out.append(Granted(c))


def may_convert(r: Resource, c: Claim, want: int) -> bool:
    """Say whether `want` clashes with nothing that the others hold; who else waits does not matter (S8)."""
    return not mask_beside(r, c) & CLASH[want]


def finish_conversion(r: Resource, c: Claim, now: int, mint: Mint) -> None:
    """Give a queued conversion its mode, with a fence of its own: others may have held since the old one."""
    want = c.want
    fence, _ = mint(r.fence)
    leave_converting(r, c)
    change_mode(r, c, want)
    c.fence = r.fence = fence
    restart_lease(r, c, now)
