"""A cluster lock for asyncio, in virtual time: the same as for threads, and what cancelling does."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

import holdfast.leases.cluster_lock
from holdfast.client.lease import State
from holdfast.leases.aio.cluster_lock import ClusterLock
from holdfast.leases.aio.refresher import LoopRefresher
from holdfast.leases.errors import AlreadyHeld, DatabaseUnavailable, LockException, LockLost, LockNotHeld
from holdfast.leases.registry import Registry
from holdfast.testing.clock import HandClock
from tests.leases.paper import AsyncPaper, Machine, PaperBackend, run_on_paper
from tools.faces import WORDS

KEY = b"cluster/"


class Process:
    """What one process has in an event loop."""

    def __init__(self, clock, table):
        self.table = AsyncPaper(table)
        self._refresher = None
        self.world = replace(Machine(clock).world, host=self.host, sleep_async=asyncio.sleep, registry=Registry())

    def host(self):
        if self._refresher is None:
            self._refresher = LoopRefresher(self.world.clock, self.world.chance)
        return self._refresher

    def lock(self, *names, **options):
        return ClusterLock(*(names or ("cluster",)), backend=self.table, world=self.world, **options)


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def table(clock):
    return PaperBackend(clock)


@pytest.fixture
def here(clock, table):
    return Process(clock, table)


@pytest.fixture
def there(clock, table):
    return Process(clock, table)


def test_it_is_got_kept_and_given_back(clock, table, here):
    async def main():
        async with here.lock(op="Work") as lock:
            assert (lock.fence, lock.state) == (1, State.HELD)
            await asyncio.sleep(600)
            assert lock.held
            assert await lock.is_acquired()
            assert (await lock.get_holder())["operation"] == "Work"
        assert not lock.held
        assert await here.lock().get_holder() == {"holder": None}

    run_on_paper(clock, main())
    assert table.held_by(KEY) is None
    assert 30 <= table.count("refresh") <= 34


def test_one_try_waits_for_nothing_and_a_with_waits_for_its_timeout(clock, table, here, there):
    async def main():
        async with here.lock():
            assert not await there.lock().acquire()
            before = clock()
            with pytest.raises(LockException, match="cluster/ in 10 seconds"):
                await there.lock(timeout=10).__aenter__()
            assert 10 <= (clock() - before) / 1e9 < 10.1

    run_on_paper(clock, main())


def test_who_waits_gets_it_when_it_is_given_back(clock, here, there):
    async def main():
        lock = here.lock()
        await lock.acquire()

        async def wait():
            async with there.lock() as mine:
                return mine.fence

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(30)
        await lock.release()
        assert await waiting == 2

    run_on_paper(clock, main())


def test_the_same_process_cannot_wait_for_itself(clock, here):
    async def main():
        async with here.lock():
            with pytest.raises(AlreadyHeld):
                await here.lock().acquire()

    run_on_paper(clock, main())


def test_a_holder_cut_off_knows_before_anybody_can_steal(clock, table, here):
    async def main():
        lock = here.lock()
        await lock.acquire()
        table.broken = True
        await lock.lost_event.wait()
        assert clock() < table.rows[KEY]["until"]
        with pytest.raises(LockLost):
            lock.check()
        table.broken = False
        assert await lock.release()  # nobody has taken it

    run_on_paper(clock, main())


def test_a_stolen_lock_is_noticed_and_not_ours_to_release(clock, table, here):
    async def main():
        lock = here.lock()
        await lock.acquire()
        table.seize(KEY)
        await lock.lost_event.wait()
        with pytest.raises(LockNotHeld):
            await lock.release()

    run_on_paper(clock, main())


def test_a_lost_answer_is_found_again_and_refreshed(clock, table, here):
    async def main():
        lock = here.lock()
        table.deaf_answers = 1
        with pytest.raises(DatabaseUnavailable):
            await lock.acquire()
        await asyncio.sleep(50)
        assert await lock.acquire()
        assert lock.remaining > 58
        assert table.count("refresh") == 1
        table.deaf_answers = 1
        assert await lock.release()

    run_on_paper(clock, main())


@pytest.mark.parametrize("turns", range(5))
def test_a_cancelled_acquire_leaves_nothing_held(clock, table, here, there, turns):
    async def main():
        asking = asyncio.create_task(here.lock().acquire())
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        del asking
        await asyncio.sleep(3)
        async with there.lock(timeout=3):
            pass

    run_on_paper(clock, main())


def test_a_cancelled_release_is_seen_to(clock, table, here, there):
    async def main():
        lock = here.lock()
        await lock.acquire()
        giving = asyncio.create_task(lock.release())
        await asyncio.sleep(0)
        giving.cancel()
        await asyncio.wait([giving])
        await asyncio.sleep(3)
        assert await there.lock().acquire()

    run_on_paper(clock, main())


def test_a_with_swallows_the_loss_unless_it_is_strict(clock, table, here, caplog):
    async def main():
        async with here.lock():
            table.seize(KEY)
        assert "no record that we hold" in caplog.text
        table.rows.clear()
        with pytest.raises(LockLost):
            async with here.lock(strict=True):
                table.seize(KEY)
        table.rows.clear()

        async def fails():
            async with here.lock(strict=True):
                table.seize(KEY)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as caught:
            await fails()
        assert "lost before" in caught.value.__notes__[0]

    run_on_paper(clock, main())


def test_after_a_loss_the_same_object_begins_anew(clock, table, here):
    async def main():
        lock = here.lock()
        await lock.acquire()
        first = lock.lost_event
        table.broken = True
        await first.wait()
        table.broken = False
        await asyncio.sleep(3)
        assert await lock.acquire()
        await asyncio.sleep(100)
        assert lock.held
        assert not lock.lost_event.is_set()
        await lock.release()

    run_on_paper(clock, main())


def test_work_that_hangs_loses_its_lock(clock, here):
    async def main():
        lock = here.lock(beat_timeout=10)
        await lock.acquire()
        await lock.lost_event.wait()
        assert "no sign of life" in lock.lost_reason

    run_on_paper(clock, main())


def test_the_twins_differ_in_nothing_but_how_they_wait():
    here = Path(holdfast.leases.cluster_lock.__file__)
    mine, other = (here.parent / "aio" / here.name).read_text(), here.read_text()
    for pattern, instead in [*WORDS, (r"asyncio\.Event", "threading.Event"), (r"\bAsyncBackend\b", "Backend")]:
        mine = re.sub(pattern, instead, mine)
    mine = mine.replace("_async(", "(")

    def core(text):
        text = text.partition("    # --- acquiring ---")[2]
        return re.sub(r"\((claim\.backend\.\w+\([^)]*\)|backend\.\w+\([^)]*\))\)", r"\1", text)

    assert core(mine) == core(other)
