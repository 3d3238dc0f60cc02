"""The threads that keep leases alive: one keeps the time for all locks of the process, one talks to each backend.

A backend that hangs delays neither the others nor the word that a lease is over. Who is refreshed when is said in
`keeper.py`.
"""

import atexit
import logging
import queue
import random
import threading
from collections.abc import Callable
from typing import Any, Final

from holdfast.client.clock import now_ns
from holdfast.client.process import on_fork
from holdfast.client.retry import SECOND
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.holding import Holding
from holdfast.leases.keeper import Book, Call, Keeper
from holdfast.leases.words import Hold
from holdfast.words import FOREVER

logger: Final = logging.getLogger("holdfast.leases")

# How long an exiting process may take to give back what it holds.
EXIT_S_MAX: Final = 2.0
# Nothing is overlooked for longer than this, whatever clocks do: while a machine sleeps, that of a queue stands still.
SLEEP_S_MAX: Final = 1.0


def ask(call: Call) -> list[bool]:
    """Do what a call says."""
    backend = call.book.backend
    answer: list[bool] = backend.refresh(call.holds, call.lease_us) if call.holdings else backend.release(call.holds)
    return answer


class Caller:
    """A thread that talks to a backend for one book."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="holdfast-lease-calls", daemon=True).start()

    def do(self, work: Callable[[], Any]) -> None:
        self._work.put(work)

    def end(self) -> None:
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


class Refresher:
    """Keeps the leases of a process, on a thread that is started when it is first needed."""

    def __init__(self, clock: Callable[[], int] = now_ns, chance: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._keeper = Keeper(chance)
        self._callers: dict[Book, Caller] = {}
        self._spare: list[Caller] = []  # a thread takes longer to begin than a lock is often held
        # Held for moments only. A finaliser may run in the middle of that, in the same thread, so it only ever posts.
        self._lock = threading.Lock()
        # May be put to by signal handlers and finalisers, wherever they interrupt.
        self._inbox: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._looks_at = 0  # when the thread looks at the clock again, if nobody wakes it
        self._was_idle = False
        self._over = False

    # --- for everybody ---

    def add(self, backend: Any, holding: Holding) -> None:
        """Look after a lease from now on."""
        with self._lock:
            book = self._book(backend, holding.lease.lease_ns)
            book.add(holding)
            self._start(book.first_due(holding))

    def remove(self, backend: Any, holding: Holding) -> None:
        """Look after it no longer."""
        with self._lock:
            book = self._keeper.find(backend, holding.lease.lease_ns)
            if book is not None:
                book.remove(holding)

    def leave(self, backend: Any, hold: Hold, lease_ns: int) -> None:
        """Give something back by and by."""
        with self._lock:
            self._book(backend, lease_ns).leave(hold, self._clock())
            self._start()

    def post(self, act: Callable[[], Any]) -> None:
        """Have something done soon by the thread; the only thing that a finaliser or a signal handler may ask for."""
        self._inbox.put(act)

    def start(self) -> None:
        """See to it that somebody does what is posted."""
        with self._lock:
            self._start()

    def wake(self) -> None:
        """Look at the clock again."""
        self.post(_nothing)

    def _start(self, due: int = 0) -> None:
        """See to it that the thread looks no later than something is due."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="holdfast-leases", daemon=True)
            self._thread.start()
        if due < self._looks_at:
            self.wake()

    def _book(self, backend: Any, lease_ns: int) -> Book:
        book = self._keeper.book(backend, lease_ns)
        if book not in self._callers:
            # Begun here and not when it is first needed: an interpreter that ends lets no thread begin.
            self._callers[book] = self._spare.pop() if self._spare else Caller()
        return book

    # --- the thread ---

    def _run(self) -> None:
        try:
            while not self._over:
                self._turn()
        except Exception:
            logger.critical("the refresher failed; nothing that is held is refreshed any more", exc_info=True)
            with self._lock:
                self._thread = None
                news = self._keeper.fail("the refresher of this process failed; please report it")
            _tell_all(news)

    def _turn(self) -> None:
        """Do what is due, tell of it, and wait for the next thing to do."""
        with self._lock:
            turn = self._keeper.turn(self._clock())
            for call in turn.calls:
                self._callers[call.book].do(lambda call=call: self._ask(call))  # type: ignore[misc]
            for book in self._callers.keys() - set(self._keeper.books):
                self._put_away(self._callers.pop(book))
            # Whoever takes and gives back all the time finds it awake.
            rests = self._keeper.idle and self._was_idle
            self._was_idle = self._keeper.idle
            self._looks_at = FOREVER if rests else min(turn.due, self._clock() + int(SLEEP_S_MAX * SECOND))
        _tell_all(turn.news)
        left_s = (self._looks_at - self._clock()) / SECOND
        try:
            act = self._inbox.get(timeout=None if rests else max(0.0, left_s))
        except queue.Empty:
            return
        _tell_all([act])

    def _put_away(self, caller: Caller) -> None:
        """Keep one for the next book."""
        if self._spare:
            caller.end()
        else:
            self._spare.append(caller)

    def _ask(self, call: Call) -> None:
        """Talk to a backend; this is the only place where the refresher waits for one."""
        try:
            ours = ask(call)
        except DatabaseUnavailable as error:
            self._failed(call, error)
        except Exception as error:
            # A mistake of ours or of the table never means that a lock is lost.
            logger.exception("a backend failed in a way that nobody expected")
            self._failed(call, error)
        else:
            with self._lock:
                call.book.answered(call, ours)
            self.wake()

    def _failed(self, call: Call, error: Exception) -> None:
        with self._lock:
            call.book.failed(call, error)
        self.wake()

    # --- the end ---

    def retire(self, seconds: float = EXIT_S_MAX) -> None:
        """Give back everything, within a bound; the process is about to end."""
        done = threading.Semaphore(0)
        count = 0
        with self._lock:
            for book in self._keeper.books:
                holds = book.take_all()
                if holds:
                    count += 1
                    self._callers[book].do(lambda book=book, holds=holds: _give_back(book, holds, done))  # type: ignore[misc]
        until = self._clock() + int(seconds * SECOND)
        for _ in range(count):
            if not done.acquire(timeout=max(0.0, (until - self._clock()) / SECOND)):
                logger.warning("not all locks could be given back in %g s; their leases run out", seconds)
                break

    def end(self) -> None:
        """Let go of all threads, for one that is not the refresher of its whole process."""
        with self._lock:
            self._over = True
            for caller in [*self._callers.values(), *self._spare]:
                caller.end()
        self.wake()
        if self._thread is not None:
            self._thread.join()


def _give_back(book: Book, holds: tuple[Hold, ...], done: threading.Semaphore) -> None:
    try:
        book.backend.release(holds)
    except Exception as error:  # noqa: BLE001  whatever it is, the process ends, and the leases run out
        logger.warning("could not give back %d locks at the end: %s", len(holds), error)
    finally:
        done.release()


def _nothing() -> None:
    pass


def _tell_all(news: list[Callable[[], Any]]) -> None:
    """Tell holders, each of them whatever becomes of the others; it is quick, by contract."""
    for tell in news:
        try:
            tell()
        except Exception:
            logger.exception("a holder could not be told of its lease")


_host: Refresher | None = None
_host_lock = threading.Lock()


def host() -> Refresher:
    """Give the refresher of this process."""
    global _host  # noqa: PLW0603  there is one for each process
    with _host_lock:
        if _host is None:
            _host = Refresher()
        return _host


def _after_fork() -> None:
    """Begin anew: the threads are not here, and whatever lock they had will never be opened."""
    global _host, _host_lock
    _host, _host_lock = None, threading.Lock()


def _at_exit() -> None:
    if _host is not None:
        _host.retire()


on_fork(_after_fork)
atexit.register(_at_exit)
