"""The verdicts over a load: each broken promise is planted once, and what is merely late or lost is none.

No server is asked here.
"""

import random

import pytest

from holdfast.cli.load_verdicts import EVIDENCE_MAX, Hold, Resource, believed_until, judge

GRANTED = "something was granted"
FALLING = "tokens of accepted writes never fall"
OVERLAP = "no two holders at once"
ORDER = "tokens rise in the order of grants"
SHUT_OUT = "no write of a holder is rejected"
LAST = "last_token is one that was granted"


def hold(token, asked, seen, until, *, written=True, released=True, lock="job"):
    return Hold(lock=lock, token=token, asked=asked, seen=seen, until=until, written=written, released=released)


def broken(holds, resource=None):
    """Name the promises that were not kept; the resource is written to by everybody who says so, in order."""
    if resource is None:
        resource = Resource()
        for one in sorted(holds, key=lambda one: one.token):
            if one.written:
                resource.write(one.lock, one.token)
    return {verdict.promise for verdict in judge(holds, resource) if not verdict.kept}


def test_holders_one_after_the_other_with_rising_tokens_are_as_promised():
    assert broken([hold(1, 0, 1, 5), hold(2, 3, 6, 9), hold(4, 9, 10, 12)]) == set()


def test_a_run_without_a_single_grant_proves_nothing():
    assert broken([]) == {GRANTED}


def test_two_holders_at_once_are_found():
    assert broken([hold(1, 0, 1, 5), hold(2, 0, 4, 9)]) == {OVERLAP}


def test_a_short_hold_within_a_long_one_is_found_behind_another_short_one():
    assert broken([hold(1, 0, 1, 50), hold(2, 0, 4, 5), hold(3, 0, 30, 31)]) == {OVERLAP}
    (evidence,) = (v.evidence for v in judge([hold(1, 0, 1, 9), hold(2, 0, 4, 5)], Resource()) if v.promise == OVERLAP)
    assert evidence == ("job: 2 was granted while 1 was held",)


def test_the_end_of_one_hold_may_be_the_beginning_of_the_next():
    assert broken([hold(1, 0, 1, 5), hold(2, 0, 5, 9)]) == set()


def test_a_lease_that_was_over_before_its_grant_was_read_is_held_by_nobody():
    assert broken([hold(1, 0, 8, 5, released=False), hold(2, 0, 6, 9)]) == set()


def test_locks_are_judged_apart():
    assert broken([hold(1, 0, 1, 5), hold(1, 0, 1, 5, lock="other")]) == set()


def test_a_token_that_falls_is_found():
    assert broken([hold(2, 0, 1, 2), hold(1, 3, 4, 5)]) == {ORDER}


def test_a_token_that_repeats_is_found():
    assert ORDER in broken([hold(1, 0, 1, 2), hold(1, 0, 4, 5)])


def test_answers_that_overtook_each_other_on_the_way_are_no_disorder():
    assert broken([hold(2, 0, 3, 4), hold(1, 0, 5, 5)]) == set()


def test_a_write_with_a_lower_token_that_was_taken_is_found():
    resource = Resource(last={"job": 1}, accepted={"job": [1, 2, 1]})
    holds = [hold(1, 0, 1, 2, written=False, released=False), hold(2, 3, 4, 5)]
    assert FALLING in broken(holds, resource)


def test_a_holder_who_was_shut_out_is_found_and_a_former_holder_who_was_is_not():
    assert broken([hold(2, 0, 1, 2), hold(3, 3, 4, 5, written=False)]) == {SHUT_OUT}
    assert broken([hold(2, 0, 1, 2), hold(3, 3, 4, 5, written=False, released=False)]) == set()


@pytest.mark.parametrize(
    ("holds", "last"),
    [
        ([hold(1, 0, 1, 2)], 7),
        ([hold(1, 0, 1, 2), hold(2, 3, 4, 5)], 1),
        ([hold(1, 0, 1, 2), hold(1, 3, 4, 5), hold(2, 6, 7, 8)], 2),
    ],
)
def test_a_last_token_that_cannot_be_is_found(holds, last):
    assert LAST in broken(holds, Resource(last={"job": last}))


def test_evidence_is_shown_only_so_often():
    holds = [hold(token, 0, 1, 100) for token in range(1, 50)]
    assert max(len(verdict.evidence) for verdict in judge(holds, Resource())) == EVIDENCE_MAX


def test_the_resource_takes_what_is_not_older_than_the_last_write():
    resource = Resource()
    assert [resource.write("job", token) for token in (3, 3, 2, 5)] == [True, True, False, True]
    assert resource.write("other", 1)
    assert (resource.accepted_count, resource.rejected_count, resource.last) == (4, 1, {"job": 5, "other": 1})


@pytest.mark.parametrize(
    ("left", "released", "until"),
    [(50, True, 50), (500, True, 500), (50, False, 50), (500, False, 110)],
)
def test_a_holder_relies_on_its_lease_until_it_leaves_or_until_the_lease_as_it_counts_it_is_over(left, released, until):
    assert believed_until(asked=10, ttl_ns=100, left=left, released=released) == until


@pytest.mark.parametrize("seed", range(20))
def test_any_history_of_a_correct_lock_is_as_promised(seed):
    dice = random.Random(seed)
    now, token, holds = 0, 0, []
    for _ in range(200):
        granted = now + dice.randrange(5)
        given_up = granted + dice.randrange(20)
        token += 1 + dice.randrange(2)
        seen = granted + dice.randrange(5)
        left = seen + dice.randrange(10)
        released = left <= given_up
        until = believed_until(asked=granted - 3, ttl_ns=given_up - granted, left=left, released=released)
        holds.append(hold(token, granted - 3, seen, until, released=released))
        now = given_up
    dice.shuffle(holds)
    assert broken(holds) == set()
