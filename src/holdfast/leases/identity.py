"""Which process a lock belongs to, beyond doubt: a pid alone is used again, and means nothing in another container.

It is told of a process of this machine that it is dead only if that is certain; whatever cannot be known is alive.
"""

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from holdfast.client.process import generation

PROC: Final = Path("/proc")
# Some other machine, or one that does not tell: nothing can be proved about it.
UNKNOWN: Final = ""


def node_name() -> str:
    """Name this machine: HOLDFAST_NODE, or its host name."""
    return os.environ.get("HOLDFAST_NODE") or socket.gethostname()


def process_identity() -> str:
    """Say which process this is, as one word; empty where the system does not tell."""
    return _identity(generation())


@cache
def _identity(_generation: int) -> str:
    return identity_of(os.getpid())


def identity_of(pid: int, proc: Path = PROC) -> str:
    """Say which process has this pid: boot id, namespaces, pid, and when it was started."""
    try:
        if os.readlink(proc / "self") != str(os.getpid()):
            return UNKNOWN  # this is the list of processes of some other container
        seen = _stat(proc, pid)
        return f"{_here(proc)}.{pid}.{seen.started}"
    except (OSError, ValueError):
        return UNKNOWN


def is_dead(process: str, proc: Path = PROC) -> bool:
    """Tell whether a process of this machine, since it was started, is gone for certain."""
    here, _, rest = process.rpartition(".")[0].rpartition(".")
    started = process.rpartition(".")[2]
    if not (here and rest.isdecimal() and started.isdecimal()):
        return False
    try:
        if os.readlink(proc / "self") != str(os.getpid()) or _here(proc) != here:
            return False
        pid = int(rest)
        if not _exists(pid):
            return True
        seen = _stat(proc, pid)
    except (OSError, ValueError):
        return False
    return seen.started != int(started) or seen.is_gone


@dataclass(frozen=True, slots=True)
class _Stat:
    """What the kernel says of a process."""

    started: int  # in ticks since the machine was started
    is_gone: bool  # only its parent has not been told so far


def _stat(proc: Path, pid: int) -> _Stat:
    # What stands in parentheses is the program's name, and may hold anything.
    fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    # The first thread may have ended while others go on.
    return _Stat(started=int(fields[19]), is_gone=fields[0] in (b"Z", b"X") and int(fields[17]) <= 1)


def _here(proc: Path) -> str:
    """Name what pids and starting times mean something in: the kernel since its start, and two namespaces."""
    boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}.{_inode(proc, 'pid')}.{_inode(proc, 'time')}"


def _inode(proc: Path, kind: str) -> str:
    try:
        return os.readlink(proc / "self" / "ns" / kind).partition("[")[2].rstrip("]")
    except FileNotFoundError:
        return "0"  # an older kernel has only one


def _exists(pid: int) -> bool:
    """Ask the kernel itself: a process of another user may be hidden from what can be read."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
