"""Cluster locks on real databases, both faces: got, kept, seen by others, seized, and given back."""

import asyncio
import threading
import time
from dataclasses import replace

import pytest

from holdfast.leases import ClusterLock, LockException, aio, get_existing_locks
from holdfast.leases.opening import open_backend
from holdfast.leases.registry import Registry
from holdfast.leases.sharing import shared
from holdfast.leases.words import Hold
from holdfast.leases.world import real_world

WAIT_S_MAX = 30.0


def elsewhere():
    """The world of another process."""
    return replace(real_world(), registry=Registry())


def until(is_so):
    """Wait until something has come true."""
    limit = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < limit
        time.sleep(0.02)


def prepared(found):
    """Make the table; afterwards, let go of what locks have shared."""
    backend = open_backend(found)
    backend.prepare()
    backend.close()
    yield found
    opened = shared._backends.pop(found, None)
    if opened is not None:
        opened.close()


class Locks:
    """What is true on every database."""

    def test_a_lock_is_one_for_all_processes(self, url):
        with ClusterLock("cluster", op="Cluster maintenance", backend=url) as lock:
            other = ClusterLock("cluster", backend=url, timeout=0.2, world=elsewhere())
            assert not other.acquire()
            assert other.get_holder() == get_existing_locks(url)["cluster/"]
            assert other.get_holder()["id"] == lock.lockid
            with pytest.raises(LockException, match=f"pid {lock.pid}, operation Cluster maintenance"):
                other.__enter__()
            assert lock.is_acquired()
        assert get_existing_locks(url) == {}
        with other:
            assert other.fence == lock.fence + 1

    def test_who_waits_gets_it_soon_after_it_is_given_back(self, url):
        lock = ClusterLock("cluster", backend=url)
        assert lock.acquire()
        waits, fences = threading.Event(), []
        world = elsewhere()

        def wait():
            waits.set()
            with ClusterLock("cluster", backend=url, timeout=WAIT_S_MAX, world=world) as mine:
                fences.append(mine.fence)

        waiting = threading.Thread(target=wait)
        waiting.start()
        waits.wait(WAIT_S_MAX)
        lock.release()
        waiting.join(WAIT_S_MAX)
        assert fences == [lock.fence + 1]

    def test_a_lease_is_kept_for_longer_than_it_lasts_and_a_seized_one_is_noticed(self, url):
        backend = open_backend(url)
        lock = ClusterLock("cluster", backend=url, lease=3)
        with lock:
            (first,) = backend.list()
            confirmed = lock._claim.holding.lease.confirmed_at
            until(lambda: lock._claim.holding.lease.confirmed_at > confirmed)
            assert lock.held
            backend.clear([Hold(first.key, first.lock_id)])
            assert lock.lost_event.wait(WAIT_S_MAX)
            assert "not ours any more" in lock.lost_reason
        backend.close()

    def test_the_same_with_asyncio(self, url):
        async def main():
            async with aio.ClusterLock("cluster", op="Work", backend=url, lease=3) as lock:
                assert await lock.is_acquired()
                assert (await aio.get_existing_locks(url))["cluster/"]["id"] == lock.lockid
                other = ClusterLock("cluster", backend=url, world=elsewhere())
                assert not await asyncio.to_thread(other.acquire)
                confirmed = lock._claim.holding.lease.confirmed_at
                await asyncio.to_thread(until, lambda: lock._claim.holding.lease.confirmed_at > confirmed)
                assert lock.held
            assert await aio.get_existing_locks(url) == {}
            kept = aio.ClusterLock("kept", backend=url)
            await kept.acquire()
            return kept

        asyncio.run(main())
        assert get_existing_locks(url) == {}


class TestMariaDb(Locks):
    @pytest.fixture
    def url(self, mariadb_url):
        yield from prepared(mariadb_url)


class TestPostgres(Locks):
    @pytest.fixture
    def url(self, postgres_url):
        yield from prepared(postgres_url)


class TestSqlite(Locks):
    @pytest.fixture
    def url(self, sqlite_url):
        yield from prepared(sqlite_url)
