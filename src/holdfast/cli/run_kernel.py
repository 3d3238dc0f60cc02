"""What `holdfast run` needs of Linux and Python does not offer: an alarm that counts sleep, and family ties.

What cannot be had, as in a container without /proc, is told by the answer; what then is not decided here.
"""

import ctypes
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

TFD_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
TFD_TIMER_ABSTIME = 1
SECOND = 1_000_000_000

PROC = Path("/proc")


_LIBC = ctypes.CDLL(None, use_errno=True)


def now_ns() -> int:
    """Tell the time on a clock that never steps back and that goes on while the machine sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _prctl(option: int, argument: int | bytes) -> bool:
    return bool(_LIBC.prctl(option, argument, 0, 0, 0) == 0)


def adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent ends, in the place of process 1."""
    return _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> bool:
    """Have the kernel send us this signal when our parent ends; survives an exec, but not one that gains rights."""
    return _prctl(PR_SET_PDEATHSIG, number)


def be_called(name: str) -> bool:
    """Show another name in process lists; the kernel keeps 15 bytes of it."""
    return _prctl(PR_SET_NAME, name.encode()[:15])


class Alarm:
    """A file descriptor that becomes readable at an instant of our clock, also when the machine slept until then."""

    def __init__(self) -> None:
        self._fd: int = _LIBC.timerfd_create(time.CLOCK_BOOTTIME, TFD_NONBLOCK_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no timer can be had")

    def fileno(self) -> int:
        """Tell what to wait for."""
        return self._fd

    def set(self, at_ns: int | None) -> None:
        """Ring at that instant; None is never."""
        # Zero means "off" to the kernel, and what is over has to ring.
        seconds, ns = divmod(0 if at_ns is None else max(1, at_ns), SECOND)
        times = struct.pack("@4l", 0, 0, seconds, ns)
        if _LIBC.timerfd_settime(self._fd, TFD_TIMER_ABSTIME, times, None):
            raise OSError(ctypes.get_errno(), "the timer cannot be set")

    def hush(self) -> None:
        """Take note that it rang."""
        with suppress(BlockingIOError):
            os.read(self._fd, 8)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


def children(pid: int) -> list[int]:
    """List the children of a process, dead ones that nobody has waited for included; empty where nobody can tell."""
    return _listed(pid) if lists_children() else [child for child, its in all_parents().items() if its == pid]


def _listed(pid: int) -> list[int]:
    found: list[int] = []
    # A process may end while we look at it, and then it has no children any more.
    with suppress(OSError):
        for thread in os.listdir(PROC / str(pid) / "task"):
            with suppress(OSError):
                found += map(int, (PROC / str(pid) / "task" / thread / "children").read_bytes().split())
    return found


def lists_children() -> bool:
    """Tell whether this kernel was built with the list of children."""
    return (PROC / "thread-self" / "children").exists()


def all_parents() -> dict[int, int]:
    """Look at all processes, and tell the parent of each."""
    found: dict[int, int] = {}
    with suppress(OSError):
        for name in filter(str.isdigit, os.listdir(PROC)):
            with suppress(OSError):
                found[int(name)] = int(_fields(name)[1])
    return found


def descendants(pid: int) -> list[int]:
    """List the children of a process, their children, and so on, parents first."""
    if lists_children():
        return _family(pid, _listed)
    parents = all_parents()
    return _family(pid, lambda parent: [child for child, its in parents.items() if its == parent])


def _family(pid: int, children_of: Callable[[int], list[int]]) -> list[int]:
    found = [pid]
    for one in found:
        found += [child for child in children_of(one) if child not in found]
    return found[1:]


def _fields(pid: str) -> list[bytes]:
    """Read what the kernel tells of a process, from its state on."""
    # The name of the program, in parentheses, may hold spaces and parentheses.
    return (PROC / pid / "stat").read_bytes().rpartition(b")")[2].split()


def is_dead(pid: int) -> bool:
    """Tell whether a process has ended, also one that nobody has waited for yet."""
    try:
        return _fields(str(pid))[0] in (b"Z", b"X")
    except OSError:
        return True
