"""The main loop's sign of life: for the leases of this process, and for the watchdog of systemd.

Only the thread of the main loop gives it. How a message gets to systemd is in `notify.py`.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from holdfast.leases import beats
from holdfast.watchdog.notify import Notifier, in_one_line

LIMIT_VARIABLE: Final = "WATCHDOG_USEC"
PID_VARIABLE: Final = "WATCHDOG_PID"

SECOND_NS: Final = 1_000_000_000
# There is a message at most this often, and where the watchdog is impatient, three within its limit.
PET_INTERVAL_NS: Final = 10 * SECOND_NS
PETS_WITHIN_LIMIT: Final = 3

log = logging.getLogger("holdfast.watchdog")


class Watchdog:
    """What the main loop of a process calls. Where no watchdog is armed, leases hear of it all the same.

    The cluster locks of this process are refreshed only while the last `pet()` is younger than `beat_timeout` seconds;
    by default, than the limit that systemd has set, and without one they are refreshed in any case. A lock with a
    `beat_timeout` of its own goes by that. The clock is the one that systemd measures with: it never steps.
    """

    def __init__(
        self,
        *,
        beat_timeout: float | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        beating: beats.Beats = beats.process_beats,
    ) -> None:
        environ = os.environ if environ is None else environ
        self._notifier = Notifier(environ)
        self._limit_ns = limit_of(environ)
        # The limit is meant for the process that it was handed to, and not for what that one forks.
        self._pid = os.getpid()
        self._clock = clock
        self._beats: list[Callable[[], None]] = [beating.beat]
        self._petted_at: int | None = None
        self._status = ""
        if beat_timeout is None and self._limit_ns is not None:
            beat_timeout = self._limit_ns / SECOND_NS
        if beat_timeout is not None:
            beating.expect(beat_timeout)

    @property
    def limit_ns(self) -> int | None:
        """Tell after how much silence systemd ends this process; None: it does not."""
        return self._limit_ns if self._pid == os.getpid() else None

    def feeds(self, beat: Callable[[], None]) -> None:
        """Have something more called by each `pet()`; what raises there would end the main loop."""
        self._beats.append(beat)

    def pet(self) -> bool:
        """Show that the main loop goes on; say whether systemd was told.

        Call it as often as you like, from the thread of the main loop alone. From any other thread it does nothing: a
        worker that waits for a database must not hide that the main loop hangs.
        """
        if threading.current_thread() is not threading.main_thread():
            return False
        for beat in self._beats:
            beat()
        if self.limit_ns is None:
            return False
        now = self._clock()
        interval_ns = min(PET_INTERVAL_NS, self.limit_ns // PETS_WITHIN_LIMIT)
        if self._petted_at is not None and now - self._petted_at < interval_ns:
            return False
        # The loop does not wait here. What did not leave now is tried again by the next call.
        if not self._notifier.send("WATCHDOG=1", wait_s=0):
            return False
        self._petted_at = now
        return True

    def ready(self, status: str = "") -> bool:
        """Tell systemd that the service is up, and what it does now."""
        return self._notifier.send("READY=1", *self._new_status(status))

    def status(self, status: str) -> bool:
        """Tell whoever asks systemd what the service does now; what was told last is not told again."""
        news = self._new_status(status)
        return bool(news) and self._notifier.send(*news)

    def stopping(self, status: str = "") -> bool:
        """Tell systemd that the service is about to end."""
        return self._notifier.send("STOPPING=1", *self._new_status(status))

    def _new_status(self, status: str) -> list[str]:
        status = in_one_line(status)
        if not status or status == self._status:
            return []
        self._status = status
        return [f"STATUS={status}"]


def limit_of(environ: Mapping[str, str]) -> int | None:
    """Read how long systemd lets this process be silent, in nanoseconds; None where it was not meant."""
    limit, pid = environ.get(LIMIT_VARIABLE, ""), environ.get(PID_VARIABLE, "")
    if not limit or (pid and pid != str(os.getpid())):
        return None
    if not limit.isdecimal() or int(limit) == 0:
        log.warning("%s=%s is no length of time: there is no watchdog", LIMIT_VARIABLE, limit)
        return None
    return int(limit) * 1000
