"""Callers who name their claims themselves: enqueue, wait, end by ticket, and what others do to their claims.

First phases that are found by their key are in test_desk_phases.py; groups in test_desk_groups.py.
"""

import pytest

from holdfast.words import EX, FOREVER, PR, SECOND, Answer, Cancel, Claim, Convert, End, Ended, Granted, Reason, Wait
from tests.office import KEY, Caller, Office


@pytest.fixture
def office() -> Office:
    return Office()


def enqueue(caller: Caller, ticket: bytes, *, want: int = EX, tracked: bool = True, key: bytes = KEY) -> Claim:
    claim = Claim(key, want, 1, 1 << 60, 30 * SECOND, FOREVER, tracked=tracked)
    claim.ticket = ticket
    caller.submit(claim)
    return claim


def wait(caller: Caller, ticket: bytes, patience_s: float = 60) -> None:
    caller.submit(Wait(0, ticket, round(patience_s * SECOND)))


def test_what_is_enqueued_under_a_ticket_is_answered_at_once_and_told_of_when_it_is_granted(office: Office) -> None:
    a, b = office.callers(2)
    held = enqueue(a, b"a")
    enqueue(b, b"b")
    enqueue(b, b"c")
    assert (a.take(), b.take()) == ([Answer.GRANTED], [Answer.QUEUED, Answer.QUEUED])
    a.release(held)
    assert b.take() == []
    assert b.take_news() == [Granted]


def test_a_wait_by_ticket_is_answered_when_the_claim_is_granted(office: Office) -> None:
    a, b = office.callers(2)
    held = enqueue(a, b"a")
    waiting = enqueue(b, b"b")
    wait(b, b"b")
    assert b.take() == [Answer.QUEUED]
    a.release(held)
    request, answer, claim = b.answered[-1]
    assert isinstance(request, Wait)
    assert (answer, claim) == (Answer.GRANTED, waiting)


def test_a_wait_for_what_is_held_starts_its_lease_anew(office: Office) -> None:
    a = office.caller()
    held = enqueue(a, b"a")
    office.after(20)
    wait(a, b"a")
    assert a.take() == [Answer.GRANTED, Answer.GRANTED]
    assert held.deadline == office.clock.now + 30 * SECOND


def test_a_wait_for_nothing_is_refused(office: Office) -> None:
    a = office.caller()
    wait(a, b"none")
    assert a.take() == [Answer.NOT_ENQUEUED]


def test_a_wait_that_runs_out_of_patience_takes_its_claim_along(office: Office) -> None:
    a, b = office.callers(2)
    enqueue(a, b"a")
    enqueue(b, b"b")
    wait(b, b"b", 5)
    office.after(5)
    assert b.take() == [Answer.QUEUED, Answer.TIMED_OUT]
    wait(b, b"b")
    assert b.take() == [Answer.NOT_ENQUEUED]


def test_a_wait_takes_over_from_who_waited_before(office: Office) -> None:
    a, b = office.callers(2)
    enqueue(a, b"a")
    enqueue(b, b"b", tracked=False)
    wait(b, b"b")
    assert b.take() == [Answer.CANCELLED]
    wait(b, b"b", 0)
    assert b.take() == [Answer.TIMED_OUT, Answer.CANCELLED]


def test_a_wait_for_what_is_held_leaves_its_conversion_alone(office: Office) -> None:
    a, b = office.callers(2)
    enqueue(a, b"a", want=PR)
    other = enqueue(b, b"b", want=PR)
    a.submit(Convert(0, b"a", EX))
    assert a.take() == [Answer.GRANTED]
    wait(a, b"a")
    assert a.take() == [Answer.GRANTED]
    b.release(other)
    assert a.take() == [Answer.GRANTED]
    assert isinstance(a.answered[-1][0], Convert)


def test_a_ticket_of_another_key_is_refused(office: Office) -> None:
    a = office.caller()
    enqueue(a, b"a")
    enqueue(a, b"a", key=b"lock:other")
    assert a.take() == [Answer.GRANTED, Answer.ALREADY_ENQUEUED]


# --- ends ---


def test_what_is_held_ends_by_its_ticket_where_that_is_meant(office: Office) -> None:
    a, b = office.callers(2)
    enqueue(a, b"a")
    b.acquire()
    a.submit(Cancel(0, b"a"))
    a.submit(Cancel(0, b"a", held=True))
    a.submit(Cancel(0, b"a", held=True))
    assert a.take() == [Answer.GRANTED, Answer.BUSY, Answer.ENDED, Answer.NOT_HELD]
    assert a.take_news() == []
    assert b.take() == [Answer.GRANTED]


def test_what_waits_is_withdrawn_by_the_same_words(office: Office) -> None:
    a, b = office.callers(2)
    enqueue(a, b"a")
    enqueue(b, b"b")
    b.submit(Cancel(0, b"b", held=True))
    assert b.take() == [Answer.QUEUED, Answer.CANCELLED]


def test_a_conversion_ends_with_what_is_given_back(office: Office) -> None:
    a, b = office.callers(2)
    enqueue(a, b"a", want=PR)
    enqueue(b, b"b", want=PR)
    a.submit(Convert(0, b"a", EX))
    a.submit(Cancel(0, b"a", held=True))
    assert sorted(a.take()) == [Answer.GRANTED, Answer.ENDED, Answer.CLOSED]


def test_a_first_phase_that_ends_by_its_ticket_is_forgotten(office: Office) -> None:
    a = office.caller()
    claim = a.enqueue()
    a.submit(Cancel(0, claim.ticket, held=True))
    a.wait()
    assert a.take() == [Answer.GRANTED, Answer.ENDED, Answer.NOT_ENQUEUED]


@pytest.mark.parametrize("reason", [Reason.RELEASED, Reason.BROKEN])
def test_whoever_names_its_claims_hears_when_somebody_else_ends_one(office: Office, reason: Reason) -> None:
    a, b = office.callers(2)
    held = enqueue(a, b"a", tracked=False)
    b.submit(End(KEY, held.token, reason))
    assert [(type(effect), effect.reason) for effect in a.told if isinstance(effect, Ended)] == [(Ended, reason)]
    mine = enqueue(a, b"a", tracked=False)
    a.told.clear()
    a.release(mine)
    assert a.told == []
