"""Guards that survive: the highest fence in a file of its own, and files that are replaced only under it.

Every step leaves the disk such that a crash right after it harms nobody. No network file system is catered for here.
"""

import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import SupportsIndex

from holdfast.errors import BadRequest, FenceFileError, TimedOut, TooMany
from holdfast.fencing.guard import KEYS_MAX, StaleToken, as_key, as_token

PATIENCE_S = 10.0
_LOOK_AGAIN_S = 0.005

# A fence file has two slots, written in turns: a write that is torn can spoil the lower one only.
_SLOT_BYTES = 64
_SLOT = re.compile(rb"holdfast fence ([0-9]{20}) ([0-9a-f]{16}) {11}\n")
SUFFIX = ".fence"


class FenceFile:
    """The highest token seen, in a file that many processes may share."""

    def __init__(self, path: str | os.PathLike[str], *, patience: float = PATIENCE_S) -> None:
        self.path = Path(path)
        self._patience = patience

    def check(self, token: SupportsIndex) -> int:
        """Accept the token once it is on the disk, and give it as a number, or raise StaleToken."""
        with self.admit(token) as number:
            return number

    @contextmanager
    def admit(self, token: SupportsIndex, key: str = "") -> Iterator[int]:
        """Accept the token, and let nobody else in, in any process, until the block is left.

        Raises StaleToken, and TimedOut if somebody else was in there for longer than the patience.
        """
        number = as_token(token)
        descriptor = self._open()
        try:
            _lock(descriptor, self._patience, self.path)
            slots = self._read(descriptor)
            highest = max(slots)
            if number < highest:
                raise StaleToken(number, highest, key)
            if number > highest:
                os.pwrite(descriptor, _slot(number), slots.index(min(slots)) * _SLOT_BYTES)
            # Also where nothing was written: whoever wrote this number may have been killed before it was on the disk.
            os.fsync(descriptor)
            yield number
        finally:
            os.close(descriptor)  # which also unlocks it

    def highest(self) -> int:
        """Give the highest token seen, or 0."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            return max(self._read(descriptor))
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        while True:
            with suppress(FileNotFoundError):
                return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            self._make()

    def _make(self) -> None:
        """Make the file, which from its first moment on has two sound slots; if somebody else is quicker, fine."""
        draft = self.path.with_name(f"{self.path.name}.{os.urandom(8).hex()}.new")
        try:
            with open(draft, "xb") as file:
                file.write(_slot(0) * 2)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(draft, self.path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
        _sync_folder(self.path.parent)

    def _read(self, descriptor: int) -> list[int]:
        """Read both slots; an unsound one counts as the lowest, since it is the one that was being written."""
        data = os.pread(descriptor, 2 * _SLOT_BYTES + 1, 0)
        slots = [_token_in(data[:_SLOT_BYTES]), _token_in(data[_SLOT_BYTES:])]
        if max(slots) < 0:
            raise FenceFileError(f"{self.path} is no fence file, or it is damaged; no token can be checked against it")
        return slots


class FileGuard:
    """A guard for many keys whose marks survive: a folder with a fence file for each key."""

    def __init__(
        self, folder: str | os.PathLike[str], *, keys_max: int = KEYS_MAX, patience: float = PATIENCE_S
    ) -> None:
        if keys_max < 1:
            raise BadRequest(f"keys_max is at least 1, not {keys_max}")
        self.folder = Path(folder)
        self._keys_max = keys_max
        self._patience = patience
        with suppress(FileExistsError):
            self.folder.mkdir(mode=0o700)
            _sync_folder(self.folder.parent)

    def check(self, token: SupportsIndex, key: str = "") -> int:
        """Accept the token once it is on the disk, and give it as a number, or raise StaleToken."""
        with self.admit(token, key) as number:
            return number

    @contextmanager
    def admit(self, token: SupportsIndex, key: str = "") -> Iterator[int]:
        """Accept the token, and let nobody else in for this key, in any process, until the block is left."""
        number = as_token(token)
        file = self._file(key)
        if not file.path.exists():
            self._make_room()
        with file.admit(number, key):
            yield number

    def highest(self, key: str = "") -> int:
        """Give the highest token seen for the key, or 0."""
        return self._file(key).highest()

    def forget(self, key: str) -> None:
        """Forget a key that nobody will write to again; a stale token for it would be accepted."""
        self._file(key).path.unlink(missing_ok=True)
        _sync_folder(self.folder)

    def _file(self, key: str) -> FenceFile:
        # A key may be anything, and a file name may not.
        name = hashlib.sha256(as_key(key).encode(errors="surrogatepass")).hexdigest()
        return FenceFile(self.folder / (name + SUFFIX), patience=self._patience)

    def _make_room(self) -> None:
        count = sum(entry.name.endswith(SUFFIX) for entry in os.scandir(self.folder))
        if count >= self._keys_max:
            raise TooMany(f"{self.folder} has {count} keys, and keys_max is {self._keys_max}")


class FencedFile:
    """A file that is replaced as a whole, and only by whoever shows a token that is not stale.

    Its fence stands in a file beside it, with `.fence` behind the name.
    """

    def __init__(self, path: str | os.PathLike[str], *, patience: float = PATIENCE_S) -> None:
        self.path = Path(path)
        self.fence = FenceFile(self.path.with_name(self.path.name + SUFFIX), patience=patience)
        # One draft is enough, since only one can write at a time; the next writer clears away what a crash left.
        self._draft = self.path.with_name(f".{self.path.name}.draft")

    def write(self, data: bytes | str, token: SupportsIndex) -> None:
        """Replace the content, durably; readers see the old or the new one, never a part. Text is written as UTF-8."""
        content = data.encode() if isinstance(data, str) else data
        # The token is on the disk before the content: after a crash in between, only an older holder is refused.
        with self.fence.admit(token):
            with suppress(FileNotFoundError):
                os.unlink(self._draft)
            with open(self._draft, "xb") as draft:
                with suppress(FileNotFoundError):
                    os.fchmod(draft.fileno(), stat.S_IMODE(os.stat(self.path).st_mode))
                draft.write(content)
                draft.flush()
                os.fsync(draft.fileno())
            os.replace(self._draft, self.path)
            _sync_folder(self.path.parent)

    def read(self) -> bytes:
        return self.path.read_bytes()


def _slot(token: int) -> bytes:
    text = b"%020d" % token
    return b"holdfast fence %b %b%b\n" % (text, _sum_of(text), b" " * 11)


def _token_in(slot: bytes) -> int:
    """Read the token of a slot; -1 if it is not sound."""
    found = _SLOT.fullmatch(slot)
    return int(found[1]) if found is not None and _sum_of(found[1]) == found[2] else -1


def _sum_of(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:16].encode()


def _lock(descriptor: int, patience: float, path: Path) -> None:
    """Lock the open file. The kernel unlocks it when its process ends, however that happens."""
    limit = time.monotonic() + patience
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() >= limit:
            raise TimedOut(f"somebody else has been writing under {path} for {patience:g} s")
        time.sleep(_LOOK_AGAIN_S)


def _sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
