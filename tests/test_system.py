"""The machine's clock and dice, as far as a test can tell: they are the machine's, and they do not go back or repeat.

Nothing here waits for time to pass.
"""

import time

from holdfast.system import SystemClock, SystemDice, not_before
from holdfast.testing.clock import HandClock
from holdfast.words import SECOND


def test_the_clock_starts_at_the_wall_clock_of_the_machine() -> None:
    before = time.time_ns()
    now = SystemClock().now()
    after = time.time_ns()
    # Two clocks are read one after the other, so what is between them belongs to the reading.
    assert before - SECOND < now < after + SECOND


def test_the_clock_goes_on_with_the_monotonic_clock() -> None:
    clock = SystemClock()
    ahead = clock.now() - time.monotonic_ns()
    for _ in range(1000):
        before, now, after = time.monotonic_ns(), clock.now(), time.monotonic_ns()
        # `ahead` was found by two readings, of which the second may have been a little late.
        assert before + ahead <= now
        assert now - ahead - SECOND < after


def test_the_dice_give_as_many_bytes_as_asked_for_and_never_the_same() -> None:
    dice = SystemDice()
    assert [len(dice.roll(count)) for count in (0, 1, 16, 4352)] == [0, 1, 16, 4352]
    assert len({dice.roll(16) for _ in range(100)}) == 100


def test_a_clock_that_is_late_enough_is_left_as_it_is() -> None:
    clock = HandClock(1000)
    assert not_before(clock, 1000) is clock
    assert not_before(clock, 0) is clock


def test_a_clock_that_was_set_back_goes_on_from_where_it_must_not_be_before() -> None:
    clock = HandClock(1000)
    steady = not_before(clock, 5000)
    assert steady() == 5000
    clock.advance_to(1700)
    assert steady() == 5700
