"""Operations keep their ticket, count leases from before the request, and leave nothing behind that nobody knows of."""

import pytest

from holdfast.client.asks import (
    Acquire,
    Ended,
    Proof,
    Query,
    Queued,
    Refusal,
    Renew,
    Renewed,
    Seen,
)
from holdfast.client.core import Asking, proof_of
from holdfast.client.retry import RetryPolicy
from holdfast.errors import (
    BadPeer,
    Busy,
    Closed,
    LeaseLost,
    StoreBusy,
    TimedOut,
    Unavailable,
    Unknown,
    WouldDeadlock,
)
from tests.client.operations import SECOND, WANT, Carrier, acquiring, busy, grant, http_grant, over_http, rules

# --- taking a lock ---


def test_a_grant_that_came_at_once_is_relied_on_at_once():
    carrier = acquiring(patience=5)
    assert carrier.ask(at=100) == Acquire(WANT, 5 * SECOND)
    assert carrier.hear(grant(left_ns=29 * SECOND), at=100.25)
    done = carrier.operation
    assert done.grants == [grant(left_ns=29 * SECOND)]
    assert (done.sent_at, done.lease_ns, done.left_ns) == (100 * SECOND, 30 * SECOND, 29 * SECOND)


def test_the_lease_counts_from_before_the_request_whenever_the_clock_began():
    carrier = acquiring()
    carrier.ask(at=0)
    carrier.miss(Unknown("it broke"), at=0)
    carrier.ask(at=1)
    assert carrier.hear(grant(left_ns=None), at=2)
    assert carrier.operation.sent_at == 0


def test_after_a_lost_answer_the_same_ticket_is_shown_with_what_is_left_of_the_patience():
    carrier = acquiring(patience=5)
    carrier.ask(at=10)
    carrier.miss(Unknown("it broke"), at=12)
    assert carrier.ask(at=13) == Acquire(WANT, 2 * SECOND)
    assert carrier.hear(grant(), at=13)


def test_a_patience_that_ran_out_in_trouble_still_lets_it_ask_whether_it_was_granted():
    carrier = acquiring(patience=0.5)
    carrier.ask(at=10)
    carrier.miss(Unknown("it broke"), at=10.4)
    assert carrier.ask(at=11.4) == Acquire(WANT, 0)
    with pytest.raises(TimedOut, match="'job' was not to be had"):
        carrier.hear(busy(), at=11.5)


def test_whoever_waits_for_ever_says_so_each_time():
    carrier = acquiring(patience=None)
    assert carrier.ask() == Acquire(WANT, None)
    assert carrier.operation.patience_ns() is None
    carrier.miss(Closed("it stops"))
    assert carrier.ask(at=1) == Acquire(WANT, None)


def test_without_any_patience_a_lock_that_somebody_has_is_busy():
    for error in (Busy("somebody has it"), TimedOut("nobody gave it back")):
        carrier = acquiring(patience=0)
        assert carrier.ask() == Acquire(WANT, 0)
        with pytest.raises(Busy):
            carrier.hear(Refusal(error), at=0.1)


def test_a_server_that_gives_up_a_little_early_is_believed():
    carrier = acquiring(patience=5)
    carrier.ask()
    with pytest.raises(TimedOut):
        carrier.hear(Refusal(TimedOut("nobody gave it back")), at=4.99)


def test_a_refusal_for_good_is_raised_and_leaves_nothing_to_be_ended():
    carrier = acquiring()
    carrier.ask()
    with pytest.raises(WouldDeadlock):
        carrier.hear(Refusal(WouldDeadlock("a circle")))
    assert carrier.operation.leftover() is None


def test_a_store_that_is_busy_is_asked_again():
    carrier = acquiring()
    carrier.ask()
    assert not carrier.hear(Refusal(StoreBusy("busy")))
    assert carrier.pause() == 1
    assert carrier.ask(at=1) == Acquire(WANT, None)


@pytest.mark.parametrize("answer", [Queued(), Ended(was_there=True), Seen({})])
def test_an_answer_to_something_else_blames_the_server_and_what_may_be_held_is_ended(answer):
    carrier = acquiring()
    carrier.ask()
    with pytest.raises(BadPeer, match="a request for 'job'"):
        carrier.hear(answer)
    assert carrier.operation.leftover() == (WANT, None)


# --- grants that come late ---


def test_a_grant_that_comes_late_is_renewed_before_anybody_relies_on_it():
    carrier = acquiring()
    carrier.ask(at=0)
    assert not carrier.hear(grant(), at=10.1)  # a third of the lease may be gone
    assert carrier.operation.patience_ns() == 0
    assert carrier.ask(at=10.2) == Renew([(proof_of(WANT, grant()), 30 * SECOND)])
    assert carrier.hear(Renewed([True]), at=10.4)
    done = carrier.operation
    assert (done.sent_at, done.left_ns) == (int(10.2 * SECOND), 30 * SECOND)


def test_a_grant_that_comes_after_less_than_a_third_of_the_lease_is_not():
    carrier = acquiring()
    carrier.ask(at=0)
    assert carrier.hear(grant(), at=10)


def test_a_grant_found_again_of_which_little_is_left_is_renewed_too():
    carrier = acquiring()
    carrier.ask(at=50)
    assert not carrier.hear(grant(left_ns=15 * SECOND), at=50.1)
    assert isinstance(carrier.ask(at=50.1), Renew)


def test_a_grant_that_was_lost_on_its_way_and_could_not_be_renewed_is_lost():
    carrier = acquiring()
    carrier.ask()
    carrier.hear(grant(), at=40)
    carrier.ask(at=40)
    with pytest.raises(LeaseLost, match=r"'job' was granted, but its lease of 30 s ran out"):
        carrier.hear(Renewed([False]), at=40.1)
    assert carrier.operation.leftover() is None


def test_while_it_is_not_known_whether_the_late_grant_was_renewed_it_is_asked_again():
    carrier = acquiring()
    carrier.ask()
    carrier.hear(grant(), at=15)
    carrier.ask(at=15)
    assert not carrier.hear(Renewed([None]), at=15)
    carrier.ask(at=16)
    carrier.miss(Unknown("it broke"), at=16)
    renewal = carrier.ask(at=17)
    assert isinstance(renewal, Renew)
    assert carrier.hear(Renewed([True]), at=17.5)
    assert carrier.operation.sent_at == 17 * SECOND


def test_a_server_that_gives_less_than_was_asked_for_is_believed():
    carrier = acquiring()
    carrier.ask(at=0)
    assert not carrier.hear(grant(lease_ns=9 * SECOND, left_ns=9 * SECOND), at=4)
    carrier.ask(at=4)
    assert carrier.hear(Renewed([True]), at=4)
    assert (carrier.operation.lease_ns, carrier.operation.left_ns) == (9 * SECOND, 9 * SECOND)


def test_a_server_that_gives_more_than_was_asked_for_is_not():
    carrier = acquiring()
    carrier.ask(at=0)
    assert carrier.hear(grant(lease_ns=90 * SECOND, left_ns=80 * SECOND), at=1)
    assert (carrier.operation.lease_ns, carrier.operation.left_ns) == (30 * SECOND, 30 * SECOND)


def test_where_the_server_does_not_say_what_is_left_the_lease_counts_from_the_first_request():
    carrier = over_http()
    carrier.ask(at=100)
    carrier.miss(Unknown("it broke"), at=101)
    carrier.ask(at=102)
    assert carrier.hear(http_grant(), at=103)
    assert (carrier.operation.sent_at, carrier.operation.left_ns) == (100 * SECOND, 30 * SECOND)


# --- what is left at the server ---


def test_who_stops_before_anything_was_asked_leaves_nothing():
    assert acquiring().operation.leftover() is None


def test_who_stops_while_a_request_is_on_its_way_leaves_what_may_come_of_it():
    carrier = acquiring()
    carrier.ask()
    assert carrier.operation.leftover() == (WANT, None)


def test_who_stops_after_a_lost_answer_leaves_what_may_have_come_of_it():
    carrier = acquiring()
    carrier.ask()
    carrier.miss(Unknown("it broke"))
    assert carrier.operation.leftover() == (WANT, None)


def test_who_stops_while_nobody_answers_the_telephone_leaves_nothing():
    carrier = acquiring()
    carrier.operation.next(0)
    carrier.miss(Unavailable("nobody there"))
    assert carrier.operation.leftover() is None


def test_who_stops_while_the_late_grant_is_renewed_leaves_the_grant_with_its_proof():
    carrier = acquiring()
    carrier.ask()
    carrier.hear(grant(), at=20)
    carrier.ask(at=20)
    assert carrier.operation.leftover() == (WANT, Proof(WANT, grant().token, 7))


def test_a_refusal_does_not_make_an_earlier_request_unheard():
    carrier = acquiring(patience=1)
    carrier.ask()
    carrier.miss(Unknown("it broke"))
    carrier.ask(at=1)
    with pytest.raises(TimedOut):
        carrier.hear(busy(), at=1)
    # The first one may still be under way, in a buffer of a server that was stopped for a moment.
    assert carrier.operation.leftover() == (WANT, None)


# --- queries ---


def test_a_query_is_asked_until_it_is_answered():
    carrier = Carrier(Asking(rules(), Query("look", {"key": "job"})))
    assert carrier.ask() == Query("look", {"key": "job"})
    assert not carrier.hear(Refusal(StoreBusy("busy")))
    carrier.ask(at=1)
    carrier.miss(Unknown("it broke"), at=1)
    assert carrier.pause(at=1) == 2
    carrier.ask(at=2)
    assert carrier.hear(Seen({"keys": []}), at=2)
    assert carrier.operation.fields == {"keys": []}


def test_a_query_is_answered_with_what_was_seen_or_the_server_is_to_blame():
    carrier = Carrier(Asking(rules(), Query("look")))
    carrier.ask()
    with pytest.raises(BadPeer, match="a query"):
        carrier.hear(grant())


def test_nobody_is_broken_twice_because_an_answer_was_lost():
    carrier = Carrier(Asking(rules(), Query("break", {"key": "job", "reason": "it hangs"})))
    carrier.ask()
    carrier.miss(Unavailable("nobody there"))  # that one was not heard
    carrier.ask(at=1)
    with pytest.raises(Unknown):
        carrier.miss(Unknown("it broke"), at=1)
    assert not carrier.operation.asking


def test_a_lasting_trouble_is_told_as_it_is():
    carrier = acquiring(trouble=RetryPolicy(max_retries=0))
    carrier.ask()
    with pytest.raises(StoreBusy):
        carrier.hear(Refusal(StoreBusy("busy")))
