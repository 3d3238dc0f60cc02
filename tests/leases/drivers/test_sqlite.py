"""Connections to a file: what a fork finds, who waits for whom, what the errors mean."""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ConfigError, Forbidden
from holdfast.leases.drivers import sqlite
from holdfast.leases.drivers.port import Times, Undone
from holdfast.leases.drivers.sqlite import SqliteDriver, boot_mark
from holdfast.leases.errors import BadTable, DatabaseUnavailable, StatementRefused
from holdfast.leases.steps import Clash, Statement
from tests.client.forks import in_child

QUICK = Times(row_s=0)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "leases.db")


def test_a_fork_finds_the_file_closed_and_both_sides_open_it_again(path: str) -> None:
    connection: Any = SqliteDriver(path).connect(QUICK)
    connection.execute(Statement("CREATE TABLE t (k INTEGER)"))
    said = in_child(lambda: (connection._raw, connection.execute(Statement("INSERT INTO t VALUES (1)")).count))
    assert said == "(None, 1)"
    assert connection.execute(Statement("SELECT k FROM t")).rows == [(1,)]
    connection.close()


def test_a_fork_waits_for_the_statement_that_is_under_way(path: str) -> None:
    connection = SqliteDriver(path).connect(QUICK)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT max(i) FROM n"
    with ThreadPoolExecutor(1) as others:
        counting = others.submit(connection.execute, Statement(endless))
        assert in_child(lambda: connection.execute(Statement("SELECT 1")).rows) == "[(1,)]"
        assert counting.result(30).rows == [(300000,)]
    connection.close()


def test_a_file_that_another_one_writes_to_is_worth_another_try(path: str) -> None:
    connection = SqliteDriver(path).connect(QUICK)
    connection.execute(Statement("CREATE TABLE t (k INTEGER PRIMARY KEY)"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Undone, match="locked"):
        connection.execute(Statement("INSERT INTO t VALUES (1)"))
    other.execute("ROLLBACK")
    other.close()
    assert connection.execute(Statement("INSERT INTO t VALUES (?)", (1,))).count == 1
    with pytest.raises(Clash):
        connection.execute(Statement("INSERT INTO t VALUES (1)"))
    with pytest.raises(BadTable):
        connection.execute(Statement("SELECT * FROM nothing_there"))
    with pytest.raises(StatementRefused):
        connection.execute(Statement("SELEC"))
    with pytest.raises(StatementRefused):
        connection.execute(Statement("SELECT ?"))
    connection.close()


def test_what_is_no_database_or_cannot_be_opened_says_so(path: str, tmp_path: Path) -> None:
    Path(path).write_bytes(b"no database at all, and long enough to be looked at" * 100)
    with pytest.raises(BadTable):
        SqliteDriver(path).connect(QUICK)
    with pytest.raises(DatabaseUnavailable):
        SqliteDriver(str(tmp_path / "no" / "folder")).connect(QUICK)


def test_one_that_may_only_be_read_is_forbidden() -> None:
    error = sqlite3.OperationalError("attempt to write a readonly database")
    error.sqlite_errorcode = sqlite3.SQLITE_READONLY
    assert type(sqlite.meaning(error, "sqlite:x")) is Forbidden


def test_the_clock_of_the_machine_is_lent_to_sql(path: str) -> None:
    connection = SqliteDriver(path).connect(QUICK)
    ((earlier, boot),) = connection.execute(Statement("SELECT now_us(), boot()")).rows
    ((later, _),) = connection.execute(Statement("SELECT now_us(), boot()")).rows
    assert 0 < earlier <= later
    assert boot == boot_mark()
    connection.close()


def test_without_the_mark_of_a_start_there_are_no_leases(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BOOT", os.path.join(os.path.dirname(path), "nothing"))
    with pytest.raises(ConfigError, match="last start"):
        SqliteDriver(path).connect(QUICK)
