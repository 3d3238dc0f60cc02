"""The real disk against the real kernel: locks, permissions, full disks, and the order of its calls.

Nothing here knows a journal; the bytes are any bytes.
"""

import errno
import os
import resource
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.stores.disk import FileDisk
from tests.stores.processes import ours

DISK = FileDisk()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file")


@pytest.fixture
def file(path: str) -> Iterator[int]:
    file = DISK.open(path)
    yield file
    os.close(file)


@contextmanager
def file_size_limited(size: int) -> Iterator[None]:
    """Forbid files beyond a size; the kernel then cuts writes short, as on a full disk.

    It holds for the whole process, so for no longer than the one write: the report of the tests may be a file too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_new_file_is_empty_and_for_its_owner_only(path: str, file: int) -> None:
    assert DISK.read(file, 100) == b""
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_what_was_there_is_kept_and_so_are_its_permissions(path: str) -> None:
    Path(path).write_bytes(b"kept")
    os.chmod(path, 0o640)
    file = DISK.open(path)
    assert DISK.read(file, 100) == b"kept"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
    DISK.close(file)


def test_reading_stops_at_the_limit_and_starts_at_the_front_each_time(file: int) -> None:
    DISK.write(file, 0, b"0123456789")
    assert DISK.read(file, 4) == b"0123"
    assert DISK.read(file, 4) == b"0123"


def test_writing_goes_to_its_offset_and_leaves_the_rest(path: str, file: int) -> None:
    DISK.write(file, 0, b"aaaaaa")
    DISK.write(file, 2, b"bb")
    DISK.write(file, 8, b"c")
    DISK.sync(file)
    DISK.sync_directory(path)
    assert Path(path).read_bytes() == b"aabbaa\0\0c"


def test_a_second_opening_is_refused_until_the_first_is_closed(path: str) -> None:
    first = DISK.open(path)
    with pytest.raises(BlockingIOError):
        DISK.open(path)
    DISK.close(first)
    DISK.close(DISK.open(path))


def test_a_refused_opening_leaves_no_descriptor_behind(path: str, file: int) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(BlockingIOError):
        DISK.open(path)
    assert os.listdir("/proc/self/fd") == before


def test_another_process_is_refused_while_we_hold_the_lock(path: str, file: int) -> None:
    script = "import sys; from holdfast.stores.disk import FileDisk; FileDisk().open(sys.argv[1])"
    out, err = ours(script, path).communicate()
    assert out == ""
    assert "BlockingIOError" in err


def test_a_full_disk_is_an_error() -> None:
    file = DISK.open("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        DISK.write(file, 0, b"x")
    assert caught.value.errno == errno.ENOSPC
    DISK.close(file)


def test_a_write_that_was_cut_short_is_taken_up_again_until_the_kernel_says_why(path: str, file: int) -> None:
    with pytest.raises(OSError, match="too large") as caught, file_size_limited(40):
        DISK.write(file, 32, b"x" * 32)
    assert caught.value.errno == errno.EFBIG
    assert os.stat(path).st_size == 40


def test_a_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DISK.open(str(tmp_path / "nowhere" / "file"))


def test_the_directory_that_is_synced_is_the_one_that_really_holds_the_file(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real / "file")
    DISK.close(DISK.open(str(link)))
    DISK.sync_directory(str(link))
    real.rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError):
        DISK.sync_directory(str(link))


def test_a_system_without_flock_cannot_open(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(OSError, match="no flock"):
        DISK.open(path)
    assert not os.path.exists(path)
