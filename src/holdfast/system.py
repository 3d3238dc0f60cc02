"""The machine's own clock and dice: the only places where real time and real chance enter.

Everything else is handed one of these, or a fake.
"""

import os
import time
from typing import Final

from holdfast.ports import Clock

_monotonic_ns: Final = time.monotonic_ns


class SystemClock:
    """The wall clock as it was at the start, carried on by the monotonic clock, so that it never steps."""

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        return _monotonic_ns() + self._offset


def not_before(clock: Clock, floor: int) -> Clock:
    """Give a clock that shows `floor` now where the one given shows less, and goes on with it from there."""
    ahead = floor - clock()
    if ahead <= 0:
        return clock
    return lambda: clock() + ahead


class SystemDice:
    """The kernel's random bytes."""

    __slots__ = ()

    def roll(self, count: int) -> bytes:
        return os.urandom(count)
