"""What must not be in the story of a fight for one cluster lock: a pure function of what was written down.

All instants are nanoseconds of one monotonic clock, that of the machine. Nothing is measured here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MILLISECOND = 1_000_000
# Who is not let run for so long may not be in time with anything.
AWAY_NS_MIN = 50 * MILLISECOND
EVIDENCE_SHOWN = 20


@dataclass(slots=True)
class Turn:
    """One acquisition, as its holder saw it."""

    who: str
    fence: int
    granted_ns: int
    held_ns: int  # when it last believed to hold
    lost_ns: int | None = None  # when it heard that it did not
    reason: str = ""
    aways: list[tuple[int, int]] = field(default_factory=list)  # when it was not let run


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What was done to the holder of a lock, or to its database."""

    kind: str
    fence: int  # of whoever held it then
    since_ns: int
    until_ns: int
    taken_within_ns: int | None = None  # it died: how soon another one has to have the lock
    survives_ns: int | None = None  # it was cut off, and not for too long: until when it has to hold at least
    loses: bool = False  # it was cut off for longer than a lease, and could hear of that


@dataclass(slots=True)
class Verdict:
    """What came of a fight."""

    turns: list[Turn]
    slow: Sequence[tuple[int, int]] = ()  # when the database itself was slow, without anybody's doing
    violations: list[str] = field(default_factory=list)  # what must never be
    late: list[str] = field(default_factory=list)  # what was not in time, or was given up too early
    starved: int = 0  # so much of that is forgiven, since the machine did not let the holder run
    takeovers_ns: list[int] = field(default_factory=list)  # from the death of a holder to the next grant


@dataclass(slots=True)
class Report:
    """What came of one fight."""

    verdict: Verdict
    tally: Counter[str] = field(default_factory=Counter)
    lease_s: float = 0.0

    def summary(self) -> str:
        """Say it in a few lines."""
        verdict = self.verdict
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(self.tally.items()))
        lines = [f"{len(verdict.turns):,} acquisitions; {counts}; starved {verdict.starved}"]
        if verdict.takeovers_ns:
            late_ms = [took / MILLISECOND - self.lease_s * 1000 for took in verdict.takeovers_ns]
            lines.append(f"a dead holder's key was taken at most {max(late_ms):.0f} ms after a whole lease")
        lines += [*verdict.violations[:EVIDENCE_SHOWN], *verdict.late[:EVIDENCE_SHOWN]]
        violations = f"{len(verdict.violations)} violations" if verdict.violations else "no violation"
        late = f"{len(verdict.late)} times late" if verdict.late else "nothing late"
        return "\n".join([*lines, f"{violations}, {late}"])


def turns_of(who: str, lines: Iterable[Mapping[str, Any]]) -> list[Turn]:
    """Read what one process has written down."""
    turns: list[Turn] = []
    for line in lines:
        what, at = line["what"], line["at"]
        if what == "granted":
            turns.append(Turn(who, line["fence"], at, at))
        elif what == "held":
            turns[-1].held_ns = at
        elif what == "lost":
            turns[-1].lost_ns = at
            turns[-1].reason = line.get("reason", "")
        elif what == "away":
            turns[-1].aways.append((at, line["until"]))
    return turns


def judge(turns: Sequence[Turn], troubles: Sequence[Trouble], slow: Sequence[tuple[int, int]] = ()) -> Verdict:
    """Say all that must not be."""
    verdict = Verdict(sorted(turns, key=lambda turn: turn.granted_ns), slow)
    _judge_beliefs(verdict)
    by_fence = {turn.fence: number for number, turn in enumerate(verdict.turns)}
    for trouble in troubles:
        number = by_fence[trouble.fence]
        following = verdict.turns[number + 1] if number + 1 < len(verdict.turns) else None
        _judge_trouble(verdict, trouble, verdict.turns[number], following)
    return verdict


def _judge_beliefs(verdict: Verdict) -> None:
    """Never two holders, and fences that rise."""
    before: Turn | None = None
    believed: Turn | None = None  # who believed to hold for longest
    for turn in verdict.turns:
        if before is not None and turn.fence <= before.fence:
            verdict.violations.append(f"the fence went from {before.fence} to {turn.fence}")
        if believed is not None and believed.held_ns >= turn.granted_ns:
            by_ms = (believed.held_ns - turn.granted_ns) / MILLISECOND
            verdict.violations.append(
                f"{believed.who} held fence {believed.fence} {by_ms:.1f} ms after {turn.who} got {turn.fence}"
            )
        if believed is None or turn.held_ns > believed.held_ns:
            believed = turn
        before = turn


def _judge_trouble(verdict: Verdict, trouble: Trouble, turn: Turn, following: Turn | None) -> None:
    """Say what came too late."""
    name = f"{trouble.kind} at fence {trouble.fence}"
    if trouble.taken_within_ns is not None:
        if following is None:
            verdict.violations.append(f"{name}: nobody else ever got the lock")
            return
        took = following.granted_ns - trouble.since_ns
        verdict.takeovers_ns.append(took)
        if took > trouble.taken_within_ns:
            verdict.late.append(f"{name}: the next one had to wait for {took / MILLISECOND:.0f} ms")
    complaint = _complaint(trouble, turn, following)
    if not complaint:
        return
    since, until = trouble.since_ns, max(trouble.until_ns, turn.held_ns, turn.lost_ns or 0)
    if overlap(turn.aways, since, until) or (trouble.survives_ns is not None and overlap(verdict.slow, since, until)):
        verdict.starved += 1
    else:
        verdict.late.append(f"{name}: {complaint}")


def overlap(spans: Iterable[tuple[int, int]], since: int, until: int) -> bool:
    """Tell whether one of the spans that are long enough to matter lies somewhere in there."""
    return any(began <= until and since <= ended for began, ended in spans if ended - began >= AWAY_NS_MIN)


def _complaint(trouble: Trouble, turn: Turn, following: Turn | None) -> str:
    if trouble.survives_ns is not None and turn.lost_ns is not None and turn.lost_ns <= trouble.survives_ns:
        lasted = (trouble.until_ns - trouble.since_ns) / MILLISECOND
        return f"lost by an outage of {lasted:.0f} ms: {turn.reason}"
    if trouble.loses and turn.lost_ns is None:
        return "its holder never heard of the loss"
    if trouble.loses and following is not None and following.granted_ns <= (turn.lost_ns or 0):
        return "its holder heard of the loss after somebody else had it"
    return ""
