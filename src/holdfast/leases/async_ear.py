"""A task that listens for bells while somebody waits for one, so that a waiter wakes at once.

Without it, or while the database is away, waiters simply wait for as long as they said.
"""

import asyncio
from contextlib import suppress

from holdfast.client.process import generation
from holdfast.errors import HoldfastError
from holdfast.leases.bells import Bells
from holdfast.leases.drivers.port import QUICK, AsyncListener, Driver
from holdfast.leases.ear import AGAIN_S, IDLE_S


class AsyncEar:
    """One for each backend whose database rings."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.bells = Bells()
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None
        self._task: asyncio.Task[None] | None = None

    async def wait(self, bell: str, seconds: float) -> None:
        """Wait until it rings, and no longer than that."""
        owner = (generation(), asyncio.get_running_loop())
        if self._owner != owner:
            self._owner, self._task, self.bells = owner, None, Bells()
        rung = asyncio.Event()
        if not self.bells.enter(bell, rung.set):
            return
        try:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._listen_on())
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await rung.wait()
        finally:
            self.bells.leave(bell, rung.set)

    async def close(self) -> None:
        """Stop listening; who waits is woken."""
        task, self._task = self._task, None
        if self._owner != (generation(), asyncio.get_running_loop()):
            return
        self.bells.ring_all()
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _listen_on(self) -> None:
        while True:
            # Whatever is wrong with the database, those who poll it are told.
            with suppress(HoldfastError):
                await self._listen()
            if not self.bells.awaited:
                return
            await asyncio.sleep(AGAIN_S)

    async def _listen(self) -> None:
        """Listen until nobody needs it, or the connection is over."""
        listener = await self._driver.listen_async(QUICK)
        try:
            self.bells.ring_all()
            await self._hear(listener)
        finally:
            await listener.close()

    async def _hear(self, listener: AsyncListener) -> None:
        hearing: asyncio.Task[list[str]] | None = None
        try:
            while True:
                hearing = hearing or asyncio.create_task(listener.heard())
                await asyncio.wait({hearing}, timeout=IDLE_S)
                if hearing.done():
                    heard, hearing = hearing.result(), None
                    for bell in heard:
                        self.bells.ring(bell)
                elif not self.bells.awaited:
                    return
        finally:
            if hearing is not None and not hearing.done():
                hearing.cancel()
                await asyncio.wait({hearing})
