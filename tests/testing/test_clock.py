"""The clock in the hand moves only when it is moved, and never back.

Who reads it is tested elsewhere.
"""

import pytest

from holdfast.testing.clock import HandClock
from holdfast.words import SECOND


def test_it_stands_still_and_moves_by_what_it_is_told() -> None:
    clock = HandClock(100)
    assert (clock(), clock()) == (100, 100)
    clock.advance(1.5)
    assert clock() == 100 + 1_500_000_000
    clock.advance_to(5 * SECOND)
    assert clock() == clock.now == 5 * SECOND


def test_it_starts_at_a_time_that_looks_like_one() -> None:
    assert HandClock()() > 10**18


def test_it_never_goes_back() -> None:
    clock = HandClock(100)
    clock.advance_to(100)
    with pytest.raises(AssertionError):
        clock.advance_to(99)
