"""The doctor looks at where a store keeps its files: may we write there, is it a disk, does it last, is there room?

What is tried out is tried in a folder of its own, which is gone afterwards; the store itself is never opened.
"""

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli.doctor_findings import Finding, State, size
from holdfast.errors import StoreFailed
from holdfast.settings import parse_store
from holdfast.stores.sqlite_schema import prepare

PART = "file system"
MOUNTS = Path("/proc/self/mountinfo")

# Locks and memory that several processes share do not work reliably over these, and SQLite needs both.
NETWORK = ("9p", "afs", "ceph", "cifs", "glusterfs", "lustre", "ncpfs", "nfs", "smb", "virtiofs", "fuse.")
MEMORY = ("ramfs", "tmpfs")
LAYERS = ("aufs", "overlay")

FREE_BYTES_BAD = 64_000_000
FREE_BYTES_WARNING = 1_000_000_000
FREE_FILES_BAD = 16
TRIES = 5
SLOW_MS = 50.0
PREFIX = ".holdfast-doctor-"

Attempt = Callable[[Path], AbstractContextManager[Callable[[], None]]]


@dataclass(frozen=True, slots=True)
class Space:
    """What is left on a file system; `files` is None where there is no limit."""

    free: int
    files: int | None


def findings(store: str, mounts: Path = MOUNTS) -> list[Finding]:
    """Examine the place of a store."""
    choice = parse_store(store)
    path = choice.path or choice.fence_file
    if path is None:
        advice = "To have locks and fences outlive a restart of the server, use --store sqlite:FILE."
        return [Finding(PART, State.NOTE, "a store in memory keeps nothing, and needs no disk", advice)]
    file = Path(path).absolute()
    if trouble := _access(file):
        return [trouble]
    attempt = commit if choice.path is not None else flush
    return [
        kind(file.parent, type_of(file.parent, mounts)),
        room(space_of(file.parent)),
        try_out(file.parent, attempt),
    ]


def _access(file: Path) -> Finding | None:
    """Say what keeps us from writing."""
    folder = file.parent
    if not folder.is_dir():
        return Finding(PART, State.BAD, f"there is no folder {folder}", f"Make it: mkdir -p {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        advice = "Files beside the store come and go: its folder has to belong to the user that runs the server."
        return Finding(PART, State.BAD, f"we may not write in {folder}", advice)
    if file.exists() and not os.access(file, os.R_OK | os.W_OK):
        advice = f"Run the doctor as the user that runs the server, or give it the file: chown USER {file}"
        return Finding(PART, State.BAD, f"we may not write to {file}", advice)
    return None


def type_of(folder: Path, mounts: Path) -> str | None:
    """Find the type of the file system that a folder is on; None where the system does not tell."""
    if not mounts.exists():
        return None
    found, depth = None, -1
    for line in mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        before, _, behind = line.partition(" - ")
        point = Path(before.split(" ")[4].replace("\\040", " "))
        # What was mounted later lies on top.
        if folder.resolve().is_relative_to(point) and len(point.parts) >= depth:
            found, depth = behind.split(" ")[0], len(point.parts)
    return found


def kind(folder: Path, name: str | None) -> Finding:
    """Judge a type of file system."""
    if name is None:
        return Finding(PART, State.NOTE, f"the system does not tell what {folder} is on")
    if name.startswith(NETWORK):
        advice = "Put the store on a disk of this machine: over a network, locks of files cannot be relied on."
        return Finding(PART, State.BAD, f"{folder} is on a network or shared file system ({name})", advice)
    if name in MEMORY:
        advice = "Put the store on a disk if locks and fences should outlive a restart of the machine."
        return Finding(PART, State.WARNING, f"{folder} is in memory ({name}) and gone after a reboot", advice)
    if name in LAYERS:
        advice = "Put the store on a volume if locks and fences should outlive the container."
        return Finding(PART, State.WARNING, f"{folder} is in a container ({name}) and gone with it", advice)
    return Finding(PART, State.OK, f"{folder} is on a disk of this machine ({name})")


def space_of(folder: Path) -> Space:
    """Ask for what is left."""
    told = os.statvfs(folder)
    return Space(told.f_bavail * told.f_frsize, told.f_favail if told.f_files else None)


def room(space: Space) -> Finding:
    """Judge what is left."""
    free = size(space.free)
    if space.files is not None and space.files < FREE_FILES_BAD:
        return Finding(PART, State.BAD, f"only {space.files} more files can be made", "Delete files that nobody needs.")
    if space.free < FREE_BYTES_BAD:
        advice = "Make room now: a store that cannot write refuses every request."
        return Finding(PART, State.BAD, f"only {free} are free", advice)
    if space.free < FREE_BYTES_WARNING:
        return Finding(PART, State.WARNING, f"only {free} are free", "Make room before the store cannot write.")
    return Finding(PART, State.OK, f"{free} are free")


def try_out(folder: Path, attempt: Attempt) -> Finding:
    """Write something so that it lasts, a few times, and judge how long that takes."""
    try:
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=folder) as place, attempt(Path(place)) as act:
            times = timed(act)
    except (OSError, sqlite3.Error, StoreFailed) as error:
        advice = "A store would fail in the same way: look for errors of the disk in the log of the kernel (dmesg)."
        return Finding(PART, State.BAD, f"nothing can be written there so that it lasts: {error}", advice)
    return pace(sorted(times)[len(times) // 2])


def pace(took_ms: float) -> Finding:
    """Judge how long it takes to write."""
    if took_ms >= SLOW_MS:
        advice = "Every answer waits for that, though many share it: put the store on a quicker disk."
        return Finding(PART, State.WARNING, f"a write that lasts (fsync) takes {took_ms:.0f} ms", advice)
    return Finding(PART, State.OK, f"a write that lasts (fsync) takes {took_ms:.1f} ms")


def timed(act: Callable[[], None]) -> list[float]:
    """Do it a few times; answers how many milliseconds each took."""
    times = []
    for _ in range(TRIES):
        began = time.perf_counter()
        act()
        times.append((time.perf_counter() - began) * 1000)
    return times


@contextmanager
def commit(place: Path) -> Iterator[Callable[[], None]]:
    """Do what a store in SQLite does: a commit to a write-ahead log that is flushed."""
    with closing(sqlite3.connect(place / "trial.db", isolation_level=None)) as connection:
        prepare(connection)

        def act() -> None:
            connection.execute("UPDATE holdfast_meta SET value = value + 1")

        yield act


@contextmanager
def flush(place: Path) -> Iterator[Callable[[], None]]:
    """Do what a file of fences needs: a write that is flushed."""
    with (place / "trial").open("wb", buffering=0) as file:

        def act() -> None:
            file.write(bytes(64))
            os.fsync(file.fileno())

        yield act
