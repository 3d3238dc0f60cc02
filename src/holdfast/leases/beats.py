"""Signs of life from the work of this process: without them, its leases are refreshed no longer.

A main loop that hangs must not keep a lock for ever only because a thread beside it goes on. Whoever knows that the
loop goes on (a watchdog) calls `beat`, and `expect` says how long the silence may be.
"""

from collections.abc import Callable

from holdfast.client.clock import now_ns
from holdfast.client.process import on_fork
from holdfast.client.retry import SECOND
from holdfast.errors import BadRequest


class Beats:
    """The signs of life of one process."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._limit_ns: int | None = None
        self._last: int | None = None

    def beat(self) -> None:
        """The work of the whole process goes on."""
        self._last = self._clock()

    def expect(self, seconds: float | None) -> None:
        """Refresh locks that have no `beat_timeout` of their own only while the last beat is younger than this."""
        if seconds is not None and not seconds > 0:
            raise BadRequest(f"beats can be expected within more than 0 seconds, not {seconds}")
        self._limit_ns = None if seconds is None else int(seconds * SECOND)
        self.beat()

    def lately(self, now: int, limit_ns: int | None) -> bool:
        """Tell whether the process has given a sign of life within a lock's own limit, or within that of all."""
        if limit_ns is None:
            limit_ns = self._limit_ns
            if limit_ns is None:
                return True
        return self._last is not None and now - self._last <= limit_ns

    def reset(self) -> None:
        """Begin anew, with nothing expected."""
        self._limit_ns = self._last = None


process_beats = Beats(now_ns)
beat = process_beats.beat
expect = process_beats.expect

on_fork(process_beats.reset)
