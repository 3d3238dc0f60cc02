"""A cluster lock for threads, in virtual time: acquiring it, and answers that are lost."""

import pytest

from holdfast.client.lease import State
from holdfast.errors import BadRequest
from holdfast.leases import words
from holdfast.leases.errors import AlreadyHeld, BadTable, DatabaseUnavailable, LockException, LockNotHeld
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


# --- acquiring ---


def test_a_free_lock_is_got_at_the_first_try_with_a_fence(machine, table):
    lock = lock_of(machine, table)
    assert lock.acquire()
    assert (lock.fence, lock.state, lock.held) == (1, State.HELD, True)
    assert 58 < lock.remaining < 60


def test_acquire_tries_once_and_waits_for_nothing(machine, other, table):
    assert lock_of(machine, table).acquire
    holder = lock_of(machine, table)
    holder.acquire()
    before = machine.clock()
    assert not lock_of(other, table).acquire()
    assert machine.clock() == before
    assert table.count("wait") == 0


def test_each_acquisition_has_an_id_of_its_own_and_a_higher_fence(machine, table):
    lock = lock_of(machine, table)
    seen = []
    for _ in range(3):
        assert lock.acquire()
        seen.append((lock.lockid, lock.fence))
        lock.release()
    assert len({lock_id for lock_id, _ in seen}) == 3
    assert [fence for _, fence in seen] == [1, 2, 3]


def test_what_others_can_read_of_the_holder_is_what_the_original_tells(machine, other, table):
    lock = lock_of(machine, table, "instance", "disk", "7", op="Resize")
    lock.acquire()
    holder = lock_of(other, table, "instance", "disk", "7").get_holder()
    assert set(holder) == {"node", "pid", "thread", "line", "operation", "id"}
    assert (holder["pid"], holder["operation"], holder["id"]) == (lock.pid, "Resize", lock.lockid)
    assert holder["line"].partition(":")[0] == lock_of.__code__.co_filename


def test_nobody_holds_a_lock_that_has_lapsed(machine, other, table):
    lock = lock_of(machine, table)
    lock.acquire()
    machine.clock.advance(61)
    assert lock_of(other, table).get_holder() == {"holder": None}
    assert not lock.is_acquired()


def test_a_with_waits_until_the_holder_gives_it_back(machine, other, table):
    holder = lock_of(machine, table)
    holder.acquire()
    waits = iter(range(10))
    table.on_wait = lambda: holder.release() if next(waits) == 5 else None
    with lock_of(other, table) as lock:
        assert lock.held
        assert not holder.held


def test_those_who_wait_look_before_they_lock_the_row(machine, other, table):
    holder = lock_of(machine, table)
    holder.acquire()
    table.on_wait = lambda: holder.release() if table.count("wait") == 3 else None
    with lock_of(other, table):
        asks = [what.again for name, what in table.calls if name == "acquire"]
    assert asks == [False, False, True, True, True]


def test_polls_grow_apart_and_never_by_more_than_a_second_and_a_half(machine, other, table):
    lock_of(machine, table).acquire()
    holder = lock_of(machine, table, "b")
    holder.acquire()
    table.on_wait = machine.host.turn
    with pytest.raises(LockException):
        lock_of(other, table, "b", timeout=30).__enter__()
    waits = [what for name, what in table.calls if name == "wait"]
    assert waits[0] < 0.1
    assert waits[:5] == sorted(waits[:5])
    assert max(waits) <= 1.5


def test_patience_that_ends_names_the_lock_the_seconds_and_the_holder(machine, other, table):
    holder = lock_of(machine, table, op="Cluster maintenance")
    holder.acquire()
    before = machine.clock()
    with pytest.raises(LockException, match=rf"cluster/ in 10 seconds: .*pid {holder.pid}, operation Cluster maint"):
        lock_of(other, table, timeout=10).__enter__()
    assert machine.clock() - before == 10_000_000_000


def test_a_holder_that_died_is_succeeded_as_soon_as_its_lease_has_lapsed(machine, other, table):
    lock_of(machine, table).acquire()  # and nobody refreshes it
    machine.clock.advance(1)
    with lock_of(other, table) as lock:
        assert lock.fence == 2
        assert 59 <= (machine.clock() - table.rows[KEY]["since"] + 60e9) / 1e9 <= 61


def test_the_same_process_cannot_wait_for_itself(machine, table):
    with lock_of(machine, table), pytest.raises(AlreadyHeld, match="cluster/"):
        lock_of(machine, table).acquire()
    with lock_of(machine, table) as lock, pytest.raises(AlreadyHeld):
        lock.acquire()


def test_nor_can_it_through_another_way_to_the_same_table(machine, table):
    class Alias:
        def __getattr__(self, name):
            return getattr(table, name)

    with lock_of(machine, table), pytest.raises(AlreadyHeld, match="another backend"):
        lock_of(machine, Alias()).acquire()


def test_a_key_that_cannot_be_is_refused_before_anybody_is_asked(machine, table):
    with pytest.raises(BadRequest):
        lock_of(machine, table, "")
    with pytest.raises(BadRequest):
        lock_of(machine, table, lease=0)
    with pytest.raises(BadRequest):
        lock_of(machine, table, beat_timeout=0)
    assert table.calls == []


# --- answers that are lost ---


def test_a_grant_whose_answer_was_lost_is_found_again(machine, table):
    lock = lock_of(machine, table)
    table.deaf_answers = 1
    with pytest.raises(DatabaseUnavailable):
        lock.acquire()
    assert lock.acquire()
    assert lock.fence == 1


def test_a_lease_whose_beginning_nobody_knows_is_begun_again_before_it_is_relied_on(machine, other, table):
    lock = lock_of(machine, table)
    table.deaf_answers = 1
    with pytest.raises(DatabaseUnavailable):
        lock.acquire()
    machine.clock.advance(50)
    assert lock.acquire()
    assert lock.remaining * 1e9 <= table.rows[KEY]["until"] - machine.clock()
    assert lock.remaining > 58


def test_a_with_goes_on_asking_while_the_database_is_away(machine, table):
    table.broken = True
    away = iter(range(100))

    def passes(seconds):
        machine.clock.advance(seconds)
        table.broken = next(away) < 10

    machine.world = type(machine.world)(
        **{name: getattr(machine.world, name) for name in machine.world.__slots__} | {"sleep": passes}
    )
    with lock_of(machine, table) as lock:
        assert lock.held


def test_a_database_that_stays_away_is_told_when_patience_ends(machine, table):
    table.broken = True
    with pytest.raises(LockException, match="the network is down") as caught:
        lock_of(machine, table, timeout=5).__enter__()
    assert isinstance(caught.value.__cause__, DatabaseUnavailable)


def test_what_was_got_behind_our_back_is_given_back_when_patience_ends(machine, other, table):
    table.deaf_answers = 1000
    with pytest.raises(LockException):
        lock_of(machine, table, timeout=5).__enter__()
    assert table.held_by(KEY) is not None
    table.deaf_answers = 0
    machine.passes(3)
    assert lock_of(other, table).acquire()


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_try_leaves_nothing_held(machine, other, table, when):
    acquire = table.acquire

    def interrupted(ask):
        if when == "after":
            acquire(ask)
        raise KeyboardInterrupt

    table.acquire = interrupted
    lock = lock_of(machine, table)
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    del table.acquire
    machine.host.turn()
    assert not lock.held
    assert lock_of(other, table).acquire()
    assert machine.registry._claims == {}


def test_a_table_that_is_not_there_is_no_reason_to_wait(machine, table):
    def broken(_ask):
        raise BadTable("run `holdfast leases init`")

    table.acquire = broken
    with pytest.raises(BadTable):
        lock_of(machine, table).__enter__()
    assert machine.registry._claims == {}
    assert table.count("release") == 0


def test_an_answer_that_comes_after_its_lease_is_worth_nothing(machine, other, table):
    acquire = table.acquire

    def slow(ask):
        answer = acquire(ask)
        machine.clock.advance(59.5)
        return answer

    table.acquire = slow
    lock = lock_of(machine, table)
    with pytest.raises(DatabaseUnavailable, match="lease was over"):
        lock.acquire()
    assert not lock.held
    machine.host.turn()
    del table.acquire
    assert lock_of(other, table).acquire()


def test_a_handle_says_what_it_is(machine, table):
    lock = lock_of(machine, table, "attribute/instance", "7", "power_state", op="Stop")
    assert str(lock) == "ClusterLock(attribute/instance/7/power_state, op=Stop)"
    assert "not acquired" in repr(lock)
    with pytest.raises(LockNotHeld):
        _ = lock.fence
    with pytest.raises(LockNotHeld, match="has not been acquired"):
        lock.check()
    with lock:
        assert "held" in repr(lock)
        assert lock.is_acquired()
        lock.check()
    with pytest.raises(LockNotHeld, match="released"):
        lock.check()


def test_the_constants_have_both_names_of_the_original():
    from holdfast import leases
    from holdfast.leases.mariadb import CLUSTER_LOCK_LEASE_SECONDS

    assert leases.LEASE_SECONDS == CLUSTER_LOCK_LEASE_SECONDS == words.LEASE_SECONDS == 60
    assert leases.REFRESH_INTERVAL == 20
    assert leases.REFRESH_RETRY == 2
