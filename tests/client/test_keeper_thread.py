"""The keeper's thread for real: it outlives what goes wrong, tells in time, knows of forks, ends with its process."""

import os
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from holdfast.client import keeper_thread
from holdfast.client.asks import Proof, Want
from holdfast.client.clock import now_ns
from holdfast.client.dialects.native import Session
from holdfast.client.keeper_thread import KeeperThread, Teller, host
from holdfast.client.lease import Lease, Notice, State
from holdfast.client.native_steward import NativeSteward
from holdfast.client.ports import Address
from holdfast.client.steward import Kept
from tests.client.keeping import SECOND, TOKEN
from tests.client.test_sockets import closed_port

PATIENCE_S = 30


class Stage:
    """A keeper with a thread of its own, and leases that it keeps at some address."""

    def __init__(self, clock=now_ns):
        self.clock = clock
        self.host = KeeperThread(clock)
        self.steward = None
        self.notices = []
        self.lost = threading.Event()

    def steward_at(self, port):
        session = Session(client="tests", host="here", pid=1, auth=None)
        with self.host.keeper() as keeper:
            self.steward = NativeSteward(keeper, Address("127.0.0.1", port), session)
            keeper.add(self.steward)

    def keep(self, lease=0.3, tell=None):
        want = Want(key="job", ticket=os.urandom(16).hex(), lease_ns=int(lease * SECOND))
        term = Lease(self.clock, sent_at=self.clock(), lease_ns=want.lease_ns)
        kept = Kept(term, Proof(want, TOKEN, 1), tell or self._hear)
        with self.host.keeper():
            self.steward.keep(kept)
        return kept

    def _hear(self, notice):
        self.notices.append(notice)
        if notice is Notice.LOST:
            self.lost.set()

    def borrowable(self):
        """Tell whether another thread gets the keeper."""
        got = threading.Event()

        def borrow():
            with self.host.keeper():
                got.set()

        thread = threading.Thread(target=borrow, daemon=True)
        thread.start()
        return got.wait(PATIENCE_S)

    def close(self):
        self.host.end()


@pytest.fixture
def stage():
    stage = Stage()
    yield stage
    stage.close()


@pytest.fixture
def silent():
    """The port of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


# --- the thread ---


def test_there_is_no_thread_before_there_is_something_to_do(stage):
    with stage.host.keeper():
        pass
    assert stage.host._thread is None
    stage.steward_at(closed_port())
    stage.keep(lease=30)
    assert stage.host._thread.is_alive()
    assert stage.host._thread.daemon


def test_a_lease_that_cannot_be_renewed_is_lost_in_time_and_told_of(stage, silent):
    stage.steward_at(silent)
    kept = stage.keep()
    assert stage.lost.wait(PATIENCE_S)
    assert stage.notices == [Notice.DANGER, Notice.LOST]
    assert kept.lease.state() is State.LOST
    assert not stage.steward.kept


def test_the_notice_comes_before_the_server_can_give_it_to_another(stage, silent):
    told_at = []
    stage.steward_at(silent)

    def hear(notice):
        if notice is Notice.LOST:
            told_at.append(kept.lease.held)
            stage.lost.set()

    kept = stage.keep(tell=hear)
    assert stage.lost.wait(PATIENCE_S)
    assert told_at == [False]


@pytest.mark.parametrize("words", [b"", b"garbage\n", b"ok {}\n", b"error_draining\n", b"\x00" * 1000 + b"\n"])
def test_whatever_a_server_says_the_keeper_lives(stage, words):
    """It hangs up at once where there are no words."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as ends:
        stage.steward_at(listener.getsockname()[1])
        stage.keep(lease=0.4)
        with stage.host.keeper():
            stage.steward.watch({"prefix": ""}, lambda fields: None)
        far, _ = listener.accept()
        ends.enter_context(far)
        if words:
            far.sendall(words)
        else:
            far.close()
        assert stage.lost.wait(PATIENCE_S)
    assert stage.host._thread.is_alive()


def test_a_machine_that_has_slept_past_a_deadline_finds_out_when_it_wakes(silent):
    """The clock goes on meanwhile, and what the thread sleeps in does not."""
    jump = [0]
    stage = Stage(lambda: now_ns() + jump[0])
    stage.steward_at(silent)
    kept = stage.keep(lease=3600)
    jump[0] = 7200 * SECOND
    assert not kept.lease.held
    assert stage.lost.wait(PATIENCE_S)
    stage.close()


def test_a_holder_who_cannot_be_told_does_not_keep_the_others_from_being_told(stage, silent, caplog):
    stage.steward_at(silent)

    def fail(notice):
        raise RuntimeError("its event loop is closed")

    stage.keep(tell=fail)
    stage.keep()
    assert stage.lost.wait(PATIENCE_S)
    assert "a holder could not be told of its lease" in caplog.text


def test_a_keeper_that_fails_says_so_and_all_its_leases_are_lost(stage, caplog):
    stage.steward_at(closed_port())
    kept = stage.keep(lease=3600)
    first = stage.host._thread

    def fail(now):
        raise ZeroDivisionError("a bug")

    with stage.host.keeper() as keeper:
        stage.steward.tend = fail
        stage.steward.wake(keeper.clock())
    assert stage.lost.wait(PATIENCE_S)
    assert "the keeper of this process failed" in kept.lease.reason
    assert "the keeper failed" in caplog.text
    first.join(PATIENCE_S)
    del stage.steward.tend
    stage.lost.clear()
    stage.keep()
    assert stage.lost.wait(PATIENCE_S)  # another thread goes on
    assert stage.host._thread is not first


# --- borrowing ---


def test_a_borrower_may_borrow_again(stage):
    with stage.host.keeper() as keeper, stage.host.keeper() as again:
        assert keeper is again
    assert stage.borrowable()


def test_the_keeper_comes_back_from_a_borrower_that_something_has_hit(stage):
    """A signal, or a lost lease, may raise something in a thread right after it got the keeper."""
    loan = stage.host.keeper()
    loan.__enter__()
    del loan  # as when the `with` was never reached
    assert stage.borrowable()
    with pytest.raises(KeyboardInterrupt), stage.host.keeper():
        raise KeyboardInterrupt
    assert stage.borrowable()


def test_the_keeper_comes_back_also_if_there_can_be_no_thread(stage, monkeypatch):
    stage.steward_at(closed_port())
    with monkeypatch.context() as patch:

        def refuse(thread):
            raise RuntimeError("can't start new thread")

        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            stage.keep(lease=30)
    assert stage.borrowable()
    with stage.host.keeper():
        pass
    assert stage.host._thread.is_alive()


def test_all_of_a_process_have_one_keeper():
    assert host() is host()


# --- telling ---


def test_what_takes_long_delays_only_who_is_told_next():
    teller = Teller()
    go, told = threading.Event(), threading.Event()
    teller.tell(lambda: go.wait(PATIENCE_S))
    teller.tell(told.set)
    assert not told.is_set()
    go.set()
    assert told.wait(PATIENCE_S)


def test_what_fails_is_logged_and_the_next_is_told(caplog):
    teller, told = Teller(), threading.Event()

    def fail():
        raise ZeroDivisionError("in a callback")

    teller.tell(fail)
    teller.tell(told.set)
    assert told.wait(PATIENCE_S)
    assert "a function that was to be told of a lease failed" in caplog.text


# --- forks ---


def in_child(work):
    """Say whether this comes true in a child."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def test_a_child_has_a_keeper_of_its_own_and_the_parents_goes_on(stage, silent):
    mine = host()
    stage.steward_at(silent)
    kept = stage.keep(lease=1)

    def child():
        return host() is not mine and not kept.lease.held and host()._thread is None

    assert in_child(child)
    assert host() is mine
    assert kept.lease.held
    assert stage.lost.wait(PATIENCE_S)


def test_a_child_does_not_wait_for_a_keeper_that_a_thread_of_its_parent_had():
    mine = host()
    borrowed, go = threading.Event(), threading.Event()

    def borrow():
        with mine.keeper():
            borrowed.set()
            go.wait(PATIENCE_S)

    thread = threading.Thread(target=borrow)
    thread.start()
    assert borrowed.wait(PATIENCE_S)

    def child():
        with mine.keeper(), host().keeper():
            return True

    try:
        assert in_child(child)
    finally:
        go.set()
        thread.join()


# --- the end of the process ---

HOLDER = """
import sys, holdfast
client = holdfast.connect(sys.argv[1], timeout=5)
held = client.lock("job", lease=600, patience=0).acquire()
print(held.fence, flush=True)
"""


def run(code, *arguments):
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)


def test_a_process_that_ends_gives_back_what_it_holds(start):
    server = start("serve", "--store", "memory:", "--http", "off")
    url = f"holdfast://127.0.0.1:{server.port}"
    fences = [int(run(HOLDER, url).stdout) for _ in range(2)]
    assert fences[0] < fences[1]


FORKER = """
import os, sys, holdfast
client = holdfast.connect(sys.argv[1], timeout=5)
held = client.lock("job", lease=600).acquire()
child = os.fork()
if child == 0:
    assert not held.held and held.release() is False
    assert client.lock("job", lease=600, patience=0).try_acquire() is None
    with client.lock("another", lease=600) as other:
        assert other.held
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert held.held
held.renew()
print("as it should be")
"""


def test_a_child_of_a_fork_takes_nothing_with_it_and_gives_nothing_back(start):
    server = start("serve", "--store", "memory:", "--http", "off")
    done = run(FORKER, f"holdfast://127.0.0.1:{server.port}")
    assert (done.stdout, done.stderr) == ("as it should be\n", "")


STUCK = """
import os, sys
from holdfast.client import keeper_thread
from tests.client.test_keeper_thread import Stage
stage = Stage()
keeper_thread._host = stage.host
keeper_thread.EXIT_S_MAX = 0.1
stage.steward_at(int(sys.argv[1]))
stage.keep(lease=600)
print("held")
"""


def test_a_server_that_says_nothing_does_not_keep_a_process_from_ending(silent):
    assert keeper_thread.EXIT_S_MAX <= 2
    assert run(STUCK, str(silent)).stdout == "held\n"
