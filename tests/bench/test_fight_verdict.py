"""The verdict on a fight for one lock finds what must not be, and forgives only who was not let run."""

from typing import Any

import pytest

from bench.fight_verdict import MILLISECOND, Report, Trouble, Turn, Verdict, judge, turns_of


def turn(who: str, fence: int, granted_ms: float, held_ms: float, **facts: Any) -> Turn:
    made = Turn(who, fence, round(granted_ms * MILLISECOND), round(held_ms * MILLISECOND))
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def trouble(fence: int, since_ms: float, until_ms: float, **facts: Any) -> Trouble:
    return Trouble(
        kind="cut", fence=fence, since_ns=int(since_ms * MILLISECOND), until_ns=int(until_ms * MILLISECOND), **facts
    )


GOOD = [turn("a", 1, 0, 90), turn("b", 2, 100, 190), turn("a", 4, 200, 290)]


def test_turns_are_read_from_what_a_process_has_written() -> None:
    lines = [
        {"what": "granted", "at": 1, "fence": 7},
        {"what": "held", "at": 2},
        {"what": "away", "at": 2, "until": 5},
        {"what": "held", "at": 6},
        {"what": "not held", "at": 7},
        {"what": "lost", "at": 8, "reason": "its lease ran out"},
        {"what": "granted", "at": 20, "fence": 9},
    ]
    assert turns_of("a", lines) == [
        Turn("a", 7, 1, 6, lost_ns=8, reason="its lease ran out", aways=[(2, 5)]),
        Turn("a", 9, 20, 20),
    ]


def test_a_fight_in_turns_is_no_violation() -> None:
    verdict = judge(list(reversed(GOOD)), [])
    assert (verdict.violations, verdict.late) == ([], [])
    assert verdict.turns == GOOD


@pytest.mark.parametrize("held_ms", [100, 250])
def test_two_who_believe_to_hold_at_once_are_one(held_ms: float) -> None:
    violations = judge([turn("a", 1, 0, held_ms), *GOOD[1:]], []).violations
    assert violations[0] == f"a held fence 1 {held_ms - 100:.1f} ms after b got 2"
    assert len(violations) == (2 if held_ms > 200 else 1)


@pytest.mark.parametrize("fence", [1, 2])
def test_a_fence_that_does_not_rise_is_one(fence: int) -> None:
    assert judge([*GOOD[:2], turn("a", fence, 200, 290)], []).violations == [f"the fence went from 2 to {fence}"]


def test_a_dead_holder_that_is_never_succeeded_is_one_and_a_late_successor_is_late() -> None:
    assert judge(GOOD, [trouble(4, 250, 250, taken_within_ns=MILLISECOND)]).violations == [
        "cut at fence 4: nobody else ever got the lock"
    ]
    verdict = judge(GOOD, [trouble(1, 50, 50, taken_within_ns=49 * MILLISECOND)])
    assert verdict.late == ["cut at fence 1: the next one had to wait for 50 ms"]
    assert verdict.takeovers_ns == [50 * MILLISECOND]
    assert judge(GOOD, [trouble(1, 50, 50, taken_within_ns=50 * MILLISECOND)]).late == []


def test_a_short_outage_that_costs_the_lock_is_told() -> None:
    lost = [turn("a", 1, 0, 60, lost_ns=70 * MILLISECOND, reason="gone"), *GOOD[1:]]
    short = trouble(1, 20, 40, survives_ns=80 * MILLISECOND)
    assert judge(GOOD, [short]).late == []
    assert judge(lost, [short]).late == ["cut at fence 1: lost by an outage of 20 ms: gone"]
    assert judge(lost, [trouble(1, 20, 40, survives_ns=69 * MILLISECOND)]).late == []  # that was by something else
    slow = [(30 * MILLISECOND, 85 * MILLISECOND)]
    assert (judge(lost, [short], slow).late, judge(lost, [short], slow).starved) == ([], 1)


def test_a_loss_that_its_holder_hears_of_too_late_is_told() -> None:
    long = trouble(1, 20, 99, loses=True)
    assert judge(GOOD, [long]).late == ["cut at fence 1: its holder never heard of the loss"]
    in_time = [turn("a", 1, 0, 60, lost_ns=99 * MILLISECOND), *GOOD[1:]]
    assert judge(in_time, [long]).late == []
    too_late = [turn("a", 1, 0, 60, lost_ns=100 * MILLISECOND), *GOOD[1:]]
    assert judge(too_late, [long]).late == ["cut at fence 1: its holder heard of the loss after somebody else had it"]


def test_who_was_not_let_run_is_forgiven() -> None:
    long = trouble(1, 20, 99, loses=True)
    away = [(30 * MILLISECOND, 85 * MILLISECOND)]
    verdict = judge([turn("a", 1, 0, 90, aways=away), *GOOD[1:]], [long])
    assert (verdict.late, verdict.starved) == ([], 1)
    shortly = [(30 * MILLISECOND, 40 * MILLISECOND)]
    assert judge([turn("a", 1, 0, 90, aways=shortly), *GOOD[1:]], [long]).starved == 0
    long_ago = [(-100 * MILLISECOND, -10 * MILLISECOND)]
    assert judge([turn("a", 1, 0, 90, aways=long_ago), *GOOD[1:]], [long]).starved == 0


def test_a_summary_tells_how_it_went() -> None:
    verdict = Verdict([Turn("fighter 1", 1, 0, 1)], takeovers_ns=[1_600_000_000])
    assert Report(verdict, lease_s=1.5).summary().splitlines()[1:] == [
        "a dead holder's key was taken at most 100 ms after a whole lease",
        "no violation, nothing late",
    ]
    verdict.violations.append("two holders")
    verdict.late.append("too late")
    assert Report(verdict).summary().splitlines()[2:] == ["two holders", "too late", "1 violations, 1 times late"]
