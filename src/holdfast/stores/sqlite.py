"""Records in a SQLite file, in the tables of LockServer, so that a file of either server opens in the other.

Only how records become rows is known here; what they mean and when they are written is said above.
"""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from holdfast.errors import StoreBusy, StoreFailed, StoreFileError
from holdfast.stores.backend import Backend, Keeping, Record
from holdfast.stores.sqlite_schema import MEMBERS, prepare

INT64_MAX: Final = (1 << 63) - 1

# The keys that have rows in the seed's own tables. All others are beside them, in a table of ours.
LOCK: Final = b"lock:"

# What no file's data version is: whatever others have written, we have not seen it.
UNSEEN: Final = -1

# One statement writes this many rows at most; longer lists are cut in pieces whose sizes are powers of two, so that few
# different statements have to be prepared.
ROWS_MAX: Final = 128

# Names of locks are text, as in the seed, also those that are no UTF-8, as the seed writes them.
NAME: Final = "CAST(? AS TEXT)"

_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CORRUPT: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_LOCK_ROW: Final = (
    (
        "INSERT INTO locks (lock_name, owner_id, lease_id, fencing_token, lease_expiry_ns, version,"
        " created_at_ns, updated_at_ns, document) VALUES {} ON CONFLICT (lock_name) DO UPDATE SET"
        " owner_id = excluded.owner_id, lease_id = excluded.lease_id, fencing_token = excluded.fencing_token,"
        " lease_expiry_ns = excluded.lease_expiry_ns, version = excluded.version,"
        " updated_at_ns = excluded.updated_at_ns, document = excluded.document"
    ),
    f"({NAME}, {MEMBERS(8)})",
)
_TOKEN_ROW: Final = (
    (
        "INSERT INTO tokens (lock_name, last_token) VALUES {}"
        " ON CONFLICT (lock_name) DO UPDATE SET last_token = excluded.last_token"
    ),
    f"({NAME}, ?)",
)
_KEY_ROW: Final = (
    (
        "INSERT INTO holdfast_keys (key, last_fence, version, document) VALUES {} ON CONFLICT (key) DO UPDATE SET"
        " last_fence = excluded.last_fence, version = excluded.version, document = excluded.document"
    ),
    f"({MEMBERS(4)})",
)

_LOCKS: Final = (
    "SELECT tokens.lock_name, tokens.last_token, locks.owner_id, locks.lease_id, locks.fencing_token,"
    " locks.lease_expiry_ns, locks.version, locks.document FROM tokens LEFT JOIN locks USING (lock_name)"
)
_KEYS: Final = "SELECT key, last_fence, version, document FROM holdfast_keys"

T = TypeVar("T")


class SqliteBackend(Backend):
    """One file, one connection. Another server on the same file is refused by a lock on a file beside it."""

    def __init__(self, path: str, busy_timeout_s: float) -> None:
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._hurried = False
        self._waits_s = busy_timeout_s  # how long our connection waits now
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._seen = 0  # the file's data version at the end of our last transaction; it counts what others write
        self._guard: int | None = None
        self._corrupt: str | None = None  # what was found to be wrong with the file itself

    def open(self) -> int:
        self._lock_out_others()
        try:
            connection = self._connect()
            self._inode = self._guarded(lambda: os.stat(self._path).st_ino)
            self._seen = self._data_version(connection)
            return int(self._value("SELECT value FROM holdfast_meta WHERE name = 'clock_ns'", ()))
        except (StoreFailed, StoreBusy) as error:
            self.close()
            raise StoreFileError(f"store {self._path}: {error.detail}") from error

    def _lock_out_others(self) -> None:
        guard = self._path + ".lock"
        try:
            self._guard = os.open(guard, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise StoreFileError(f"store {self._path}: another server has it open (it holds {guard})") from error
        except OSError as error:
            self.close()
            raise StoreFileError(f"store {self._path}: cannot open {guard}: {error.strerror}") from error

    def _connect(self) -> sqlite3.Connection:
        def connect() -> sqlite3.Connection:
            new = not os.path.exists(self._path)
            connection = sqlite3.connect(
                self._path, timeout=self._waits_s, isolation_level=None, check_same_thread=False
            )
            self._connection = connection
            prepare(connection)
            connection.text_factory = bytes  # a name need not be UTF-8
            if new:
                sync_directory(self._path)
            return connection

        try:
            connection = self._guarded(connect)
        except (StoreBusy, StoreFailed):
            self._disconnect()  # half prepared is not prepared
            raise
        self._seen = UNSEEN
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):  # all that matters was committed before
                self._connection.close()
            self._connection = None

    # --- transactions ---

    def hurry(self, hurried: bool) -> None:
        self._hurried = hurried

    def begin(self) -> None:
        if self._corrupt is not None:
            # Some pages may still be sound, but what a token follows on cannot be trusted to any of them.
            raise StoreFailed(self._corrupt)
        self._check_file()
        wait_s = 0 if self._hurried else self._busy_timeout_s
        changes, self._waits_s = wait_s != self._waits_s, wait_s
        if self._connection is None:
            self._connect()
        elif changes:
            self._execute(f"PRAGMA busy_timeout = {round(wait_s * 1000)}")
        self._execute("BEGIN IMMEDIATE")

    def _check_file(self) -> None:
        """A file that was removed or replaced would take all that is written to it along."""
        try:
            inode = os.stat(self._path).st_ino
        except OSError as error:
            raise StoreFailed(f"{self._path} cannot be seen any more: {error.strerror}") from error
        if inode != self._inode:
            raise StoreFailed(f"{self._path} has been replaced while it was open")

    def has_changed(self) -> bool:
        assert self._connection is not None
        seen, self._seen = self._seen, self._data_version(self._connection)
        return seen != self._seen

    def _data_version(self, connection: sqlite3.Connection) -> int:
        return int(self._guarded(lambda: connection.execute("PRAGMA data_version").fetchone()[0]))

    def commit(self) -> None:
        self._execute("COMMIT")

    def rollback(self) -> None:
        """Undo what there is; a connection that cannot even do that is given up, and made anew for the next try."""
        connection = self._connection
        if connection is None or not connection.in_transaction:
            return
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._disconnect()

    def close(self) -> None:
        self._disconnect()
        if self._guard is not None:
            os.close(self._guard)
            self._guard = None

    # --- in ---

    def load(self, keys: Sequence[bytes]) -> Iterable[Record]:
        locks = [_name_of(key) for key in keys if key.startswith(LOCK)]
        others = [key for key in keys if not key.startswith(LOCK)]
        for piece in _pieces(locks):
            yield from map(_lock_record, self._rows(f"{_LOCKS} WHERE lock_name IN ({_names(len(piece))})", piece))
        for piece in _pieces(others):
            yield from map(_key_record, self._rows(f"{_KEYS} WHERE key IN ({MEMBERS(len(piece))})", piece))

    def load_busy(self) -> Iterable[Record]:
        busy = " WHERE locks.document IS NOT NULL OR (locks.owner_id IS NOT NULL AND locks.lease_expiry_ns > 0)"
        yield from map(_lock_record, self._rows(_LOCKS + busy, ()))
        yield from map(_key_record, self._rows(f"{_KEYS} WHERE document IS NOT NULL", ()))

    # --- out ---

    def keep(self, keeping: Keeping) -> None:
        now = keeping.now
        locks = [record for record in keeping.records if record.key.startswith(LOCK)]
        others = [record for record in keeping.records if not record.key.startswith(LOCK)]
        self._write(_LOCK_ROW, [_lock_row(record, now) for record in locks])
        granted = [(_name_of(r.key), r.fence) for r in keeping.granted if r.key.startswith(LOCK)]
        self._write(_TOKEN_ROW, granted)
        self._write(_KEY_ROW, [(r.key, r.fence, r.version, r.document) for r in others])
        names = [_name_of(key) for key in keeping.forgotten if key.startswith(LOCK)]
        for piece in _pieces(names):
            self._execute(f"DELETE FROM locks WHERE lock_name IN ({_names(len(piece))}) AND owner_id IS NULL", piece)
        for piece in _pieces([key for key in keeping.forgotten if not key.startswith(LOCK)]):
            self._execute(f"UPDATE holdfast_keys SET document = NULL WHERE key IN ({MEMBERS(len(piece))})", piece)
        self._execute("UPDATE holdfast_meta SET value = ? WHERE name = 'clock_ns'", (now,))

    def _write(self, statement: tuple[str, str], rows: Sequence[Sequence[Any]]) -> None:
        text, place = statement
        for piece in _pieces(rows):
            values = [value for row in piece for value in row]
            self._execute(text.format(", ".join([place] * len(piece))), values)

    # --- how everything gets to the file ---

    def _execute(self, text: str, values: Sequence[Any] = ()) -> None:
        connection = self._connection
        assert connection is not None
        self._guarded(lambda: connection.execute(text, values))

    def _rows(self, text: str, values: Sequence[Any]) -> list[Any]:
        connection = self._connection
        assert connection is not None
        return self._guarded(lambda: connection.execute(text, values).fetchall())

    def _value(self, text: str, values: Sequence[Any]) -> Any:
        return self._rows(text, values)[0][0]

    def _guarded(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)  # missing where the module itself refuses
            if code is not None and code & 0xFF in _BUSY:
                raise StoreBusy(f"another process keeps the database locked: {error}") from error
            failed = StoreFailed(f"the database fails: {error}")
            if code is not None and code & 0xFF in _CORRUPT:
                self._corrupt = failed.detail
            raise failed from error
        except OSError as error:
            raise StoreFailed(f"the database's file fails: {error}") from error


def sync_directory(path: str) -> None:
    """Make sure that a new file is found again after a power cut."""
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _pieces(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut a list in pieces whose lengths are powers of two."""
    at = 0
    while left := len(rows) - at:
        size = min(1 << (left.bit_length() - 1), ROWS_MAX)
        yield rows[at : at + size]
        at += size


def _name_of(key: bytes) -> bytes:
    return key.removeprefix(LOCK)


def _names(count: int) -> str:
    return ", ".join([NAME] * count)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _lock_row(record: Record, now: int) -> tuple[Any, ...]:
    deadline = min(record.deadline, INT64_MAX)
    return (
        _name_of(record.key),
        _text(record.owner),
        _text(record.lease_id),
        record.held_fence,
        deadline,
        record.version,
        now,
        now,
        record.document,
    )


def _lock_record(row: tuple[Any, ...]) -> Record:
    name, last, owner, lease_id, held, expiry, version, document = row
    _check_types("locks", name, (name, owner or b"", lease_id or b"", document or b""), (last, held, expiry, version))
    return Record(
        key=LOCK + name,
        fence=max(last, held or 0),
        version=version or 0,
        document=document,
        owner=owner if expiry else None,
        lease_id=lease_id,
        held_fence=held or 0,
        deadline=expiry or 0,
    )


def _key_record(row: tuple[Any, ...]) -> Record:
    key, last, version, document = row
    _check_types("holdfast_keys", key, (key, document or b""), (last, version))
    return Record(key=key, fence=last, version=version, document=document)


def _check_types(table: str, name: object, texts: tuple[object, ...], numbers: tuple[object, ...]) -> None:
    """Refuse a row that was tampered with: SQLite keeps anything in any column."""
    good = all(isinstance(text, bytes) for text in texts)
    if not good or any(not isinstance(number, int) for number in numbers if number is not None):
        raise StoreFailed(f"the row of {name!r} in {table} holds what none should")
