"""The connections of a backend for asyncio: which to take, which to trust, what to do when one is over.

What is asked on them is somebody else's business; `pool.py` is the same for threads.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from holdfast.client.process import generation
from holdfast.errors import HoldfastError
from holdfast.leases.dialect import Dialect
from holdfast.leases.drivers.port import AsyncConnection, Driver, GivenUp, Times, patiently_async
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.pool import CONNECTIONS_MAX, DOUBT_S, PING, REST_S_MAX
from holdfast.leases.steps import Steps, run_async

T = TypeVar("T")

# Connections of a parent, or of a loop that is over.
_left_behind: list[object] = []


class AsyncPool:
    """Connections with the same times, for the loop that uses them."""

    def __init__(self, driver: Driver, times: Times, connections_max: int = CONNECTIONS_MAX) -> None:
        self._driver = driver
        self._times = times
        self._connections_max = connections_max
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None
        self._resting: list[tuple[AsyncConnection, float]] = []
        self._era = 0

    def _begin(self) -> None:
        """Begin anew after a fork, or in another loop."""
        owner = (generation(), asyncio.get_running_loop())
        if self._owner == owner:
            return
        if self._resting:
            _left_behind.append(self._resting)
        self._owner = owner
        self._seats = asyncio.Semaphore(self._connections_max)
        self._resting = []
        self._era += 1

    async def run(self, operation: Callable[[Dialect], Steps[T]], *, again: bool) -> T:
        """Run an operation; with `again`, once more on a new connection if one that had rested is over."""
        self._begin()
        seats = self._seats
        try:
            async with asyncio.timeout(self._times.answer_s):
                await seats.acquire()
        except TimeoutError:
            raise DatabaseUnavailable(
                f"all {self._connections_max} connections to {self._driver.shown} are in use"
            ) from None
        try:
            era = self._era
            rested = await self._take()
            if rested is not None:
                try:
                    return await self._use(rested, era, operation)
                except GivenUp:
                    raise
                except DatabaseUnavailable:
                    # What rested beside it has most likely ended with it.
                    await self.close()
                    era = self._era
                    if not again:
                        raise
            return await self._use(await self._connect(), era, operation)
        finally:
            seats.release()

    async def _use(self, connection: AsyncConnection, era: int, operation: Callable[[Dialect], Steps[T]]) -> T:
        try:
            value = await run_async(patiently_async(connection.execute, self._times), operation(connection.dialect))
        except HoldfastError as error:
            if isinstance(error, DatabaseUnavailable) and not isinstance(error, GivenUp):
                connection.drop()
                raise
            await self._keep(connection, era)
            raise
        except BaseException:
            connection.drop()
            raise
        await self._keep(connection, era)
        return value

    async def _connect(self) -> AsyncConnection:
        """Connect, and make sure that everything is as a lease needs it."""
        connection = await self._driver.connect_async(self._times)
        try:
            await run_async(patiently_async(connection.execute, self._times), connection.dialect.verify())
        except BaseException:
            connection.drop()
            raise
        return connection

    async def _take(self) -> AsyncConnection | None:
        """Take the one that has rested least, if it is still there."""
        if not self._resting:
            return None
        connection, since = self._resting.pop()
        rested_s = time.monotonic() - since
        if rested_s > REST_S_MAX:
            connection.drop()
            await self.close()
            return None
        if rested_s > DOUBT_S:
            try:
                await patiently_async(connection.execute, self._times)(PING)
            except DatabaseUnavailable:
                connection.drop()
                await self.close()
                return None
            except BaseException:
                connection.drop()
                raise
        return connection

    async def _keep(self, connection: AsyncConnection, era: int) -> None:
        if era == self._era:
            self._resting.append((connection, time.monotonic()))
        else:
            await connection.close()

    async def close(self) -> None:
        """Let go of all connections that rest; those in use follow when they are done with."""
        self._begin()
        resting, self._resting = self._resting, []
        self._era += 1
        for connection, _since in resting:
            await connection.close()
