"""Locks of all kinds, over each protocol and in both faces: who gets them, who waits, and what cannot be asked for."""

import pytest

from holdfast.errors import BadRequest, Busy, LimitMismatch, NotHeld, TimedOut, WouldDeadlock
from tests.aio.client_faces import Stage


def test_a_lock_is_taken_and_given_back(any_stage):
    async def story():
        hf, other = any_stage.connect(), any_stage.connect()
        key = any_stage.key()
        async with hf.lock(key) as held:
            assert (held.key, held.kind, held.mode, held.held) == (key, "lock", "EX", True)
            assert await other.try_lock(key) is None
        assert not held.held
        again = await other.try_lock(key)
        assert again.fence > held.fence
        assert await again.release() is True

    any_stage.play(story)


def test_whoever_waits_gets_it_when_it_is_given_back(any_stage):
    async def story():
        hf, other = any_stage.connect(), any_stage.connect()
        held = await hf.lock(any_stage.key()).acquire()
        waiting = any_stage.spawn(other.lock(any_stage.key(), patience=60).acquire())
        await any_stage.sleep(0.05)
        await held.release()
        got = await waiting
        assert got.fence > held.fence
        await got.release()

    any_stage.play(story)


def test_patience_ends(any_stage):
    async def story():
        hf, other = any_stage.connect(), any_stage.connect()
        async with hf.lock(any_stage.key()):
            lock = other.lock(any_stage.key(), patience=0)
            with pytest.raises(Busy):
                await lock.acquire()
            assert await lock.try_acquire() is None
            if any_stage.scheme != "dflock":  # which has whole seconds
                with pytest.raises(TimedOut):
                    await lock.acquire(patience=0.05)
            assert lock.key == any_stage.key()
        async with lock as held:
            held.check()

    any_stage.play(story)


def test_a_lock_object_may_be_used_again_inside_of_itself_by_those_who_share(stage):
    async def story():
        lock = stage.connect().rwlock(stage.key()).read()
        async with lock as outer:
            async with lock as inner:
                assert inner.fence > outer.fence
            assert (inner.held, outer.held) == (False, True)
        assert not outer.held

    stage.play(story)


def test_a_block_may_be_left_by_another_than_who_entered_it(stage):
    """As fixtures and web frameworks do."""

    async def story():
        hf = stage.connect()
        lock, twice = hf.lock(stage.key()), hf.rwlock(stage.key("other")).read()
        held = await stage.spawn(lock.__aenter__())
        await lock.__aexit__(None, None, None)
        assert not held.held
        await stage.spawn(twice.__aenter__())
        await stage.spawn(twice.__aenter__())
        with pytest.raises(BadRequest, match="make a lock object for each"):
            await twice.__aexit__(None, None, None)

    stage.play(story)


def test_many_seats_of_a_semaphore(any_stage):
    async def story():
        hf = any_stage.connect()
        if any_stage.scheme == "http":
            with pytest.raises(BadRequest, match="use holdfast://"):
                await hf.semaphore(any_stage.key(), 3).acquire()
            return
        semaphore = hf.semaphore(any_stage.key(), 2)
        one, two = await semaphore.acquire(), await semaphore.acquire()
        assert (one.kind, one.mode) == ("semaphore", "CW")
        assert await semaphore.try_acquire() is None
        with pytest.raises(LimitMismatch):
            await hf.semaphore(any_stage.key(), 3).try_acquire()
        await one.release()
        async with semaphore as three:
            assert three.fence > two.fence
        await two.release()

    any_stage.play(story)


def test_a_claim_may_take_several_seats(stage):
    async def story():
        hf = stage.connect()
        async with hf.semaphore(stage.key(), 3, units=2):
            assert await hf.semaphore(stage.key(), 3, units=2).try_acquire() is None
            async with hf.semaphore(stage.key(), 3):
                pass
        with pytest.raises(BadRequest, match="units"):
            hf.semaphore(stage.key(), 3, units=4)

    stage.play(story)


def test_many_read_or_one_writes(stage):
    async def story():
        hf, other = stage.connect(), stage.connect()
        async with hf.rwlock(stage.key()).read() as one, other.rwlock(stage.key()).read() as two:
            assert (one.mode, two.mode) == ("PR", "PR")
            assert await other.rwlock(stage.key(), patience=0).write().try_acquire() is None
        async with hf.rwlock(stage.key()).write():
            assert await other.rwlock(stage.key()).read().try_acquire() is None

    stage.play(story)


@pytest.mark.parametrize("place", ["dflock memory", "http memory"])
def test_what_a_protocol_cannot_do_is_refused_in_clear_words(face, servers, place):
    scheme, _, store = place.partition(" ")
    server = servers[store]
    stage = Stage(face, f"{scheme}://127.0.0.1:{server.http_port if scheme == 'http' else server.port}")

    async def story():
        hf = stage.connect()
        for work in (
            hf.rwlock(stage.key()).read().acquire,
            hf.lock(stage.key(), mode="PW").acquire,
            hf.lock(stage.key(), deadlock="refuse").acquire,
            lambda: hf.show(stage.key()),
            lambda: hf.explain(stage.key()),
            hf.deadlocks,
            lambda: hf.break_(stage.key(), reason="test"),
        ):
            with pytest.raises(BadRequest, match="use holdfast://"):
                await work()
        async with hf.lock(stage.key()) as held:
            with pytest.raises(BadRequest, match="use holdfast://"):
                await held.upgrade()
            assert held.held

    stage.play(story)


def test_of_two_readers_who_want_to_write_one_is_refused(stage):
    async def story():
        hf, other = stage.connect(), stage.connect()
        one, two = await hf.rwlock(stage.key()).read().acquire(), await other.rwlock(stage.key()).read().acquire()
        upgrade = stage.spawn(one.upgrade())
        await stage.sleep(0.1)
        with pytest.raises(WouldDeadlock):
            await two.upgrade()
        assert (two.mode, two.held) == ("PR", True)
        await two.release()
        await upgrade
        assert one.mode == "EX"
        await one.release()

    stage.play(story)


def test_between_writing_and_reading_nobody_else_writes(stage):
    """A writer waits while the lock is downgraded: it comes when the reader is done, and not before."""

    async def story():
        hf, other = stage.connect(), stage.connect()
        one = await hf.rwlock(stage.key()).write().acquire()
        waiting = stage.spawn(other.rwlock(stage.key()).write().acquire())
        await stage.sleep(0.1)
        await one.downgrade()
        assert one.mode == "PR"
        await stage.sleep(5)
        assert stage.world.lock(stage.key()).modes == ["PR"]
        await one.release()
        writer = await waiting
        assert writer.fence > one.fence
        await writer.release()

    stage.play(story)


def test_a_place_in_the_queue_is_taken_now_and_waited_for_later(any_stage):
    async def story():
        hf, other = any_stage.connect(), any_stage.connect()
        if any_stage.scheme == "http":
            with pytest.raises(BadRequest, match="use holdfast://"):
                await hf.enqueue(any_stage.key())
            return
        first = await hf.enqueue(any_stage.key())
        place = await other.enqueue(any_stage.key())
        assert (first.held.held, place.held) == (True, None)
        assert await first.wait() == first.held
        await first.held.release()
        held = await place.wait(patience=20)
        assert held == place.held == await place.wait()
        await place.cancel()
        assert not held.held

    any_stage.play(story)


def test_a_place_that_is_left_is_left(any_stage):
    async def story():
        if any_stage.scheme == "http":
            return
        hf, other = any_stage.connect(), any_stage.connect()
        async with hf.lock(any_stage.key()):
            place = await other.enqueue(any_stage.key())
            await place.cancel()
            await place.cancel()
            for _ in range(2):
                with pytest.raises(NotHeld):
                    await place.wait()
            async with await other.enqueue(any_stage.key()) as second:
                with pytest.raises((TimedOut, Busy)):
                    await second.wait(patience=0)
                with pytest.raises(NotHeld):
                    await second.wait()
        assert (await any_stage.connect().lock(any_stage.key(), patience=60).acquire()).held

    any_stage.play(story)


def test_a_place_whose_turn_came_while_nobody_waited_gets_a_whole_lease(stage):
    async def story():
        hf, other = stage.connect(), stage.connect()
        held = await hf.lock(stage.key()).acquire()
        place = await other.enqueue(stage.key(), lease=10)
        await held.release()
        await stage.sleep(8)
        got = await place.wait()
        assert got.remaining > 9
        await stage.sleep(20)
        assert got.held
        third = await hf.enqueue(stage.key(), lease=10)
        await got.release()
        await stage.sleep(11)
        with pytest.raises(NotHeld):
            await third.wait()

    stage.play(story)


def test_semaphores_are_queued_for_as_locks_are(stage):
    async def story():
        hf = stage.connect()
        first = await hf.enqueue(stage.key(), limit=1)
        async with await hf.enqueue(stage.key(), limit=1) as second:
            assert (first.held.kind, second.held) == ("semaphore", None)
            assert await hf.semaphore(stage.key(), 1).try_acquire() is None
            await first.cancel()
            assert (await second.wait()).held

    stage.play(story)


def test_whoever_would_close_a_circle_may_have_that_refused(stage):
    async def story():
        hf, other = stage.connect(), stage.connect()
        a, b = stage.key("a"), stage.key("b")

        async def first():
            async with hf.lock(a), hf.lock(b) as held:
                return held.fence

        async with other.lock(b) as held:
            waiting = stage.spawn(first())
            await stage.sleep(0.1)
            with pytest.raises(WouldDeadlock):
                await other.lock(a, deadlock="refuse").acquire()
        assert await waiting > held.fence

    stage.play(story)
