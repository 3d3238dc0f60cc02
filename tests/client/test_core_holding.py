"""What is held is converted, renewed and ended under its own ticket, and the holder hears the truth about it."""

import pytest

from holdfast.client.asks import (
    Convert,
    End,
    Ended,
    Queued,
    Refusal,
    Renew,
    Renewed,
)
from holdfast.client.core import Converting, Ending, Renewing, proof_of
from holdfast.errors import (
    BadPeer,
    Forbidden,
    StoreBusy,
    Unknown,
    WouldDeadlock,
)
from tests.client.operations import SECOND, WANT, Carrier, grant, rules

# --- converting ---


def converting(mode="EX", patience=None, value=None):
    return Carrier(Converting(rules(), WANT, mode, None if patience is None else patience * SECOND, value))


def test_converting_asks_under_the_ticket_of_what_is_held():
    carrier = converting("PR", value=b"v")
    assert carrier.ask() == Convert(WANT, "PR", None, b"v")
    assert carrier.operation.patience_ns() is None
    assert carrier.hear(grant(mode="PR"))
    assert carrier.operation.granted.mode == "PR"


def test_a_conversion_counts_its_patience_from_its_first_request():
    carrier = converting(patience=5)
    assert carrier.ask(at=10) == Convert(WANT, "EX", 5 * SECOND)
    carrier.miss(Unknown("it broke"), at=12)
    assert carrier.pause(at=12) == 13
    assert carrier.ask(at=13) == Convert(WANT, "EX", 2 * SECOND)
    assert carrier.operation.patience_ns() == 2 * SECOND


def test_a_conversion_that_is_refused_is_raised():
    carrier = converting()
    carrier.ask()
    with pytest.raises(WouldDeadlock):
        carrier.hear(Refusal(WouldDeadlock("two want to write")))


def test_a_conversion_that_met_a_busy_store_is_tried_again():
    carrier = converting()
    carrier.ask()
    assert not carrier.hear(Refusal(StoreBusy("busy")))
    assert carrier.ask(at=1) == Convert(WANT, "EX", None)


def test_a_conversion_is_answered_with_a_grant_or_the_server_is_to_blame():
    carrier = converting()
    carrier.ask()
    with pytest.raises(BadPeer, match="a conversion"):
        carrier.hear(Queued())


# --- renewing at the holder's wish ---


def renewing():
    return Carrier(Renewing(rules(), proof_of(WANT, grant()), 30 * SECOND))


@pytest.mark.parametrize("there", [True, False])
def test_a_renewal_tells_whether_there_still_was_a_lease(there):
    carrier = renewing()
    assert carrier.ask() == Renew([(proof_of(WANT, grant()), 30 * SECOND)])
    assert carrier.hear(Renewed([there]))
    assert carrier.operation.renewed is there


def test_a_renewal_counts_from_the_request_that_was_answered():
    carrier = renewing()
    carrier.ask(at=0)
    carrier.miss(Unknown("it broke"), at=1)
    assert carrier.pause(at=1) == 2
    carrier.ask(at=2)
    carrier.hear(Renewed([True]), at=3)
    assert carrier.operation.asked_at == 2 * SECOND


@pytest.mark.parametrize("answer", [Renewed([None]), Refusal(StoreBusy("busy"))])
def test_a_renewal_of_which_nothing_is_known_is_asked_again(answer):
    carrier = renewing()
    carrier.ask()
    assert not carrier.hear(answer)
    carrier.ask(at=1)


def test_a_renewal_is_answered_with_one_or_the_server_is_to_blame():
    carrier = renewing()
    carrier.ask()
    with pytest.raises(BadPeer, match="a renewal"):
        carrier.hear(Ended(was_there=True))


# --- ending ---


def ending(value=None):
    return Carrier(Ending(rules(), proof_of(WANT, grant()), value))


def test_ending_twice_does_no_harm_and_tells_the_truth():
    carrier = ending(b"v")
    assert carrier.ask() == End(WANT, proof_of(WANT, grant()), b"v")
    assert carrier.hear(Ended(was_there=True))
    assert carrier.operation.was_there
    again = ending()
    again.ask()
    assert again.hear(Ended(was_there=False))
    assert not again.operation.was_there


def test_who_ends_again_after_a_lost_answer_was_the_one_who_ended_it():
    carrier = ending()
    carrier.ask()
    carrier.miss(Unknown("it broke"))
    assert carrier.pause() == 1
    carrier.ask(at=1)
    assert carrier.hear(Ended(was_there=False), at=1)
    assert carrier.operation.was_there


def test_what_could_not_be_ended_is_left_with_its_proof():
    carrier = ending()
    carrier.ask()
    with pytest.raises(Forbidden):
        carrier.hear(Refusal(Forbidden("no")))
    assert carrier.operation.leftover() == (WANT, proof_of(WANT, grant()))
