"""A blocking connection in an event loop: one statement after the other, also when a task is cancelled."""

import asyncio
import threading
from typing import Any

import pytest

from holdfast.leases.drivers.port import Times
from holdfast.leases.drivers.threaded import ThreadedDriver
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.sqlite import SQLite
from holdfast.leases.steps import Result, Statement


class Slow:
    """A connection that lets go when it is told to."""

    dialect = SQLite()

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.go = threading.Event()
        self.closed = threading.Event()
        self.done: list[str] = []

    def execute(self, statement: Statement) -> Result:
        self.asked.set()
        assert self.go.wait(30)
        self.done.append(statement.sql)
        return Result(1)

    def close(self) -> None:
        self.done.append("close")
        self.closed.set()


class SlowDriver(ThreadedDriver):
    shown = "slow"

    def __init__(self, *, away: bool = False) -> None:
        self.connection = Slow()
        self.asked = threading.Event()
        self.go = threading.Event()
        self.go.set()
        self.away = away

    def connect(self, times: Times) -> Any:
        self.asked.set()
        assert self.go.wait(30)
        if self.away:
            raise DatabaseUnavailable("away")
        return self.connection


def test_a_statement_that_was_cancelled_ends_before_the_connection_is_closed() -> None:
    driver = SlowDriver()

    async def main() -> None:
        connection = await driver.connect_async(Times())
        assert connection.dialect is driver.connection.dialect
        asking = asyncio.create_task(connection.execute(Statement("first")))
        assert await asyncio.to_thread(driver.connection.asked.wait, 30)
        asking.cancel()
        await asyncio.wait({asking})
        driver.connection.go.set()
        assert (await connection.execute(Statement("second"))).count == 1
        await connection.close()

    asyncio.run(main())
    assert driver.connection.closed.wait(30)
    assert driver.connection.done == ["first", "second", "close"]


def test_a_connection_that_comes_when_nobody_waits_for_it_any_more_is_closed() -> None:
    driver = SlowDriver()
    driver.go.clear()

    async def main() -> None:
        connecting = asyncio.create_task(driver.connect_async(Times()))
        assert await asyncio.to_thread(driver.asked.wait, 30)
        connecting.cancel()
        await asyncio.wait({connecting})
        assert connecting.cancelled()

    asyncio.run(main())
    assert not driver.connection.closed.is_set()
    driver.go.set()
    assert driver.connection.closed.wait(30)


def test_a_database_that_is_away_is_told_as_it_is() -> None:
    with pytest.raises(DatabaseUnavailable, match="away"):
        asyncio.run(SlowDriver(away=True).connect_async(Times()))
