"""A blocking connection for asyncio: one thread works for it, one statement after the other.

A caller that is cancelled leaves its statement to the thread; nothing else gets in between.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from holdfast.leases.dialect import Dialect
from holdfast.leases.drivers.port import AsyncConnection, Connection, Driver, Times
from holdfast.leases.steps import Result, Statement

T = TypeVar("T")


class ThreadedConnection:
    """A connection whose statements run in a thread of its own."""

    def __init__(self, connection: Connection, thread: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._thread = thread

    @property
    def dialect(self) -> Dialect:
        return self._connection.dialect

    async def execute(self, statement: Statement) -> Result:
        return await _in(self._thread, lambda: self._connection.execute(statement))

    async def close(self) -> None:
        self.drop()

    def drop(self) -> None:
        # It closes behind whatever the thread is still at.
        self._thread.submit(self._connection.close)
        self._thread.shutdown(wait=False)


class ThreadedDriver(Driver):
    """A driver that has only a blocking face of its own."""

    async def connect_async(self, times: Times) -> AsyncConnection:
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdfast-leases")
        connecting = thread.submit(self.connect, times)
        try:
            return ThreadedConnection(await asyncio.wrap_future(connecting), thread)
        except BaseException:
            # Cancelled, it may get a connection yet.
            connecting.add_done_callback(_close)
            thread.shutdown(wait=False)
            raise


def _close(connecting: Future[Connection]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


async def _in(thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.wrap_future(thread.submit(work))
