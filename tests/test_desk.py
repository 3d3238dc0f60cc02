"""The desk: each request gets exactly one answer, whoever is blocked is told when it is over, and nobody gets more.

The store is the real one, or the same one answering late. The first phase of two is tested in test_desk_phases.py.
"""

from collections.abc import Callable

import pytest

from holdfast.words import (
    CW,
    EX,
    PR,
    SECOND,
    Answer,
    Cancel,
    Claim,
    Convert,
    End,
    Ended,
    Granted,
    Look,
    Nudged,
    Reason,
    Renew,
    Stayed,
)
from tests.office import KEY, Office


@pytest.fixture
def office() -> Office:
    return Office()


# --- one answer each ---


def test_sessions_count_from_one_and_are_known_while_they_last(office: Office) -> None:
    a, b = office.callers(2)
    assert (a.session.id, b.session.id) == (1, 2)
    a.leave()
    assert list(office.desk.sessions) == [2]
    a.leave()
    assert office.caller().session.id == 3


def test_a_free_key_is_granted_at_once(office: Office) -> None:
    a = office.caller()
    claim = a.acquire()
    assert a.answered == [(claim, Answer.GRANTED, claim)]


def test_whoever_has_to_wait_hears_nothing_until_it_is_granted(office: Office) -> None:
    a, b = office.callers(2)
    held = a.acquire()
    claim = b.acquire()
    assert b.answered == []
    a.release(held)
    assert b.answered == [(claim, Answer.GRANTED, claim)]
    assert a.take() == [Answer.GRANTED, Answer.ENDED]


def test_whoever_has_to_wait_too_long_is_told_so(office: Office) -> None:
    a, b = office.callers(2)
    a.acquire()
    claim = b.acquire(patience_ns=5 * SECOND)
    office.after(5)
    assert b.answered == [(claim, Answer.TIMED_OUT, claim)]


def test_a_refusal_is_an_answer(office: Office) -> None:
    a, b = office.callers(2)
    a.acquire()
    b.acquire(limit=3)
    b.acquire(patience_ns=0)
    b.submit(Renew(KEY, b"x", SECOND))
    assert b.take() == [Answer.LIMIT_MISMATCH, Answer.TIMED_OUT, Answer.NOT_HELD]


def test_a_look_shows_what_there_is(office: Office) -> None:
    a = office.caller()
    a.acquire()
    a.submit(Look())
    assert a.views is not None
    assert [view.key for view in a.views] == [KEY]


def test_a_conversion_is_answered_when_it_is_over(office: Office) -> None:
    a, b = office.callers(2)
    one, other = a.acquire(PR), b.acquire(PR)
    a.submit(Convert(a.session.id, one.ticket, EX))
    assert a.take() == [Answer.GRANTED]
    b.release(other)
    assert a.take() == [Answer.GRANTED]


def test_a_conversion_that_takes_too_long_is_answered(office: Office) -> None:
    a, b = office.callers(2)
    one, _ = a.acquire(PR), b.acquire(PR)
    a.submit(Convert(a.session.id, one.ticket, EX, patience_ns=SECOND))
    office.after(1)
    assert a.take() == [Answer.GRANTED, Answer.TIMED_OUT]
    assert Stayed in a.take_news()


def test_a_conversion_whose_claim_is_taken_away_is_answered(office: Office) -> None:
    a, b = office.callers(2)
    one, _ = a.acquire(PR), b.acquire(PR)
    a.submit(Convert(a.session.id, one.ticket, EX))
    b.submit(End(KEY, one.token, Reason.BROKEN))
    assert a.take() == [Answer.GRANTED, Answer.CLOSED]


def test_a_conversion_whose_lease_runs_out_is_answered(office: Office) -> None:
    a, b = office.callers(2)
    one = a.acquire(PR)
    b.acquire(PR, lease_s=60)
    a.submit(Convert(a.session.id, one.ticket, EX))
    office.after(30)
    assert a.take() == [Answer.GRANTED, Answer.LEASE_EXPIRED]


# --- cancelling ---


def test_a_cancelled_request_is_answered_before_the_cancel(office: Office) -> None:
    # Without this, whoever was blocked would have waited for ever.
    a, b = office.callers(2)
    a.acquire()
    claim = b.acquire()
    b.submit(Cancel(b.session.id, claim.ticket))
    assert [(type(request), answer) for request, answer, _ in b.answered] == [
        (Claim, Answer.CANCELLED),
        (Cancel, Answer.CANCELLED),
    ]
    assert not b.session.awaited


def test_a_cancelled_conversion_is_answered_and_its_claim_stays(office: Office) -> None:
    a, b = office.callers(2)
    one, _ = a.acquire(PR), b.acquire(PR)
    a.submit(Convert(a.session.id, one.ticket, EX))
    a.submit(Cancel(a.session.id, one.ticket))
    assert a.take() == [Answer.GRANTED, Answer.CANCELLED, Answer.CANCELLED]
    a.release(one)
    assert a.take() == [Answer.ENDED]


def test_a_cancel_of_something_else_leaves_the_blocked_request_alone(office: Office) -> None:
    a, b = office.callers(2)
    a.acquire(key=b"lock:other")
    held = a.acquire()
    other = b.acquire(key=b"lock:other", tracked=True)
    b.acquire()
    b.submit(Cancel(b.session.id, other.ticket))
    assert b.take() == [Answer.QUEUED, Answer.CANCELLED]
    a.release(held)
    assert b.take() == [Answer.GRANTED]


def test_a_cancelled_first_phase_is_forgotten(office: Office) -> None:
    a, b = office.callers(2)
    a.acquire()
    claim = b.enqueue()
    b.submit(Cancel(b.session.id, claim.ticket))
    b.enqueue()
    assert b.take() == [Answer.QUEUED, Answer.CANCELLED, Answer.QUEUED]


def test_a_holder_cannot_be_cancelled_and_a_stranger_neither(office: Office) -> None:
    a = office.caller()
    claim = a.acquire()
    a.submit(Cancel(a.session.id, claim.ticket))
    a.submit(Cancel(a.session.id, 999))
    assert a.take() == [Answer.GRANTED, Answer.BUSY, Answer.NOT_HELD]


def test_a_quiet_cancel_has_no_answer(office: Office) -> None:
    a, b = office.callers(2)
    a.acquire()
    claim = b.enqueue()
    b.submit(Cancel(b.session.id, claim.ticket, quiet=True))
    assert b.take() == [Answer.QUEUED]


def test_cancelling_a_conversion_keeps_what_the_first_phase_left(office: Office) -> None:
    a, b = office.callers(2)
    claim = a.acquire(PR, tracked=True)
    b.acquire(PR)
    a.submit(Convert(a.session.id, claim.ticket, EX))
    a.submit(Cancel(a.session.id, claim.ticket))
    a.wait()
    assert a.take() == [Answer.GRANTED, Answer.CANCELLED, Answer.CANCELLED, Answer.GRANTED]


# --- news ---


def test_news_that_answers_nothing_reaches_its_caller(office: Office) -> None:
    a, b = office.callers(2)
    a.acquire(listens=True)
    b.acquire()
    assert a.take_news() == [Nudged]
    office.after(30)
    assert a.take_news() == [Ended]
    assert b.take_news() == [Granted]


def test_a_nudge_does_not_end_a_wait(office: Office) -> None:
    a, b, c = office.callers(3)
    one = a.acquire(PR, listens=True)
    other = b.acquire(PR)
    a.submit(Convert(a.session.id, one.ticket, EX))
    c.acquire()
    assert a.take_news() == [Nudged]
    assert a.take() == [Answer.GRANTED]
    b.release(other)
    assert a.take() == [Answer.GRANTED]


def test_a_chain_of_callers_is_told_in_order(office: Office) -> None:
    callers = office.callers(40)
    order: list[int] = []

    def give_back(number: int, claim: Claim) -> Callable[[], None]:
        def act() -> None:
            order.append(number)
            callers[number].release(claim)

        return act

    first = callers[0].acquire()
    for number in range(1, 40):
        callers[number].then = give_back(number, callers[number].acquire())
    callers[0].release(first)
    assert order == list(range(1, 40))
    assert all(caller.take() == [Answer.GRANTED, Answer.ENDED] for caller in callers)


def test_a_caller_whose_door_fails_does_not_silence_the_others(office: Office) -> None:
    a, b, c = office.callers(3)
    held = a.acquire(CW, limit=2)
    other = a.acquire(CW, limit=2)
    b.acquire(CW, limit=2)
    c.acquire(CW, limit=2)

    def fail() -> None:
        raise ZeroDivisionError

    b.then = fail
    with pytest.raises(ZeroDivisionError):
        a.release(held)
    assert c.take() == []
    a.release(other)
    assert c.take() == [Answer.GRANTED]


# --- leaving ---


def test_what_a_caller_held_and_waited_for_goes_to_others_when_it_leaves(office: Office) -> None:
    a, b, c = office.callers(3)
    a.acquire()
    b.acquire()
    c.acquire()
    b.leave()
    a.leave()
    assert b.take() == []
    assert c.take() == [Answer.GRANTED]


def test_what_is_held_may_stay_held_but_waiters_always_go() -> None:
    office = Office(release_on_disconnect=False)
    a, b, c = office.callers(3)
    a.acquire()
    b.acquire()
    c.acquire(patience_ns=60 * SECOND)
    a.leave()
    b.leave()
    assert c.take() == []
    office.after(30)
    assert c.take() == [Answer.GRANTED]
    assert a.told == []


# --- draining ---


def test_who_is_blocked_at_the_end_is_told_and_who_comes_later_is_refused(office: Office) -> None:
    a, b, c = office.callers(3)
    held = a.acquire()
    b.acquire()
    c.enqueue()
    c.wait()
    office.desk.drain(office.clock.now)
    assert b.take() == [Answer.CLOSED]
    assert c.take() == [Answer.QUEUED, Answer.CLOSED]
    a.release(held)
    a.submit(Look())
    a.wait()
    assert a.take() == [Answer.GRANTED, Answer.DRAINING, Answer.DRAINING, Answer.DRAINING]
    (resource,) = office.memory.table.resources.values()
    assert resource.waiting is None


def test_whoever_is_granted_by_an_unseen_expiry_at_the_end_is_told_of_the_grant(office: Office) -> None:
    a, b = office.callers(2)
    a.acquire(lease_s=1)
    claim = b.acquire()
    office.clock.advance(2)  # and nobody has looked since
    office.desk.drain(office.clock.now)
    assert b.answered == [(claim, Answer.GRANTED, claim)]


def test_a_conversion_that_is_blocked_at_the_end_is_told(office: Office) -> None:
    a, b = office.callers(2)
    one, _ = a.acquire(PR), b.acquire(PR)
    a.submit(Convert(a.session.id, one.ticket, EX))
    office.desk.drain(office.clock.now)
    assert a.take() == [Answer.GRANTED, Answer.CLOSED]


# --- a store that answers late ---


def test_a_late_store_changes_nothing_but_when() -> None:
    office = Office(late=True)
    a, b = office.callers(2)
    held = a.acquire()
    b.enqueue()
    assert a.take() == b.take() == []
    office.commit()
    assert (a.take(), b.take()) == ([Answer.GRANTED], [Answer.QUEUED])
    b.wait()
    a.release(held)
    office.commit()
    assert (a.take(), b.take()) == ([Answer.ENDED], [Answer.GRANTED])


def test_a_late_answer_to_a_caller_that_has_left_is_dropped_and_what_it_got_is_released() -> None:
    office = Office(late=True)
    a, b = office.callers(2)
    a.acquire()
    a.submit(Look())
    a.leave()
    b.acquire()
    office.commit()
    assert a.take() == []
    assert a.views is None
    assert b.take() == [Answer.GRANTED]


def test_a_grant_that_comes_before_the_wait_for_it_is_processed_answers_it_once() -> None:
    office = Office(late=True)
    a, b = office.callers(2)
    held = a.acquire()
    b.enqueue()
    office.commit()
    b.take()
    a.release(held)
    b.wait()
    office.commit()
    assert b.take() == [Answer.GRANTED]


def test_whoever_turns_out_to_have_to_wait_when_the_service_drains_is_sent_home_too() -> None:
    office = Office(late=True)
    a, b = office.callers(2)
    a.acquire()
    b.acquire()
    office.desk.drain(office.clock.now)
    office.commit()
    office.commit()
    assert a.take() == [Answer.GRANTED]
    assert b.take() == [Answer.CLOSED]
    assert office.memory.table.resources[KEY].waiting is None
