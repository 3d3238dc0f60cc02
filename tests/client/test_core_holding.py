"""What is held is converted, renewed and ended under its own ticket, and the holder hears the truth about it."""

from dataclasses import replace

import pytest

from holdfast.client.asks import (
    Acquire,
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
    Busy,
    Forbidden,
    LeaseLost,
    NotHeld,
    StoreBusy,
    Unknown,
    WouldDeadlock,
)
from tests.client.operations import SECOND, WANT, Carrier, grant, rules

# --- converting ---


def converting(mode="EX", patience=None, value=None):
    patience_ns = None if patience is None else patience * SECOND
    return Carrier(Converting(rules(), proof_of(WANT, grant(mode="PR")), mode, patience_ns, value, now_in="PR"))


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


def shown_again():
    """A server that was started again did not know of it, and has been shown the ticket."""
    carrier = converting(patience=5)
    carrier.ask()
    assert not carrier.hear(Refusal(NotHeld("nothing under this ticket")))
    assert carrier.ask(at=1) == Acquire(replace(WANT, mode="PR"), 0)
    assert carrier.operation.patience_ns() == 0
    return carrier


def test_a_server_that_forgot_the_session_is_shown_the_ticket_before_it_converts():
    carrier = shown_again()
    assert not carrier.hear(grant(mode="PR"), at=1)
    assert carrier.operation.leftover() is None
    assert carrier.ask(at=2) == Convert(WANT, "EX", 3 * SECOND)
    assert carrier.hear(grant(), at=2)
    assert carrier.operation.granted.mode == "EX"
    assert carrier.operation.leftover() is None


def test_what_the_server_grants_anew_is_not_what_was_held_and_is_given_back():
    carrier = shown_again()
    with pytest.raises(LeaseLost):
        carrier.hear(grant(mode="PR", fence=8, token="another"), at=1)
    want, proof = carrier.operation.leftover()
    assert (want, proof.token, proof.fence) == (WANT, "another", 8)


def test_a_look_that_nobody_waits_for_any_more_ends_nothing():
    """What is held may be what it finds."""
    assert shown_again().operation.leftover() is None


@pytest.mark.parametrize("refusal", [Busy("somebody else has it"), NotHeld("nothing under this ticket")])
def test_what_is_not_found_by_its_ticket_is_not_held(refusal):
    carrier = shown_again()
    with pytest.raises(NotHeld, match="nothing under this ticket"):
        carrier.hear(Refusal(refusal), at=1)


def test_a_look_at_a_busy_store_is_tried_again():
    carrier = shown_again()
    assert not carrier.hear(Refusal(StoreBusy("busy")), at=1)
    assert carrier.ask(at=2) == Acquire(replace(WANT, mode="PR"), 0)


def test_a_lease_that_ran_out_is_not_looked_for():
    carrier = converting()
    carrier.ask()
    with pytest.raises(LeaseLost):
        carrier.hear(Refusal(LeaseLost("it ran out")))


def test_a_member_of_a_group_has_no_ticket_to_show():
    member = replace(WANT, ticket=f"{WANT.ticket}#0")
    carrier = Carrier(Converting(rules(), proof_of(member, grant(member)), "PR", None, None, now_in="EX"))
    carrier.ask()
    with pytest.raises(NotHeld):
        carrier.hear(Refusal(NotHeld("nothing under this ticket")))


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
