"""The threads that keep leases alive, under a clock that is moved by hand; and what happens in real processes."""

import gc
import subprocess
import sys
import threading

import pytest

from holdfast.leases import refresher
from holdfast.leases.cluster_lock import ClusterLock
from holdfast.leases.errors import LockNotHeld
from holdfast.leases.opening import open_backend
from holdfast.leases.refresher import Refresher
from holdfast.leases.stale import get_existing_locks
from holdfast.testing.clock import HandClock
from tests.client.forks import in_child
from tests.leases.paper import Machine, PaperBackend

WAIT_S_MAX = 30.0
KEY = b"cluster/"


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def table(clock):
    return Noting(clock)


@pytest.fixture
def threads(clock):
    made = Refresher(clock, lambda: 0.5)
    yield made
    made.end()


@pytest.fixture
def world(clock, threads):
    machine = Machine(clock)
    return type(machine.world)(
        clock=clock, chance=lambda: 0.5, registry=machine.registry, beats=machine.beats, host=lambda: threads
    )


class Noting(PaperBackend):
    """Rings when it has been asked for something."""

    def __init__(self, clock):
        super().__init__(clock)
        self.asked = {"refresh": threading.Semaphore(0), "release": threading.Semaphore(0)}
        self.gate = threading.Event()
        self.gate.set()

    def refresh(self, holds, lease_us):
        self.gate.wait(WAIT_S_MAX)
        try:
            return super().refresh(holds, lease_us)
        finally:
            self.asked["refresh"].release()

    def release(self, holds):
        try:
            return super().release(holds)
        finally:
            self.asked["release"].release()

    def was_asked(self, call):
        return self.asked[call].acquire(timeout=WAIT_S_MAX)


def test_leases_are_refreshed_beside_the_work_all_in_one_call(clock, table, threads, world):
    locks = [ClusterLock("job", None, str(number), backend=table, world=world) for number in range(20)]
    for lock in locks:
        lock.acquire()
    for _ in range(5):
        clock.advance(19)
        threads.wake()
        assert table.was_asked("refresh")
    assert {len(holds) for name, holds in table.calls if name == "refresh"} == {20}
    assert all(lock.held for lock in locks)
    for lock in locks:
        lock.release()


def test_a_backend_that_hangs_delays_neither_the_others_nor_the_word_that_a_lease_is_over(clock, table, threads, world):
    hanging = Noting(clock)
    hanging.gate.clear()
    stuck = ClusterLock("stuck", backend=hanging, world=world)
    fine = ClusterLock("fine", backend=table, world=world)
    stuck.acquire()
    fine.acquire()
    for _ in range(3):
        clock.advance(19.8)
        threads.wake()
        assert table.was_asked("refresh")
    assert stuck.lost_event.wait(WAIT_S_MAX)
    assert clock() < hanging.rows[b"stuck/"]["until"]
    assert fine.held
    hanging.gate.set()
    assert hanging.was_asked("refresh")
    assert stuck.lost
    fine.release()


def test_a_mistake_of_the_backend_is_no_loss_and_ends_no_thread(clock, table, threads, world, caplog):
    lock = ClusterLock("cluster", backend=table, world=world)
    lock.acquire()
    refresh = table._asked

    def broken(call, what):
        if call == "refresh":
            table._asked = refresh
            raise ValueError("a bug")
        return refresh(call, what)

    table._asked = broken
    for _ in range(2):
        clock.advance(19)
        threads.wake()
        assert table.was_asked("refresh")
    assert lock.held
    assert "nobody expected" in caplog.text
    lock.release()


def test_a_dropped_handle_is_given_back_by_the_thread(table, world):
    ClusterLock("cluster", backend=table, world=world).acquire()
    gc.collect()
    assert table.was_asked("release")
    assert table.held_by(KEY) is None


def test_at_the_end_all_is_given_back_in_one_call(table, threads, world):
    locks = [ClusterLock("job", None, str(number), backend=table, world=world) for number in range(5)]
    for lock in locks:
        lock.acquire()
    threads.retire()
    assert [len(holds) for name, holds in table.calls if name == "release"] == [5]
    assert not any(lock.held for lock in locks)


def test_the_end_does_not_wait_for_a_database_that_hangs(clock, table, threads, world, caplog):
    table.gate.clear()
    lock = ClusterLock("cluster", backend=table, world=world)
    lock.acquire()
    clock.advance(19)
    threads.wake()
    threads.retire(seconds=0)
    assert "leases run out" in caplog.text
    assert not lock.held
    table.gate.set()


def test_a_refresher_that_fails_leaves_nobody_in_good_faith(clock, table, threads, world, caplog):
    lock = ClusterLock("cluster", backend=table, world=world)
    lock.acquire()
    threads._clock = lambda: 1 / 0
    threads.wake()
    assert lock.lost_event.wait(WAIT_S_MAX)
    assert "please report it" in lock.lost_reason
    threads._clock = clock


def test_what_is_told_may_fail_and_the_thread_goes_on(table, threads, world, caplog):
    lock = ClusterLock("cluster", backend=table, world=world)
    lock.acquire()
    threads.post(lambda: 1 / 0)
    done = threading.Event()
    threads.post(done.set)
    assert done.wait(WAIT_S_MAX)
    assert "could not be told" in caplog.text
    lock.release()


# --- real processes ---


def prepared(tmp_path):
    url = f"sqlite:{tmp_path / 'locks.db'}"
    backend = open_backend(url)
    backend.prepare()
    backend.close()
    return url


def run(program, url):
    return subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, timeout=WAIT_S_MAX, check=False
    )


def test_a_process_that_ends_gives_back_all_it_has(tmp_path):
    url = prepared(tmp_path)
    program = """if True:
        import sys
        from holdfast.leases import ClusterLock
        locks = [ClusterLock("job", None, str(number), backend=sys.argv[1]) for number in range(3)]
        print(*[lock.acquire() for lock in locks])
    """
    done = run(program, url)
    assert (done.stdout, done.stderr, done.returncode) == ("True True True\n", "", 0)
    assert get_existing_locks(url) == {}


def test_a_signal_that_ends_the_main_loop_gives_the_lock_back(tmp_path):
    url = prepared(tmp_path)
    program = """if True:
        import os, signal, sys
        from holdfast.leases import ClusterLock
        from holdfast.watchdog.stop import Stop
        with Stop() as stop, ClusterLock("cluster", backend=sys.argv[1]) as lock:
            os.kill(os.getpid(), signal.SIGTERM)
            while stop.idle(60, lock.lost_event):
                pass
            print(lock.is_acquired())
    """
    done = run(program, url)
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)
    assert get_existing_locks(url) == {}


def test_a_killed_process_leaves_its_row_and_a_start_clears_it(tmp_path):
    url = prepared(tmp_path)
    program = """if True:
        import os, signal, sys
        from holdfast.leases import ClusterLock
        lock = ClusterLock("cluster", backend=sys.argv[1])
        lock.acquire()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    assert run(program, url).returncode == -9
    assert set(get_existing_locks(url)) == {"cluster/"}
    program = "import sys; from holdfast.leases import clear_stale_locks; print(clear_stale_locks(sys.argv[1]))"
    assert run(program, url).stdout == "1\n"


def test_a_child_of_a_fork_holds_nothing_and_gives_nothing_back(tmp_path):
    url = prepared(tmp_path)
    with ClusterLock("cluster", backend=url) as lock:

        def child():
            facts = [lock.held, lock.lost, lock.acquire()]
            try:
                lock.release()
            except LockNotHeld as error:
                facts.append(type(error).__name__)
            other = ClusterLock("child", backend=url)
            facts += [other.acquire(), other.release(), refresher.host() is mine]
            return facts

        mine = refresher.host()
        assert in_child(child) == "[False, True, False, 'LockNotHeld', True, True, False]"
        assert lock.is_acquired()
    assert get_existing_locks(url) == {}


def test_a_child_that_leaves_the_with_of_its_parent_leaves_it_the_lock(tmp_path):
    url = prepared(tmp_path)

    def child():
        lock.__exit__(None, None, None)
        gc.collect()

    with ClusterLock("cluster", backend=url) as lock:
        in_child(child)
        assert lock.is_acquired()
