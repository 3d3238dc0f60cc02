"""The few things that the fence journal asks of a disk, and the disk that asks the kernel for them.

Nothing here knows what is written: layouts, checksums and rules live in `journal`, so that a simulator can
put a disk of its own below them.
"""

import errno
import os
from typing import Protocol


class Disk(Protocol):
    """Keep one small file; every refusal is an OSError."""

    def open(self, path: str) -> int:
        """Open for reading and writing, create if missing, and lock.

        Raise BlockingIOError at once if somebody else holds the lock.
        """
        ...

    def read(self, file: int, bytes_max: int) -> bytes:
        """Return what the file holds, from its start, but never more than `bytes_max`."""
        ...

    def write(self, file: int, offset: int, data: bytes) -> None:
        """Write all of `data`; after a failure any part of it may have been written."""
        ...

    def sync(self, file: int) -> None:
        """Return once everything written to the file would survive a power cut."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return once the name of the file at `path` would survive a power cut."""
        ...

    def close(self, file: int) -> None:
        """Close the file, which also gives its lock back."""
        ...


class FileDisk:
    """The real one: files of the kernel, under `flock`."""

    __slots__ = ()

    def open(self, path: str) -> int:
        try:
            import fcntl  # Some systems have none; they can run Holdfast, but not with a fence file.
        except ImportError as error:
            raise OSError(errno.ENOTSUP, "this system has no flock") from error
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise
        return file

    def read(self, file: int, bytes_max: int) -> bytes:
        # Files this small come whole: the kernel cuts a read of a regular file short only at its end.
        return os.pread(file, bytes_max, 0)

    def write(self, file: int, offset: int, data: bytes) -> None:
        # A nearly full disk takes a part and says so; asking for the rest brings its error to light.
        while data:
            written = os.pwrite(file, data, offset)
            offset += written
            data = data[written:]

    def sync(self, file: int) -> None:
        os.fsync(file)

    def sync_directory(self, path: str) -> None:
        # The path may be a symbolic link; what must last is the name in the directory that holds the file.
        directory = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def close(self, file: int) -> None:
        os.close(file)
