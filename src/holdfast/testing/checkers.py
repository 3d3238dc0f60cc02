"""Judges of histories: pure functions that answer what was wrong, as a list that is empty when all was well.

They know the rules from the outside, as a user does, and share no code with the server that they judge.
"""

from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final

from holdfast.testing.history import (
    Asked,
    Converted,
    Danger,
    GaveUp,
    Grantable,
    Granted,
    Held,
    History,
    Lost,
    Record,
    Released,
)

# Which modes cannot be held beside which, as VMS wrote it down in 1984 (docs: Modes).
CLASHES: Final = {
    "NL": frozenset[str](),
    "CR": frozenset({"EX"}),
    "CW": frozenset({"PR", "PW", "EX"}),
    "PR": frozenset({"CW", "PW", "EX"}),
    "PW": frozenset({"CW", "PR", "PW", "EX"}),
    "EX": frozenset({"CR", "CW", "PR", "PW", "EX"}),
}

Key = tuple[str, bool]  # the name, and whether it is a semaphore


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be."""

    checker: str
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.checker} at {self.at}: {self.what}"


@dataclass(slots=True)
class _Claim:
    """One claim, as far as the history has come."""

    asked: Asked
    mode: str
    fence: int | None = None
    holds: bool = False
    waits: bool = True
    grantable_at: float | None = None
    lost: bool = False
    ends: list[Record] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return self.asked.key, self.asked.limit is not None

    def __str__(self) -> str:
        return f"claim {self.asked.claim!r} on {self.asked.key!r}"


def judge(history: History) -> list[Finding]:
    """Have all checkers look at a history."""
    findings = [finding for check in CHECKERS for finding in check(history)]
    return sorted(findings, key=lambda finding: finding.at)


def exclusion(history: History) -> list[Finding]:
    """No two hold a key at once in modes that clash, and no semaphore has more seats taken than it has."""
    findings = []
    for record, claim, claims in _walk(history):
        if isinstance(record, (Granted, Converted)):
            others = [other for other in claims if other is not claim and other.holds and other.key == claim.key]
            findings += [
                Finding("exclusion", record.at, f"{claim} holds {claim.mode} beside {other} in {other.mode}")
                for other in others
                if claim.asked.limit is None and other.mode in CLASHES[claim.mode]
            ]
            limit = claim.asked.limit
            taken = claim.asked.units + sum(other.asked.units for other in others)
            if limit is not None and taken > limit:
                findings.append(Finding("exclusion", record.at, f"{claim} makes {taken} seats taken of {limit}"))
    return findings


def fences_rise(history: History) -> list[Finding]:
    """Each grant of a key has a higher fence than all grants of that key that must have come before it.

    Of two who hold it side by side, and who both asked before either knew of its grant, either may be told first.
    """
    findings = []
    known: dict[Key, list[_Claim]] = {}
    floors: dict[Hashable, int] = {}  # what was known to have been given out when a claim was asked for
    for record, claim, _ in _walk(history):
        granted = known.setdefault(claim.key, [])
        if isinstance(record, Asked):
            floors[record.claim] = max((_fence(other) for other in granted), default=-1)
        elif isinstance(record, Granted):
            before = [_fence(other) for other in granted if other is not claim and _excludes(other, claim)]
            last = max([floors[record.claim], *before])
            if record.fence <= last or any(_fence(other) == record.fence for other in granted if other is not claim):
                what = f"{claim} has fence {record.fence}, and {max(last, record.fence)} was given out before"
                findings.append(Finding("fences_rise", record.at, what))
            granted.append(claim)
    return findings


def no_lost_waiter(history: History) -> list[Finding]:
    """Nobody still waits at the end unless somebody who holds the key, or stands in front, keeps it from them."""
    claims: Collection[_Claim] = ()
    for _, _, so_far in _walk(history):
        claims = so_far
    end = history[-1].at if history else 0.0
    findings = []
    for place, claim in enumerate(claims):
        if claim.waits and not any(_blocks(other, claim, front < place) for front, other in enumerate(claims)):
            findings.append(Finding("no_lost_waiter", end, f"{claim} waits, and nobody holds what it wants"))
    return findings


def one_end_per_claim(history: History) -> list[Finding]:
    """A claim is granted at most once, ends at most once, and nothing happens to it after its end."""
    findings = []
    for record, claim, _ in _walk(history):
        name = type(record).__name__
        over = claim.ends[:-1] if claim.ends and claim.ends[-1] is record else claim.ends
        if isinstance(record, Asked) and record is not claim.asked:
            findings.append(Finding("one_end_per_claim", record.at, f"{claim} is asked for a second time"))
        elif over and not isinstance(record, (Grantable, Held)):
            ended = type(over[0]).__name__
            findings.append(Finding("one_end_per_claim", record.at, f"{name} of {claim}, which has ended ({ended})"))
        elif isinstance(record, Granted) and claim.fence != record.fence:
            findings.append(Finding("one_end_per_claim", record.at, f"{claim} is granted a second time"))
    return findings


def held_in_time(history: History) -> list[Finding]:
    """`held` is never true once the server could grant to another, and the notice has come before that."""
    findings = []
    for record, claim, _ in _walk(history):
        too_late = claim.grantable_at is not None and record.at >= claim.grantable_at
        if isinstance(record, Held) and (too_late or claim.lost):
            why = "its holder was told that it is lost" if claim.lost else "the server could grant it to another"
            findings.append(Finding("held_in_time", record.at, f"{claim} says it is held, and {why}"))
        elif isinstance(record, (Lost, Danger)) and too_late:
            what = f"{type(record).__name__} of {claim} is told when the server could grant it to another already"
            findings.append(Finding("held_in_time", record.at, what))
    return findings


CHECKERS: Final[tuple[Callable[[History], list[Finding]], ...]] = (
    exclusion,
    fences_rise,
    no_lost_waiter,
    one_end_per_claim,
    held_in_time,
)


def _walk(history: History) -> Iterator[tuple[Record, _Claim, Collection[_Claim]]]:
    """Go through a history; give each record with its claim as it is afterwards, and all claims so far, in order."""
    claims: dict[Hashable, _Claim] = {}
    last = float("-inf")
    for record in history:
        if record.at < last:
            raise ValueError(f"a history is in the order of its instants: {record} comes behind {last}")
        last = record.at
        if isinstance(record, Asked):
            claim = claims.setdefault(record.claim, _Claim(record, record.mode))
        elif record.claim in claims:
            claim = claims[record.claim]
        else:
            raise ValueError(f"{record} is about a claim that nobody has asked for")
        _apply(record, claim)
        yield record, claim, claims.values()


def _apply(record: Record, claim: _Claim) -> None:
    if isinstance(record, Granted) and claim.fence is None:
        claim.fence = record.fence
        claim.waits = False
        claim.holds = not claim.ends
    elif isinstance(record, Converted):
        claim.mode = record.mode
    elif isinstance(record, (Released, GaveUp, Lost)):
        claim.ends.append(record)
        claim.holds = claim.waits = False
        claim.lost = claim.lost or isinstance(record, Lost)
    elif isinstance(record, Grantable) and claim.grantable_at is None:
        claim.grantable_at = record.at
        claim.holds = False


def _fence(claim: _Claim) -> int:
    assert claim.fence is not None
    return claim.fence


def _excludes(one: _Claim, other: _Claim) -> bool:
    """Say whether two claims on one key, as they were asked for, cannot be held side by side."""
    limit = other.asked.limit
    if limit is not None:
        return one.asked.units + other.asked.units > limit
    return one.asked.mode in CLASHES[other.asked.mode]


def _blocks(other: _Claim, claim: _Claim, in_front: bool) -> bool:
    """Say whether one claim keeps another, which waits, from being granted."""
    if other is claim or other.key != claim.key:
        return False
    if other.holds:
        return claim.asked.limit is not None or other.mode in CLASHES[claim.mode]
    return other.waits and in_front
