"""The thread that drives the keeper: one for each process, started when it is first needed, gone with the process.

A second thread tells holders, so that one who takes long over the news delays no renewal. No lease is judged here.
"""

import atexit
import logging
import queue
import random
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final

from holdfast.client.clock import now_ns
from holdfast.client.keeper import Keeper
from holdfast.client.link import FOREVER
from holdfast.client.process import on_fork
from holdfast.client.sockets import Sockets

logger: Final = logging.getLogger("holdfast.client")

SECOND: Final = 1_000_000_000
# How long an exiting process may take to give back what it holds.
EXIT_S_MAX: Final = 2.0
# Nothing is overlooked for longer than this, whatever clocks do.
SLEEP_S_MAX: Final = 3600.0


class KeeperThread:
    """Lends the keeper to one thread at a time, and works with it when nobody else does."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sockets = Sockets()
        self._keeper = Keeper(now_ns, random.random, self._sockets.open)
        self._thread: threading.Thread | None = None
        self._teller: threading.Thread | None = None
        self._news: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._wakes_at = 0  # until when the thread sleeps, if nobody wakes it; 0: it does not sleep
        self._stopping = False

    # --- for everybody ---

    def keeper(self) -> "KeeperThread":
        """Lend the keeper for the length of a `with` block, which must be short and wait for nothing."""
        return self

    def __enter__(self) -> Keeper:
        self._lock.acquire()
        return self._keeper

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        keeper = self._keeper
        if keeper.due < self._wakes_at or self._sockets.busy:
            self._sockets.wake()
        if self._thread is None and keeper.due != FOREVER:
            self._start()
        self._lock.release()

    def _start(self) -> None:
        if not self._stopping:
            self._thread = threading.Thread(target=self._run, name="holdfast-keeper", daemon=True)
            self._thread.start()

    # --- the thread ---

    def _run(self) -> None:
        while not self._stopping:
            with self._lock:
                now = now_ns()
                if now >= self._keeper.due:
                    self._keeper.tick(now)
                self._sockets.settle(now)
                self._pass_on(self._keeper.take_notices())
                left = self._keeper.due - now_ns()
                self._wakes_at = self._keeper.due
            ready = self._sockets.wait(None if left > FOREVER // 2 else min(max(0.0, left / SECOND), SLEEP_S_MAX))
            with self._lock:
                self._wakes_at = 0
                self._sockets.serve(ready, now_ns())

    def _pass_on(self, notices: list[Callable[[], None]]) -> None:
        if notices and self._teller is None:
            self._teller = threading.Thread(target=self._tell, name="holdfast-notices", daemon=True)
            self._teller.start()
        for notice in notices:
            self._news.put(notice)

    def _tell(self) -> None:
        while (notice := self._news.get()) is not None:
            try:
                notice()
            except Exception:
                logger.exception("a function that was to be told of a lease failed")

    # --- the end ---

    def retire(self) -> None:
        """Give back everything, within a bound; the process is about to end."""
        left = threading.Semaphore(0)
        with self as keeper:
            count = sum(steward.retire(left.release) for steward in keeper.stewards)
        until = now_ns() + int(EXIT_S_MAX * SECOND)
        for _ in range(count):
            if not left.acquire(timeout=max(0.0, (until - now_ns()) / SECOND)):
                break

    def abandon(self) -> None:
        """Forget the connections of a process that this one was forked from."""
        self._sockets.close()


_host: KeeperThread | None = None
_host_lock = threading.Lock()


def host() -> KeeperThread:
    """Give the keeper of this process."""
    global _host  # noqa: PLW0603  there is one for each process
    with _host_lock:
        if _host is None:
            _host = KeeperThread()
        return _host


def _after_fork() -> None:
    """Begin anew: the thread is not here, and whatever lock it had will never be opened."""
    global _host, _host_lock
    old, _host, _host_lock = _host, None, threading.Lock()
    if old is not None:
        old.abandon()


def _at_exit() -> None:
    if _host is not None:
        _host.retire()


on_fork(_after_fork)
atexit.register(_at_exit)
