"""Every planted bug is caught by the simulator, and by nothing but the bug.

Where a bug needs rare circumstances, a seed that has them stands here, so that the test need not look for one.
"""

import pytest

from sim.bugs import BUGS
from sim.planting import planted
from sim.run import run

SEEDS_MAX = 1_500

# Should a change of the simulator move these, the search below finds others.
TELLING = {
    "the_good_slot_is_overwritten": 333,
    "a_failed_write_counts": 206,
    "a_newer_phase_goes": 167,
    "lost_behind_a_slow_peer": 24,
    "a_long_line_is_forgiven": 115,
    "the_blocked_hear_nothing_at_the_end": 59,
    "the_wait_for_the_file_counts": 161,
    "swept_and_claimed_at_once": 660,
    "seats_are_forgotten": 178,
}


def catch(name: str) -> int | None:
    """Find a seed that catches the bug."""
    with planted(BUGS[name]):
        return next((seed for seed in (TELLING.get(name, 0), *range(SEEDS_MAX)) if run(seed).findings), None)


@pytest.mark.parametrize("name", BUGS)
def test_it_is_caught(name: str) -> None:
    seed = catch(name)
    assert seed is not None
    assert run(seed).findings == []


def test_there_are_enough_of_them_and_each_says_what_it_is() -> None:
    assert len(BUGS) >= 24
    assert all(bug.about for bug in BUGS.values())
