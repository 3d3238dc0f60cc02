"""Stale locks and the list of locks, for asyncio."""

import asyncio

from holdfast.leases import aio
from holdfast.leases.aio.stale import clear_stale_locks, get_existing_locks
from holdfast.testing.clock import HandClock
from tests.leases.paper import AsyncPaper, PaperBackend
from tests.leases.test_stale import ask_of, dead_process


def test_what_a_dead_process_has_left_is_ended_and_the_rest_stays():
    table = PaperBackend(HandClock())
    table.acquire(ask_of(b"dead/", dead_process()))
    table.acquire(ask_of(b"unknown/", ""))

    async def main():
        assert set(await get_existing_locks(AsyncPaper(table))) == {"dead/", "unknown/"}
        assert await clear_stale_locks(AsyncPaper(table)) == 1
        assert set(await get_existing_locks(AsyncPaper(table))) == {"unknown/"}

    asyncio.run(main())


def test_the_names_of_the_package_are_there():
    assert aio.clear_stale_locks is clear_stale_locks
    assert "ClusterLock" in dir(aio)
    assert aio.ClusterLock.__module__ == "holdfast.leases.aio.cluster_lock"
    assert not hasattr(aio, "other")
