"""Groups at the desk: who asks for several keys gets one answer, and who waits for one of them is not forgotten.

What a group may be granted is the engine's business, and is tested there.
"""

import pytest

from holdfast.words import (
    EX,
    FOREVER,
    PR,
    SECOND,
    UNLIMITED,
    WAITING,
    Answer,
    Cancel,
    Claim,
    Convert,
    Ended,
    Granted,
    Group,
    Ticket,
    Wait,
)
from tests.office import Caller, Office

LEFT, RIGHT = b"lock:left", b"lock:right"
TICKET = b"ticket-of-a-group"


@pytest.fixture
def office() -> Office:
    return Office()


def group(*, patience_ns: int = FOREVER, tracked: bool = False, want: int = EX, lease_s: float = 30) -> Group:
    claims = [Claim(key, want, 1, UNLIMITED, round(lease_s * SECOND), patience_ns) for key in (LEFT, RIGHT)]
    return Group(TICKET, claims, patience_ns, tracked=tracked)


def ask(caller: Caller, **more: int) -> Group:
    asked = group(**more)
    caller.submit(asked)
    return asked


def wait(caller: Caller, ticket: Ticket = TICKET, patience_s: float = 60) -> Wait:
    request = Wait(caller.session.id, ticket, round(patience_s * SECOND))
    caller.submit(request)
    return request


def cancel(caller: Caller, ticket: Ticket = TICKET, **more: bool) -> Cancel:
    request = Cancel(caller.session.id, ticket, **more)
    caller.submit(request)
    return request


# --- one answer ---


def test_a_group_of_free_keys_is_granted_at_once_and_counts_for_each_key(office: Office) -> None:
    a = office.caller()
    asked = ask(a)
    assert a.answered == [(asked, Answer.GRANTED, None)]
    assert office.desk.grants == 2


def test_whoever_waits_for_a_group_is_answered_once_with_all_of_it(office: Office) -> None:
    a, b = office.callers(2)
    held = a.acquire(key=LEFT)
    asked = ask(b)
    assert b.answers == []
    a.release(held)
    assert b.take() == [Answer.GRANTED]
    assert [claim.key for claim in asked.claims] == [LEFT, RIGHT]
    assert all(claim.fence for claim in asked.claims)
    assert b.take_news() == [Granted, Granted]
    assert office.desk.grants == 3


def test_a_group_that_runs_out_of_patience_is_told_so_once(office: Office) -> None:
    a, b = office.callers(2)
    held = a.acquire(key=RIGHT)
    ask(b, patience_ns=5 * SECOND)
    office.after(5)
    assert b.take() == [Answer.TIMED_OUT]
    assert b.take_news() == [Ended, Ended]
    _, _, claim = b.answered[0]
    assert claim is not None
    assert claim.rival is held


def test_a_group_that_is_asked_for_again_takes_the_place_of_who_asked_before(office: Office) -> None:
    a, b = office.callers(2)
    held = a.acquire(key=LEFT)
    first, second = ask(b), ask(b)
    assert b.answered == [(first, Answer.CANCELLED, None)]
    a.release(held)
    assert [(request, answer) for request, answer, _ in b.answered[1:]] == [(second, Answer.GRANTED)]
    assert [claim.key for claim in second.claims] == [LEFT, RIGHT]


def test_a_late_store_changes_nothing_but_when() -> None:
    office = Office(late=True)
    a, b = office.callers(2)
    held = a.acquire(key=LEFT)
    asked = ask(b)
    office.commit()
    assert b.answers == []
    a.release(held)
    assert b.answers == []
    office.commit()
    assert b.take() == [Answer.GRANTED]
    assert all(claim.fence for claim in asked.claims)


# --- two phases ---


def test_the_first_phase_of_a_group_is_answered_at_once_and_its_grant_is_news(office: Office) -> None:
    a, b = office.callers(2)
    held = a.acquire(key=LEFT)
    ask(b, tracked=True)
    assert b.take() == [Answer.QUEUED]
    a.release(held)
    assert b.take() == []
    assert b.take_news() == [Granted, Granted]
    second = wait(b)
    assert b.take() == [Answer.GRANTED]
    assert second.claims is not None
    assert [claim.key for claim in second.claims] == [LEFT, RIGHT]


def test_a_second_phase_that_has_to_wait_is_answered_with_all_of_the_group(office: Office) -> None:
    a, b = office.callers(2)
    held = a.acquire(key=LEFT)
    ask(b, tracked=True)
    second = wait(b)
    assert b.take() == [Answer.QUEUED]
    a.release(held)
    assert b.take() == [Answer.GRANTED]
    assert second.claims is not None
    assert [claim.key for claim in second.claims] == [LEFT, RIGHT]


def test_an_expiry_of_what_is_held_is_not_the_answer_to_a_group(office: Office) -> None:
    a, b = office.callers(2)
    ask(a, lease_s=5)
    ask(b)
    office.after(5)
    assert a.take() == [Answer.GRANTED]
    assert a.take_news() == [Ended, Ended]
    assert b.take() == [Answer.GRANTED]


@pytest.mark.parametrize("ticket", [TICKET, TICKET + b"#0", TICKET + b"#1"])
def test_whoever_waits_for_one_of_a_group_hears_when_a_wait_without_patience_ends_it(
    office: Office, ticket: bytes
) -> None:
    a, b = office.callers(2)
    a.acquire(key=LEFT)
    ask(b, tracked=True)
    waits = [wait(b, TICKET + suffix) for suffix in (b"", b"#0", b"#1")]
    assert b.take() == [Answer.QUEUED]
    last = wait(b, ticket, 0)
    told = {id(request): answer for request, answer, _ in b.answered[1:]}
    # Whoever waits under the very same name is told that somebody else has come back for it.
    assert told == {
        id(request): Answer.CANCELLED if request.ticket == ticket else Answer.TIMED_OUT for request in waits
    } | {id(last): Answer.TIMED_OUT}
    assert len(b.answered) == 5
    assert b.session.awaited == {}


@pytest.mark.parametrize("ticket", [TICKET, TICKET + b"#0", TICKET + b"#1"])
def test_whoever_waits_for_one_of_a_group_hears_when_it_is_withdrawn(office: Office, ticket: bytes) -> None:
    a, b = office.callers(2)
    a.acquire(key=LEFT)
    ask(b, tracked=True)
    for suffix in (b"", b"#0", b"#1"):
        wait(b, TICKET + suffix)
    cancel(b, ticket)
    assert b.session.awaited == {}
    _, *answers = b.take()
    assert len(answers) == 4
    assert set(answers) <= {Answer.CANCELLED, Answer.CLOSED}
    assert answers[-1] is not Answer.GRANTED


# --- ending ---


def test_a_group_that_waits_is_withdrawn_by_its_ticket(office: Office) -> None:
    a, b = office.callers(2)
    a.acquire(key=LEFT)
    asked, late = ask(b), a.acquire(key=RIGHT)
    withdrawal = cancel(b)
    assert [(request, answer) for request, answer, _ in b.answered] == [
        (asked, Answer.CANCELLED),
        (withdrawal, Answer.CANCELLED),
    ]
    assert a.answered[-1] == (late, Answer.GRANTED, late)


def test_what_is_held_of_a_group_is_given_back_by_its_ticket(office: Office) -> None:
    a, b = office.callers(2)
    ask(a)
    ask(b)
    cancel(a)
    cancel(a, held=True)
    assert a.take() == [Answer.GRANTED, Answer.BUSY, Answer.ENDED]
    assert b.take() == [Answer.GRANTED]


def test_a_conversion_of_one_of_a_group_stops_by_the_ticket_of_the_group(office: Office) -> None:
    a, b = office.callers(2)
    b.acquire(PR, key=LEFT)
    asked = ask(a, want=PR)
    conversion = Convert(a.session.id, asked.claims[0].ticket, EX)
    a.submit(conversion)
    cancel(a)
    assert [answer for request, answer, _ in a.answered if request is conversion] == [Answer.CLOSED]
    assert a.take() == [Answer.GRANTED, Answer.CANCELLED, Answer.CLOSED]
    assert asked.claims[0].mode == PR


def test_a_caller_that_leaves_takes_its_group_out_of_every_queue(office: Office) -> None:
    a, b, c = office.callers(3)
    a.acquire(key=LEFT)
    ask(b)
    late = c.acquire(key=RIGHT)
    b.leave()
    assert c.answered == [(late, Answer.GRANTED, late)]


@pytest.mark.parametrize("is_late", [False, True])
def test_who_waits_for_a_group_at_the_end_is_told_once(is_late: bool) -> None:
    office = Office(late=is_late)
    a, b = office.callers(2)
    a.acquire(key=LEFT)
    office.commit()
    asked = ask(b)
    office.desk.drain(office.clock.now)
    office.commit()
    office.commit()
    assert [(request, answer) for request, answer, _ in b.answered] == [(asked, Answer.CLOSED)]
    assert all(claim.state is not WAITING for claim in asked.claims)
