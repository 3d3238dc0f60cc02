"""The page about leased locks that all of this began with, point by point, on MariaDB and on PostgreSQL.

Its points, and where the rest of them is shown:

- Constants by both names, kept aligned: tests/leases/test_mariadb.py, tests/leases/test_words.py.
- A refresh that the database could not answer is UNAVAILABLE over gRPC: tests/doors/test_grpc_leases.py.
- Main loops give a sign of life while they rest and between steps: tests/watchdog.
- The command that lists locks, with all that it can show: tests/cli/test_leases.py.
- Everything else: here. A process that dies is a real one; where only time has to pass, it passes at once.
"""

import logging
import signal
import threading
import time
from contextlib import closing

import pytest

from holdfast.leases import ClusterLock, LockNotHeld, clear_stale_locks, get_existing_locks
from holdfast.leases.opening import open_backend
from holdfast.leases.words import LEASE_SECONDS, REFRESH_INTERVAL, Got
from tests.cli.leases_stage import alive, dead, myself, shown
from tests.leases.asking import ask
from tests.leases.slow_stage import SlowStage, real_holder

A_DAY = 86_400


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


# --- what a lock is ---


def test_a_lock_that_is_held_is_a_row_with_the_instant_at_which_it_ends(stage, here):
    lock = here.lock()
    assert stage.row() is None
    assert lock.acquire()
    assert LEASE_SECONDS - 5 < stage.left_s() <= LEASE_SECONDS
    lock.release()
    assert stage.row() is None


def test_its_holder_moves_that_instant_on_every_third_of_a_lease_for_as_long_as_it_wants(stage, here):
    with here.lock() as lock:
        for _ in range(10):
            here.passes(REFRESH_INTERVAL)
            assert stage.left_s() > LEASE_SECONDS - REFRESH_INTERVAL
        assert lock.held


def test_a_holder_that_dies_is_succeeded_when_its_lease_is_over_and_nobody_tidies_up(stage, there):
    with real_holder(stage.url) as (process, fence):
        process.kill()
        process.wait()
        next_one = there.lock()
        assert not next_one.acquire()
        stage.ages(LEASE_SECONDS * 10**9)
        assert next_one.acquire()
        assert next_one.fence == fence + 1


def test_so_is_one_that_is_cut_off_for_too_long(stage, there):
    with stage.away() as (here, proxy):
        lock = here.lock()
        assert lock.acquire()
        proxy.refuse()
        next_one = there.lock()
        here.passes(LEASE_SECONDS - 2)
        assert not next_one.acquire()
        here.passes(2)
        assert lock.lost_event.is_set()
        assert next_one.acquire()


def test_a_lease_is_three_times_as_long_as_the_time_between_refreshes_and_outlives_two_that_are_lost(stage, there):
    assert (LEASE_SECONDS, REFRESH_INTERVAL) == (60, 20)
    with stage.away() as (here, proxy):
        lock = here.lock()
        assert lock.acquire()
        proxy.refuse()  # the ones after 20 and 40 seconds do not get through
        here.passes(2 * REFRESH_INTERVAL + 10)
        assert not there.lock().acquire()
        proxy.restore()
        here.passes(REFRESH_INTERVAL)
        assert lock.held
        assert stage.left_s() > LEASE_SECONDS - 2 * REFRESH_INTERVAL


# --- looking at locks ---


def test_the_command_shows_key_pid_node_and_operation_of_the_maintainer(stage):
    asked = ask(b"cluster/")
    holder = {"node": "sf-7", "pid": 26407, "operation": "Cluster maintenance"}
    assert stage.backend.acquire(type(asked)(**{**_fields(asked), "holder": holder, "pid": 26407})) == Got(1)
    table = [line.replace(" ", "") for line in shown("admin", "lock", "list", backend=stage.url)]
    assert [line for line in table if line.startswith("|")] == [
        "|lock|pid|node|operation|",
        "|cluster/|26407|sf-7|Clustermaintenance|",
    ]


def test_keys_have_no_prefix_of_an_older_store(stage, here):
    names = [("cluster",), ("attribute", "instance", "7"), ("node", None, "sf-1"), ("queue", "jobs")]
    for name in names:
        assert here.lock(*name).acquire()
    assert sorted(get_existing_locks(stage.backend)) == ["attribute/instance/7", "cluster/", "node/sf-1", "queue/jobs/"]


# --- acquiring ---


def test_a_key_that_nobody_has_is_claimed_at_the_first_try_and_a_live_one_left_alone(stage, here, there):
    lock, other = here.lock(), there.lock()
    assert lock.acquire()
    before = stage.row()
    assert not other.acquire()
    assert (stage.row().lock_id, stage.row().fence) == (before.lock_id, before.fence)
    assert lock.is_acquired()
    assert not other.is_acquired()


def test_a_row_is_stolen_as_soon_as_its_lease_has_lapsed_and_no_earlier(stage, there):
    stage.backend.acquire(ask())
    stage.ages((LEASE_SECONDS - 5) * 10**9)
    assert not there.lock().acquire()
    stage.ages(5 * 10**9)
    thief = there.lock()
    assert thief.acquire()
    assert stage.row().lock_id == thief.lockid


@pytest.mark.parametrize("wrong_s", [-A_DAY, A_DAY])
def test_when_a_lease_ends_is_for_the_server_to_say_whatever_clocks_candidates_have(
    stage, here, there, wrong_s, monkeypatch
):
    right, right_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: right() + wrong_s)
    monkeypatch.setattr(time, "time_ns", lambda: right_ns() + wrong_s * 10**9)
    assert here.lock().acquire()
    assert LEASE_SECONDS - 5 < stage.left_s() <= LEASE_SECONDS
    assert not there.lock().acquire()
    assert stage.row().age_us < 5_000_000


def test_refreshing_is_the_work_of_a_daemon_thread_that_begins_with_the_lock(stage):
    with ClusterLock("cluster", backend=stage.backend):
        (thread,) = [thread for thread in threading.enumerate() if thread.name == "holdfast-leases"]
        assert thread.daemon


def test_refreshing_ends_with_the_release(stage, here):
    lock = here.lock()
    lock.acquire()
    lock.release()
    here.passes(3 * LEASE_SECONDS)
    assert stage.row() is None
    assert here.host.keeper.idle
    assert not lock.lost_event.is_set()


def test_refreshing_ends_when_the_row_has_the_id_of_somebody_else(stage, here, there):
    lock = here.lock()
    lock.acquire()
    stage.ages(LEASE_SECONDS * 10**9)  # while this process stood still
    thief = there.lock()
    assert thief.acquire()
    here.passes(REFRESH_INTERVAL)
    assert lock.lost_event.is_set()
    assert here.host.keeper.idle
    assert stage.row().lock_id == thief.lockid


# --- losing ---


def test_a_leader_hears_of_its_loss_between_two_steps_and_stands_again(stage, here, there):
    story = []
    for _ in range(2):
        with here.lock("cluster", op="Cluster maintenance") as lock:
            story.append(f"elected under {lock.fence}")
            for step in range(3):
                if step == 1 and lock.fence == 1:
                    stage.ages(LEASE_SECONDS * 10**9)
                    thief = there.lock()
                    thief.acquire()
                here.passes(REFRESH_INTERVAL)
                if lock.lost_event.wait(0):
                    story.append("demoted")
                    thief.release()
                    break
                story.append("step")
    assert story == ["elected under 1", "step", "demoted", "elected under 3", "step", "step", "step"]


def test_a_release_of_what_the_database_knows_nothing_of_raises(stage, here, caplog):
    lock = here.lock()
    lock.acquire()
    stage.run("DELETE FROM cluster_locks")
    with pytest.raises(LockNotHeld, match="no record that we hold"):
        lock.release()
    assert "no record that we hold" in caplog.text


def test_a_with_swallows_that_for_the_sake_of_what_its_body_raises_and_the_log_tells(stage, here, caplog):
    def work():
        with here.lock():
            stage.run("DELETE FROM cluster_locks")
            raise KeyError("of the body")

    with caplog.at_level(logging.ERROR), pytest.raises(KeyError, match="of the body"):
        work()
    assert "no record that we hold" in caplog.text
    with here.lock():
        stage.run("DELETE FROM cluster_locks")


# --- a database that is away for a while ---


def test_a_refresh_that_fails_is_tried_again_about_every_two_seconds_and_is_no_loss(stage, caplog):
    with stage.away() as (here, proxy):
        lock = here.lock()
        lock.acquire()
        here.passes(REFRESH_INTERVAL - 3)
        proxy.refuse()
        here.passes(21)
        assert caplog.text.count("will try again") in range(9, 12)
        assert lock.held
        assert not lock.lost_event.is_set()


def test_a_database_that_is_back_within_forty_seconds_costs_no_election(stage, there):
    with stage.away() as (here, proxy):
        lock = here.lock()
        lock.acquire()
        here.passes(REFRESH_INTERVAL - 2.1)  # the refresh comes just after this
        proxy.refuse()
        here.passes(39)
        proxy.restore()
        here.passes(3)
        assert lock.held
        assert not there.lock().acquire()
        assert stage.row().fence == lock.fence
        assert stage.left_s() > LEASE_SECONDS - 5


# --- a holder that hangs ---


def test_a_process_that_lives_on_while_its_main_loop_hangs_is_succeeded_within_one_beat_and_one_lease(
    stage, here, there
):
    lock = here.lock(beat_timeout=300)
    lock.acquire()
    here.passes(299)
    lock.beat()
    assert lock.held
    here.passes(300 + LEASE_SECONDS - 1)
    next_one = there.lock()
    here.passes(2)
    assert lock.lost_event.is_set()
    assert next_one.acquire()


def test_a_process_that_its_watchdog_aborts_dies_at_once_and_a_standby_takes_over(stage, there):
    with real_holder(stage.url) as (process, fence):
        process.send_signal(signal.SIGABRT)
        assert process.wait() == -signal.SIGABRT
        standby = there.lock()
        assert not standby.acquire()
        stage.ages(LEASE_SECONDS * 10**9)
        assert standby.acquire()
        assert standby.fence == fence + 1


def test_what_an_aborted_process_has_left_can_be_shed_at_once_instead(stage, there):
    with real_holder(stage.url) as (process, fence):
        process.send_signal(signal.SIGABRT)
        process.wait()
        (line,) = shown("leases", "shed", "--unit", "sf-cluster.service", backend=stage.url)
        assert "freed cluster/" in line
        standby = there.lock()
        assert standby.acquire()
        assert standby.fence == fence + 1


# --- after a restart ---


def test_a_start_clears_what_processes_have_left_that_exist_no_more(stage):
    with alive() as (living, its_process), closing(open_backend(stage.url)) as backend:
        for key, (pid, process) in {
            b"t/dead": dead(),
            b"t/alive": (living, its_process),
            b"t/mine": myself(),
            b"t/elsewhere": (4711, "another-machine.4711.1"),
        }.items():
            asked = ask(key)
            backend.acquire(type(asked)(**{**_fields(asked), "pid": pid, "process": process}))
        assert clear_stale_locks(backend) == 1
        assert sorted(get_existing_locks(backend)) == ["t/alive", "t/elsewhere", "t/mine"]
        assert clear_stale_locks(backend) == 0


def _fields(asked):
    return {name: getattr(asked, name) for name in type(asked).__dataclass_fields__}
