"""A cluster lock for asyncio: a row in a database that only one process can have at a time.

Only what awaits lives here; `../cluster_lock.py` is its twin, and all that the two decide is in `claim.py`.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from types import TracebackType
from typing import Any, Final

from holdfast.errors import HoldfastError
from holdfast.leases.aio.refresher import backend_of, host
from holdfast.leases.claim import Patience, too_late
from holdfast.leases.errors import DatabaseUnavailable, LockNotHeld
from holdfast.leases.handle import Handle
from holdfast.leases.words import AsyncBackend, Got, Taken
from holdfast.leases.world import World, real_world

logger: Final = logging.getLogger("holdfast.leases")


@cache
def loop_world() -> World:
    """Give the world in which tasks wait."""
    return replace(real_world(), host=host)


class ClusterLock(Handle):
    """A lock by the name `objecttype/subtype/name`, for all processes that use the same database.

    `acquire` tries once; `async with` waits for up to `timeout` seconds. While it is held, a task refreshes its
    lease, and `lost_event` is set as soon as it cannot be relied on any more. `op` says to others what it is held for.
    """

    def __init__(
        self,
        objecttype: str,
        subtype: str | None = None,
        name: str | None = None,
        *,
        world: World | None = None,
        **options: Any,
    ) -> None:
        super().__init__(objecttype, subtype, name, world=world or loop_world(), new_event=asyncio.Event, **options)

    @property
    def lost_event(self) -> asyncio.Event:
        """Set when the lock is lost, and never when it is released. A loss and a new acquisition make a new one."""
        event: asyncio.Event = self._claim.event
        return event

    @property
    def _backend(self) -> AsyncBackend:
        backend: AsyncBackend = backend_of(self._given)
        return backend

    # --- acquiring ---

    async def acquire(self) -> bool:
        """Try once, without waiting; say whether we have it. Raises DatabaseUnavailable when nobody knows."""
        with self._asking() as backend:
            return await self._try(backend)

    async def __aenter__(self) -> "ClusterLock":
        with self._asking() as backend:
            try:
                await self._wait_for_it(backend)
            except BaseException:
                self._claim.give_up()
                raise
        return self

    @contextmanager
    def _asking(self) -> Iterator[AsyncBackend]:
        """Have the key for ourselves in this process."""
        backend = self._backend
        self._claim.begin(backend)
        try:
            yield backend
        finally:
            self._claim.finish()

    async def _wait_for_it(self, backend: AsyncBackend) -> None:
        patience = Patience(self._world, self.timeout)
        while True:
            error = None
            try:
                if await self._try(backend):
                    return
            except DatabaseUnavailable as unavailable:
                error = unavailable
                logger.info("will ask again for the lock %s: %s", self.key, error)
            pause_s = patience.pause_s(self._claim.taken if error is None else None)
            if pause_s is None:
                late = too_late(self._claim, self.timeout, error)
                logger.info("%s", late)
                raise late from error
            await self._pause(backend, pause_s, is_reachable=error is None)

    async def _pause(self, backend: AsyncBackend, seconds: float, *, is_reachable: bool) -> None:
        """Wait until it may be free: the database may ring when it is."""
        if is_reachable:
            try:
                await backend.wait(self._claim.wish.key, seconds)
            except DatabaseUnavailable as error:
                logger.info("cannot be woken when the lock %s is free: %s", self.key, error)
            else:
                return
        await self._world.sleep_async(seconds)

    async def _try(self, backend: AsyncBackend) -> bool:
        """Ask once."""
        claim = self._claim
        ask = claim.ask()
        sent_at = self._world.clock()
        try:
            answer = await backend.acquire(ask)
            if isinstance(answer, Taken):
                claim.was_taken(answer)
                return False
            if claim.is_doubtful:
                # It may have begun long ago.
                sent_at = self._world.clock()
                if not (await backend.refresh([claim.hold], ask.lease_us))[0]:
                    claim.give_up()
                    return False
            claim.got(Got(answer.fence), sent_at=sent_at)
        except DatabaseUnavailable:
            claim.unanswered()
            raise
        except HoldfastError:
            claim.refused()
            raise
        except BaseException:
            claim.give_up()
            raise
        return True

    # --- releasing ---

    async def release(self) -> bool:
        """Give it back. Raises LockNotHeld when the database has no record of our having it."""
        claim = self._claim
        if not claim.let_go():
            raise LockNotHeld(f"the lock {self.key} is not ours to release")
        try:
            ours = await self._give_back()
        except BaseException:
            claim.leave()  # the refresher goes on trying, and so may the caller
            raise
        if not claim.returned(ours=ours):
            error = self._not_ours(await self._row())
            logger.error("%s", error)
            raise error
        return True

    async def _give_back(self) -> bool:
        """Ask for it, and once more if no answer came."""
        claim = self._claim
        try:
            (ours,) = await claim.backend.release([claim.hold])
        except DatabaseUnavailable as error:
            logger.info("will give back the lock %s once more: %s", self.key, error)
            claim.was_perhaps_returned()
            (ours,) = await claim.backend.release([claim.hold])
        return bool(ours)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._claim.is_returned:
            return  # the body has released it
        loss = self._loss()
        try:
            await self.release()
        except LockNotHeld as not_held:
            # What the body has raised matters more; `release` has told the log.
            loss = loss or self._loss_by(not_held)
        except DatabaseUnavailable as unavailable:
            logger.warning("the lock %s will be given back later: %s", self.key, unavailable)
        except Exception:
            logger.exception("the lock %s could not be given back", self.key)
            if error is None:
                raise
        self._tell_at_end(loss, error)

    # --- asking about it ---

    async def get_holder(self) -> dict[str, Any]:
        """Say who has it, by what it has told of itself; {'holder': None} if nobody does."""
        row = await self._backend.look(self._claim.wish.key)
        return {"holder": None} if row is None or row.lapsed else dict(row.holder)

    async def is_acquired(self) -> bool:
        """Ask the database whether it is ours."""
        return self.held and self._is_ours(await self._backend.look(self._claim.wish.key))

    async def _row(self) -> Any:
        """Look who has it, to tell; without an answer, it is told without."""
        try:
            return await self._claim.backend.look(self._claim.wish.key)
        except HoldfastError:
            return None
