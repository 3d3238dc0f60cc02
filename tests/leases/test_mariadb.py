"""Leases in MariaDB beside what else goes on there: time zones, locked rows, tables of Shaken Fist, counts."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from holdfast.leases import words
from holdfast.leases.backend import DatabaseBackend
from holdfast.leases.drivers.mariadb import MariaDbDriver
from holdfast.leases.drivers.port import Times
from holdfast.leases.errors import BadTable, DatabaseUnavailable
from holdfast.leases.mariadb import CLUSTER_LOCK_LEASE_SECONDS
from holdfast.leases.opening import open_backend
from holdfast.leases.url import place_of
from holdfast.leases.words import Got, Hold, Taken
from tests.leases.asking import LEASE_US, SECOND_US, ask, hold_of, statement
from tests.leases.servers import DATABASE, MariaDbServer

# The table as Shaken Fist makes it, in version 4.
OLD = """
CREATE TABLE cluster_locks (
  lock_key VARCHAR(255) NOT NULL PRIMARY KEY, holder_json JSON NOT NULL, node_uuid VARCHAR(255) NOT NULL,
  pid INT NOT NULL, lock_id VARCHAR(64) NOT NULL, acquired_at DOUBLE NOT NULL, expires_at {expires},
  INDEX idx_cluster_locks_node (node_uuid)) DEFAULT CHARACTER SET {charset}"""
DATETIME = "DATETIME NOT NULL"
TIMESTAMP = "TIMESTAMP NOT NULL DEFAULT (NOW() + INTERVAL 60 SECOND)"


@pytest.fixture
def beside(mariadb: MariaDbServer, mariadb_url: str) -> Iterator[Any]:
    """A connection of somebody else, with the settings of a driver that was told nothing."""
    assert mariadb_url
    with mariadb.connect(DATABASE) as connection:
        yield connection


@pytest.fixture
def backend(mariadb_url: str) -> Iterator[Any]:
    opened: Any = open_backend(mariadb_url)
    yield opened
    opened.close()


def test_the_constant_has_both_of_its_names() -> None:
    assert CLUSTER_LOCK_LEASE_SECONDS == words.LEASE_SECONDS == 60


def test_a_session_in_another_time_zone_steals_nothing(mariadb_url: str, backend: Any) -> None:
    class Elsewhere(MariaDbDriver):
        def connect(self, times: Any) -> Any:
            connection: Any = super().connect(times)
            statement(connection._raw, "SET time_zone = '+05:00'")
            return connection

    backend.prepare()
    held = ask()
    backend.acquire(held)
    elsewhere = DatabaseBackend(Elsewhere(place_of(mariadb_url)))
    taken = elsewhere.acquire(ask())
    assert isinstance(taken, Taken)
    assert 50 * SECOND_US < taken.left_us <= LEASE_US
    assert elsewhere.refresh([hold_of(held)], LEASE_US) == [True]
    assert 50 * SECOND_US < backend.list()[0].left_us <= LEASE_US
    assert abs(elsewhere.now() - backend.now()) < 60 * SECOND_US
    elsewhere.close()


def test_a_refresh_that_waits_for_a_row_fails_in_time_and_is_no_loss(mariadb_url: str, beside: Any) -> None:
    quick = Times(statement_s=1, row_s=1)
    backend = DatabaseBackend(MariaDbDriver(place_of(mariadb_url)), quick=quick)
    backend.prepare()
    held, free = ask(b"t/held"), ask(b"t/free")
    backend.acquire(held)
    backend.acquire(free)
    beside.begin()
    statement(beside, "SELECT * FROM cluster_locks WHERE lock_key = 't/held' FOR UPDATE")
    assert backend.refresh([hold_of(free)], LEASE_US) == [True]
    with pytest.raises(DatabaseUnavailable):
        backend.refresh([hold_of(held)], LEASE_US)
    beside.rollback()
    assert backend.refresh([hold_of(held)], LEASE_US) == [True]
    backend.close()


def test_a_row_that_comes_free_in_time_is_refreshed(backend: Any, beside: Any) -> None:
    backend.prepare()
    held = ask()
    backend.acquire(held)
    beside.begin()
    statement(beside, "SELECT * FROM cluster_locks FOR UPDATE")
    letting_go = threading.Timer(0.2, beside.rollback)
    letting_go.start()
    assert backend.refresh([hold_of(held)], LEASE_US) == [True]
    letting_go.join()


def test_a_look_does_not_wait_for_a_row_that_somebody_has_locked(backend: Any, beside: Any) -> None:
    backend.prepare()
    backend.acquire(ask())
    beside.begin()
    statement(beside, "SELECT * FROM cluster_locks FOR UPDATE")
    assert isinstance(backend.acquire(ask(again=True)), Taken)
    assert len(backend.list()) == 1
    beside.rollback()


def test_a_connection_that_counts_changes_is_refused(mariadb_url: str, backend: Any) -> None:
    class Counting(MariaDbDriver):
        def _arguments(self) -> dict[str, Any]:
            return super()._arguments() | {"client_flag": 0}

    backend.prepare()
    counting = DatabaseBackend(Counting(place_of(mariadb_url)))
    with pytest.raises(BadTable, match="FOUND_ROWS"):
        counting.acquire(ask())
    with pytest.raises(BadTable, match="FOUND_ROWS"):
        counting.refresh([Hold(b"t/k", "id")], LEASE_US)


@pytest.mark.parametrize("charset", ["utf8mb4", "latin1"])
@pytest.mark.parametrize("expires", [DATETIME, TIMESTAMP])
def test_a_table_of_shaken_fist_is_taken_over_in_place(expires: str, charset: str, backend: Any, beside: Any) -> None:
    statement(beside, OLD.format(expires=expires, charset=charset))
    with pytest.raises(BadTable, match="holdfast leases init"):
        backend.verify()
    # In a time zone of its own, as a cluster may have it, and with a lease that looks lapsed or far too long in UTC.
    statement(beside, "SET time_zone = '+09:00'")
    holder = {"node": "sf-1", "pid": 7, "operation": "x"}
    for key, lock_id in (("cluster/", "old"), ("attribute/instance/é", "Old2")):
        statement(
            beside,
            "INSERT INTO cluster_locks (lock_key, holder_json, node_uuid, pid, lock_id, acquired_at, expires_at) "
            "VALUES (%s, %s, 'sf-1', 7, %s, UNIX_TIMESTAMP(), NOW() + INTERVAL 60 SECOND)",
            *(key, json.dumps(holder), lock_id),
        )
    done = backend.prepare()
    assert "added the column fence" in done
    assert backend.prepare() == []
    rows = backend.list()
    assert [row.key for row in rows] == ["attribute/instance/é".encode(), b"cluster/"]
    assert all(row.holder == holder and row.fence == 1 and row.process == "" for row in rows)
    assert all(50 * SECOND_US < row.left_us <= LEASE_US for row in rows)
    assert isinstance(backend.acquire(ask()), Taken)
    assert isinstance(backend.acquire(ask(b"CLUSTER/")), Got)
    assert backend.refresh([Hold(b"cluster/", "old")], LEASE_US) == [True]
    assert backend.release([Hold(b"cluster/", "old")]) == [True]
    assert backend.acquire(ask()) == Got(2)
    assert backend.acquire(ask(b"t/" + b"k" * 1000)) == Got(1)
    assert backend.acquire(replace(ask(b"t/node"), node="węzeł-1")) == Got(1)  # which Latin 1 cannot spell
    assert [row[2] for row in statement(beside, "SHOW INDEX FROM cluster_locks")] == ["PRIMARY"]


def test_taking_over_goes_on_where_it_was_interrupted(backend: Any, beside: Any) -> None:
    statement(beside, OLD.format(expires=DATETIME, charset="utf8mb4"))
    statement(beside, "ALTER TABLE cluster_locks ADD COLUMN fence BIGINT NOT NULL DEFAULT 1")
    statement(beside, "ALTER TABLE cluster_locks MODIFY lock_key VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL")
    statement(beside, "ALTER TABLE cluster_locks MODIFY expires_at DATETIME(6) NULL DEFAULT NULL")
    done = backend.prepare()
    assert "added the column process" in done
    assert "leases end by UTC, to the microsecond; each that was there has begun anew" in done
    backend.verify()


def test_a_table_that_only_has_the_name_is_left_alone(backend: Any, beside: Any) -> None:
    statement(beside, "CREATE TABLE cluster_locks (id INT)")
    with pytest.raises(BadTable, match="it has no acquired_at, holder_json"):
        backend.prepare()
    assert [row[0] for row in statement(beside, "SHOW COLUMNS FROM cluster_locks")] == ["id"]


def test_a_table_of_another_version_is_refused_and_a_later_one_left_alone(backend: Any, beside: Any) -> None:
    backend.prepare()
    statement(beside, "UPDATE holdfast_schema SET version = 4")
    with pytest.raises(BadTable, match="of version 4, and this release works with 5: run `holdfast leases init`"):
        backend.acquire(ask())
    statement(beside, "UPDATE holdfast_schema SET version = 6")
    for work in (backend.now, backend.prepare):
        with pytest.raises(BadTable, match="install a later release"):
            work()
    assert statement(beside, "SELECT version FROM holdfast_schema") == [(6,)]


def test_many_may_prepare_an_empty_database_at_once(mariadb_url: str) -> None:
    backends: list[Any] = [open_backend(mariadb_url) for _ in range(4)]
    gate = threading.Barrier(4)
    failed: list[BaseException] = []

    def prepare(own: Any) -> None:
        gate.wait(30)
        try:
            own.prepare()
            own.verify()
        except Exception as error:  # noqa: BLE001  whatever it is, it is shown below
            failed.append(error)

    threads = [threading.Thread(target=prepare, args=[own]) for own in backends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for own in backends:
        own.close()


def test_a_database_that_was_not_prepared_says_what_to_do(backend: Any, beside: Any) -> None:
    with pytest.raises(BadTable, match="run `holdfast leases init`"):
        backend.acquire(ask())
    backend.prepare()
    statement(beside, "DROP TABLE cluster_locks")
    with pytest.raises(BadTable, match="holdfast leases init"):
        backend.acquire(ask())
