"""Leases in a file: after a restart of the machine, after a fork, with tables of others."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.leases.errors import BadTable
from holdfast.leases.opening import open_backend
from holdfast.leases.url import path_of
from holdfast.leases.words import Got
from tests.client.forks import in_child
from tests.leases.asking import LEASE_US, ask, gone, hold_of


@pytest.fixture
def backend(sqlite_url: str) -> Iterator[Any]:
    opened: Any = open_backend(sqlite_url)
    yield opened
    opened.close()


@pytest.fixture
def beside(sqlite_url: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path_of(sqlite_url), isolation_level=None)
    yield connection
    connection.close()


def test_what_was_held_before_a_restart_of_the_machine_is_free_under_a_higher_fence(
    backend: Any, beside: sqlite3.Connection
) -> None:
    backend.prepare()
    held = ask()
    backend.acquire(held)
    beside.execute("UPDATE cluster_locks SET boot = 'another start'")
    (row,) = backend.list()
    assert (row.lapsed, row.age_us) == (True, 0)
    assert backend.refresh([hold_of(held)], LEASE_US) == [False]
    assert backend.acquire(ask(again=True)) == Got(2)


def test_a_child_of_a_fork_works_on_the_file_and_its_parent_goes_on(backend: Any) -> None:
    backend.prepare()
    held, asked = ask(b"t/parent"), ask(b"t/child")
    backend.acquire(held)
    assert in_child(lambda: (backend.acquire(asked), gone(backend, asked))) == "(Got(fence=1), True)"
    assert backend.refresh([hold_of(held)], LEASE_US) == [True]
    assert backend.acquire(ask(b"t/child")) == Got(2)


def test_a_table_that_only_has_the_name_is_left_alone(backend: Any, beside: sqlite3.Connection) -> None:
    beside.execute("CREATE TABLE cluster_locks (id INTEGER)")
    with pytest.raises(BadTable, match="it has no acquired_at, boot"):
        backend.prepare()


def test_a_table_of_another_version_is_refused_and_a_later_one_left_alone(
    backend: Any, beside: sqlite3.Connection
) -> None:
    with pytest.raises(BadTable, match="has not been prepared"):
        backend.acquire(ask())
    backend.prepare()
    beside.execute("UPDATE holdfast_schema SET version = 4")
    with pytest.raises(BadTable, match="of version 4, and this release works with 5: run `holdfast leases init`"):
        backend.acquire(ask())
    beside.execute("UPDATE holdfast_schema SET version = 6")
    for work in (backend.now, backend.prepare):
        with pytest.raises(BadTable, match="install a later release"):
            work()


def test_a_fence_is_on_disk_before_it_is_told(backend: Any, beside: sqlite3.Connection) -> None:
    backend.prepare()
    backend.acquire(ask())
    assert beside.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert beside.execute("SELECT fence FROM cluster_locks").fetchall() == [(1,)]
