"""Ending in order: a signal asks for it, and the main loop leaves what it is at, releases its locks and ends.

A handler here notes the wish and does nothing else. It releases nothing: what a lock protects may be half done.
"""

import asyncio
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any, Final, Protocol

from holdfast.errors import BadRequest
from holdfast.watchdog.petting import Watchdog

# Who idles looks up this often: for a wish to end, for a lock that was lost, and to show that the loop goes on.
SLICE_S: Final = 0.2


class Event(Protocol):
    """What can be found to have happened, such as the `lost_event` of a lock."""

    def is_set(self) -> bool: ...


class Stop:
    """Whether this process is to end. As a context it listens to signals; the second of them acts as it always did.

    With `within`, the kernel kills the process (SIGALRM) unless the block is left so many seconds after the first
    signal. That works even where no line of Python is run any more; under systemd, TimeoutStopSec does the same.
    """

    def __init__(
        self,
        watchdog: Watchdog | None = None,
        *,
        signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
        within: float | None = None,
    ) -> None:
        if within is not None and within <= 0:
            raise BadRequest(f"to end within {within:g} s, there has to be some time")
        self.asked = False
        self.signal: signal.Signals | None = None
        self._watchdog = Watchdog() if watchdog is None else watchdog
        self._signals = tuple(signals)
        self._within_s = within
        self._before: dict[signal.Signals, Any] = {}
        self._alarmed = False

    def __enter__(self) -> "Stop":
        for number in self._signals:
            # None stands for a handler that is not Python's, and cannot be put back.
            self._before[number] = signal.signal(number, self._note) or signal.SIG_DFL
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._put_back()
        if self._alarmed:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def ask(self) -> None:
        """Wish for the end, without a signal."""
        self.asked = True

    def _note(self, number: int, _frame: FrameType | None) -> None:
        # No lock may be taken here, not even that of an Event: the main loop may be inside of it.
        self.asked = True
        self.signal = signal.Signals(number)
        self._put_back()
        if self._within_s is not None and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
            self._alarmed = True
            signal.setitimer(signal.ITIMER_REAL, self._within_s)

    def _put_back(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    # --- for the main loop ---

    def idle(self, seconds: float, *events: Event) -> bool:
        """Rest, and go on showing life; say whether to go on.

        False: this process is to end, or one of the events has happened; then the rest is cut short.
        """
        for rest_s in self._rests(seconds, events):
            time.sleep(rest_s)
        return self._goes_on(events)

    async def idle_async(self, seconds: float, *events: Event) -> bool:
        """The same for asyncio."""
        for rest_s in self._rests(seconds, events):
            await asyncio.sleep(rest_s)
        return self._goes_on(events)

    def _rests(self, seconds: float, events: Sequence[Event]) -> Iterator[float]:
        """Cut a rest into slices, and show life before each."""
        over = time.monotonic() + seconds
        while True:
            self._watchdog.pet()
            left_s = over - time.monotonic()
            if left_s <= 0 or not self._goes_on(events):
                return
            yield min(left_s, SLICE_S)

    def _goes_on(self, events: Sequence[Event]) -> bool:
        return not (self.asked or any(event.is_set() for event in events))
