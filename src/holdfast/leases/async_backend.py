"""A backend over a database, for asyncio.

What is asked is in the dialects, and how in the drivers; `backend.py` is the same for threads.
"""

import asyncio
import builtins
from collections.abc import Sequence
from contextlib import suppress

from holdfast.leases.async_ear import AsyncEar
from holdfast.leases.async_pool import AsyncPool
from holdfast.leases.backend import PREPARE_MAX
from holdfast.leases.drivers.port import PATIENT, QUICK, Driver, Times
from holdfast.leases.pool import CONNECTIONS_MAX
from holdfast.leases.postgres import bell_of
from holdfast.leases.steps import Clash, run_async
from holdfast.leases.words import Ask, Got, Hold, Row, Taken


class AsyncDatabaseBackend:
    """Leases in one database. Refreshing has a connection of its own, which nothing else can keep waiting."""

    def __init__(self, driver: Driver, *, connections_max: int = CONNECTIONS_MAX, quick: Times = QUICK) -> None:
        self._driver = driver
        self._pool = AsyncPool(driver, Times(), connections_max)
        self._refreshing = AsyncPool(driver, quick, 1)
        self._ear = AsyncEar(driver) if driver.rings else None
        self._resting: set[asyncio.Event] = set()

    @property
    def shown(self) -> str:
        """Name the database, without its password."""
        return self._driver.shown

    async def acquire(self, ask: Ask) -> Got | Taken:
        if self._ear is None:
            return await self._pool.run(lambda dialect: dialect.acquire(ask), again=True)
        bell = bell_of(ask.key)
        self._ear.bells.ask(bell)
        answer: Got | Taken | None = None
        try:
            answer = await self._pool.run(lambda dialect: dialect.acquire(ask), again=True)
            return answer
        finally:
            if not isinstance(answer, Taken):
                self._ear.bells.forget(bell)

    async def refresh(self, holds: Sequence[Hold], lease_us: int) -> list[bool]:
        return await self._refreshing.run(lambda dialect: dialect.refresh(holds, lease_us), again=True)

    async def release(self, holds: Sequence[Hold]) -> list[bool]:
        # Not asked again by itself: if the first one was heard, somebody else may have the lock by now, and an answer
        # to the second one would say no more than that.
        return await self._pool.run(lambda dialect: dialect.release(holds), again=False)

    async def list(self) -> Sequence[Row]:
        return await self._pool.run(lambda dialect: dialect.list(), again=True)

    async def look(self, key: bytes) -> Row | None:
        return await self._pool.run(lambda dialect: dialect.look(key), again=True)

    async def clear(self, holds: Sequence[Hold]) -> int:
        return await self._pool.run(lambda dialect: dialect.clear(holds), again=False)

    async def now(self) -> int:
        return await self._pool.run(lambda dialect: dialect.now(), again=True)

    async def wait(self, key: bytes, seconds: float) -> None:
        if self._ear is not None:
            await self._ear.wait(bell_of(key), seconds)
            return
        closed = asyncio.Event()
        self._resting.add(closed)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await closed.wait()
        finally:
            self._resting.discard(closed)

    async def close(self) -> None:
        """Let go of all connections, and wake who waits. Whoever asks again connects again."""
        await self._pool.close()
        await self._refreshing.close()
        if self._ear is not None:
            await self._ear.close()
        for closed in self._resting:
            closed.set()

    # --- the table ---

    async def prepare(self) -> builtins.list[str]:
        """Make the table, or bring it up to date; say what was done. What is held stays held."""
        connection = await self._driver.connect_async(PATIENT)
        try:
            for _ in range(PREPARE_MAX):
                try:
                    return await run_async(connection.execute, connection.dialect.prepare())
                except Clash:
                    continue  # somebody else prepares it just now, and each step may have been done before
            return await run_async(connection.execute, connection.dialect.prepare())
        finally:
            await connection.close()

    async def verify(self) -> None:
        """Raise BadTable unless the table is there, in this version, and rows are counted as they have to be."""
        await self._pool.run(lambda dialect: dialect.verify(), again=True)
