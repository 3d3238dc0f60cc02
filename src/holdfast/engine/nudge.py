"""Nudges: telling a holder that somebody waits for what it holds.

A nudge is advice (S31): nothing here changes who holds what, and holders that do not listen cost nothing.
"""

from typing import Final

from holdfast.engine.resource import Resource, everybody, holders
from holdfast.words import BIT, CLASH, HELD, Claim, Effect, Mode, Nudged, covers

ALL_MODES: Final[tuple[int, ...]] = tuple(range(len(Mode)))


def nudge_holders(r: Resource, want: int, out: list[Effect], asker: Claim | None = None) -> None:
    """Tell each holder that keeps `want` out, unless it has heard as much before (S26, S27)."""
    if not r.listeners:
        return
    for holder in holders(r):
        if holder.listens and holder is not asker and CLASH[holder.mode] & BIT[want]:
            _signal(holder, want, out)


def nudge_for_all(r: Resource, out: list[Effect]) -> None:
    """After a pass that left requests blocked, tell the new holders (S28)."""
    if not r.listeners:
        return
    asking = [c for c in everybody(r) if c.state is not HELD]
    for want in sorted({c.want for c in asking}):
        askers = [c for c in asking if c.want == want]
        # A claim that converts does not stand in its own way; whoever else it waits for hears of it.
        nudge_holders(r, want, out, askers[0] if len(askers) == 1 else None)


def _signal(holder: Claim, want: int, out: list[Effect]) -> None:
    heard = any(holder.nudged & BIT[mode] and covers(mode, want) for mode in ALL_MODES)
    if not heard:
        holder.nudged |= BIT[want]
        out.append(Nudged(holder, want))
