"""The task that keeps leases alive in an event loop; each call to a backend is a task of its own.

It lives as long as something is held, and gives back what is left when the loop ends. A loop that hangs refreshes
nothing, as nothing works in it either. Who is refreshed when, `holdfast/leases/keeper.py` says.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from holdfast.client.clock import now_ns
from holdfast.client.retry import SECOND
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.holding import Holding
from holdfast.leases.keeper import Call, Keeper
from holdfast.leases.refresher import EXIT_S_MAX, SLEEP_S_MAX
from holdfast.leases.sharing import in_loop, place_of
from holdfast.leases.words import Hold

logger: Final = logging.getLogger("holdfast.leases")


class LoopRefresher:
    """Keeps the leases of an event loop."""

    def __init__(self, clock: Callable[[], int] = now_ns, chance: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._keeper = Keeper(chance)
        self._inbox: deque[Callable[[], Any]] = deque()  # finalisers append to it, in whatever thread they run
        self._awake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._owned: list[Any] = []  # backends to be closed when the loop ends

    def own(self, backend: Any) -> None:
        """Close a backend when the loop ends."""
        self._owned.append(backend)
        self._start()

    def add(self, backend: Any, holding: Holding) -> None:
        """Look after a lease from now on."""
        self._keeper.book(backend, holding.lease.lease_ns).add(holding)
        self._start()

    def remove(self, backend: Any, holding: Holding) -> None:
        """Look after it no longer."""
        book = self._keeper.find(backend, holding.lease.lease_ns)
        if book is not None:
            book.remove(holding)
            self._awake.set()

    def leave(self, backend: Any, hold: Hold, lease_ns: int) -> None:
        """Give something back by and by."""
        self._keeper.book(backend, lease_ns).leave(hold, self._clock())
        self._start()

    def post(self, act: Callable[[], Any]) -> None:
        """Have something done soon; a finaliser may ask for this and for nothing else."""
        self._inbox.append(act)

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="holdfast-leases")
            self._task.add_done_callback(self._stopped)
        self._awake.set()

    # --- the task ---

    async def _run(self) -> None:
        try:
            while await self._turn():
                pass
        except asyncio.CancelledError:
            await self._end()
            raise
        except Exception:
            logger.critical("the refresher failed; nothing that is held is refreshed any more", exc_info=True)
            _tell_all(self._keeper.fail("the refresher of this event loop failed; please report it"))

    def _stopped(self, _task: asyncio.Task[None]) -> None:
        """Whatever it was that ended it, perhaps before it began: what is held still is not refreshed any more."""
        _tell_all(self._keeper.fail("the task that refreshes it was cancelled"))

    async def _turn(self) -> bool:
        """Do what is due, tell of it, and wait for the next thing to do; say whether there will be any."""
        self._awake.clear()
        while self._inbox:
            _tell_all([self._inbox.popleft()])
        turn = self._keeper.turn(self._clock())
        for call in turn.calls:
            task = asyncio.get_running_loop().create_task(self._ask(call), name="holdfast-lease-calls")
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
        _tell_all(turn.news)
        if self._keeper.idle and not self._owned:
            return False
        left_s = min(max(0.0, (turn.due - self._clock()) / SECOND), SLEEP_S_MAX)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._awake.wait(), None if self._keeper.idle else left_s)
        return True

    async def _ask(self, call: Call) -> None:
        backend = call.book.backend
        try:
            if call.holdings:
                ours = await backend.refresh(call.holds, call.lease_us)
            else:
                ours = await backend.release(call.holds)
        except DatabaseUnavailable as error:
            call.book.failed(call, error)
        except asyncio.CancelledError as error:
            call.book.failed(call, error)
            raise
        except Exception as error:
            # A mistake of ours or of the table never means that a lock is lost.
            logger.exception("a backend failed in a way that nobody expected")
            call.book.failed(call, error)
        else:
            call.book.answered(call, ours)
        self._awake.set()

    # --- the end ---

    async def _end(self) -> None:
        """The loop ends: let all others end first, as they may rely on what they have; then give back what is left."""
        mine = {asyncio.current_task(), *self._calls}
        others = asyncio.all_tasks() - mine
        if others:
            await asyncio.wait(others, timeout=EXIT_S_MAX)
        while self._inbox:
            _tell_all([self._inbox.popleft()])
        if any(not task.done() for task in others):
            # They go on without us, so they must not believe that anything is refreshed.
            _tell_all(self._keeper.fail("the task that refreshes it was cancelled"))
        giving = [(book.backend, book.take_all()) for book in self._keeper.books]
        work = [asyncio.ensure_future(backend.release(holds)) for backend, holds in giving if holds]
        if work:
            done, late = await asyncio.wait(work, timeout=EXIT_S_MAX)
            for task in late:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            if late or any(task.exception() for task in done):
                logger.warning("not all locks could be given back at the end; their leases run out")
        owned, self._owned = self._owned, []
        for backend in owned:
            await backend.close()


def _tell_all(news: list[Callable[[], Any]]) -> None:
    """Tell holders, each of them whatever becomes of the others; it is quick, by contract."""
    for tell in news:
        try:
            tell()
        except Exception:
            logger.exception("a holder could not be told of its lease")


def host() -> LoopRefresher:
    """Give the refresher of the running event loop."""
    refresher: LoopRefresher = in_loop(LoopRefresher, LoopRefresher)
    return refresher


def backend_of(given: Any) -> Any:
    """Give the backend of a URL or of an engine in the running event loop; one that is a backend is taken as it is."""
    if hasattr(given, "acquire"):
        return given
    return in_loop(("backend", place_of(given)), lambda: _opened(given))


def _opened(given: Any) -> Any:
    from holdfast.leases.opening import open_async_backend

    backend = open_async_backend(given)
    host().own(backend)
    return backend
