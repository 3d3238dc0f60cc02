"""The keeper by hand: batches, retries, what is given back by and by; what hangs is not asked twice."""

import threading

import pytest

from holdfast.client.lease import Lease
from holdfast.leases.beats import Beats
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.holding import Holding
from holdfast.leases.keeper import Keeper
from holdfast.leases.words import Hold
from holdfast.testing.clock import HandClock

LEASE_NS = 60_000_000_000
SECOND = 1_000_000_000
BACKEND = object()


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def keeper():
    return Keeper(lambda: 0.5)


def holding(clock, name="a", lease_ns=LEASE_NS):
    return Holding(
        Hold(name.encode(), name),
        shown=name,
        fence=1,
        lease=Lease(clock, sent_at=clock(), lease_ns=lease_ns),
        beats=Beats(clock),
        event=threading.Event(),
        told=lambda: None,
    )


def only_call(keeper, clock):
    (call,) = keeper.turn(clock()).calls
    return call


def test_all_leases_of_one_length_at_one_backend_are_one_call(keeper, clock):
    for name in "abc":
        keeper.book(BACKEND, LEASE_NS).add(holding(clock, name))
        clock.advance(3)
    clock.advance(10)
    call = only_call(keeper, clock)
    assert [hold.lock_id for hold in call.holds] == ["a", "b", "c"]
    assert call.lease_us == 60_000_000
    assert call.sent_at == clock()


def test_each_backend_and_each_length_has_a_call_of_its_own(keeper, clock):
    keeper.book(BACKEND, LEASE_NS).add(holding(clock, "a"))
    keeper.book(object(), LEASE_NS).add(holding(clock, "b"))
    keeper.book(BACKEND, SECOND).add(holding(clock, "c", SECOND))
    clock.advance(0.5)
    assert [call.lease_us for call in keeper.turn(clock()).calls] == [1_000_000]
    clock.advance(18)
    assert sorted(hold.lock_id for call in keeper.turn(clock()).calls for hold in call.holds) == ["a", "b"]


def test_nobody_is_asked_while_an_answer_is_awaited_and_notices_come_all_the_same(keeper, clock):
    held = holding(clock)
    keeper.book(BACKEND, LEASE_NS).add(held)
    clock.advance(20)
    only_call(keeper, clock)
    for _ in range(60):
        clock.advance(1)
        turn = keeper.turn(clock())
        assert turn.calls == []
        assert turn.due > clock()
        for tell in turn.news:
            tell()
    assert held.event.is_set()


def test_a_refresh_that_comes_too_late_revives_nothing(keeper, clock):
    held = holding(clock)
    keeper.book(BACKEND, LEASE_NS).add(held)
    clock.advance(20)
    call = only_call(keeper, clock)
    clock.advance(50)
    call.book.answered(call, [True])
    assert not held.live


def test_a_refresh_counts_from_when_it_left(keeper, clock):
    held = holding(clock)
    keeper.book(BACKEND, LEASE_NS).add(held)
    clock.advance(20)
    call = only_call(keeper, clock)
    clock.advance(10)
    call.book.answered(call, [True])
    assert held.lease.remaining_ns < 50 * SECOND


def test_an_answer_is_for_those_who_asked(keeper, clock):
    book, old, new = keeper.book(BACKEND, LEASE_NS), holding(clock, "old"), holding(clock, "new")
    book.add(old)
    clock.advance(20)
    call = only_call(keeper, clock)
    book.add(new)
    book.answered(call, [False])
    assert (old.live, new.live) == (False, True)


def test_too_few_answers_are_a_failure_and_no_loss(keeper, clock, caplog):
    book = keeper.book(BACKEND, LEASE_NS)
    for name in "ab":
        book.add(holding(clock, name))
    clock.advance(20)
    call = only_call(keeper, clock)
    book.answered(call, [True])
    assert "1 answers came for 2 locks" in caplog.text
    assert all(held.live for held in book.holdings)


def test_what_is_left_is_given_back_again_and_again_until_its_lease_is_over(keeper, clock):
    book, tries = keeper.book(BACKEND, LEASE_NS), 0
    book.leave(Hold(b"a", "a"), clock())
    while not keeper.idle:
        turn = keeper.turn(clock())
        for call in turn.calls:
            tries += 1
            assert call.holdings == ()
            book.failed(call, DatabaseUnavailable("away"))
        clock.advance(1)
    assert 28 <= tries <= 31


def test_what_is_left_is_done_with_the_first_answer(keeper, clock):
    book = keeper.book(BACKEND, LEASE_NS)
    book.leave(Hold(b"a", "a"), clock())
    call = only_call(keeper, clock)
    book.answered(call, [False])
    assert keeper.turn(clock()).calls == []
    assert keeper.idle


def test_what_is_left_does_not_keep_leases_from_being_refreshed(keeper, clock):
    book = keeper.book(BACKEND, LEASE_NS)
    book.add(holding(clock))
    clock.advance(20)
    book.leave(Hold(b"b", "b"), clock())
    refreshing = only_call(keeper, clock)
    assert len(refreshing.holdings) == 1
    book.answered(refreshing, [True])
    giving = only_call(keeper, clock)
    assert giving.holds == (Hold(b"b", "b"),)


def test_an_empty_book_is_forgotten_and_made_again(keeper, clock):
    held = holding(clock)
    book = keeper.book(BACKEND, LEASE_NS)
    book.add(held)
    assert keeper.find(BACKEND, LEASE_NS) is book
    book.remove(held)
    keeper.turn(clock())
    assert keeper.find(BACKEND, LEASE_NS) is None


def test_a_keeper_that_fails_leaves_nobody_in_good_faith(keeper, clock):
    held = holding(clock)
    keeper.book(BACKEND, LEASE_NS).add(held)
    for tell in keeper.fail("it failed"):
        tell()
    assert held.event.is_set()
    assert held.reason == "it failed"


def test_at_the_end_all_is_taken_that_is_to_be_given_back(keeper, clock):
    book, held, lost = keeper.book(BACKEND, LEASE_NS), holding(clock, "held"), holding(clock, "lost")
    book.add(held)
    book.add(lost)
    book.leave(Hold(b"left", "left"), clock())
    lost.lease.lose("somebody has it")
    assert {hold.lock_id for hold in book.take_all()} == {"held", "left"}
    assert not held.live
    assert book.idle
