"""The signals of `holdfast run`: an interruption while it waits for the lock, and messages while its command runs.

Whether a signal is passed on, and to whom, is not decided here.
"""

import os
import signal
import threading
from collections.abc import Iterable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
TAKEN = (*FORWARDED, signal.SIGTSTP)
# What ends a program that does not say otherwise, of those that we take.
ENDING = frozenset(FORWARDED) - {signal.SIGWINCH}


class Interrupted(BaseException):
    """A signal came that ends us; no handler of errors on the way may mistake it for one."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class SignalBox:
    """Takes our signals for as long as its block lasts, except those that whoever started us wants ignored."""

    def __init__(self, ignored: Iterable[int]) -> None:
        self._numbers = [number for number in TAKEN if number not in set(ignored)]
        self._before: dict[int, Any] = {}
        self._kept: list[int] = []
        self._interrupts = True
        self._open = threading.Lock()
        self._reader, self._writer = os.pipe()
        for end in (self._reader, self._writer):
            os.set_blocking(end, False)

    def __enter__(self) -> "SignalBox":
        for number in self._numbers:
            self._before[number] = signal.signal(number, self._came)
        # We give the terminal away and take it back from the background, and speak from there.
        self._before[signal.SIGTTOU] = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        with self._open:
            os.close(self._reader)
            os.close(self._writer)
            self._writer = -1

    def _came(self, number: int, _frame: FrameType | None) -> None:
        if not self._interrupts:
            self._kept.append(number)
        elif number == signal.SIGTSTP:
            stop_ourselves()
        elif number in ENDING:
            # A second one must not interrupt the tidying up.
            self._interrupts = False
            raise Interrupted(number)

    def keep(self) -> None:
        """From now on signals are messages."""
        self._interrupts = False

    def interrupt(self) -> None:
        """From now on a signal that ends us raises Interrupted; one that has been kept does so at once."""
        self._interrupts = True
        for number in self.taken():
            self._came(number, None)

    def fileno(self) -> int:
        """Tell what to wait for."""
        return self._reader

    def wake(self) -> None:
        """Have whoever waits for signals look around, as if one had come; any thread may do so, and at any time."""
        with self._open, suppress(BlockingIOError):
            if self._writer >= 0:
                os.write(self._writer, b"\0")

    def taken(self) -> list[int]:
        """Empty the box."""
        with suppress(BlockingIOError):
            os.read(self._reader, 4096)
        found, self._kept = self._kept, []
        return found


def stop_ourselves() -> None:
    """Stop as Ctrl-Z stops a program, and return when somebody lets us go on."""
    before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, before)


def die_of(number: int, *, with_our_group: bool = False) -> None:
    """End by the signal itself, so that a shell script that runs us knows that it was meant as well."""
    import resource

    # The core of the command may be of use, ours is not.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(number, signal.SIG_DFL)
    os.kill(0 if with_our_group else os.getpid(), number)
