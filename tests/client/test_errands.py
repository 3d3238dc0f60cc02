"""What is to be ended at a server is asked for until it is over there, or until its lease must be; and no longer."""

from itertools import pairwise

import pytest

from holdfast.client import errands as module
from holdfast.client.asks import Acquire, End, Ended, Granted, Proof, Query, Refusal, Seen, Want
from holdfast.errors import BadRequest, Busy, Forbidden, StoreBusy, TooMany, Unavailable
from tests.client.keeping import SECOND, START, TOKEN, Hands, PaperSteward

WANT = Want(key="job", ticket="ticket-of-job", lease_ns=30 * SECOND)
PROOF = Proof(WANT, TOKEN, 7)


@pytest.fixture
def hands():
    return Hands()


@pytest.fixture
def steward(hands):
    return PaperSteward(hands)


class Recovering(PaperSteward):
    """A steward of a protocol that ends nothing without a proof, and so has to ask for one."""

    def prepare(self, errand):
        if errand.ask.proof is not None:
            return errand.ask
        return Query("recover") if errand.ours else Acquire(errand.ask.want, 0)


def granted(lease_id="fresh"):
    return Granted("ticket-of-job", "job", "lock", "EX", 8, lease_id, 30 * SECOND, lease_id=lease_id)


def test_what_the_server_has_ended_is_done(hands, steward):
    done = []
    steward.finish(WANT, PROOF, value=b"last words", done=lambda: done.append(hands.at))
    hands.to(0)
    assert steward.asked() == End(WANT, PROOF, b"last words")
    steward.answer(Ended(was_there=True))
    assert done == [0]
    hands.to(100)
    assert (len(steward.errands), steward.calls) == (0, [])


def test_what_the_server_does_not_know_any_more_is_done_too_if_there_was_a_proof(hands, steward):
    steward.finish(WANT, PROOF)
    hands.to(0)
    steward.answer(Ended(was_there=False))
    hands.to(0)
    assert len(steward.errands) == 0


def test_without_a_proof_it_is_looked_for_twice_because_the_request_may_still_be_on_its_way(hands, steward):
    steward.finish(WANT, None)
    hands.to(0)
    steward.answer(Ended(was_there=False))
    hands.to(0.9)
    assert steward.calls == []
    hands.to(1)
    steward.answer(Ended(was_there=True))
    assert len(steward.errands) == 0


def test_answers_that_are_lost_are_asked_for_again_until_one_comes(hands, steward):
    steward.finish(WANT, PROOF)
    for _ in range(5):
        hands.to(hands.at + 1.5)
        steward.lose()
    hands.to(hands.at + 1.5)
    steward.answer(Ended(was_there=False))
    assert len(steward.errands) == 0


def test_it_is_given_up_when_the_lease_must_be_over(hands, steward):
    done = []
    steward.unreachable = Unavailable("nobody there")
    steward.finish(WANT, PROOF, done=lambda: done.append(hands.at))
    hands.to(30.9)
    assert done == []
    hands.to(31)
    assert done == [31]
    assert hands.to(31) is None


def test_what_may_not_be_ended_yet_is_ended_later(hands, steward):
    steward.finish(WANT, PROOF, not_before=START + 20 * SECOND)
    hands.to(19.9)
    assert steward.calls == []
    hands.to(20)
    assert isinstance(steward.asked(), End)


@pytest.mark.parametrize("passing", [Unavailable("stopped"), StoreBusy("busy"), TooMany("connections")])
def test_a_refusal_that_may_pass_is_tried_again(hands, steward, passing):
    steward.finish(WANT, PROOF)
    hands.to(0)
    steward.answer(passing)
    hands.to(2)
    assert isinstance(steward.asked(), End)


@pytest.mark.parametrize("final", [Forbidden("another token"), BadRequest("never")])
def test_a_server_that_will_not_listen_is_not_asked_again(hands, steward, final):
    steward.finish(WANT, PROOF)
    hands.to(0)
    steward.answer(final)
    hands.to(2)
    assert (len(steward.errands), steward.calls) == (0, [])


def test_tries_come_less_and_less_often_but_do_not_stop(hands, steward):
    tried_at = []
    deliver = steward.deliver
    steward.deliver = lambda call, now: (tried_at.append(hands.at), deliver(call, now))
    steward.unreachable = Unavailable("nobody there")
    steward.finish(WANT, PROOF)
    hands.to(30)
    gaps = [later - earlier for earlier, later in pairwise(tried_at)]
    assert 0.04 <= gaps[0] < 0.1
    assert 0.7 < gaps[-1] < 1.3
    assert len(tried_at) < 60


# --- where a proof has to be had first ---


def test_what_was_granted_unheard_is_recovered_and_given_back(hands):
    steward = Recovering(hands)
    steward.finish(WANT, None)
    hands.to(0)
    assert steward.asked() == Acquire(WANT, 0)
    steward.answer(Refusal(Busy("held by ourselves"), ours=True))
    hands.to(0)
    assert steward.asked() == Query("recover")
    steward.answer(granted("the old one"))
    hands.to(0)
    assert steward.asked().proof == Proof(WANT, "the old one", 8, "the old one", "")
    steward.answer(Ended(was_there=True))
    assert len(steward.errands) == 0


def test_what_was_taken_anew_only_to_be_given_back_has_the_time_of_a_new_lease_for_that(hands):
    """The errand may have been an old one by then, and the lease has just begun."""
    steward = Recovering(hands)
    steward.finish(WANT, None)
    steward.unreachable = Unavailable("nobody there")
    hands.to(29)
    steward.unreachable = None
    while not steward.calls:
        hands.to(hands.at + 0.1)
    steward.answer(granted())
    steward.unreachable = Unavailable("nobody there")
    hands.to(58)
    assert len(steward.errands) == 1
    steward.unreachable = None
    hands.to(59.5)
    steward.answer(Ended(was_there=True))
    assert len(steward.errands) == 0


def test_what_somebody_else_holds_is_looked_for_once_more(hands):
    steward = Recovering(hands)
    steward.finish(WANT, None)
    hands.to(0)
    steward.answer(Refusal(Busy("somebody else")))
    hands.to(1)
    steward.answer(Refusal(Busy("somebody else")))
    hands.to(1)
    assert len(steward.errands) == 0


def test_what_was_ours_and_is_gone_when_it_is_looked_at_is_looked_for_once_more(hands):
    steward = Recovering(hands)
    steward.finish(WANT, None)
    hands.to(0)
    steward.answer(Refusal(Busy("held by ourselves"), ours=True))
    hands.to(0)
    steward.answer(Seen({}))
    hands.to(1)
    assert steward.asked() == Acquire(WANT, 0)


# --- many, and who waits for them ---


def test_whoever_waits_is_told_of_those_that_are_due_and_not_of_those_that_must_wait(hands, steward):
    told = []
    steward.finish(WANT, PROOF)
    steward.finish(WANT, PROOF, not_before=START + 20 * SECOND)
    assert steward.errands.tell_all(lambda: told.append(1)) == 1
    assert steward.errands.tell_all(lambda: told.append(2)) == 0
    hands.to(0)
    steward.answer(Ended(was_there=True))
    assert told == [1]


def test_they_are_bounded_and_the_oldest_goes_first(hands, steward, monkeypatch):
    monkeypatch.setattr(module, "ERRANDS_MAX", 3)
    done = []
    steward.unreachable = Unavailable("nobody there")
    for number in range(5):
        steward.finish(WANT, PROOF, done=lambda number=number: done.append(number))
    assert (len(steward.errands), done) == (3, [0, 1])


def test_one_that_is_on_its_way_is_not_sent_a_second_time(hands, steward):
    steward.finish(WANT, PROOF)
    hands.to(0)
    steward.wake(hands.now)
    hands.to(4)
    assert len(steward.calls) == 1
