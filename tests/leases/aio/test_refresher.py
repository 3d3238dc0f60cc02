"""The task that keeps leases alive in an event loop: what hangs, what is dropped, what happens when the loop ends."""

import asyncio
import gc

import pytest

from holdfast.leases.aio import refresher
from holdfast.leases.aio.cluster_lock import ClusterLock
from holdfast.testing.clock import HandClock
from tests.leases.aio.test_cluster_lock import Process
from tests.leases.paper import PaperBackend, run_on_paper

KEY = b"cluster/"


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def table(clock):
    return PaperBackend(clock)


@pytest.fixture
def here(clock, table):
    return Process(clock, table)


class Hanging:
    """A backend that never comes back from a refresh."""

    def __init__(self, table):
        self.table = table
        self.hung = 0

    def __getattr__(self, name):
        return getattr(self.table, name)

    async def refresh(self, _holds, _lease_us):
        self.hung += 1
        await asyncio.Event().wait()


def test_a_backend_that_hangs_delays_neither_the_others_nor_the_word_that_a_lease_is_over(clock, table, here):
    hanging = Hanging(here.table)

    async def main():
        fine = here.lock("fine")
        await fine.acquire()
        stuck = ClusterLock("stuck", backend=hanging, world=here.world)
        await stuck.acquire()
        await stuck.lost_event.wait()
        assert clock() < table.rows[b"stuck/"]["until"]
        assert fine.held
        await asyncio.sleep(100)
        assert fine.held
        assert hanging.hung == 1
        await fine.release()

    run_on_paper(clock, main())


def test_all_locks_are_refreshed_in_one_call(clock, table, here):
    async def main():
        locks = [here.lock("job", None, str(number)) for number in range(50)]
        for lock in locks:
            await lock.acquire()
        await asyncio.sleep(21)
        assert [len(holds) for name, holds in table.calls if name == "refresh"] == [50]
        for lock in locks:
            await lock.release()

    run_on_paper(clock, main())


def test_a_dropped_handle_is_given_back(clock, table, here):
    async def main():
        await here.lock().acquire()
        gc.collect()
        await asyncio.sleep(3)
        assert table.held_by(KEY) is None

    run_on_paper(clock, main())


def test_what_is_held_when_the_loop_ends_is_given_back(clock, table, here):
    kept = []

    async def main():
        kept.append(here.lock())
        await kept[0].acquire()

    run_on_paper(clock, main())
    assert table.held_by(KEY) is None
    assert not kept[0].held


def test_but_not_before_the_work_has_ended(clock, table, here):
    seen = []

    async def work(lock):
        async with lock:
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(1)  # it finishes what it was at
                seen.append((lock.held, table.held_by(KEY) == lock.lockid))

    async def main():
        working = asyncio.create_task(work(here.lock()))
        await asyncio.sleep(5)
        return working

    run_on_paper(clock, main())
    assert seen == [(True, True)]
    assert table.held_by(KEY) is None


@pytest.mark.parametrize("turns", [0, 3])
def test_if_only_the_task_is_cancelled_nobody_believes_that_it_refreshes(clock, here, turns):
    async def main():
        lock = here.lock()
        await lock.acquire()
        for _ in range(turns):
            await asyncio.sleep(0)
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "holdfast-leases"]
        task.cancel()
        await asyncio.wait([task])
        assert lock.lost_event.is_set()
        assert "cancelled" in lock.lost_reason

    run_on_paper(clock, main())


def test_a_database_that_is_away_when_the_loop_ends_is_not_waited_for(clock, table, here, caplog):
    async def main():
        here.kept = here.lock()
        await here.kept.acquire()
        table.broken = True

    run_on_paper(clock, main())
    assert "their leases run out" in caplog.text


def test_a_mistake_of_the_backend_is_no_loss(clock, table, here, caplog):
    async def main():
        lock = here.lock()
        await lock.acquire()
        refresh = table.refresh

        def broken(_holds, _lease_us):
            table.refresh = refresh
            raise ValueError("a bug")

        table.refresh = broken
        await asyncio.sleep(30)
        assert lock.held
        assert "nobody expected" in caplog.text
        await lock.release()

    run_on_paper(clock, main())


def test_each_loop_has_one_refresher_and_one_backend_for_a_url_which_is_closed_with_it(tmp_path):
    url = f"sqlite:{tmp_path / 'locks.db'}"
    closed = []

    async def main():
        backend = refresher.backend_of(url)
        assert refresher.backend_of(url) is backend
        assert refresher.host() is refresher.host()
        close = backend.close

        async def noted():
            closed.append(True)
            await close()

        backend.close = noted
        return backend, refresher.host()

    first, second = asyncio.run(main()), asyncio.run(main())
    assert first[0] is not second[0]
    assert first[1] is not second[1]
    assert closed == [True, True]
