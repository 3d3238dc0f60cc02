"""The desk and the first phase of two: what is remembered of it, for whom, and until when.

Everything else about the desk is tested in test_desk.py.
"""

import pytest

from holdfast.words import Answer, Ended
from tests.office import Office


@pytest.fixture
def office() -> Office:
    return Office()


def test_a_first_phase_may_be_granted_at_once_and_is_used_up_by_the_second(office: Office) -> None:
    a = office.caller()
    claim = a.enqueue()
    a.enqueue()
    a.wait()
    a.wait()
    assert a.take() == [Answer.GRANTED, Answer.ALREADY_ENQUEUED, Answer.GRANTED, Answer.NOT_ENQUEUED]
    assert a.answered[2][2] is claim


def test_a_first_phase_keeps_its_place_without_a_second(office: Office) -> None:
    a, b, c = office.callers(3)
    held = a.acquire()
    b.enqueue()
    c.acquire()
    a.release(held)
    b.wait()
    assert b.take() == [Answer.QUEUED, Answer.GRANTED]
    assert c.take() == []


def test_a_second_phase_may_have_to_wait(office: Office) -> None:
    a, b = office.callers(2)
    held = a.acquire()
    b.enqueue()
    b.wait()
    assert b.take() == [Answer.QUEUED]
    a.release(held)
    assert b.take() == [Answer.GRANTED]
    b.wait()
    assert b.take() == [Answer.NOT_ENQUEUED]


def test_a_second_phase_that_times_out_ends_the_first(office: Office) -> None:
    a, b = office.callers(2)
    a.acquire()
    b.enqueue()
    b.wait(5)
    office.after(5)
    b.wait()
    b.enqueue()
    b.wait(0)
    b.wait()
    assert b.take() == [
        Answer.QUEUED,
        Answer.TIMED_OUT,
        Answer.NOT_ENQUEUED,
        Answer.QUEUED,
        Answer.TIMED_OUT,
        Answer.NOT_ENQUEUED,
    ]


def test_a_refused_first_phase_leaves_nothing_behind() -> None:
    office = Office(waiters_max=1)
    a, b, c = office.callers(3)
    a.acquire()
    b.enqueue()
    c.enqueue()
    c.enqueue()
    c.wait()
    assert c.take() == [Answer.TOO_MANY_WAITERS, Answer.TOO_MANY_WAITERS, Answer.NOT_ENQUEUED]


def test_a_released_first_phase_is_forgotten_whoever_released_it(office: Office) -> None:
    a, b = office.callers(2)
    a.release(a.enqueue())
    b.release(a.enqueue())
    a.wait()
    assert a.take() == [Answer.GRANTED, Answer.ENDED, Answer.GRANTED, Answer.NOT_ENQUEUED]


def test_a_first_phase_that_expired_is_remembered_until_the_sweep(office: Office) -> None:
    a = office.caller()
    a.enqueue()
    office.after(30)
    a.wait()
    a.wait()
    assert a.take() == [Answer.GRANTED, Answer.LEASE_EXPIRED, Answer.NOT_ENQUEUED]
    a.enqueue()
    office.after(30)
    office.desk.sweep()
    a.wait()
    assert a.take() == [Answer.GRANTED, Answer.NOT_ENQUEUED]


def test_an_expiry_that_nobody_has_looked_at_yet_is_told_too(office: Office) -> None:
    a = office.caller()
    a.enqueue()
    office.clock.advance(30)
    a.wait()
    a.wait()
    assert a.take() == [Answer.GRANTED, Answer.LEASE_EXPIRED, Answer.NOT_ENQUEUED]


def test_a_new_first_phase_after_an_expired_one_is_served_and_survives_the_sweep(office: Office) -> None:
    a = office.caller()
    a.enqueue()
    office.after(30)
    a.enqueue()
    office.desk.sweep()
    a.wait()
    assert a.take() == [Answer.GRANTED, Answer.GRANTED, Answer.GRANTED]


def test_a_first_phase_that_was_used_up_is_no_business_of_the_sweep(office: Office) -> None:
    a = office.caller()
    a.enqueue()
    office.after(30)
    a.wait()
    office.desk.sweep()
    assert a.take() == [Answer.GRANTED, Answer.LEASE_EXPIRED]


def test_the_end_of_an_old_claim_does_not_touch_a_newer_first_phase(office: Office) -> None:
    a, b = office.callers(2)
    old = a.enqueue()
    a.wait()
    a.enqueue()
    b.release(old)
    assert a.take() == [Answer.GRANTED, Answer.GRANTED, Answer.QUEUED]
    a.wait()
    assert a.take() == [Answer.GRANTED]


def test_the_expiry_of_an_old_claim_does_not_touch_a_newer_first_phase(office: Office) -> None:
    a = office.caller()
    a.enqueue()
    a.wait()
    a.enqueue()
    office.after(30)
    a.wait()
    assert a.take() == [Answer.GRANTED, Answer.GRANTED, Answer.QUEUED, Answer.GRANTED]


def test_the_end_of_a_claim_whose_first_phase_is_used_up_is_only_news(office: Office) -> None:
    a = office.caller()
    a.enqueue()
    a.wait()
    office.after(30)
    assert a.take_news() == [Ended]
    assert a.take() == [Answer.GRANTED, Answer.GRANTED]


def test_a_second_phase_without_any_first_is_refused(office: Office) -> None:
    a, b = office.callers(2)
    a.wait()
    a.enqueue()
    a.wait(key=b"lock:other")
    b.wait()
    assert a.take() == [Answer.NOT_ENQUEUED, Answer.GRANTED, Answer.NOT_ENQUEUED]
    assert b.take() == [Answer.NOT_ENQUEUED]


def test_a_claim_that_was_released_while_its_second_phase_was_on_the_way_is_not_enqueued_any_more() -> None:
    office = Office(late=True)
    a, b = office.callers(2)
    claim = a.enqueue()
    office.commit()
    b.release(claim)
    a.wait()
    office.commit()
    assert a.take() == [Answer.GRANTED, Answer.NOT_ENQUEUED]
    a.enqueue()
    office.commit()
    assert a.take() == [Answer.GRANTED]
