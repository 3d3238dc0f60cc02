"""Stale locks: what is proved to be dead is ended, and nothing else is."""

import os
import subprocess
import sys

import pytest

from holdfast import leases
from holdfast.leases.identity import identity_of, process_identity
from holdfast.leases.stale import clear_stale_locks, get_existing_locks, held_among, stale_among
from holdfast.leases.words import Ask
from holdfast.testing.clock import HandClock
from tests.leases.paper import PaperBackend


def ask_of(key, process, lock_id="0123456789abcdef"):
    return Ask(
        key=key,
        lock_id=lock_id,
        holder={"node": "here", "pid": 1, "thread": 1, "line": "a.py:1", "operation": None, "id": lock_id},
        node="here",
        pid=1,
        process=process,
        lease_us=60_000_000,
    )


def dead_process():
    """Give the identity of a process that has lived."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        return identity_of(process.pid)


@pytest.fixture
def table():
    return PaperBackend(HandClock())


def test_only_what_dead_processes_have_left_is_ended(table):
    here, boot = process_identity(), process_identity().partition(".")[0]
    table.acquire(ask_of(b"mine/", here))
    table.acquire(ask_of(b"dead/", dead_process()))
    table.acquire(ask_of(b"before-the-restart/", here.replace(boot, "0" * 8)))
    table.acquire(ask_of(b"original/", ""))
    assert clear_stale_locks(table) == 1
    assert set(get_existing_locks(table)) == {"mine/", "before-the-restart/", "original/"}
    assert clear_stale_locks(table) == 0


def test_a_pid_that_is_used_again_does_not_keep_a_lock(table):
    head, _, started = process_identity().rpartition(".")
    table.acquire(ask_of(b"reused/", f"{head}.{int(started) - 1}"))
    assert clear_stale_locks(table) == 1


def test_a_lock_that_has_changed_hands_since_it_was_looked_at_stays(table):
    table.acquire(ask_of(b"dead/", dead_process()))
    rows = table.list()
    table.list = lambda: rows
    table.seize(b"dead/")
    assert clear_stale_locks(table) == 0
    assert table.held_by(b"dead/") == "somebody-else-00"


def test_each_process_is_looked_at_once(table, monkeypatch):
    seen = []
    monkeypatch.setattr("holdfast.leases.stale.is_dead", lambda process: seen.append(process) or False)
    for number in range(3):
        table.acquire(ask_of(b"%d/" % number, "p"))
    assert stale_among(table.list()) == []
    assert seen == ["p"]


def test_the_list_shows_holders_by_their_keys_and_not_what_has_lapsed(table):
    table.acquire(ask_of(b"cluster/", ""))
    table.clock.advance(30)
    table.acquire(ask_of(b"\xff/", ""))
    assert set(get_existing_locks(table)["cluster/"]) == {"node", "pid", "thread", "line", "operation", "id"}
    table.clock.advance(31)
    assert list(held_among(table.list())) == ["\\xff/"]


def test_the_backend_may_be_named_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_BACKEND", f"sqlite:{tmp_path / 'locks.db'}")
    from holdfast.leases.opening import open_backend

    open_backend(os.environ["HOLDFAST_BACKEND"]).prepare()
    with leases.ClusterLock("cluster", op="Work"):
        assert leases.get_existing_locks()["cluster/"]["operation"] == "Work"
    assert leases.get_existing_locks() == {}
    assert leases.clear_stale_locks() == 0
