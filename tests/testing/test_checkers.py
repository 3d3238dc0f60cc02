"""The public checkers find what they are for, and nothing in a history that is right."""

import pytest

from holdfast.testing.checkers import (
    CLASHES,
    exclusion,
    fences_rise,
    held_in_time,
    judge,
    no_lost_waiter,
    one_end_per_claim,
)
from holdfast.testing.history import (
    Asked,
    Converted,
    Danger,
    GaveUp,
    Grantable,
    Granted,
    Held,
    Lost,
    Released,
)
from holdfast.words import CLASH, Mode

GOOD = [
    Asked(0, "a", "job"),
    Granted(1, "a", fence=1),
    Asked(1, "b", "job"),
    Held(2, "a"),
    Danger(3, "a"),
    Lost(4, "a"),
    Grantable(5, "a"),
    Granted(5, "b", fence=2),
    Asked(5, "c", "job"),
    Asked(5, "d", "job"),
    GaveUp(6, "d"),
    Released(6, "b"),
    Granted(6, "c", fence=3),
    Asked(6, "e", "job"),
]


def found(findings):
    return [(finding.checker, finding.at) for finding in findings]


def test_a_history_that_is_right_has_no_findings():
    assert judge(GOOD) == []


def test_the_modes_that_clash_are_those_of_the_engine():
    for one in Mode:
        assert CLASHES[one.name] == {other.name for other in Mode if CLASH[one] >> other & 1}


def test_two_exclusive_holders_are_found():
    history = [Asked(0, "a", "k"), Granted(0, "a", fence=1), Asked(0, "b", "k"), Granted(1, "b", fence=2)]
    assert found(exclusion(history)) == [("exclusion", 1)]
    assert found(judge(history)) == [("exclusion", 1)]


def test_readers_hold_beside_readers_and_not_beside_one_who_converts():
    history = [
        Asked(0, "a", "k", mode="PR"),
        Asked(0, "b", "k", mode="PR"),
        Granted(0, "a", fence=1),
        Granted(0, "b", fence=2),
    ]
    assert exclusion(history) == []
    assert found(exclusion([*history, Converted(3, "a", mode="EX")])) == [("exclusion", 3)]


def test_seats_are_counted_and_a_lock_of_the_same_name_is_another_key():
    history = [
        Asked(0, "a", "pool", units=2, limit=3),
        Asked(0, "b", "pool", units=2, limit=3),
        Asked(0, "c", "pool"),
        Granted(0, "a", fence=1),
        Granted(1, "c", fence=1),
    ]
    assert judge(history) == []
    assert found(exclusion([*history, Granted(2, "b", fence=2)])) == [("exclusion", 2)]


@pytest.mark.parametrize("fence", [1, 2])
def test_a_fence_that_does_not_rise_is_found(fence):
    history = [
        Asked(0, "a", "k"),
        Granted(0, "a", fence=2),
        Released(1, "a"),
        Asked(1, "b", "k"),
        Granted(2, "b", fence=fence),
    ]
    assert found(fences_rise(history)) == [("fences_rise", 2)]


@pytest.mark.parametrize("wish", [{"mode": "PR"}, {"mode": "CW", "limit": 2}])
def test_who_holds_beside_another_may_hear_of_its_grant_later(wish):
    history = [
        Asked(0, "a", "k", **wish),
        Asked(0, "b", "k", **wish),
        Granted(1, "a", fence=2),
        Granted(2, "b", fence=1),
    ]
    assert fences_rise(history) == []
    assert found(fences_rise([*history[:3], Granted(2, "b", fence=2)])) == [("fences_rise", 2)]


@pytest.mark.parametrize("wish", [{"mode": "PR"}, {"mode": "CW", "limit": 2}])
def test_who_asks_when_a_grant_is_known_gets_a_higher_fence(wish):
    history = [
        Asked(0, "a", "k", **wish),
        Granted(1, "a", fence=2),
        Asked(1, "b", "k", **wish),
        Granted(2, "b", fence=1),
    ]
    assert found(fences_rise(history)) == [("fences_rise", 2)]


def test_seats_that_cannot_be_taken_side_by_side_have_fences_in_their_order():
    history = [
        Asked(0, "a", "k", units=2, limit=3),
        Asked(0, "b", "k", units=2, limit=3),
        Granted(1, "a", fence=2),
        Released(2, "a"),
        Granted(3, "b", fence=1),
    ]
    assert found(fences_rise(history)) == [("fences_rise", 3)]


def test_a_waiter_whom_nobody_blocks_is_lost():
    history = [Asked(0, "a", "k"), Granted(0, "a", fence=1), Asked(1, "b", "k"), Released(2, "a")]
    assert found(no_lost_waiter(history)) == [("no_lost_waiter", 2)]
    assert no_lost_waiter(history[:3]) == []


def test_a_waiter_behind_another_one_is_not_lost():
    history = [Asked(0, "a", "k"), Granted(0, "a", fence=1), Asked(1, "b", "k"), Asked(1, "c", "k", mode="NL")]
    assert no_lost_waiter(history) == []


def test_a_second_end_is_found_and_a_grant_after_the_end():
    history = [Asked(0, "a", "k"), Granted(0, "a", fence=1), Released(1, "a")]
    assert one_end_per_claim(history) == []
    assert found(one_end_per_claim([*history, Lost(2, "a")])) == [("one_end_per_claim", 2)]
    assert found(one_end_per_claim([*history, Granted(3, "a", fence=2)])) == [("one_end_per_claim", 3)]
    assert found(one_end_per_claim([*history[:2], Granted(3, "a", fence=2)])) == [("one_end_per_claim", 3)]
    assert found(one_end_per_claim([*history, Asked(4, "a", "k")])) == [("one_end_per_claim", 4)]


def test_held_after_the_server_could_grant_to_another_is_found():
    history = [Asked(0, "a", "k"), Granted(0, "a", fence=1), Grantable(5, "a")]
    assert held_in_time([*history[:2], Held(4, "a"), history[2]]) == []
    assert found(held_in_time([*history, Held(5, "a")])) == [("held_in_time", 5)]


def test_a_notice_that_comes_too_late_is_found_and_held_after_the_notice():
    history = [Asked(0, "a", "k"), Granted(0, "a", fence=1)]
    assert found(held_in_time([*history, Grantable(5, "a"), Lost(5, "a")])) == [("held_in_time", 5)]
    assert found(held_in_time([*history, Grantable(5, "a"), Danger(6, "a")])) == [("held_in_time", 6)]
    assert found(held_in_time([*history, Lost(3, "a"), Held(4, "a")])) == [("held_in_time", 4)]


def test_a_history_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="nobody has asked"):
        judge([Granted(0, "a", fence=1)])
    with pytest.raises(ValueError, match="order of its instants"):
        judge([Asked(1, "a", "k"), Granted(0, "a", fence=1)])


def test_a_finding_says_who_and_when():
    history = [Asked(0, "a", "k"), Granted(0, "a", fence=1), Asked(0, "b", "k"), Granted(1, "b", fence=2)]
    assert str(judge(history)[0]) == "exclusion at 1: claim 'b' on 'k' holds EX beside claim 'a' on 'k' in EX"
