"""The verdict on lease trials finds what must not be, and forgives only who could not be told."""

import pytest

from bench.lease_verdict import MILLISECOND, Story, judge, was_starved

LEASE_NS = 1000 * MILLISECOND


def line(what: str, ms: float, **facts: object) -> dict[str, object]:
    return {"what": what, "at": round(ms * MILLISECOND), **facts}


GOOD = [
    line("granted", 0, fence=1),
    line("danger", 640),
    line("held", 955),
    line("not held", 960),
    line("lost", 961),
]


def story(*lines: dict[str, object], **facts: object) -> Story:
    made = Story("trial", LEASE_NS, list(lines), next_grant_ns=1000 * MILLISECOND, next_fence=2)
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def test_a_loss_that_was_told_in_time_is_no_violation():
    assert judge(story(*GOOD)) == []


def test_a_lock_that_nobody_else_ever_gets_is_one():
    assert judge(story(*GOOD, next_grant_ns=None)) == ["trial: nobody else was ever granted the lock"]
    assert not was_starved(story(next_grant_ns=None))
    assert judge(story(next_grant_ns=None, failure="it did not begin")) == ["trial: it did not begin"]


@pytest.mark.parametrize("facts", [{}, {"deaf": True}])
def test_held_after_the_next_grant_is_one_whatever_has_happened_to_the_holder(facts):
    away = line("away", 500, until=1100 * MILLISECOND)
    assert judge(story(*GOOD, away, line("held", 1000), **facts)) == [
        "trial: held was true 0.0 ms after somebody else was granted the lock"
    ]


@pytest.mark.parametrize(("missing", "told"), [("lost", "of the loss"), ("danger", "of the danger")])
def test_a_notice_that_does_not_come_is_one(missing, told):
    lines = [one for one in GOOD if one["what"] != missing]
    assert [told in one for one in judge(story(*lines))] == [True]
    assert judge(story(*lines, deaf=True)) == []
    assert judge(story(*lines, line("released", 900))) == []


def test_a_notice_that_comes_too_late_is_one_unless_the_holder_was_not_let_run():
    late = [one for one in GOOD if one["what"] != "lost"] + [line("lost", 1001)]
    assert len(judge(story(*late))) == 1
    starved = story(*late, line("away", 950, until=990 * MILLISECOND))
    assert judge(starved) == []
    assert was_starved(starved)
    long_ago = story(*late, line("away", 100, until=200 * MILLISECOND))
    assert len(judge(long_ago)) == 1
    assert not was_starved(long_ago)


def test_a_fence_that_does_not_rise_is_one():
    assert judge(story(*GOOD, next_fence=1)) == ["trial: the fence went from 1 to 1"]


def test_a_command_that_outlives_its_lock_is_one():
    assert judge(story(alive_ns=999 * MILLISECOND)) == []
    assert judge(story(alive_ns=1005 * MILLISECOND)) == [
        "trial: the command still ran 5.0 ms after somebody else was granted the lock"
    ]
