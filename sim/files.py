"""The files of a world's SQLite store, and what becomes of them: locks of strangers, refusals, power cuts, torn ends.

The database is the real one. What should be in it is judged elsewhere.
"""

import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import StoreBusy, StoreFailed
from holdfast.stores.backend import Backend, Keeping, Record
from holdfast.stores.sqlite import SqliteBackend
from holdfast.testing.disk import PowerCut
from sim.history import Began, Committed, Event, Failed, History, Resurfaced, Slept

T = TypeVar("T")

MEMORY_FOLDER = Path("/dev/shm")
TABLES = ("locks", "tokens", "holdfast_keys", "holdfast_meta")
SYNCED = 2  # from PRAGMA synchronous = FULL on, a commit has been synced when it returns

Content = tuple[bytes, bytes]  # of the database and of its write-ahead log
CUTS = ("before a commit", "inside a commit", "after a commit")
LATE_CUT = "after a sync that failed"


class Files:
    """A folder of one world's own; a new pair of files for each time that the server is gone without a word."""

    def __init__(self) -> None:
        where = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-sim-", dir=where))
        self._generation = 0

    @property
    def path(self) -> Path:
        return self._folder / f"locks.{self._generation}.db"

    def replace(self, content: Content) -> None:
        """Go on with other files."""
        old = self.path
        self._generation += 1
        write(self.path, content)
        for end in ("", "-wal", "-shm", ".lock"):
            Path(f"{old}{end}").unlink(missing_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def read(path: Path) -> Content:
    wal = Path(f"{path}-wal")
    return path.read_bytes(), wal.read_bytes() if wal.exists() else b""


def write(path: Path, content: Content) -> None:
    path.write_bytes(content[0])
    Path(f"{path}-wal").write_bytes(content[1])


def rows_in(path: Path) -> list[Any]:
    """Read all that a file says of keys."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        return [sorted(connection.execute(f"SELECT * FROM {table}"), key=repr) for table in TABLES]


def tear(content: Content, safe: bytes, dice: random.Random) -> Content:
    """Spoil the log behind what was surely synced: cut it short, or leave a stretch of zeros or of noise in it."""
    database, log = content
    start = next((at for at, (one, other) in enumerate(zip(log, safe, strict=False)) if one != other), len(safe))
    if len(log) <= start:
        return content
    at = dice.randint(start, len(log))
    end = dice.randint(at, len(log))
    how = dice.choice(("cut", "zeros", "noise", "whole"))
    if how == "cut":
        return database, log[:at]
    if how == "zeros":
        return database, log[:at] + bytes(end - at) + log[end:]
    if how == "noise":
        return database, log[:at] + dice.randbytes(end - at) + log[end:]
    return content


@dataclass(slots=True)
class Uncertain:
    """A commit that may have reached the disk or not: the log before and after it, and what it changes."""

    log_before: bytes
    log_after: bytes
    rows_before: list[Any]
    rows_after: list[Any]


class SickBackend(Backend):
    """The real backend on a machine that fails."""

    def __init__(self, path: Path, history: History, dice: random.Random) -> None:
        self.refused: set[str] = set()  # names of calls that fail
        self.cut: str | None = None  # where in the next commit the power goes
        self.delay_ns = 0  # how long the next transaction waits for somebody else to let go of the file
        self._path = path
        self._history = history
        self._dice = dice
        self._inner = SqliteBackend(str(path), busy_timeout_s=0)
        self._intruder: sqlite3.Connection | None = None
        self._unsynced_since: bytes | None = None  # the log as it was last synced, if that was not its last commit
        self._interrupted: Uncertain | None = None
        self._unsynced: Uncertain | None = None

    # --- what the shelf calls ---

    def open(self) -> int:
        return self._inner.open()

    def begin(self) -> None:
        if self.delay_ns:
            until = self._history.now + self.delay_ns
            self._history.add(Slept, until)
            self._history.now = until
            self.delay_ns = 0
        self._call("begin", self._inner.begin)
        # When the log is copied into the database is for the simulator to say: a log that has been copied is not torn.
        self._connection.execute("PRAGMA wal_autocheckpoint = 0")
        self._history.add(Began)

    def has_changed(self) -> bool:
        return self._inner.has_changed()

    def load(self, keys: Sequence[bytes]) -> Iterable[Record]:
        return self._call("load", lambda: list(self._inner.load(keys)))

    def load_busy(self) -> Iterable[Record]:
        return self._inner.load_busy()

    def keep(self, keeping: Keeping) -> None:
        cut, self.cut = self.cut, None
        if cut == "before a commit":
            raise PowerCut
        self._call("keep", lambda: self._inner.keep(keeping))
        self.cut = cut

    def commit(self) -> None:
        cut, self.cut = self.cut, None
        if self._level() < SYNCED and self._unsynced_since is None:
            self._unsynced_since = read(self._path)[1]
        if cut == "inside a commit":
            self._interrupted = self._try()
            raise PowerCut
        if cut == LATE_CUT:
            self.cut = "before a commit"  # the next one
        if cut == LATE_CUT or "sync" in self.refused:
            self._write_only()
        self._call("commit", self._inner.commit)
        self._unsynced = None  # it has been written over
        self._history.add(Committed)
        if cut == "after a commit":
            raise PowerCut
        if self._dice.random() < 0.05:
            self._copy_log()

    def rollback(self) -> None:
        self._inner.rollback()

    def close(self) -> None:
        self.let_go()
        self._inner.close()

    # --- what breaks ---

    def refuse(self, calls: Collection[str]) -> None:
        self.refused = set(calls)

    def intrude(self) -> None:
        """Let another process have the file to itself."""
        self._intruder = sqlite3.connect(self._path, isolation_level=None, timeout=0)
        self._intruder.execute("BEGIN IMMEDIATE")

    def let_go(self) -> None:
        """The other process ends, and has written nothing."""
        if self._intruder is not None:
            self._intruder.close()
            self._intruder = None

    @property
    def is_sick(self) -> bool:
        return bool(self.refused) or self._intruder is not None

    @property
    def is_uncertain(self) -> bool:
        """Say whether the last commit failed, and may be in the file all the same."""
        return self._unsynced is not None

    def heal(self) -> None:
        self.refused = set()
        self.cut = None
        self.let_go()

    def remains(self, *, lose: bool) -> Content:
        """Say what is in the files after this server, which may be gone together with the power."""
        content = read(self._path)
        if self._interrupted is not None:
            content = self._spoil(content, self._interrupted, Committed, lose=True)
        elif self._unsynced is not None:
            content = self._spoil((content[0], self._unsynced.log_after), self._unsynced, Resurfaced, lose=lose)
        elif lose and self._unsynced_since is not None:
            content = tear(content, self._unsynced_since, self._dice)
        with suppress(sqlite3.Error):
            self.close()
        return content

    def _try(self) -> Uncertain:
        """Commit; whether that reaches the disk is open."""
        log_before, rows_before = read(self._path)[1], rows_in(self._path)
        self._inner.commit()
        return Uncertain(log_before, read(self._path)[1], rows_before, rows_in(self._path))

    def _write_only(self) -> None:
        """Let a commit fail that has been written: it is taken back as long as this server lives, or another commit."""
        database = read(self._path)[0]
        self._unsynced = self._try()
        self._connection.close()
        self._inner._connection = None
        write(self._path, (database, self._unsynced.log_before))
        Path(f"{self._path}-shm").unlink(missing_ok=True)
        self._history.add(Failed, "the file refuses to sync", written=True)
        raise StoreFailed("the file refuses to sync: EIO")

    def _spoil(
        self, content: Content, what: Uncertain, survived: Callable[[int, int], Event], *, lose: bool
    ) -> Content:
        """Tear what an uncertain commit wrote, and see whether it has survived."""
        safe = what.log_before if self._unsynced_since is None else self._unsynced_since
        torn = tear(content, safe, self._dice) if lose else content
        copy = self._path.with_suffix(".torn")
        write(copy, torn)
        left = rows_in(copy)
        for end in ("", "-wal", "-shm"):
            Path(f"{copy}{end}").unlink(missing_ok=True)
        if left == what.rows_after:
            self._history.add(survived)
        elif self._unsynced_since is None and left != what.rows_before:
            raise RuntimeError("an uncertain commit left neither what was before nor what was to be after")
        return torn

    def _copy_log(self) -> None:
        """Let the database take in what is in its log."""
        how = self._dice.choice(("PASSIVE", "RESTART", "TRUNCATE"))
        self._connection.execute(f"PRAGMA wal_checkpoint({how})")
        self._unsynced_since = None

    def _call(self, name: str, act: Callable[[], T]) -> T:
        try:
            if name in self.refused:
                raise StoreFailed(f"the file refuses to {name}: EIO")
            return act()
        except (StoreFailed, StoreBusy) as error:
            self._history.add(Failed, type(error).__name__)
            raise

    @property
    def _connection(self) -> sqlite3.Connection:
        connection = self._inner._connection
        assert connection is not None
        return connection

    def _level(self) -> int:
        return int(self._connection.execute("PRAGMA synchronous").fetchone()[0])
