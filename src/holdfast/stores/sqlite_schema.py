"""The tables of the SQLite store, how a file gets them, and how the connection has to be set so that a commit lasts.

The first three tables are those of LockServer and stay as they are, but for one column at the end; no row is made here.
"""

import sqlite3
from collections.abc import Callable
from functools import cache
from typing import Final

from holdfast.errors import StoreFailed

# What a file may be that we open: a later release would know what it changed, and this one does not.
SCHEMA: Final = 1

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, applied_at_ns INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tokens (lock_name TEXT PRIMARY KEY, last_token INTEGER NOT NULL)",
    (
        "CREATE TABLE IF NOT EXISTS locks (lock_name TEXT PRIMARY KEY, owner_id TEXT NULL, lease_id TEXT NULL,"
        " fencing_token INTEGER NOT NULL, lease_expiry_ns INTEGER NOT NULL, version INTEGER NOT NULL,"
        " created_at_ns INTEGER NOT NULL, updated_at_ns INTEGER NOT NULL)"
    ),
    "CREATE INDEX IF NOT EXISTS idx_locks_expiry ON locks (lease_expiry_ns)",
    "INSERT OR IGNORE INTO schema_migrations (version, applied_at_ns) VALUES (1, strftime('%s', 'now') * 1000000000)",
    (
        "CREATE TABLE IF NOT EXISTS holdfast_keys (key BLOB PRIMARY KEY, last_fence INTEGER NOT NULL,"
        " version INTEGER NOT NULL, document BLOB) WITHOUT ROWID"
    ),
    "CREATE TABLE IF NOT EXISTS holdfast_meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    f"INSERT OR IGNORE INTO holdfast_meta (name, value) VALUES ('schema', {SCHEMA}), ('clock_ns', 0)",
)

# The highest time that a row knows of. Whoever wrote it judged leases by it, so that ours must not go below.
LATEST: Final = "SELECT coalesce(max(updated_at_ns), 0) FROM locks"


def prepare(connection: sqlite3.Connection) -> None:
    """Make a file ours: settings first, then tables, all or none of them."""
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreFailed(f"this file system allows no write-ahead log, only journal mode {mode!r}")
    connection.execute("PRAGMA synchronous = FULL")  # a commit that could be undone by a power cut is no commit
    connection.execute("BEGIN IMMEDIATE")
    try:
        fresh = not _has_table(connection, "holdfast_meta")
        for statement in TABLES:
            connection.execute(statement)
        _check_schema(connection)
        if "document" not in _columns(connection, "locks"):
            connection.execute("ALTER TABLE locks ADD COLUMN document BLOB")
        if fresh:
            (latest,) = connection.execute(LATEST).fetchone()
            connection.execute("UPDATE holdfast_meta SET value = ? WHERE name = 'clock_ns'", (latest,))
            _complete_tokens(connection)
        connection.execute("COMMIT")
    except sqlite3.Error:
        connection.rollback()
        raise


def _check_schema(connection: sqlite3.Connection) -> None:
    (found,) = connection.execute("SELECT value FROM holdfast_meta WHERE name = 'schema'").fetchone()
    if found > SCHEMA:
        connection.rollback()
        raise StoreFailed(f"the file has schema {found}; this release knows schemas up to {SCHEMA}")


def _complete_tokens(connection: sqlite3.Connection) -> None:
    """Every lock has a row of its last token, which no token that its own row shows is above."""
    connection.execute(
        "INSERT INTO tokens (lock_name, last_token) SELECT lock_name, fencing_token FROM locks WHERE true"
        " ON CONFLICT (lock_name) DO UPDATE SET last_token = max(last_token, excluded.last_token)"
    )


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    found = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
    return bool(found.fetchone()[0])


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _members(count: int) -> str:
    return ", ".join("?" * count)


# How to spell so many values; there are few different counts.
MEMBERS: Final[Callable[[int], str]] = cache(_members)
