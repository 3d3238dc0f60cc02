"""One acquisition of a lock: the row that it is, the lease that it has, and who hears that it is lost.

Nothing here talks to a database or waits; `client/lease.py` judges the lease.
"""

from collections.abc import Callable
from typing import Any, Protocol

from holdfast.client.lease import Lease
from holdfast.leases.beats import Beats
from holdfast.leases.words import Hold


class LossEvent(Protocol):
    """What is set when a lock is lost: an event of threads, or one of asyncio."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...


class Holding:
    """What is held, or was. It knows nothing of the handle through which it is used, so that can be dropped."""

    __slots__ = ("_told", "beats", "event", "fence", "hold", "lease", "shown", "silent")

    def __init__(
        self,
        hold: Hold,
        *,
        shown: str,
        fence: int,
        lease: Lease,
        beats: Beats,
        event: LossEvent,
        told: Callable[[], Any],
    ) -> None:
        self.hold = hold
        self.shown = shown  # the key, for people
        self.fence = fence
        self.lease = lease
        self.beats = beats
        self.event = event
        self.silent = False  # when it was last to be refreshed, the work had given no sign of life for too long
        self._told = told

    @property
    def live(self) -> bool:
        """Tell whether it may be relied on at this moment."""
        return self.lease.held

    @property
    def reason(self) -> str:
        """Say why it is lost."""
        reason = self.lease.reason
        return f"{reason}, because the work has given no sign of life" if self.silent and reason else reason

    def deserves(self, now: int) -> bool:
        """Tell whether the work has given a sign of life lately enough for the lease to begin again."""
        limit_ns = self.lease.beat_ns
        if limit_ns is not None and self.lease.beats(now):
            return True
        return self.beats.lately(now, limit_ns)

    def lost(self) -> None:
        """Tell the holder that it is lost."""
        self.event.set()
        self._told()
