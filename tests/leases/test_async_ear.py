"""The task that listens: who waits wakes at once, also after the database was away, and nobody is kept waiting."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from holdfast.leases import async_ear as ears
from holdfast.leases.async_ear import AsyncEar
from holdfast.leases.drivers.postgres import PostgresDriver
from holdfast.leases.postgres import BELL
from holdfast.leases.url import place_of
from tests.leases.pool_stage import through_a_proxy
from tests.leases.proxy import Proxy
from tests.leases.servers import DATABASE, PostgresServer

LONG_S = 60.0
Ring = Callable[[], None]
Play = Callable[[Callable[[Proxy, AsyncEar, Ring], Awaitable[None]]], None]


@pytest.fixture
def play(postgres: PostgresServer, postgres_url: str) -> Iterator[Play]:
    """Play a story in a loop of its own; its last argument rings the bell `a`."""
    with through_a_proxy(postgres_url) as (proxy, led), postgres.connect(DATABASE) as connection:

        def ring() -> None:
            connection.execute("SELECT pg_notify(%s, 'a')", (BELL,))

        async def main(story: Callable[[Proxy, AsyncEar, Ring], Awaitable[None]]) -> None:
            ear = AsyncEar(PostgresDriver(place_of(led)))
            try:
                async with asyncio.timeout(50):
                    await story(proxy, ear, ring)
            finally:
                await ear.close()

        yield lambda story: asyncio.run(main(story))


async def ring_until(task: "asyncio.Task[None]", ring: Ring) -> None:
    while not task.done():
        ring()
        await asyncio.wait({task}, timeout=0.01)
    await task


def test_who_waits_is_woken_by_the_bell_also_after_the_database_was_away(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ears, "AGAIN_S", 0.01)

    async def story(proxy: Proxy, ear: AsyncEar, ring: Ring) -> None:
        await ear.wait("a", LONG_S)  # it begins to listen, and wakes everybody
        await ring_until(asyncio.create_task(ear.wait("a", LONG_S)), ring)
        proxy.cut()
        await ring_until(asyncio.create_task(ear.wait("a", LONG_S)), ring)

    play(story)


def test_what_rang_since_the_last_try_is_not_waited_for(play: Play) -> None:
    async def story(_proxy: Proxy, ear: AsyncEar, ring: Ring) -> None:
        await ear.wait("a", LONG_S)
        ear.bells.ask("a")
        ring()
        await ear.wait("a", LONG_S)

    play(story)


def test_a_wait_ends_without_a_bell_and_without_a_database(play: Play) -> None:
    async def story(proxy: Proxy, ear: AsyncEar, _ring: Ring) -> None:
        proxy.refuse()
        await ear.wait("a", 0.01)

    play(story)


def test_it_does_not_listen_for_nobody(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ears, "IDLE_S", 0.01)

    async def story(_proxy: Proxy, ear: AsyncEar, _ring: Ring) -> None:
        for _ in range(2):
            await ear.wait("a", LONG_S)
            assert ear._task is not None
            await ear._task

    play(story)


def test_closing_wakes_who_waits(play: Play) -> None:
    async def story(_proxy: Proxy, ear: AsyncEar, _ring: Ring) -> None:
        await ear.wait("a", LONG_S)
        waiting = asyncio.create_task(ear.wait("a", LONG_S))
        await asyncio.sleep(0)
        await ear.close()
        await waiting

    play(story)
