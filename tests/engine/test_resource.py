"""The one rule of admission, and the two primitive moves, on a bare resource.

Order, time and sessions are tested elsewhere.
"""

from itertools import product

import pytest

from holdfast.engine.invariants import check
from holdfast.engine.resource import (
    AGENDA_PER_CLAIM,
    Resource,
    everybody,
    fits,
    grant,
    holders,
    join_converting,
    join_waiting,
    leave_converting,
    leave_waiting,
    mask_beside,
    note,
    remove,
    turn_of,
)
from holdfast.testing.mint import secret_of
from holdfast.words import (
    BIT,
    CR,
    CW,
    EX,
    FOREVER,
    GONE,
    HELD,
    NL,
    PR,
    PW,
    UNLIMITED,
    WAITING,
    Claim,
    Mode,
    Reason,
    Ticket,
)
from tests.engine.naive import compatible


def claim(want: int, units: int = 1, limit: int = UNLIMITED, lease_ns: int = FOREVER) -> Claim:
    return Claim(b"k", want, units, limit, lease_ns, FOREVER)


def held(r: Resource, want: int, units: int = 1, lease_ns: int = FOREVER) -> Claim:
    c = claim(want, units, r.limit, lease_ns)
    grant(r, c, 0, r.fence + 1, secret_of(r.fence + 1))
    return c


@pytest.mark.parametrize(("mode", "want"), list(product(Mode, Mode)), ids=lambda mode: mode.name)
def test_a_claim_fits_beside_a_holder_just_where_the_classic_table_says_so(mode: Mode, want: Mode) -> None:
    r = Resource(b"k", UNLIMITED)
    held(r, mode)
    assert fits(r, claim(want)) is compatible(mode.name, want.name)


def test_a_claim_fits_as_long_as_there_are_units_left() -> None:
    r = Resource(b"k", 5)
    held(r, CW, units=3)
    assert fits(r, claim(CW, units=2))
    assert not fits(r, claim(CW, units=3))


def test_a_grant_fills_in_what_proves_it() -> None:
    r = Resource(b"k", UNLIMITED, fence=7)
    c = claim(PW, lease_ns=30)
    grant(r, c, 100, 9, secret_of(9))
    assert (c.state, c.mode, c.fence, c.deadline) == (HELD, PW, 9, 130)
    assert c.token == c.secret[:32]
    assert holders(r) == [c]
    assert (r.fence, r.used, r.mask, r.soonest) == (9, 1, BIT[PW], 130)
    check(r, 100)


def test_a_fence_that_does_not_rise_is_refused_as_a_bug() -> None:
    r = Resource(b"k", UNLIMITED, fence=7)
    with pytest.raises(AssertionError):
        grant(r, claim(EX), 0, 7, secret_of(7))
    assert not holders(r)


def test_removing_the_last_holder_of_a_mode_takes_the_mode_off_the_mask() -> None:
    r = Resource(b"k", UNLIMITED)
    one, other, reader = held(r, PR), held(r, PR), held(r, CR)
    remove(r, one, Reason.RELEASED)
    assert r.mask == BIT[PR] | BIT[CR]
    remove(r, other, Reason.RELEASED)
    assert r.mask == BIT[CR]
    remove(r, reader, Reason.EXPIRED)
    assert (r.mask, r.used, holders(r)) == (0, 0, [])
    assert (one.state, one.reason, reader.reason) == (GONE, Reason.RELEASED, Reason.EXPIRED)


def test_removing_takes_a_claim_out_of_its_sessions_book() -> None:
    r = Resource(b"k", UNLIMITED)
    c = held(r, EX)
    c.ticket = 5
    book: dict[Ticket, Claim] = {5: c, 6: claim(EX)}
    c.book = book
    remove(r, c, Reason.RELEASED)
    assert list(book) == [6]
    assert c.book is None


def test_removing_a_waiter_leaves_no_empty_queue_behind() -> None:
    r = Resource(b"k", UNLIMITED)
    held(r, EX)
    c = claim(EX)
    join_waiting(r, c)
    assert c.state is WAITING
    check(r, 0)
    remove(r, c, Reason.CANCELLED)
    assert r.waiting is None
    check(r, 0)


def test_removing_a_converting_holder_takes_it_out_of_both_places() -> None:
    r = Resource(b"k", UNLIMITED)
    held(r, PR)
    c = held(r, PR)
    join_converting(r, c, EX, 0)
    check(r, 0)
    remove(r, c, Reason.RELEASED)
    assert r.converting is None
    check(r, 0)


def test_what_is_gone_cannot_be_removed_again() -> None:
    r = Resource(b"k", UNLIMITED)
    c = held(r, EX)
    remove(r, c, Reason.RELEASED)
    with pytest.raises(AssertionError):
        remove(r, c, Reason.RELEASED)


def test_queues_keep_the_order_of_arrival() -> None:
    r = Resource(b"k", UNLIMITED)
    readers = [held(r, PR) for _ in range(3)]
    waiters = [claim(EX), claim(PR), claim(CR)]
    for c in waiters:
        join_waiting(r, c)
    for c in reversed(readers):
        join_converting(r, c, PW, 0)
    assert list((r.waiting or {}).values()) == waiters
    assert list((r.converting or {}).values()) == readers[::-1]
    assert everybody(r) == readers + waiters
    leave_waiting(r, waiters[1])
    leave_converting(r, readers[1])
    assert list((r.waiting or {}).values()) == [waiters[0], waiters[2]]
    assert list((r.converting or {}).values()) == [readers[2], readers[0]]


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name)
def test_the_mask_beside_a_holder_leaves_out_what_only_it_holds(mode: Mode) -> None:
    r = Resource(b"k", UNLIMITED)
    c = held(r, mode)
    held(r, NL)
    assert mask_beside(r, c) == BIT[NL]
    if compatible(mode.name, mode.name):
        held(r, mode)
        assert mask_beside(r, c) == BIT[NL] | BIT[mode]


def test_at_one_instant_leases_end_before_patience_does() -> None:
    r = Resource(b"k", UNLIMITED)
    holder, waiter = held(r, CW), claim(EX)
    join_waiting(r, waiter)
    holder.deadline = waiter.deadline = 50
    assert turn_of(holder) < turn_of(waiter)


def test_the_turn_of_a_converting_holder_is_whatever_comes_first() -> None:
    r = Resource(b"k", UNLIMITED)
    held(r, PR)
    c = held(r, PR, lease_ns=50)
    join_converting(r, c, EX, 0)
    c.convert_deadline = 20
    assert turn_of(c)[0] == 20
    c.convert_deadline = 80
    assert turn_of(c)[0] == 50


def test_an_agenda_that_is_mostly_stale_is_thrown_away() -> None:
    r = Resource(b"k", UNLIMITED)
    c = held(r, CW, lease_ns=10)
    r.agenda = []
    for deadline in range(11, 11 + AGENDA_PER_CLAIM):
        c.deadline = deadline
        note(r, c, deadline)
        assert len(r.agenda or ()) == deadline - 10
    note(r, c, c.deadline)
    assert r.soonest == 10
    assert r.agenda is None


def test_what_never_ends_needs_no_place_on_the_agenda() -> None:
    r = Resource(b"k", UNLIMITED)
    r.agenda = []
    held(r, CW)
    assert r.agenda == []


def test_a_resource_introduces_itself() -> None:
    r = Resource(b"k", UNLIMITED)
    held(r, EX)
    join_waiting(r, claim(EX))
    assert repr(r) == "<Resource b'k' fence=1 held=1 waiting=1>"
