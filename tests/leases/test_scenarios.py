"""What has gone wrong with locks of this kind elsewhere, or was never tried, as stories on MariaDB and on PostgreSQL.

Where each of them is told:

| what happens | test |
| --- | --- |
| many processes, one key, never two holders | `python -m bench.lease_fight`, tests/bench/test_lease_fight.py |
| a killed holder is succeeded within its lease and one poll | the same |
| a stopped holder sees its loss before it writes again | the same; test_cluster_lock_keeping.py |
| a database out of reach for longer than a lease | the same; test_seed_page.py |
| how soon a failed refresh is tried again | test_seed_page.py, test_cluster_lock_keeping.py |
| two refreshes in one second | contract.py |
| a refresh that waits for a locked row | test_mariadb.py, test_postgres.py |
| keys that differ by case, by a space at the end, or beyond 255 bytes | contract.py, test_words.py |
| sessions in two time zones | test_mariadb.py, test_postgres.py; one of the fighters |
| a pid that is used again | test_identity.py, test_stale.py |
| a list with rows that have lapsed | contract.py, test_command_line.py |
| a second try for a lock that this process has | here, and test_cluster_lock.py |
| the same object once more after a loss | here |
| a release whose answer is lost | here |
| a process that is born while dead ones are looked for | here |
| a fork while a lock is held | here |
| a leader that defers | here |
| a handle that is dropped | here |
"""

import gc
import subprocess
import sys
from contextlib import closing

import pytest

from holdfast.leases import AlreadyHeld
from holdfast.leases.opening import open_backend
from holdfast.leases.stale import stale_among
from holdfast.leases.words import LEASE_SECONDS, REFRESH_INTERVAL
from tests.cli.leases_stage import Database, dead
from tests.leases.lost import losing_the_answer
from tests.leases.slow_stage import SlowStage

FORKS = """
import os, sys
from holdfast.leases import ClusterLock, LockLost

lock = ClusterLock("cluster", backend=sys.argv[1])
with lock:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            lock.check()
        except LockLost as error:
            again = ClusterLock("cluster", backend=sys.argv[1])
            status = 0 if not lock.held and not again.acquire() and "forked" in lock.lost_reason else 2
        os._exit(status)
    _, status = os.waitpid(child, 0)
    lock.check()
    assert lock.is_acquired()
    print(os.waitstatus_to_exitcode(status), lock.held)
"""


@pytest.fixture(params=["mariadb", "postgres"])
def stage(request, mariadb, postgres):
    server = {"mariadb": mariadb, "postgres": postgres}[request.param]
    with closing(SlowStage(request.param, request.getfixturevalue(f"{request.param}_url"), server)) as opened:
        yield opened


@pytest.fixture
def here(stage):
    """A process."""
    return stage.process()


@pytest.fixture
def there(stage):
    """Another one."""
    return stage.process()


def test_a_process_does_not_wait_for_a_lock_that_it_has(stage, here, there):
    with here.lock() as lock:
        with pytest.raises(AlreadyHeld):
            here.lock().acquire()
        with pytest.raises(AlreadyHeld):
            lock.acquire()
        assert not there.lock().acquire()
        assert stage.row().fence == 1


def test_a_lock_that_was_lost_is_acquired_anew_by_the_same_object_and_refreshed_again(stage, here, there):
    lock = here.lock()
    lock.acquire()
    stage.ages(LEASE_SECONDS * 10**9)
    thief = there.lock()
    thief.acquire()
    here.passes(REFRESH_INTERVAL)
    first = lock.lost_event
    assert first.is_set()
    thief.release()
    assert lock.acquire()
    assert not lock.lost_event.is_set()
    here.passes(5 * LEASE_SECONDS)
    assert lock.held
    assert lock.fence == 3
    assert stage.row().lock_id == lock.lockid


def test_a_release_whose_answer_is_lost_is_asked_for_again_and_is_no_error(stage, there):
    with stage.away() as (here, proxy):
        lock = here.lock()
        lock.acquire()
        assert losing_the_answer(proxy, lock.release, lambda: stage.row() is None) is True
        assert not lock.lost
        assert there.lock().acquire()


def test_nor_is_it_when_somebody_else_is_quicker_than_the_second_question(stage, there):
    next_one = there.lock()
    with stage.away() as (here, proxy):
        lock = here.lock()
        lock.acquire()
        assert losing_the_answer(proxy, lock.release, next_one.acquire) is True
        assert next_one.is_acquired()


def test_a_process_that_is_born_while_dead_ones_are_looked_for_keeps_its_lock(stage, there):
    with closing(Database(stage.url)) as database:
        pid, process = dead()
        database.take("cluster/", pid=pid, process=process)
        stale = stale_among(stage.backend.list())
        stage.ages(LEASE_SECONDS * 10**9)
        newborn = there.lock()
        newborn.acquire()
        assert [hold.key for hold in stale] == [b"cluster/"]
        assert stage.backend.clear(stale) == 0
        assert newborn.is_acquired()


def test_the_child_of_a_fork_has_lost_what_its_parent_goes_on_to_hold(stage):
    done = subprocess.run(
        [sys.executable, "-c", FORKS, stage.url], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 True\n", "")
    assert stage.row() is None


def test_a_leader_that_defers_while_it_still_leads_is_told_instead_of_waiting_for_itself(stage, here, there):
    # The cluster is not settled yet, so the maintainer stands for election once more, without giving back.
    elected = here.lock("cluster", op="Cluster maintenance")
    assert elected.acquire()
    here.passes(LEASE_SECONDS)
    with pytest.raises(AlreadyHeld, match="this process has the lock cluster/ already"):
        here.lock("cluster", timeout=10).__enter__()
    assert elected.held
    elected.release()
    with here.lock("cluster", timeout=10) as again:
        assert again.fence == elected.fence + 1
    assert there.lock("cluster").acquire()


def test_a_leader_that_forgets_its_lock_gives_it_back_and_can_be_elected_again(stage, here, there, caplog):
    forgotten = here.lock()
    forgotten.acquire()
    del forgotten
    gc.collect()
    here.passes(1)
    assert "dropped while it was held" in caplog.text
    assert stage.row() is None
    with here.lock() as again:
        assert again.fence == 2
    with closing(open_backend(stage.url)) as backend:
        assert backend.list() == []
