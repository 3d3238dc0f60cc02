"""Connections in an event loop: used again, replaced when over, and dropped when a task is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from holdfast.leases import async_pool as pools
from holdfast.leases.async_pool import AsyncPool
from holdfast.leases.errors import BadKey, DatabaseUnavailable
from holdfast.leases.steps import Statement, Steps
from tests.leases.pool_stage import SHORT, driver_of, through_a_proxy
from tests.leases.proxy import Proxy
from tests.leases.test_pool import IDS, whose

Play = Callable[[Callable[[Proxy, AsyncPool], Awaitable[None]]], None]
SLEEP = {"mariadb": "SELECT SLEEP(30)", "postgres": "SELECT pg_sleep(30)"}


@pytest.fixture(params=["mariadb", "postgres"])
def play(request: pytest.FixtureRequest) -> Iterator[Play]:
    """Play a story in a loop of its own."""
    url = request.getfixturevalue(f"{request.param}_url")
    with through_a_proxy(url) as (proxy, led):

        async def main(story: Callable[[Proxy, AsyncPool], Awaitable[None]]) -> None:
            pool = AsyncPool(driver_of(led), SHORT, 2)
            try:
                await story(proxy, pool)
            finally:
                await pool.close()

        yield lambda story: asyncio.run(main(story))


def test_a_connection_that_rests_is_used_again_and_one_that_was_cut_is_replaced(play: Play) -> None:
    async def story(proxy: Proxy, pool: AsyncPool) -> None:
        first = await pool.run(whose, again=True)
        assert await pool.run(whose, again=True) == first
        proxy.cut()
        assert await pool.run(whose, again=True) != first
        proxy.cut()
        with pytest.raises(DatabaseUnavailable):
            await pool.run(whose, again=False)

    play(story)


def test_one_that_has_rested_is_asked_first_or_not_kept(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(proxy: Proxy, pool: AsyncPool) -> None:
        monkeypatch.setattr(pools, "DOUBT_S", -1.0)
        first = await pool.run(whose, again=False)
        assert await pool.run(whose, again=False) == first
        proxy.cut()
        second = await pool.run(whose, again=False)
        monkeypatch.setattr(pools, "REST_S_MAX", -1.0)
        assert await pool.run(whose, again=False) not in (first, second)

    play(story)


def test_a_server_that_is_away_or_silent_is_unavailable_and_comes_back(play: Play) -> None:
    async def story(proxy: Proxy, pool: AsyncPool) -> None:
        await pool.run(whose, again=True)
        proxy.refuse()
        with pytest.raises(DatabaseUnavailable):
            await pool.run(whose, again=True)
        proxy.restore()
        await pool.run(whose, again=True)
        proxy.stall()
        with pytest.raises(DatabaseUnavailable):
            await pool.run(whose, again=False)
        proxy.restore()
        assert await pool.run(whose, again=True)

    play(story)


def test_a_task_that_is_cancelled_in_the_middle_leaves_no_answer_for_the_next(play: Play) -> None:
    async def story(proxy: Proxy, pool: AsyncPool) -> None:
        first = await pool.run(whose, again=True)
        asked = asyncio.Event()

        def sleep(dialect: Any) -> Steps[int]:
            asked.set()
            yield Statement(SLEEP[dialect.name])
            return 0

        task = asyncio.create_task(pool.run(sleep, again=True))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await pool.run(whose, again=True) != first

    play(story)


def test_our_own_mistakes_leave_the_connection_as_it_was(play: Play) -> None:
    def mistaken(_dialect: Any) -> Steps[int]:
        raise BadKey("no such key")
        yield Statement("")

    async def story(proxy: Proxy, pool: AsyncPool) -> None:
        for _ in range(2):
            with pytest.raises(BadKey):
                await pool.run(mistaken, again=True)
        assert proxy.accepted == 1

    play(story)


def test_there_are_no_more_connections_than_were_allowed(play: Play) -> None:
    async def story(proxy: Proxy, pool: AsyncPool) -> None:
        seen = await asyncio.gather(*(pool.run(whose, again=True) for _ in range(40)))
        assert len(set(seen)) <= 2
        assert proxy.accepted <= 2

    play(story)


def test_what_is_in_use_while_all_is_closed_is_closed_after_it(play: Play) -> None:
    async def story(proxy: Proxy, pool: AsyncPool) -> None:
        asked = asyncio.Event()

        def slow(dialect: Any) -> Steps[int]:
            asked.set()
            return int((yield Statement(IDS[dialect.name])).rows[0][0])

        task = asyncio.create_task(pool.run(slow, again=True))
        await asked.wait()
        await pool.close()
        first = await task
        assert await pool.run(whose, again=True) != first

    play(story)


def test_another_loop_gets_connections_of_its_own(sqlite_url: str) -> None:
    from holdfast.leases.opening import open_async_backend

    backend: Any = open_async_backend(sqlite_url)

    async def use() -> int:
        await backend.prepare()
        now: int = await backend.now()
        await backend.close()
        return now

    assert asyncio.run(use()) <= asyncio.run(use())
