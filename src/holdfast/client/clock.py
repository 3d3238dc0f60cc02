"""The clock by which leases are judged on this side: it never steps, and it goes on while the machine sleeps.

Nothing else about time lives here; what a deadline is, `lease.py` says.
"""

import time
from collections.abc import Callable


def _boot_time_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def best_clock() -> Callable[[], int]:
    """Choose the clock that counts suspend where the system has one, and the monotonic one elsewhere."""
    return _boot_time_ns if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns


now_ns = best_clock()
