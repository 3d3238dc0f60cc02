"""The desk on stores that answer late, fail, or outlive it: the resident session, withdrawals, tickets shown again.

What is true of every store is tested in test_desk.py.
"""

import pytest

from holdfast.desk import Desk
from holdfast.errors import StoreBusy, StoreFailed
from holdfast.words import (
    EX,
    PR,
    RESIDENT,
    SECOND,
    UNLIMITED,
    Answer,
    Cancel,
    Claim,
    Convert,
    End,
    Renew,
    Request,
    WaitFor,
)
from tests.office import KEY, Caller, Office
from tests.stores.rig import PaperRig


class Resident(Caller):
    """Whoever speaks for callers that are bound to no connection. It writes down who has to wait."""

    def __init__(self, office: Office) -> None:
        super().__init__(office)
        office.desk.dismiss(self.session, office.clock.now)
        self.session = office.desk.reside(self)
        self.waiting: list[Request] = []

    def waits(self, request: Request) -> None:
        self.waiting.append(request)

    def claim(self, ticket: bytes, *, patience_s: float = 60, key: bytes = KEY) -> Claim:
        claim = Claim(key, EX, 1, UNLIMITED, 30 * SECOND, round(patience_s * SECOND))
        claim.ticket = ticket
        self.submit(claim)
        return claim


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def resident(office: Office) -> Resident:
    return Resident(office)


# --- the session that is never over ---


def test_the_resident_session_has_its_number_and_is_no_connection(office: Office, resident: Resident) -> None:
    assert resident.session.id == RESIDENT
    assert office.desk.connections == 0
    a = office.caller()
    assert office.desk.connections == 1
    a.leave()
    assert office.desk.connections == 0
    assert RESIDENT in office.desk.sessions


def test_what_the_resident_asks_for_without_a_ticket_gets_one_above_all_former_ones(office: Office) -> None:
    office.desk = Desk(office.memory, release_on_disconnect=True, tickets=1000)
    office.memory.sink = office.desk
    resident = Resident(office)
    claim = resident.acquire()
    assert claim.ticket == 1001


def test_whoever_has_to_wait_is_told_so_and_then_granted(office: Office, resident: Resident) -> None:
    held = resident.claim(b"one")
    assert resident.waiting == []
    claim = resident.claim(b"two")
    assert (resident.waiting, resident.take()) == ([claim], [Answer.GRANTED])
    resident.release(held)
    assert sorted(resident.take()) == [Answer.GRANTED, Answer.ENDED]
    assert (claim, Answer.GRANTED, claim) in resident.answered


def test_a_second_phase_and_a_conversion_wait_too(office: Office, resident: Resident) -> None:
    other = office.caller()
    other.acquire(PR)
    other.acquire(PR, key=b"lock:other")
    shared = resident.acquire(PR)
    resident.submit(Convert(0, shared.ticket, EX))
    resident.acquire(EX, key=b"lock:other", tracked=True)
    resident.wait(key=b"lock:other")
    assert [type(request) for request in resident.waiting] == [Convert, WaitFor]


# --- tickets that are shown again ---


def test_a_ticket_that_is_shown_again_is_granted_the_same(resident: Resident) -> None:
    one = resident.claim(b"once")
    again = resident.claim(b"once")
    assert resident.answered == [(one, Answer.GRANTED, one), (again, Answer.GRANTED, one)]


def test_who_comes_back_while_still_waiting_takes_the_place_of_who_asked_before(
    office: Office, resident: Resident
) -> None:
    held = resident.claim(b"held")
    first = resident.claim(b"once")
    again = resident.claim(b"once")
    assert resident.answered[1:] == [(first, Answer.CANCELLED, first)]
    assert resident.waiting == [first, again]
    resident.release(held)
    (granted,) = [answered for answered in resident.answered if answered[0] is again]
    assert granted == (again, Answer.GRANTED, first)


# --- withdrawing ---


def test_a_request_that_is_withdrawn_is_answered_as_cancelled_and_leaves_the_queue(
    office: Office, resident: Resident
) -> None:
    held = resident.claim(b"held")
    claim = resident.claim(b"once")
    office.desk.withdraw(resident.session, claim, office.clock.now)
    assert resident.answered[1:] == [(claim, Answer.CANCELLED, claim)]
    resident.release(held)
    assert resident.take()[-1] is Answer.ENDED


def test_withdrawing_for_someone_who_has_come_back_since_leaves_the_new_request_alone(
    office: Office, resident: Resident
) -> None:
    resident.claim(b"held")
    first = resident.claim(b"once")
    again = resident.claim(b"once")
    resident.take()
    office.desk.withdraw(resident.session, first, office.clock.now)
    assert resident.take() == []
    office.desk.withdraw(resident.session, again, office.clock.now)
    assert resident.take() == [Answer.CANCELLED]


def test_a_wait_that_is_withdrawn_uses_the_first_phase_up(office: Office) -> None:
    a, b = office.callers(2)
    a.acquire()
    b.enqueue()
    request = WaitFor(KEY, 60 * SECOND)
    b.submit(request)
    b.take()
    office.desk.withdraw(b.session, request, office.clock.now)
    assert b.take() == [Answer.CANCELLED]
    b.wait()
    assert b.take() == [Answer.NOT_ENQUEUED]


def test_withdrawing_a_wait_that_was_answered_at_once_does_nothing(office: Office) -> None:
    a = office.caller()
    request = WaitFor(KEY, 60 * SECOND)
    a.submit(request)
    office.desk.withdraw(a.session, request, office.clock.now)
    assert a.take() == [Answer.NOT_ENQUEUED]


def test_a_withdrawal_that_overtakes_the_answer_still_finds_the_request() -> None:
    office = Office(late=True)
    resident = Resident(office)
    office.commit()
    held = resident.claim(b"held")
    claim = resident.claim(b"once")
    office.desk.withdraw(resident.session, claim, office.clock.now)
    office.commit()
    assert resident.take() == [Answer.GRANTED, Answer.CANCELLED]
    assert held.fence


def test_what_somebody_was_granted_who_had_gone_can_be_given_back_even_at_the_end(
    office: Office, resident: Resident
) -> None:
    held = resident.claim(b"once")
    office.desk.drain(office.clock.now)
    resident.submit(End(KEY, held.token))
    assert resident.take() == [Answer.GRANTED, Answer.DRAINING]
    office.desk.give_back(resident.session, End(KEY, held.token), office.clock.now)
    assert resident.take() == [Answer.ENDED]
    assert not office.memory.table.resources[KEY].sole


def test_at_the_end_those_who_wait_in_the_resident_session_are_sent_home_too(
    office: Office, resident: Resident
) -> None:
    resident.claim(b"held")
    resident.claim(b"once")
    office.desk.drain(office.clock.now)
    assert resident.take() == [Answer.GRANTED, Answer.CLOSED]


# --- stores that fail ---


class ShelfOffice(Office):
    """A desk on a shelf that can be made to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = PaperRig()
        self.clock = self.rig.clock
        self.desk = Desk(self.rig.store, release_on_disconnect=True)
        self.rig.shelf.sink = self.desk

    def settle(self) -> None:
        self.rig.settle()


@pytest.fixture
def shelf() -> ShelfOffice:
    return ShelfOffice()


def test_a_refusal_of_the_store_is_the_answer_to_whoever_asked(shelf: ShelfOffice) -> None:
    a, b = shelf.callers(2)
    held = a.acquire()
    shelf.settle()
    b.acquire()
    shelf.settle()
    shelf.rig.paper.refused["begin"] = StoreBusy
    for request in (End(KEY, held.token), Renew(KEY, held.token, SECOND), Cancel(0, held.ticket)):
        a.submit(request)
    b.submit(Cancel(0, b.session.awaited.copy().popitem()[0]))
    shelf.settle()
    assert a.take() == [Answer.GRANTED, *[Answer.STORE_BUSY] * 3]
    assert b.take() == [Answer.STORE_BUSY]
    shelf.rig.paper.refused.clear()
    a.release(held)
    shelf.settle()
    assert (a.take(), b.take()) == ([Answer.ENDED], [Answer.GRANTED])


def test_a_first_phase_outlives_a_second_one_that_the_store_refused(shelf: ShelfOffice) -> None:
    a, b = shelf.callers(2)
    held = a.acquire()
    b.enqueue()
    shelf.settle()
    shelf.rig.paper.refused["commit"] = StoreFailed
    b.wait()
    shelf.settle()
    assert b.take() == [Answer.QUEUED, Answer.STORE_FAILED]
    shelf.rig.paper.refused.clear()
    b.wait()
    shelf.settle()
    a.release(held)
    shelf.settle()
    assert b.take() == [Answer.GRANTED]


def test_a_first_phase_that_the_store_refused_is_none(shelf: ShelfOffice) -> None:
    a = shelf.caller()
    shelf.rig.paper.refused["commit"] = StoreFailed
    a.enqueue()
    shelf.settle()
    shelf.rig.paper.refused.clear()
    a.wait()
    shelf.settle()
    a.enqueue()
    shelf.settle()
    assert a.take() == [Answer.STORE_FAILED, Answer.NOT_ENQUEUED, Answer.GRANTED]


def test_who_waits_is_granted_also_after_the_store_has_made_the_claim_anew(shelf: ShelfOffice) -> None:
    # A failed transaction puts other objects on the table: who waits is found by ticket.
    a, b = shelf.callers(2)
    held = a.acquire()
    shelf.settle()
    b.acquire()
    shelf.settle()
    shelf.rig.paper.refused["commit"] = StoreFailed
    a.release(held)
    shelf.settle()
    shelf.rig.paper.refused.clear()
    a.release(held)
    shelf.settle()
    assert (a.take(), b.take()) == ([Answer.GRANTED, Answer.STORE_FAILED, Answer.ENDED], [Answer.GRANTED])


def test_whoever_leaves_while_the_store_fails_has_left_when_it_works_again(shelf: ShelfOffice) -> None:
    a, b = shelf.callers(2)
    a.acquire()
    shelf.settle()
    b.acquire()
    shelf.settle()
    shelf.rig.paper.refused["begin"] = StoreBusy
    a.leave()
    shelf.settle()
    assert b.take() == []
    shelf.rig.paper.refused.clear()
    shelf.rig.after(1)
    assert b.take() == [Answer.GRANTED]


# --- what is counted ---


def test_grants_expiries_and_hand_overs_are_counted(office: Office) -> None:
    times: list[int] = []
    office.desk.handed_over = times.append
    a, b = office.callers(2)
    a.acquire(lease_s=5)
    b.acquire(lease_s=7)
    office.after(5)
    assert (office.desk.grants, office.desk.expired) == (2, 1)
    assert times == [office.clock.now]
