"""The tables: made once, in the original's shape; a file of the original is completed, one of a later release refused.

What is in the rows is tested with the backend.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import StoreFailed, StoreFileError
from holdfast.stores.sqlite import SqliteBackend
from holdfast.stores.sqlite_schema import MEMBERS, SCHEMA, prepare
from tests.stores.lockserver import LockServer

# What the original has, as it is written in its specification: name, type, not null, key.
COLUMNS = {
    "schema_migrations": [("version", "INTEGER"), ("applied_at_ns", "INTEGER")],
    "tokens": [("lock_name", "TEXT"), ("last_token", "INTEGER")],
    "locks": [
        ("lock_name", "TEXT"),
        ("owner_id", "TEXT"),
        ("lease_id", "TEXT"),
        ("fencing_token", "INTEGER"),
        ("lease_expiry_ns", "INTEGER"),
        ("version", "INTEGER"),
        ("created_at_ns", "INTEGER"),
        ("updated_at_ns", "INTEGER"),
    ],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    return [(row[1], row[2]) for row in connection.execute(f"PRAGMA table_info({table})")]


def test_the_tables_of_the_original_are_as_it_makes_them_but_for_one_column(connection: sqlite3.Connection) -> None:
    prepare(connection)
    for table, expected in COLUMNS.items():
        found = columns(connection, table)
        assert found[: len(expected)] == expected
        assert found[len(expected) :] == ([("document", "BLOB")] if table == "locks" else [])
    ((version, applied),) = connection.execute("SELECT * FROM schema_migrations").fetchall()
    assert version == 1
    assert applied % 1_000_000_000 == 0
    assert applied > 1_600_000_000_000_000_000
    indexes = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall()
    assert indexes == [("idx_locks_expiry",)]


def test_preparing_again_changes_nothing(connection: sqlite3.Connection, path: Path) -> None:
    prepare(connection)
    tables = connection.execute("SELECT * FROM sqlite_master").fetchall()
    rows = connection.execute("SELECT * FROM schema_migrations").fetchall()
    prepare(connection)
    assert connection.execute("SELECT * FROM sqlite_master").fetchall() == tables
    assert connection.execute("SELECT * FROM schema_migrations").fetchall() == rows


def test_a_file_of_the_original_is_completed_and_keeps_its_rows(connection: sqlite3.Connection, path: Path) -> None:
    with LockServer(path) as other:
        pass
    path.unlink()
    with LockServer(path) as other:
        other.acquire("job", "w1", "lease", 500, 900)
        other.connection.execute("DELETE FROM tokens")
        other.acquire("low", "w1", "lease", 600, 900)
        other.connection.execute("UPDATE locks SET fencing_token = 7")
        with closing(sqlite3.connect(path, isolation_level=None)) as ours:
            prepare(ours)
        assert other.row("job") == ("w1", "lease", 7, 900, 1)
        assert (other.token("job"), other.token("low")) == (7, 7)
        assert other.connection.execute("SELECT * FROM schema_migrations").fetchall() == [
            (1, 1_700_000_000_000_000_000)
        ]
        meta = dict(other.connection.execute("SELECT * FROM holdfast_meta").fetchall())
    assert meta == {"schema": SCHEMA, "clock_ns": 600}


def test_a_file_of_a_later_release_is_refused_and_left_alone(path: Path, connection: sqlite3.Connection) -> None:
    prepare(connection)
    connection.execute("UPDATE holdfast_meta SET value = ? WHERE name = 'schema'", (SCHEMA + 1,))
    with pytest.raises(StoreFailed, match=f"schema {SCHEMA + 1}; this release knows schemas up to {SCHEMA}"):
        prepare(connection)
    assert not connection.in_transaction
    with pytest.raises(StoreFileError, match=f"store {path}: the file has schema {SCHEMA + 1}"):
        SqliteBackend(str(path), 1).open()


def test_a_file_that_cannot_be_prepared_stays_as_it_was(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE locks (mine TEXT)")
    with pytest.raises(sqlite3.OperationalError):
        prepare(connection)
    assert not connection.in_transaction
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("locks",)]


def test_commits_are_made_to_last(connection: sqlite3.Connection) -> None:
    prepare(connection)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_members_are_spelled_as_many_as_there_are() -> None:
    assert MEMBERS(1) == "?"
    assert MEMBERS(3) == "?, ?, ?"
