"""Deadlines of one key: what is due, in which order, and when to look again.

The order is the order of the deadlines themselves, however late somebody looks; no clock is read here.
"""

from heapq import heapify, heappop
from typing import Final

from holdfast.engine import value as block
from holdfast.engine.bond import end_waiting, rival_of
from holdfast.engine.convert import fall_back
from holdfast.engine.resource import Resource, everybody, holders_count, remove, turn_of
from holdfast.engine.serve import FENCE_RETRY_NS, serve
from holdfast.words import FOREVER, GONE, WAITING, Claim, Effect, Ended, Mint, Reason

# A key with more claims than this keeps an agenda: a heap with the turn of each claim, and with stale turns that are
# passed over. Below it, looking at everybody is cheaper than keeping one.
CROWD: Final = 32


def expire(r: Resource, now: int, mint: Mint, out: list[Effect]) -> None:
    """Let everything happen whose time has come, in the order of the deadlines, and set `soonest` anew."""
    if r.stuck:
        serve(r, now, mint, out)
    while (c := _next_due(r, now)) is not None:
        if c.convert_deadline < c.deadline:
            fall_back(r, c, Reason.TIMED_OUT, out)
        else:
            _run_out(r, c, now, out)
        serve(r, now, mint, out)
    if r.stuck:
        r.soonest = min(r.soonest, now + FENCE_RETRY_NS)


def _run_out(r: Resource, c: Claim, now: int, out: list[Effect]) -> None:
    was, mode = c.state, c.mode
    r.touched = now
    if was is WAITING:
        c.rival = rival_of(r, c)
        out.append(Ended(c, Reason.TIMED_OUT, was))
        end_waiting(r, c, Reason.TIMED_OUT, now, out)
        return
    remove(r, c, Reason.EXPIRED)
    block.on_end(r, mode, Reason.EXPIRED, None)
    out.append(Ended(c, Reason.EXPIRED, was))


def _next_due(r: Resource, now: int) -> Claim | None:
    """Find the first claim whose time has come; when there is none, say in `soonest` when to look again."""
    count = holders_count(r) + len(r.waiting or ())
    if count > CROWD:
        return _next_on_agenda(r, now)
    r.agenda = None
    first: Claim | None = None
    soonest = FOREVER
    for c in everybody(r):
        due = c.deadline if c.deadline < c.convert_deadline else c.convert_deadline
        # Whole turns are only compared where the instants do not decide.
        if due < soonest or (due == soonest and first is not None and turn_of(c) < turn_of(first)):
            first, soonest = c, due
    if first is not None and soonest <= now:
        return first
    r.soonest = soonest
    return None


def _next_on_agenda(r: Resource, now: int) -> Claim | None:
    agenda = r.agenda
    if agenda is None:
        agenda = r.agenda = [turn for c in everybody(r) if (turn := turn_of(c))[0] < FOREVER]
        heapify(agenda)
    while agenda and agenda[0][0] <= now:
        entry = heappop(agenda)
        c = entry[3]
        if c.state is not GONE and turn_of(c) == entry:
            return c
    r.soonest = agenda[0][0] if agenda else FOREVER
    return None
