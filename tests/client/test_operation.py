"""What every operation does about trouble: it asks again with the same words, for a while, and then tells the truth."""

import pytest

from holdfast.client.asks import End, Ended, Query, Queued, Refusal, Seen
from holdfast.client.core import Asking, Ending, proof_of
from holdfast.client.operation import Operation
from holdfast.client.retry import RetryPolicy
from holdfast.errors import BadPeer, BadRequest, Closed, Forbidden, StoreBusy, Unavailable, Unknown
from tests.client.operations import SECOND, WANT, Carrier, grant, rules


def query(**changes):
    return Carrier(Asking(rules(**changes), Query("stats")))


def test_an_operation_begins_with_nothing_asked_and_nothing_left():
    operation = Asking(rules(), Query("stats"))
    assert (operation.asking, operation.unsure, operation.pause_until) == (False, False, 0)
    assert operation.patience_ns() == 0
    assert Operation.leftover(operation) is None


def test_while_a_request_is_on_its_way_it_is_known_when_it_left():
    carrier = query()
    carrier.ask(at=3)
    assert carrier.operation.asking
    assert carrier.operation.asked_at == 3 * SECOND
    carrier.hear(Seen({}), at=4)
    assert not carrier.operation.asking


@pytest.mark.parametrize("trouble", [Unavailable("nobody there"), Unknown("it broke"), Closed("it stops")])
def test_trouble_that_may_pass_is_answered_with_a_pause_and_the_same_request(trouble):
    carrier = query()
    first = carrier.ask()
    carrier.miss(trouble, at=0)
    assert carrier.pause(at=0.999) == 1
    assert carrier.ask(at=1) == first


@pytest.mark.parametrize("refusal", [Forbidden("no"), BadRequest("what?"), BadPeer("gibberish")])
def test_what_asking_again_would_not_change_is_raised_at_once(refusal):
    carrier = query()
    carrier.ask()
    with pytest.raises(type(refusal)):
        carrier.miss(refusal)
    assert not carrier.operation.asking


def test_trouble_is_put_up_with_until_a_hard_bound_and_then_raised():
    carrier = query()
    for second in range(10):
        carrier.ask(at=second)
        carrier.miss(Unavailable("nobody there"), at=second)
    carrier.ask(at=10)
    with pytest.raises(Unavailable, match="nobody there"):
        carrier.miss(Unavailable("nobody there"), at=10)


def test_the_bound_counts_from_before_the_connection_was_tried():
    carrier = query()
    carrier.ask(at=9)
    carrier.miss(Unavailable("nobody there"), at=9, began=0)
    assert carrier.pause(at=9.5) == 10
    carrier.ask(at=10)
    with pytest.raises(Unavailable):
        carrier.miss(Unavailable("nobody there"), at=10)


def test_a_wait_that_broke_after_an_hour_has_not_used_up_its_tries():
    carrier = query()
    carrier.ask(at=0)
    carrier.miss(Unknown("it broke"), at=3600, began=0)
    assert carrier.pause(at=3600) == 3601


def test_trouble_that_comes_back_much_later_is_new_trouble():
    carrier = query()
    carrier.ask(at=0)
    carrier.miss(Unknown("it broke"), at=0)
    carrier.ask(at=1)
    carrier.miss(Unknown("it broke"), at=21)
    assert carrier.pause(at=21) == 22


def test_when_nobody_knows_what_became_of_an_earlier_request_the_last_word_is_unknown():
    carrier = Carrier(
        Ending(rules(trouble=RetryPolicy(max_retries=1, min_delay=1, jitter=0)), proof_of(WANT, grant()), None)
    )
    carrier.ask()
    carrier.miss(Unknown("it broke"))
    carrier.ask(at=1)
    with pytest.raises(Unknown, match="nobody there"):
        carrier.miss(Unavailable("nobody there"), at=1)


def test_a_request_that_was_certainly_not_heard_leaves_no_doubt():
    carrier = query(trouble=RetryPolicy(max_retries=0))
    carrier.ask()
    with pytest.raises(Unavailable):
        carrier.miss(Unavailable("nobody there"))
    assert not carrier.operation.unsure


@pytest.mark.parametrize("error", [Unknown("it broke"), BadPeer("gibberish")])
def test_a_request_that_may_have_been_heard_leaves_doubt(error):
    carrier = query(trouble=RetryPolicy(max_retries=0))
    carrier.ask()
    with pytest.raises(type(error)):
        carrier.miss(error)
    assert carrier.operation.unsure


def test_a_refusal_that_may_pass_is_asked_about_again_when_the_server_advises_it():
    policy = RetryPolicy(max_retries=9, min_delay=0.01, max_delay=5, jitter=0)
    carrier = query(trouble=policy)
    carrier.ask()
    assert not carrier.hear(Refusal(StoreBusy("busy"), advice_ns=2 * SECOND))
    assert carrier.pause() == 2


def test_a_refusal_that_says_it_does_not_know_leaves_doubt():
    carrier = Carrier(Ending(rules(), proof_of(WANT, grant()), None))
    carrier.ask()
    assert not carrier.hear(Refusal(Unknown("the server answered 502")))
    assert carrier.operation.unsure
    carrier.ask(at=1)
    assert carrier.hear(Ended(was_there=False), at=1)
    assert carrier.operation.was_there  # the first one may have ended it


def test_a_refusal_for_good_is_raised():
    carrier = query()
    carrier.ask()
    with pytest.raises(Forbidden):
        carrier.hear(Refusal(Forbidden("no")))


def test_an_answer_to_something_else_leaves_doubt_and_blames_the_server():
    carrier = Carrier(Ending(rules(), proof_of(WANT, grant()), None))
    assert carrier.ask() == End(WANT, proof_of(WANT, grant()), None)
    with pytest.raises(BadPeer, match="a release with Queued"):
        carrier.hear(Queued())
    assert carrier.operation.unsure
