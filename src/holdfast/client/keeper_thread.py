"""The thread that drives the keeper: one for each process, started when it is first needed, gone with the process.

A second thread calls what holders want to be told by. No lease is judged here.
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


class Teller:
    """A thread that calls what callers want to be told by, so that one who takes long delays no renewal."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._news: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._lock = threading.Lock()

    def tell(self, news: Callable[[], object]) -> None:
        """Have a function called soon."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdfast-notices", daemon=True)
                self._thread.start()
        self._news.put(news)

    def _run(self) -> None:
        while True:
            news = self._news.get()
            try:
                news()
            except Exception:
                logger.exception("a function that was to be told of a lease failed")


class KeeperThread:
    """Lends the keeper to one thread at a time, and works with it when nobody else does."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sockets = Sockets()
        self._keeper = Keeper(now_ns, random.random, self._sockets.open)
        self._thread: threading.Thread | None = None
        self._wakes_at = 0  # until when the thread sleeps, if nobody wakes it; 0: it does not sleep

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
        self._thread = threading.Thread(target=self._run, name="holdfast-keeper", daemon=True)
        self._thread.start()

    # --- the thread ---

    def _run(self) -> None:
        while True:
            with self._lock:
                now = now_ns()
                if now >= self._keeper.due:
                    self._keeper.tick(now)
                self._sockets.settle(now)
                notices = self._keeper.take_notices()
                left = 0 if notices else self._keeper.due - now_ns()
                self._wakes_at = 0 if notices else self._keeper.due
            for notice in notices:
                notice()  # quick, by contract; it may borrow the keeper
            ready = self._sockets.wait(None if left > FOREVER // 2 else min(max(0.0, left / SECOND), SLEEP_S_MAX))
            with self._lock:
                self._wakes_at = 0
                self._sockets.serve(ready, now_ns())

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
_teller = Teller()
_host_lock = threading.Lock()


def host() -> KeeperThread:
    """Give the keeper of this process."""
    global _host  # noqa: PLW0603  there is one for each process
    with _host_lock:
        if _host is None:
            _host = KeeperThread()
        return _host


def tell(news: Callable[[], object]) -> None:
    """Have a function called soon, in a thread where it may take its time."""
    _teller.tell(news)


def _after_fork() -> None:
    """Begin anew: the threads are not here, and whatever lock they had will never be opened."""
    global _host, _host_lock, _teller  # noqa: PLW0603
    old, _host, _host_lock, _teller = _host, None, threading.Lock(), Teller()
    if old is not None:
        old.abandon()


def _at_exit() -> None:
    if _host is not None:
        _host.retire()


on_fork(_after_fork)
atexit.register(_at_exit)
