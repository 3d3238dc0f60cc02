"""Every planted bug of leases is caught by the lease trials, by the judge it is for, and by nothing but the bug.

Where a bug needs rare circumstances, a trial that has them stands here, so that the test need not look for one.
"""

import pytest

from sim.lease_bugs import BUGS
from sim.lease_trial import run
from sim.planting import planted

TRIALS_MAX = 1_500

# Should a change move these, the search below finds others.
TELLING = {
    "counted_from_the_answer": 6,
    "renewed_from_the_answer": 57,
    "found_again_as_new": 333,
    "no_margin": 2,
    "a_late_renewal_resurrects": 281,
    "a_refused_renewal_counts": 216,
    "a_hung_holder_is_renewed": 56,
    "told_after_the_deadline": 9,
    "danger_is_not_told": 9,
    "renewed_once_too_rarely": 61,
    "gone_with_its_session": 215,
}

JUDGES = {
    "held_until_told": "everybody_ends",
    "a_hung_holder_is_renewed": "let_go",
    "told_after_the_deadline": "notices",
    "danger_is_not_told": "notices",
    "renewed_once_too_rarely": "lost_for_a_reason",
}


@pytest.mark.parametrize("name", BUGS)
def test_it_is_caught(name: str) -> None:
    with planted(BUGS[name]):
        outcomes = (run(seed) for seed in (TELLING.get(name, 0), *range(TRIALS_MAX)))
        caught = next(outcome for outcome in outcomes if outcome.findings)
    assert caught.findings[0].checker == JUDGES.get(name, "held_in_time")
    assert run(caught.plan.seed).findings == []


def test_there_are_enough_of_them_and_each_says_what_it_is() -> None:
    assert len(BUGS) >= 14
    assert all(bug.about for bug in BUGS.values())
