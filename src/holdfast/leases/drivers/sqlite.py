"""SQLite, from the standard library, in the caller's thread.

A file that is open does not survive a fork: SQLite would take the locks of the parent for its own. So a fork waits for
the statement that is under way, and finds all files closed.
"""

import os
import re
import sqlite3
import threading
import weakref
from typing import Final

from holdfast.client.clock import now_ns
from holdfast.errors import ConfigError, Forbidden
from holdfast.leases.drivers.port import Connection, Times, Undone
from holdfast.leases.drivers.threaded import ThreadedDriver
from holdfast.leases.errors import BadTable, DatabaseUnavailable, StatementRefused
from holdfast.leases.sqlite import SQLite
from holdfast.leases.steps import Clash, Result, Statement
from holdfast.leases.url import SQLITE

BOOT: Final = "/proc/sys/kernel/random/boot_id"

_UNDONE: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_SCHEMA}
_FORBIDDEN: Final = {sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH}
_UNAVAILABLE: Final = {
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL)
}
_NO_COLUMN: Final = re.compile("no such (table|column)|has no column")
_BAD_TABLE: Final = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}

# Held by each statement, and by a fork.
_gate = threading.Lock()
_open: "weakref.WeakSet[SqliteConnection]" = weakref.WeakSet()


class SqliteDriver(ThreadedDriver):
    """The way to one file."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self.shown = SQLITE + path

    def connect(self, times: Times) -> Connection:
        connection = SqliteConnection(self._path, self.shown, times)
        connection.execute(Statement("SELECT 1"))
        return connection


class SqliteConnection:
    """A file, which is open unless there was a fork since the last statement."""

    dialect: Final = SQLite()

    def __init__(self, path: str, shown: str, times: Times) -> None:
        self._path = path
        self._shown = shown
        self._times = times
        self._boot = boot_mark()
        self._raw: sqlite3.Connection | None = None

    def execute(self, statement: Statement) -> Result:
        with _gate:
            try:
                if self._raw is None:
                    self._raw = self._connect()
                    _open.add(self)
                cursor = self._raw.execute(statement.sql, statement.values)
                try:
                    rows = cursor.fetchall()
                    return Result(cursor.rowcount, rows)
                finally:
                    cursor.close()
            except sqlite3.Error as error:
                raise meaning(error, self._shown) from error

    def _connect(self) -> sqlite3.Connection:
        raw = sqlite3.connect(
            self._path, timeout=self._times.row_s, isolation_level=None, check_same_thread=False, cached_statements=16
        )
        try:
            raw.create_function("now_us", 0, lambda: now_ns() // 1000)
            raw.create_function("boot", 0, lambda: self._boot)
            raw.execute("PRAGMA journal_mode = WAL").fetchall()
            # A fence that was given must not be given again after a power cut.
            raw.execute("PRAGMA synchronous = FULL")
        except BaseException:
            raw.close()
            raise
        return raw

    def close(self) -> None:
        with _gate:
            self.put_away()

    def put_away(self) -> None:
        """Close the file, while the gate is held; the next statement opens it."""
        if self._raw is not None:
            self._raw.close()
            self._raw = None
        _open.discard(self)


def _before_fork() -> None:
    _gate.acquire()
    for connection in list(_open):
        connection.put_away()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_gate.release, after_in_child=_gate.release)


def boot_mark() -> str:
    """Read what tells one start of the machine from another."""
    try:
        with open(BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError as error:
        raise ConfigError(f"leases in SQLite need to know the machine's last start, from {BOOT}: {error}") from error


def meaning(error: sqlite3.Error, shown: str) -> Exception:
    """Say what an error of SQLite means for a lease."""
    code = getattr(error, "sqlite_errorcode", None)
    said = f"{shown}: {error}"
    if code is None:  # the module itself refuses what it was given
        return StatementRefused(said)
    if code & 0xFF in _UNDONE:
        return Undone(said)
    if code in (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE):
        return Clash(said)
    if code & 0xFF in _UNAVAILABLE:
        return DatabaseUnavailable(said)
    if code & 0xFF in _FORBIDDEN:
        return Forbidden(said)
    if (
        code & 0xFF in _BAD_TABLE
        or str(error).startswith(("no such table", "no such column"))
        or "has no column" in said
    ):
        return BadTable(f"{said}; `holdfast leases init` prepares the tables")
    return StatementRefused(said)
