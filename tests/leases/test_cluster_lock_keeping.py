"""A cluster lock for threads, in virtual time: keeping, losing, giving back."""

import gc
import logging

import pytest

from holdfast.client.lease import State
from holdfast.errors import LeaseLost
from holdfast.leases.errors import DatabaseUnavailable, LockLost, LockNotHeld
from holdfast.leases.words import Hold
from tests.leases.paper import Machine, PaperBackend, lock_of

KEY = b"cluster/"


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def other(machine):
    """Another process under the same time."""
    return Machine(machine.clock)


@pytest.fixture
def table(machine):
    return PaperBackend(machine.clock)


# --- keeping and losing ---


def test_a_lease_is_refreshed_after_less_than_every_twenty_seconds(machine, table):
    with lock_of(machine, table) as lock:
        machine.passes(600)
        assert lock.held
        assert 600 // 20 <= table.count("refresh") <= 600 // 18
    assert not lock.lost_event.is_set()


@pytest.mark.parametrize("begins", [5, 17, 17.9, 17.99, 18.01, 19.9, 26, 35.95])
@pytest.mark.parametrize("lasts", [1, 22, 37, 39.5, 39.9])
def test_an_outage_of_less_than_forty_seconds_is_survived(machine, table, begins, lasts):
    with lock_of(machine, table) as lock:
        machine.passes(begins)
        table.broken = True
        machine.passes(lasts)
        table.broken = False
        machine.passes(3)
        assert lock.state is State.HELD
        machine.passes(100)
        assert not lock.lost_event.is_set()


def test_a_refresh_that_failed_is_tried_again_two_seconds_later(machine, table):
    with lock_of(machine, table):
        machine.passes(17)
        table.broken = True
        machine.passes(11)
        assert table.count("refresh") == 6  # at 18, 20, 22, 24, 26 and 28
        table.broken = False


def test_a_holder_knows_that_it_has_lost_before_anybody_can_steal(machine, other, table):
    lock = lock_of(machine, table)
    lock.acquire()
    machine.passes(20)
    table.broken = True
    while not lock.lost_event.is_set():
        machine.passes(0.1)
    assert machine.clock() < table.rows[KEY]["until"]
    assert "ran out" in lock.lost_reason
    table.broken = False
    assert not lock_of(other, table).acquire()
    with pytest.raises(LockLost):
        lock.check()


def test_a_process_that_was_frozen_knows_at_the_first_look(machine, other, table):
    lock = lock_of(machine, table)
    lock.acquire()
    machine.clock.advance(61)  # and its refresher did not run
    assert lock_of(other, table).acquire()
    assert not lock.held
    assert lock.remaining == 0
    with pytest.raises(LeaseLost):
        lock.check()
    machine.host.turn()
    assert lock.lost_event.is_set()
    assert table.rows[KEY]["fence"] == 2


def test_a_stolen_lock_is_noticed_at_the_next_refresh(machine, table):
    lock = lock_of(machine, table)
    lock.acquire()
    table.seize(KEY)
    machine.passes(20)
    assert lock.lost_event.is_set()
    assert "not ours any more" in lock.lost_reason
    assert table.count("refresh") == 1
    machine.passes(100)
    assert table.count("refresh") == 1


def test_two_failures_and_then_success_are_no_loss(machine, table):
    with lock_of(machine, table) as lock:
        machine.passes(19.5)
        table.broken = True
        machine.passes(3)
        table.broken = False
        machine.passes(60)
        assert lock.held
        assert not lock.lost_event.is_set()


def test_after_a_loss_the_same_object_begins_anew(machine, table):
    lock = lock_of(machine, table)
    lock.acquire()
    first, old_id = lock.lost_event, lock.lockid
    table.broken = True
    machine.passes(70)
    table.broken = False
    assert first.is_set()
    assert lock.acquire()
    assert lock.held
    assert lock.lockid != old_id
    assert not lock.lost_event.is_set()
    assert first.is_set()
    machine.passes(200)
    assert lock.held


def test_a_loss_that_nobody_has_told_of_is_told_when_it_begins_anew(machine, table):
    lock = lock_of(machine, table)
    lock.acquire()
    first = lock.lost_event
    machine.clock.advance(61)
    assert lock.acquire()
    machine.host.turn()
    assert first.is_set()
    assert not lock.lost_event.is_set()
    assert lock.held


def test_the_event_can_be_had_before_the_lock(machine, table):
    lock = lock_of(machine, table)
    event = lock.lost_event
    lock.acquire()
    table.seize(KEY)
    machine.passes(21)
    assert event.is_set()


def test_work_that_hangs_keeps_its_lock_for_one_beat_and_one_lease(machine, other, table):
    lock = lock_of(machine, table, beat_timeout=30)
    lock.acquire()
    for _ in range(10):
        machine.passes(15)
        lock.beat()
    assert lock.held
    hung_at = machine.clock()
    while not lock_of(other, table).acquire():
        machine.passes(1)
    assert machine.clock() - hung_at <= (30 + 60 + 1) * 1e9
    assert lock.lost_event.is_set()
    assert "no sign of life" in lock.lost_reason


def test_work_that_beats_again_in_time_keeps_its_lock(machine, table):
    with lock_of(machine, table, beat_timeout=10) as lock:
        machine.passes(50)
        assert lock.state is State.DANGER
        lock.beat()
        machine.passes(3)
        assert lock.state is State.HELD


def test_a_beat_of_the_whole_process_counts_for_all_its_locks(machine, table):
    with lock_of(machine, table, beat_timeout=25) as lock, lock_of(machine, table, "b") as free:
        for _ in range(20):
            machine.passes(10)
            machine.beats.beat()
        assert lock.held
        machine.beats.expect(25)
        machine.passes(120)
        assert (lock.lost, free.lost) == (True, True)


# --- giving back ---


def test_what_is_released_is_free_and_not_lost(machine, other, table):
    lock = lock_of(machine, table)
    lock.acquire()
    assert lock.release() is True
    assert (lock.state, lock.lost, lock.lost_event.is_set()) == (State.RELEASED, False, False)
    assert lock_of(other, table).acquire()
    machine.passes(100)
    assert table.count("refresh") == 0


def test_to_release_what_is_not_ours_is_an_error(machine, table, caplog):
    lock = lock_of(machine, table)
    with pytest.raises(LockNotHeld):
        lock.release()
    lock.acquire()
    table.seize(KEY)
    with pytest.raises(LockNotHeld, match="no record that we hold the lock cluster/"):
        lock.release()
    assert "no record" in caplog.text
    with pytest.raises(LockNotHeld):
        lock.release()


def test_what_an_operator_took_away_is_not_ours_to_release_though_nobody_has_it(machine, table):
    lock = lock_of(machine, table)
    lock.acquire()
    table.clear([Hold(KEY, lock.lockid)])
    assert not lock.is_acquired()
    with pytest.raises(LockNotHeld, match="nobody has it now"):
        lock.release()


def test_a_release_whose_answer_was_lost_is_no_error(machine, other, table):
    lock = lock_of(machine, table)
    lock.acquire()
    table.deaf_answers = 1
    assert lock.release()
    assert table.count("release") == 2


def test_nor_is_one_after_which_somebody_else_was_quick(machine, other, table):
    lock = lock_of(machine, table)
    lock.acquire()
    release = table.release

    def lost(holds):
        release(holds)
        assert lock_of(other, table).acquire()
        table.release = release
        raise DatabaseUnavailable("the answer was lost")

    table.release = lost
    assert lock.release()


def test_a_release_that_does_not_get_through_is_seen_to_later(machine, other, table):
    lock = lock_of(machine, table)
    lock.acquire()
    table.broken = True
    with pytest.raises(DatabaseUnavailable):
        lock.release()
    machine.passes(5)
    table.broken = False
    machine.passes(3)
    assert lock_of(other, table).acquire()


def test_a_late_errand_never_touches_a_later_acquisition(machine, table):
    lock = lock_of(machine, table)
    lock.acquire()
    table.broken = True
    with pytest.raises(DatabaseUnavailable):
        lock.release()
    table.broken = False
    machine.clock.advance(61)
    assert lock.acquire()
    machine.passes(100)
    assert lock.held
    assert table.held_by(KEY) == lock.lockid


def test_a_with_swallows_that_it_was_lost_and_says_so_in_the_log(machine, table, caplog):
    with lock_of(machine, table) as lock:
        table.seize(KEY)
    assert "no record that we hold the lock" in caplog.text
    assert not lock.held


def test_a_strict_with_raises_when_the_body_went_through_without_the_lock(machine, table):
    with pytest.raises(LockLost, match="was lost before it was released"), lock_of(machine, table, strict=True):
        table.seize(KEY)


def test_so_does_one_that_was_cut_off_for_too_long(machine, table):
    def body():
        table.broken = True
        machine.passes(61)
        table.broken = False

    with pytest.raises(LockLost), lock_of(machine, table, strict=True):
        body()


@pytest.mark.parametrize("strict", [False, True])
def test_what_the_body_raises_is_never_covered(machine, table, strict):
    def body():
        table.seize(KEY)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught, lock_of(machine, table, strict=strict):
        body()
    assert "lost before it was released" in caught.value.__notes__[0]


def test_nor_does_a_database_that_is_away_cover_it(machine, table, caplog):
    caplog.set_level(logging.WARNING)

    def body():
        table.broken = True
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), lock_of(machine, table):
        body()
    assert "will be given back later" in caplog.text


def test_a_body_that_has_released_it_has_lost_nothing(machine, table):
    with lock_of(machine, table, strict=True) as lock:
        lock.release()


def test_a_handle_that_is_dropped_gives_its_lock_back(machine, other, table, caplog):
    lock_of(machine, table).acquire()
    gc.collect()
    machine.host.turn()
    assert "dropped while it was held" in caplog.text
    assert table.held_by(KEY) is None
    assert machine.registry._claims == {}
