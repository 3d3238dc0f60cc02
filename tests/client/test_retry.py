"""Trying again is bounded in number and in time, grows apart, follows advice, and never bunches up by accident."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.retry import Attempts, RetryPolicy, chance_of
from holdfast.errors import BadRequest

SECOND = 1_000_000_000
EXACT = RetryPolicy(max_retries=1000, min_delay=1, max_delay=4, jitter=0)


def delays(policy, count, **keywords):
    return [policy.delay_ns(tries, 0.5, **keywords) / SECOND for tries in range(1, count + 1)]


def pauses(attempts, *, start=0, count=1000):
    """Try again at once whenever that is allowed; give the instants of all tries but the first."""
    now, instants = start, []
    for _ in range(count):
        then = attempts.again(now)
        if then is None:
            break
        instants.append(then / SECOND)
        now = then
    return instants


def test_each_delay_is_half_as_long_again_up_to_a_bound():
    assert delays(EXACT, 6) == [1, 1.5, 2.25, 3.375, 4, 4]


def test_advice_is_followed_within_bounds():
    assert delays(EXACT, 2, advice_ns=3 * SECOND) == [3, 3]
    assert delays(EXACT, 1, advice_ns=60 * SECOND) == [4]
    assert delays(EXACT, 1, advice_ns=1) == [1]


def test_advice_of_nothing_is_none():
    assert delays(EXACT, 2, advice_ns=0) == [1, 1.5]


def test_chance_makes_a_delay_longer_or_shorter_by_its_share():
    policy = RetryPolicy(min_delay=1, max_delay=1, jitter=0.2)
    assert [policy.delay_ns(1, chance) / SECOND for chance in (0, 0.5, 1)] == [0.8, 1, 1.2]


def test_no_number_of_tries_is_too_large():
    assert EXACT.delay_ns(1 << 60, 0.5) == 4 * SECOND


@given(
    st.integers(1, 10**9),
    st.floats(0, 1),
    st.integers(0, 1 << 62),
    st.floats(0.001, 10),
    st.floats(1, 10),
    st.floats(0, 0.99),
)
def test_every_delay_is_within_the_bounds_and_their_share(tries, chance, advice_ns, least, factor, jitter):
    policy = RetryPolicy(min_delay=least, max_delay=least * factor, jitter=jitter)
    delay = policy.delay_ns(tries, chance, advice_ns=advice_ns) / SECOND
    assert least * (1 - jitter) - 1e-6 <= delay <= least * factor * (1 + jitter) + 1e-6


def test_there_are_so_many_tries_after_the_first_and_no_more():
    attempts = Attempts(RetryPolicy(max_retries=3, min_delay=1, max_delay=1, jitter=0), 0, lambda: 0.5)
    assert attempts.tries == 1
    assert pauses(attempts) == [1, 2, 3]
    assert attempts.tries == 4
    assert attempts.again(0) is None


def test_none_after_the_first_is_none():
    assert Attempts(RetryPolicy(max_retries=0), 0, lambda: 0.5).again(0) is None


def test_the_last_try_is_at_the_end_of_the_time_and_not_behind_it():
    policy = RetryPolicy(max_retries=1000, max_total_wait=5, min_delay=2, max_delay=2, jitter=0)
    assert pauses(Attempts(policy, 10 * SECOND, lambda: 0.5), start=10 * SECOND) == [12, 14, 15]


def test_when_the_time_is_over_there_is_no_other_try():
    policy = RetryPolicy(max_retries=1000, max_total_wait=5, min_delay=2, max_delay=2, jitter=0)
    assert Attempts(policy, 0, lambda: 0.5).again(5 * SECOND - 1) == 5 * SECOND
    assert Attempts(policy, 0, lambda: 0.5).again(5 * SECOND) is None


def test_no_time_at_all_is_one_try():
    assert Attempts(RetryPolicy(max_total_wait=0), 7, lambda: 0.5).again(7) is None


def test_advice_does_not_lead_behind_the_end():
    policy = RetryPolicy(max_total_wait=5, min_delay=1, max_delay=60, jitter=0)
    assert Attempts(policy, 0, lambda: 0.5).again(SECOND, advice_ns=30 * SECOND) == 5 * SECOND


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ({"max_retries": -1}, "max_retries"),
        ({"max_total_wait": -0.1}, "max_total_wait"),
        ({"max_total_wait": float("nan")}, "max_total_wait"),
        ({"max_total_wait": float("inf")}, "max_total_wait"),
        ({"min_delay": 0}, "min_delay"),
        ({"min_delay": 2, "max_delay": 1}, "min_delay"),
        ({"max_delay": float("inf")}, "max_delay"),
        ({"min_delay": float("nan")}, "min_delay"),
        ({"jitter": -0.1}, "jitter"),
        ({"jitter": 1}, "jitter"),
        ({"jitter": float("nan")}, "jitter"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_by_name(setting, name):
    with pytest.raises(BadRequest, match=name):
        RetryPolicy(**setting)


def test_chance_is_made_of_the_dice_alone():
    assert chance_of(bytes)() == 0.0
    assert chance_of(lambda count: b"\x80" + bytes(count - 1))() == 0.5
    assert 0.999999 < chance_of(lambda count: b"\xff" * count)() < 1.0
