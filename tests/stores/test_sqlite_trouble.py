"""A file that others keep locked, a full disk, a file that is gone or no database: clear answers, and no loss.

The kernel and SQLite are the real ones; only what others do to the file is done by hand.
"""

import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.errors import StoreBusy, StoreFileError
from holdfast.stores.sqlite import SqliteBackend
from holdfast.words import Answer, End, Ended, Granted, Hangup, Reason
from tests.stores.processes import ours
from tests.stores.rig import KEY, SqliteRig


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def rig(path: Path) -> Iterator[SqliteRig]:
    with SqliteRig(path) as rig:
        yield rig


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let somebody else write, and not come to an end."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


@contextmanager
def files_limited(size: int) -> Iterator[None]:
    """Forbid files beyond a size; the kernel then refuses writes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def refusal(path: Path) -> str:
    with pytest.raises(StoreFileError) as refused:
        SqliteBackend(str(path), 0.01).open()
    return refused.value.detail


# --- others ---


def test_a_transaction_in_a_hurry_does_not_wait_and_a_later_one_would(path: Path) -> None:
    backend = SqliteBackend(str(path), 3600)
    backend.open()
    backend.hurry(True)
    with locked(path):
        for _ in range(2):
            with pytest.raises(StoreBusy):
                backend.begin()
    backend.hurry(False)
    backend.begin()
    assert backend._value("PRAGMA busy_timeout", ()) == 3_600_000
    backend.rollback()
    backend.close()


def test_while_somebody_else_writes_commands_answer_busy_and_nothing_is_half_done(rig: SqliteRig, path: Path) -> None:
    held = rig.ask()
    rig.ask(session=2)
    rig.ask(b"lock:third", session=3)
    rig.log.take()
    with locked(path):
        rig.do(rig.claim(b"lock:free"), End(held.key, held.token), Hangup(3))
        assert rig.log.take() == [Answer.STORE_BUSY, Answer.STORE_BUSY]
        assert rig.shelf.fault == "another process keeps the database locked: database is locked"
        assert rig.shelf.tally.busy == 1
        assert rig.held() == {KEY: [1], b"lock:third": [1]}
        assert rig.probe() == rig.shelf.fault
    rig.log.take()
    rig.after(1)
    assert rig.log.take() == [(Ended, Reason.LAPSED)]  # what nobody would have asked for again
    assert rig.end(held) is Answer.ENDED
    assert rig.log.take() == [Answer.ENDED, Granted]
    assert rig.shelf.fault is None


def test_a_second_server_on_the_same_file_is_turned_away(rig: SqliteRig, path: Path) -> None:
    text = refusal(path)
    assert text == f"store {path}: another server has it open (it holds {path}.lock)"
    code = "import sys; from holdfast.stores.sqlite import SqliteBackend; SqliteBackend(sys.argv[1], 1).open()"
    with ours(code, str(path)) as process:
        _, errors = process.communicate()
    assert text in errors
    rig.kill()
    with ours(code, str(path)) as process:
        _, errors = process.communicate()
    assert errors == ""
    rig.start()


def test_a_file_that_somebody_else_keeps_locked_is_not_opened(rig: SqliteRig, path: Path) -> None:
    rig.kill()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("BEGIN EXCLUSIVE")
    assert refusal(path) == f"store {path}: another process keeps the database locked: database is locked"
    other.close()
    rig.start()


# --- disks ---


def test_on_a_full_disk_nothing_is_granted_and_when_there_is_room_all_goes_on(rig: SqliteRig, path: Path) -> None:
    held = rig.ask()
    waiter = rig.ask(session=2)
    rig.log.take()
    with files_limited(os.stat(f"{path}-wal").st_size):
        assert rig.do(rig.claim(b"lock:other")) is Answer.STORE_FAILED
        assert rig.end(held) is Answer.STORE_FAILED
        rig.hangup(2)
        assert rig.held() == {KEY: [1]}
        fault = rig.probe()
    assert fault is not None
    assert "the database fails" in fault
    assert rig.shelf.tally.failures == 5
    rig.log.take()
    rig.after(1)
    assert rig.log.take() == [(Ended, Reason.LAPSED)]
    assert rig.probe() is None
    assert rig.ask(b"lock:other").fence == 1
    assert rig.end(held) is Answer.ENDED
    assert rig.end(waiter) is Answer.NOT_HELD


def test_a_database_that_may_not_grow_keeps_what_it_has(rig: SqliteRig, path: Path) -> None:
    connection = rig.backend._connection
    assert connection is not None
    held = rig.ask()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    answers = [rig.do(rig.claim(b"lock:%d" % number + b"x" * 900)) for number in range(20)]
    granted = answers.count(Answer.GRANTED)
    assert answers == [Answer.GRANTED] * granted + [Answer.STORE_FAILED] * (20 - granted)
    assert rig.shelf.fault == "the database fails: database or disk is full"
    connection.execute("PRAGMA max_page_count = 1000000")
    assert rig.ask(b"lock:more").fence == 1
    rig.restart()
    assert len(rig.held()) == granted + 2
    assert rig.end(held) is Answer.ENDED


# --- files ---


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_is_gone_takes_nothing_more(rig: SqliteRig, path: Path, tmp_path: Path, how: str) -> None:
    held = rig.ask()
    aside = tmp_path / "aside"
    os.rename(path, aside)
    if how == "replaced":
        path.write_bytes(b"")
    assert rig.do(rig.claim(b"lock:other")) is Answer.STORE_FAILED
    assert rig.end(held) is Answer.STORE_FAILED
    why = {
        "removed": f"{path} cannot be seen any more: No such file or directory",
        "replaced": f"{path} has been replaced while it was open",
    }
    assert rig.shelf.fault == why[how]
    os.rename(aside, path)
    assert rig.end(held) is Answer.ENDED


def test_a_new_connection_does_not_begin_a_new_file(rig: SqliteRig, path: Path, tmp_path: Path) -> None:
    rig.ask()
    rig.backend._disconnect()
    os.rename(path, tmp_path / "aside")
    assert rig.do(rig.claim(b"lock:other")) is Answer.STORE_FAILED
    assert not path.exists()


def test_a_file_that_is_no_database_is_not_opened(path: Path) -> None:
    path.write_bytes(b"what is this? " * 1000)
    assert refusal(path) == f"store {path}: the database fails: file is not a database"
    assert path.read_bytes() == b"what is this? " * 1000


def test_a_damaged_database_is_not_opened(rig: SqliteRig, path: Path) -> None:
    rig.do(*(rig.claim(b"lock:%d" % number, lease_s=None) for number in range(90)))
    rig.kill()
    content = bytearray(path.read_bytes())
    content[4096 : len(content)] = b"\xaa" * (len(content) - 4096)
    path.write_bytes(content)
    assert refusal(path) == f"store {path}: the database fails: database disk image is malformed"


def test_a_database_that_gets_damaged_grants_nothing_more_and_stays_red(rig: SqliteRig, path: Path) -> None:
    rig.do(*(rig.claim(b"lock:%d" % number, lease_s=None) for number in range(500)))
    rig.kill()
    rig.start()
    assert rig.probe() is None  # and what a probe writes lies on pages that are in memory from now on
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xaa" * (path.stat().st_size - 4096))
    rig.log.take()
    rig.ask(b"lock:new")
    assert rig.log.take() == [Answer.STORE_FAILED]
    assert rig.probe() == "the database fails: database disk image is malformed"


def test_a_folder_is_no_database(path: Path) -> None:
    path.mkdir()
    assert refusal(path) == f"store {path}: the database fails: unable to open database file"


def test_a_file_in_no_folder_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "holdfast.db"
    assert refusal(path) == f"store {path}: cannot open {path}.lock: No such file or directory"


def test_a_folder_in_which_nothing_can_be_made_is_named() -> None:
    assert refusal(Path("/proc/holdfast.db")).startswith(
        "store /proc/holdfast.db: cannot open /proc/holdfast.db.lock: "
    )


def test_a_database_that_lives_in_memory_only_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal(Path(":memory:")) == (
        "store :memory:: this file system allows no write-ahead log, only journal mode 'memory'"
    )
