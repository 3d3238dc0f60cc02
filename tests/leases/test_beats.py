"""Signs of life of a process: when they are expected, and when they came."""

import pytest

from holdfast.client.clock import now_ns
from holdfast.errors import BadRequest
from holdfast.leases import beats
from holdfast.leases.beats import Beats
from holdfast.testing.clock import HandClock
from tests.client.forks import in_child

SECOND = 1_000_000_000


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def life(clock):
    return Beats(clock)


def test_nothing_is_expected_until_somebody_says_so(clock, life):
    assert life.lately(clock(), None)
    assert not life.lately(clock(), SECOND)


def test_what_is_expected_counts_from_when_it_was_said(clock, life):
    life.expect(30)
    clock.advance(30)
    assert life.lately(clock(), None)
    clock.advance(0.1)
    assert not life.lately(clock(), None)
    life.beat()
    assert life.lately(clock(), None)
    life.expect(None)
    clock.advance(1000)
    assert life.lately(clock(), None)


def test_a_limit_of_a_lock_goes_before_that_of_all(clock, life):
    life.expect(10)
    clock.advance(20)
    assert life.lately(clock(), 30 * SECOND)
    assert not life.lately(clock(), 5 * SECOND)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_limit_has_to_be_some_time(life, seconds):
    with pytest.raises(BadRequest):
        life.expect(seconds)


def test_nothing_is_expected_of_a_child_of_a_fork():
    try:
        beats.expect(1e-9)
        assert not beats.process_beats.lately(now_ns() + SECOND, None)
        assert in_child(lambda: beats.process_beats.lately(now_ns() + SECOND, None)) == "True"
    finally:
        beats.process_beats.reset()
