"""What is asked is plain data: it cannot change under way, and says the same each time."""

import dataclasses

import pytest

from holdfast.client.asks import LOCK, SEMAPHORE, Acquire, End, Granted, Member, Proof, Query, Refusal, Want, kind_of
from holdfast.errors import Busy

WANT = Want(key="job", ticket="ticket-of-a-0001", lease_ns=1)


def test_what_has_a_limit_is_a_semaphore_and_all_else_a_lock():
    assert WANT.kind == LOCK == kind_of(None)
    assert dataclasses.replace(WANT, limit=1).kind == SEMAPHORE == kind_of(1)


def test_a_want_is_for_one_exclusive_lock_unless_it_says_otherwise():
    assert (WANT.mode, WANT.limit, WANT.units, WANT.members) == ("EX", None, 1, ())
    assert (WANT.nudge, WANT.refuse_deadlock, WANT.about) == (False, False, None)
    assert Member("job") == Member("job", "EX", None, 1)


@pytest.mark.parametrize("thing", [WANT, Member("job"), Proof(WANT, "token", 7)])
def test_what_is_asked_again_cannot_change_meanwhile(thing):
    name = dataclasses.fields(thing)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(thing, name, "another")


def test_two_requests_for_the_same_are_the_same():
    assert Acquire(WANT, 5) == Acquire(dataclasses.replace(WANT), 5)
    assert Acquire(WANT, 5) != Acquire(WANT, None)
    assert End(WANT, None) == End(WANT, None, None)


def test_no_query_gets_the_fields_of_another():
    one, two = Query("look"), Query("look")
    one.fields["key"] = "job"
    assert two.fields == {}


def test_a_grant_does_not_say_what_is_left_of_it_unless_the_server_does():
    grant = Granted("ticket-of-a-0001", "job", LOCK, "EX", 7, "token", 30)
    assert (grant.left_ns, grant.value, grant.value_valid, grant.lease_id) == (None, None, False, "")


def test_a_refusal_gives_no_advice_and_tells_of_nothing_of_ours_unless_it_says_so():
    refusal = Refusal(Busy("somebody has it"))
    assert (refusal.advice_ns, refusal.ours) == (0, False)
