"""What a steward does with what is held, by a clock in the hand and with a server that is the test: it renews in time,
puts up with lost answers until the deadline, reports a loss exactly then, and leaves nothing behind at the server."""

import pytest

from holdfast.client.asks import End, Ended, Renew, Renewed
from holdfast.client.lease import Notice, State
from holdfast.errors import Forbidden, Unavailable
from tests.client.keeping import SECOND, START, Hands, PaperSteward

UNKNOWN = "the server does not know of it any more"


@pytest.fixture
def hands():
    return Hands()


@pytest.fixture
def steward(hands):
    return PaperSteward(hands)


def keep(hands, steward, key="job", **options):
    kept = hands.kept(key, **options)
    steward.keep(kept)
    return kept


def test_a_lease_is_renewed_at_a_third_and_then_again_a_third_after_that_was_sent(hands, steward):
    kept = keep(hands, steward)
    hands.to(9.9)
    assert steward.calls == []
    hands.to(10)
    (call,) = steward.calls
    assert call.ask == Renew([(kept.proof, 30 * SECOND)])
    hands.to(12)
    steward.renew()
    assert kept.lease.deadline == START + 39 * SECOND
    hands.to(19.9)
    assert steward.calls == []
    hands.to(20)
    assert len(steward.calls) == 1


def test_the_deadline_counts_from_before_the_request_that_was_answered(hands, steward):
    kept = keep(hands, steward)
    hands.to(14.9)
    steward.renew()
    assert (kept.lease.deadline - START) / SECOND == 10 + 29


@pytest.mark.parametrize("lost", range(1, 4))
def test_answers_that_are_lost_are_made_up_for_as_long_as_there_is_time(hands, steward, lost):
    kept = keep(hands, steward)
    for _ in range(lost):
        while not steward.calls:
            hands.to(hands.at + 0.01)
        steward.lose()
    while not steward.calls:
        hands.to(hands.at + 0.01)
    steward.renew()
    hands.to(hands.at + 1)
    assert kept.lease.state() is State.HELD
    assert hands.heard == []


def test_answers_that_never_come_cost_the_lease_at_its_deadline_and_not_before(hands, steward):
    kept = keep(hands, steward)
    hands.to(28.999)
    assert hands.heard == [Notice.DANGER]
    assert kept.lease.held
    hands.to(29)
    assert hands.heard == [Notice.DANGER, Notice.LOST]
    assert (kept.lease.reason, kept.over) == ("its lease ran out", True)


def test_a_server_that_cannot_be_reached_is_tried_again_and_again_but_not_without_pause(hands, steward):
    kept = keep(hands, steward)
    steward.unreachable = Unavailable("nobody there")
    hands.to(10)
    assert kept.tries == 1
    hands.to(28.9)
    assert 10 < kept.tries < 40
    steward.unreachable = None
    hands.to(28.95 + 1)  # too late by its own clock, whatever a server might say
    assert not kept.lease.held


def test_a_server_that_comes_back_in_time_finds_the_lease_as_it_was(hands, steward):
    """As a restart on a store that keeps leases does."""
    kept = keep(hands, steward)
    steward.unreachable = Unavailable("nobody there")
    hands.to(27)
    steward.unreachable = None
    hands.to(28)
    steward.renew()
    hands.to(29.5)
    assert (kept.lease.state(), kept.tries) == (State.HELD, 0)
    assert hands.heard == [Notice.DANGER]


def test_trouble_is_logged_once_and_not_each_time(hands, steward, caplog):
    keep(hands, steward)
    steward.unreachable = Unavailable("nobody there")
    hands.to(28)
    assert [record.getMessage() for record in caplog.records] == [
        "could not renew 'job' at server:6388 yet: nobody there"
    ]


def test_what_the_server_does_not_know_is_lost_at_once_and_never_asked_for_anew(hands, steward):
    kept = keep(hands, steward)
    hands.to(10)
    steward.renew(False)
    hands.to(10)
    assert hands.heard == [Notice.LOST]
    assert UNKNOWN in kept.lease.reason
    hands.to(100)
    assert steward.calls == []


def test_a_server_that_did_not_get_at_its_store_has_said_nothing_about_the_lease(hands, steward):
    kept = keep(hands, steward)
    hands.to(10)
    steward.renew(None)
    hands.to(11)
    assert kept.lease.held
    steward.renew()
    assert kept.lease.deadline > START + 39 * SECOND


def test_a_refusal_is_no_loss_before_the_deadline(hands, steward):
    kept = keep(hands, steward)
    hands.to(10)
    steward.answer(Forbidden("another token"))
    hands.to(28.9)
    assert kept.lease.held
    hands.to(29)
    assert not kept.lease.held


def test_what_was_given_back_is_renewed_no_more(hands, steward):
    kept = keep(hands, steward)
    kept.lease.release()
    steward.drop(kept)
    hands.to(100)
    assert (steward.calls, hands.heard) == ([], [])


def test_what_is_given_back_while_it_is_renewed_stays_given_back(hands, steward):
    kept = keep(hands, steward)
    hands.to(10)
    kept.lease.release()
    steward.drop(kept)
    steward.renew()
    hands.to(100)
    assert (kept.lease.state(), hands.heard, steward.calls) == (State.RELEASED, [], [])


def test_of_two_grants_of_one_ticket_the_later_is_kept(hands, steward):
    first = keep(hands, steward)
    second = keep(hands, steward)
    steward.drop(first)
    assert list(steward.kept.values()) == [second]


# --- nothing is left behind ---


def test_a_renewal_that_was_heard_too_late_is_taken_back_when_the_promised_lease_is_over_there_too(hands, steward):
    """Otherwise the server would keep it for another lease that nobody wants."""
    keep(hands, steward)
    hands.to(28)
    while steward.calls:
        steward.lose()
    hands.to(29)
    assert hands.heard[-1] is Notice.LOST
    ends = [call for call in steward.calls if isinstance(call.ask, End)]
    assert ends == []  # its holder may take the margin to stop
    hands.to(30)
    (end,) = [call for call in steward.calls if isinstance(call.ask, End)]
    assert end.ask.proof.token


def test_an_answer_after_the_deadline_is_taken_back_too(hands, steward):
    kept = keep(hands, steward, lease=6)
    steward.unreachable = Unavailable("nobody there")
    hands.to(4.5)
    steward.unreachable = None
    while not steward.calls:
        hands.to(hands.at + 0.01)
    hands.sleep(1)  # this process stands still, and so does not close the connection in time
    steward.renew()
    hands.to(hands.at)
    assert kept.lease.state() is State.LOST
    hands.to(6)
    assert isinstance(steward.asked(), End)


def test_a_lease_of_which_the_server_knows_no_more_than_this_side_is_left_to_run_out(hands, steward):
    keep(hands, steward)
    hands.sleep(100)  # as under SIGSTOP, or while the machine slept
    hands.to(100)
    assert hands.heard == [Notice.LOST]
    hands.to(200)
    assert steward.calls == []


def test_what_is_granted_while_the_process_ends_is_given_back_at_once(hands, steward):
    assert steward.retire(lambda: None) == 0
    kept = keep(hands, steward)
    hands.to(0)
    assert not kept.lease.held
    assert isinstance(steward.asked(), End)
    assert hands.heard == [Notice.LOST]
    assert not steward.kept


def test_whoever_retires_is_told_of_each_end(hands, steward):
    ended = []
    for key in ("a", "b"):
        keep(hands, steward, key)
    assert steward.retire(lambda: ended.append(hands.at)) == 2
    hands.to(0)
    steward.answer(Ended(was_there=True))
    steward.lose()
    hands.to(0.1)
    assert len(ended) == 1
    steward.answer(Ended(was_there=False))
    assert len(ended) == 2


def test_what_is_to_outlive_its_work_is_left_to_its_lease(hands, steward):
    kept = keep(hands, steward)
    kept.renewal_ns = lambda now: START + 60 * SECOND - now
    hands.to(10)
    assert steward.asked() == Renew([(kept.proof, 50 * SECOND)])
    steward.renew()
    assert kept.lease.deadline == START + 59 * SECOND
    assert steward.retire(lambda: None) == 0
    assert kept.lease.held


def test_a_shorter_renewal_counts_from_when_it_is_asked_for_even_if_no_answer_comes(hands, steward):
    kept = keep(hands, steward, lease=60)
    kept.renewal_ns = lambda now: 5 * SECOND
    hands.to(20)
    steward.lose()
    assert kept.lease.deadline == START + 24 * SECOND


# --- signs of life ---


def test_work_that_gives_no_sign_of_life_loses_its_lease(hands, steward):
    kept = keep(hands, steward, beat_ns=5 * SECOND)
    hands.to(28.9)
    assert steward.calls == []
    assert hands.heard == [Notice.DANGER]
    hands.to(29)
    assert hands.heard == [Notice.DANGER, Notice.LOST]
    assert not kept.lease.held


def test_a_sign_of_life_brings_renewal_back(hands, steward):
    kept = keep(hands, steward, beat_ns=5 * SECOND)
    hands.to(20)
    kept.lease.beat()
    steward.hurry(kept)
    hands.to(20)
    steward.renew()
    assert kept.lease.deadline == START + 49 * SECOND


def test_signs_of_life_do_not_hurry_what_waits_for_a_server_out_of_reach(hands, steward):
    kept = keep(hands, steward, beat_ns=5 * SECOND)
    steward.unreachable = Unavailable("nobody there")
    for tenth in range(280):
        hands.to(tenth / 10)
        kept.lease.beat()
        steward.hurry(kept)
    assert kept.tries < 40


# --- many at once ---


def test_those_that_are_due_soon_go_along_with_those_that_are_due(hands, steward):
    steward.renewals_max = 100
    for number in range(10):
        keep(hands, steward, f"job-{number}")
        hands.to(hands.at + 0.1)
    hands.to(10)
    (call,) = steward.calls
    assert len(call.ask.proofs) == 10


def test_no_more_renewals_are_under_way_than_may_be_and_none_is_forgotten(hands, steward):
    steward.renewals_under_way_max = 3
    kept = [keep(hands, steward, f"job-{number}") for number in range(10)]
    hands.to(10)
    for _ in range(10):
        assert len(steward.calls) <= 3
        steward.renew()
        hands.to(hands.at)
    assert all(one.lease.deadline == START + 39 * SECOND for one in kept)
    assert steward.calls == []


def test_what_was_given_back_while_its_renewal_stood_in_line_is_not_sent(hands, steward):
    steward.renewals_under_way_max = 1
    first, second, third = (keep(hands, steward, name) for name in "abc")
    hands.to(10)
    second.lease.release()
    steward.drop(second)
    steward.renew()
    hands.to(10)
    assert steward.asked().proofs[0][0] is third.proof
    assert first.lease.deadline == START + 39 * SECOND


def test_of_a_batch_each_gets_its_own_answer(hands, steward):
    steward.renewals_max = 100
    one, other, third = (keep(hands, steward, name) for name in "abc")
    hands.to(10)
    steward.answer(Renewed([True, False, None]))
    hands.to(10.01)
    assert [kept.lease.held for kept in (one, other, third)] == [True, False, True]
    hands.to(11)
    assert [proof for proof, _ in steward.asked().proofs] == [third.proof]


def test_a_thousand_leases_are_no_reason_to_come_back_a_thousand_times(hands, steward):
    steward.renewals_max = 1000
    for number in range(1000):
        keep(hands, steward, f"job-{number}")
        hands.sleep(0.01)
    batches = 0
    while hands.at < 40:
        hands.to(hands.at + 0.25)
        while steward.calls:
            batches += 1
            steward.renew(*[True] * len(steward.calls[0].ask.proofs))
    assert batches < 60
    assert hands.heard == []


def test_one_question_is_asked_once_and_answered_once(hands, steward):
    heard = []
    call = steward.call(Renew([]), until=hands.now + SECOND, done=heard.append)
    hands.to(1)
    assert heard == [call]
    assert "did not answer in time" in str(call.error)
