"""The thread that drives the keeper: one for each process, started when it is first needed, gone with the process.

A second thread calls what holders want to be told by. No lease is judged here.
"""

import atexit
import logging
import queue
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.client.clock import now_ns
from holdfast.client.keeper import Keeper
from holdfast.client.link import FOREVER
from holdfast.client.ports import Clock
from holdfast.client.process import on_fork
from holdfast.client.sockets import Sockets

logger: Final = logging.getLogger("holdfast.client")

SECOND: Final = 1_000_000_000
# How long an exiting process may take to give back what it holds.
EXIT_S_MAX: Final = 2.0
# Nothing is overlooked for longer than this, whatever clocks do: while a machine sleeps, the selector's stands still.
SLEEP_S_MAX: Final = 1.0


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
                thread = threading.Thread(target=self._run, name="holdfast-notices", daemon=True)
                thread.start()
                self._thread = thread
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

    def __init__(self, clock: Clock = now_ns) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._sockets = Sockets()
        self._keeper = Keeper(clock, random.random, self._sockets.open)
        self._thread: threading.Thread | None = None
        self._wakes_at = 0  # until when the thread sleeps, if nobody wakes it; 0: it does not sleep
        self._over = False

    # --- for everybody ---

    @contextmanager
    def keeper(self) -> Iterator[Keeper]:
        """Lend the keeper for the length of a `with` block, which must be short and wait for nothing.

        A signal or a lost lease may raise something in the borrower at any step. This is a generator so that the
        keeper comes back even then: one that nobody goes on with is closed.
        """
        with self._lock:
            try:
                yield self._keeper
            finally:
                if not self._over:
                    self._take_back()

    def _take_back(self) -> None:
        keeper = self._keeper
        if keeper.due < self._wakes_at or self._sockets.busy:
            self._sockets.wake()
        if self._thread is None and keeper.due != FOREVER:
            thread = threading.Thread(target=self._run, name="holdfast-keeper", daemon=True)
            thread.start()
            self._thread = thread

    # --- the thread ---

    def _run(self) -> None:
        try:
            while not self._over:
                self._turn()
        except Exception:
            logger.critical("the keeper failed; nothing that is held is renewed any more", exc_info=True)
            with self._lock:
                self._thread = None
                self._wakes_at = 0
                self._keeper.fail()
                notices = self._keeper.take_notices()
            _tell_all(notices)

    def _turn(self) -> None:
        """Do what is due, tell of it, and wait for the next thing to do."""
        with self._lock:
            now = self._clock()
            if now >= self._keeper.due:
                self._keeper.tick(now)
            self._sockets.settle(now)
            notices = self._keeper.take_notices()
            left = 0 if notices else self._keeper.due - self._clock()
            self._wakes_at = 0 if notices else self._keeper.due
        _tell_all(notices)  # they may borrow the keeper
        ready = self._sockets.wait(None if left > FOREVER // 2 else min(max(0.0, left / SECOND), SLEEP_S_MAX))
        with self._lock:
            self._wakes_at = 0
            self._sockets.serve(ready, self._clock())

    # --- the end ---

    def retire(self) -> None:
        """Give back everything, within a bound; the process is about to end."""
        left = threading.Semaphore(0)
        with self.keeper() as keeper:
            count = sum(steward.retire(left.release) for steward in keeper.stewards)
        until = self._clock() + int(EXIT_S_MAX * SECOND)
        for _ in range(count):
            if not left.acquire(timeout=max(0.0, (until - self._clock()) / SECOND)):
                break

    def abandon(self) -> None:
        """Be the keeper of a process that this one was forked from: whoever still borrows it is not in the way.

        Some other thread may have had it at that moment, and would have it for ever.
        """
        self._lock = threading.RLock()
        self._over = True
        self._sockets.close()

    def end(self) -> None:
        """Let go of everything at once, for one that is not the keeper of its whole process: that ends with it."""
        with self._lock:
            self._over = True
            self._sockets.wake()
        if self._thread is not None:
            self._thread.join()
        self._sockets.close()


def _tell_all(notices: list[Callable[[], None]]) -> None:
    """Tell holders, each of them whatever becomes of the others; it is quick, by contract."""
    for notice in notices:
        try:
            notice()
        except Exception:
            logger.exception("a holder could not be told of its lease")


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
    global _host, _host_lock, _teller
    old, _host, _host_lock, _teller = _host, None, threading.Lock(), Teller()
    if old is not None:
        old.abandon()


def _at_exit() -> None:
    if _host is not None:
        _host.retire()


on_fork(_after_fork)
atexit.register(_at_exit)
