"""The heartbeat of a lease over HTTP: a worker that renews it, and the word that it is lost.

When to renew and when it is over is decided in `client/lock_beat.py`; here it is done.
"""

import logging
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Protocol

from holdfast.aio.lock_pool import Hand
from holdfast.aio.lock_tools import SECOND, Event, Worker
from holdfast.client.clock import now_ns
from holdfast.client.lock_api import Renewal
from holdfast.client.lock_beat import Beat, Next
from holdfast.errors import HoldfastError

logger = logging.getLogger("holdfast.client")

# How long `stop` waits for a worker that cannot be called back from what it is doing, such as looking up a name.
STOP_S_MAX = 1.0


class Renew(Protocol):
    """Asks the server once for more time."""

    async def __call__(self, hand: Hand) -> Renewal: ...


class Lost:
    """Whether a lease is lost: by the clock, so that it is true in time even where no worker has had its turn."""

    def __init__(self, beat: Beat) -> None:
        self._beat = beat
        self._told = Event()

    def is_set(self) -> bool:
        return self._beat.lost

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until the lease is lost, or the heartbeat stopped, or for so many seconds; tell whether it is lost."""
        if not self._beat.lost:
            await self._told.wait(seconds)
        return self._beat.lost

    def tell(self) -> None:
        self._told.set()


class Heartbeat:
    """Renews a lease until it is stopped, or the lease is lost or released."""

    def __init__(self, beat: Beat, renew: Renew, name: str, on_lost: Callable[[], object] | None) -> None:
        self.lost = Lost(beat)
        self._beat = beat
        self._renew = renew
        self._on_lost = on_lost
        self._hand = Hand()
        self._stop = Event()
        self._news = Event()
        self._worker = Worker(self._work, f"holdfast-heartbeat {name}")

    async def __aenter__(self) -> "Heartbeat":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def error(self) -> HoldfastError | None:
        """What went wrong last, and has not been made good since; a `LeaseLost` once the lease is lost."""
        if self._beat.lost:
            return self._beat.loss()
        return self._beat.error

    def raise_if_lost(self) -> None:
        """Raise `LeaseLost` if the lease is lost, by the clock of this very moment. No input or output."""
        if self._beat.lost:
            raise self._beat.loss()

    async def errors(self) -> AsyncIterator[HoldfastError]:
        """Give each error as it comes, to one taker; the last 16 are kept. It ends with the heartbeat."""
        while True:
            # The order matters: what comes after the look sets the event that is waited for.
            news = self._news
            while self._beat.errors:
                yield self._beat.errors.popleft()
            if self._beat.stopped:
                return
            await news.wait()

    async def stop(self) -> None:
        """Stop renewing; the lease goes on until its end. It may be called twice."""
        if self._beat.term.foreign:
            return  # the worker stayed behind in the process that this one was forked from
        self._beat.stopped = True
        self._stop.set()
        self._hand.break_off()
        await self._worker.join(STOP_S_MAX)
        self._tell()
        self.lost.tell()

    async def _work(self) -> None:
        try:
            await self._beat_on()
        finally:
            if self._beat.lost:
                self._beat.loss()
            self._beat.stopped = True
            self._tell()
            self.lost.tell()

    async def _beat_on(self) -> None:
        beat = self._beat
        while True:
            step, instant = beat.next(now_ns())
            if step is Next.END:
                break
            if step is Next.WAIT:
                await self._stop.wait(max(0.0, (instant - now_ns()) / SECOND))
                continue
            sent_at = now_ns()
            beat.asks(sent_at)
            try:
                renewal = await self._renew(self._hand)
            except HoldfastError as error:
                if not beat.stopped:
                    logger.warning("a lease could not be renewed yet: %s", error)
                    beat.failed(error, now_ns())
                    self._tell()
                continue
            errors = beat.error
            beat.answered(renewal, sent_at, now_ns())
            if beat.error is not errors:
                self._tell()
        if beat.lost:
            self._say_lost()

    def _say_lost(self) -> None:
        error = self._beat.loss()
        self.lost.tell()
        logger.error("a lease is lost: %s", error)
        if self._on_lost is not None:
            try:
                self._on_lost()
            except Exception:
                # It is the caller's own function; whatever it raises must not hide that the lease is lost.
                logger.exception("on_lost raised")

    def _tell(self) -> None:
        """Wake up who waits for errors."""
        news, self._news = self._news, Event()
        news.set()
