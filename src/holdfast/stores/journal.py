"""The fence journal: two checksummed slots in a file of 64 bytes that keep fences rising across crashes.

It only ever promises a ceiling below which fences may be given out; the counting lives in `fence`, and no
lock, key or session is ever written here.
"""

import os
from dataclasses import dataclass
from struct import Struct
from typing import Final

from holdfast.errors import FenceFileError, FenceUnavailable
from holdfast.stores.crc64 import crc64
from holdfast.stores.disk import Disk, FileDisk

MAGIC: Final = b"dflfnc1\n"
RECORD_BYTES: Final = 32
FILE_BYTES: Final = 2 * RECORD_BYTES
FENCE_RANGE: Final = 2**20  # fences that one fsync pays for
UINT64_MAX: Final = 2**64 - 1

_BODY = Struct(">8sQQ")
_UINT64 = Struct(">Q")
_FILE_DISK: Final = FileDisk()


@dataclass(frozen=True, slots=True)
class Record:
    """One promise: no fence at or above `ceiling` has been given out."""

    sequence: int
    ceiling: int


def encode_record(sequence: int, ceiling: int) -> bytes:
    """Return the 32 bytes of one record."""
    assert 1 <= sequence <= UINT64_MAX
    assert 0 <= ceiling <= UINT64_MAX
    body = _BODY.pack(MAGIC, sequence, ceiling)
    return body + _UINT64.pack(crc64(body))


def decode_record(data: bytes) -> Record | None:
    """Return the record in `data`, or None if these bytes are not a whole and sound one."""
    if len(data) != RECORD_BYTES:
        return None
    magic, sequence, ceiling = _BODY.unpack_from(data)
    (crc,) = _UINT64.unpack_from(data, _BODY.size)
    if magic != MAGIC or sequence == 0 or crc != crc64(data[: _BODY.size]):
        return None
    return Record(sequence, ceiling)


@dataclass(frozen=True, slots=True)
class _Survey:
    """What a start learns from the file."""

    ceiling: int
    sequence: int  # the last one used; 0 before the first record
    slot: int | None  # the offset of the newest record; None before the first record
    damaged: bool = False  # one of the two slots holds no record any more


def _offset(sequence: int) -> int:
    """Records take turns, so that the newest one is never overwritten."""
    return (sequence - 1) % 2 * RECORD_BYTES


def _survey(data: bytes, fence_range: int) -> _Survey:
    """Read a file as a start finds it, or refuse it: guessing a ceiling could repeat a fence."""
    if len(data) == 0:
        return _Survey(ceiling=0, sequence=0, slot=None)
    if len(data) == len(MAGIC):
        # A bare number is the oldest form of the file; the signature alone is a record that was cut short.
        if data == MAGIC:
            raise FenceFileError("holds only the beginning of a record")
        return _Survey(ceiling=_UINT64.unpack(data)[0], sequence=0, slot=None)
    if len(data) not in (RECORD_BYTES, FILE_BYTES):
        size = f"{len(data)} bytes" if len(data) <= FILE_BYTES else f"more than {FILE_BYTES} bytes"
        raise FenceFileError(f"has {size}; a fence file has 0, 8, 32 or 64")
    return _survey_slots(data, fence_range)


def _survey_slots(data: bytes, fence_range: int) -> _Survey:
    """Find the newest sound record; one bad slot is what a torn write leaves behind, or a disk that forgets."""
    sound = [
        (record.sequence, slot, record.ceiling)
        for slot in range(0, len(data), RECORD_BYTES)
        if (record := decode_record(data[slot : slot + RECORD_BYTES]))
    ]
    if not sound:
        raise FenceFileError("holds no sound record")
    damaged = len(sound) * RECORD_BYTES < len(data)
    sequence, slot, _ = max(sound)
    if _offset(sequence) != slot:
        # Somebody moved the record by hand. Skip one number, so that the next record spares it all the same.
        sequence += 1
    # In a sound file the newest record has the highest ceiling; in a doctored one the higher is safer.
    ceiling = max(ceiling for _, _, ceiling in sound)
    if damaged:
        # The lost record may have been the newest, and fences may have been given out below its ceiling: one range
        # above this one, and above the numbers that a failing disk used up, for which there is a second range.
        ceiling += 2 * fence_range
    return _Survey(ceiling=ceiling, sequence=sequence, slot=slot, damaged=damaged)


def _first_writes(data: bytes, survey: _Survey, record: bytes) -> list[tuple[int, bytes]]:
    """Return the pieces with which a start adds `record`; each must be safe before the next is written."""
    if not data:
        return [(0, record)]
    if survey.slot is None:
        # The bare number gives way last: a cut leaves either all of it, or a file that nobody will accept.
        return [(len(MAGIC), record[len(MAGIC) :]), (0, record[: len(MAGIC)])]
    # The newest record may so far live in the kernel's memory only: its writer died before the fsync, or the
    # fsync failed. The older slot may be given up only when the newest one has surely reached the disk.
    newest = data[survey.slot : survey.slot + RECORD_BYTES]
    return [(survey.slot, newest), (_offset(survey.sequence + 1), record)]


class Journal:
    """An open and locked fence file."""

    __slots__ = ("_disk", "_fence_range", "_file", "_path", "_sequence", "ceiling", "damaged", "floor")

    def __init__(self, path: str, file: int, disk: Disk, fence_range: int) -> None:
        self._path = path
        self._file: int | None = file
        self._disk = disk
        self._fence_range = fence_range
        self._sequence = 0  # of the last record that is surely on disk
        self.floor = 0  # the first fence is floor + 1
        self.ceiling = 0  # fences below it may be given out
        self.damaged = False  # one of the records was no longer sound when the file was opened

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        clock_ns: int,
        disk: Disk = _FILE_DISK,
        fence_range: int = FENCE_RANGE,
    ) -> "Journal":
        """Lock the file and secure a first range of fences, above all that were ever given out under it."""
        name = os.fspath(path)
        try:
            file = disk.open(name)
        except BlockingIOError as error:
            raise FenceFileError(f"fence file {name}: another server holds its lock") from error
        except OSError as error:
            raise FenceFileError(f"fence file {name}: cannot be opened: {error}") from error
        journal = cls(name, file, disk, fence_range)
        try:
            journal._begin(file, clock_ns)
        except FenceFileError as error:
            journal.close()
            raise FenceFileError(f"fence file {name}: {error.detail}") from error
        except OSError as error:
            journal.close()
            raise FenceFileError(f"fence file {name}: cannot be used: {error}") from error
        return journal

    def _begin(self, file: int, clock_ns: int) -> None:
        data = self._disk.read(file, FILE_BYTES + 1)
        survey = _survey(data, self._fence_range)
        floor = max(survey.ceiling, clock_ns)
        ceiling = floor + self._fence_range
        sequence = survey.sequence + 1
        if ceiling > UINT64_MAX or sequence > UINT64_MAX:
            raise FenceFileError("its numbers are used up")
        for offset, piece in _first_writes(data, survey, encode_record(sequence, ceiling)):
            self._disk.write(file, offset, piece)
            self._disk.sync(file)
        self._disk.sync_directory(self._path)
        self._sequence, self.floor, self.ceiling = sequence, floor, ceiling
        self.damaged = survey.damaged

    def extend(self, fence: int) -> int:
        """Make room for `fence` and those after it; return the new ceiling once it is safe on disk."""
        if self._file is None:
            raise FenceUnavailable("the fence file is closed")
        ceiling = fence + self._fence_range
        sequence = self._sequence + 1
        if ceiling > UINT64_MAX or sequence > UINT64_MAX:
            raise FenceUnavailable("the numbers of the fence file are used up")
        assert ceiling > self.ceiling
        # If either call fails, the sequence stays: the next try writes this slot again, never the good one.
        self._disk.write(self._file, _offset(sequence), encode_record(sequence, ceiling))
        self._disk.sync(self._file)
        self._sequence, self.ceiling = sequence, ceiling
        return ceiling

    def close(self) -> None:
        """Give the lock back; closing twice is harmless."""
        if self._file is None:
            return
        file, self._file = self._file, None
        self._disk.close(file)
