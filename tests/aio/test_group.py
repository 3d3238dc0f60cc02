"""Several locks as one: all or nothing, over each protocol, and no two groups ever wait for each other in a circle."""

import pytest

from holdfast.errors import BadRequest, Busy, Closed, LeaseLost, TimedOut
from tests.aio.client_faces import Stage, VirtualStage


def test_a_group_is_taken_and_given_back_as_one(any_stage):
    async def story():
        hf, other = any_stage.connect(), any_stage.connect()
        a, b, c = (any_stage.key(name) for name in "abc")
        async with hf.all(b, a, lease=20) as group:
            assert [held.key for held in group] == [b, a]
            assert (len(group), group[a].key, group.held) == (2, a, True)
            assert 10 < group.remaining <= 20
            group.check()
            group.beat()
            assert await other.try_lock(a) is None
            assert await other.all(b, c).try_acquire() is None
            assert await (await other.try_lock(c)).release()
        assert (group.held, group.remaining) == (False, 0.0)
        assert await group.release() is True
        with pytest.raises(LeaseLost):
            group.check()
        again = await other.all(c, a).acquire()
        assert await again.release() is True

    any_stage.play(story)


def test_a_group_waits_without_holding_any(stage):
    async def story():
        hf, other = stage.connect(), stage.connect()
        async with hf.lock("b"):
            waiting = stage.spawn(other.all("a", "b").acquire())
            await stage.sleep(1)
            assert not stage.world.lock("a").held
        group = await waiting
        assert stage.world.lock("a").held
        await group.release()

    stage.play(story)


def test_overlapping_groups_all_get_their_turn(any_stage):
    """Three groups of which each wants what another has: with locks taken in any order, they would be stuck."""

    async def story():
        keys = [any_stage.key(name) for name in "abc"]

        async def work(mine):
            hf = any_stage.connect()
            for _ in range(3):
                async with hf.all(*mine) as group:
                    fences.append(sorted((held.key, held.fence) for held in group))
                    await any_stage.sleep(0.002)

        fences = []
        ways = [keys[:2], [keys[2], keys[1]], [keys[0], keys[2]], list(reversed(keys))]
        for task in [any_stage.spawn(work(way)) for way in ways]:
            await task
        assert len(fences) == 12
        for key in keys:
            seen = [fence for group in fences for name, fence in group if name == key]
            assert seen == sorted(set(seen))

    any_stage.play(story)


def test_the_patience_is_that_of_the_whole_group(virtual_stage):
    async def story():
        hf, other = virtual_stage.connect(), virtual_stage.connect()
        async with hf.lock("b"):
            group = other.all("a", "b", patience=3)
            with pytest.raises(TimedOut):
                await group.acquire()
            assert 3 <= virtual_stage.world.clock.now < 4
            with pytest.raises(Busy):
                await group.acquire(patience=0)
            assert not virtual_stage.world.lock("a").held
            assert group.keys == ("a", "b")

    virtual_stage.play(story)


def test_no_patience_left_for_the_last_lock_is_a_time_out_and_not_busy(face):
    stage = VirtualStage(face, "dflock")

    async def story():
        hf, other = stage.connect(), stage.connect()
        first, last = await hf.lock("a").acquire(), await hf.lock("b").acquire()
        stage.world.clock.after(2, lambda: stage.world.lock("a").expire())
        with pytest.raises(TimedOut):
            await other.all("a", "b", patience=2).acquire()
        await stage.sleep(1)
        assert stage.world.lock("b").fences == [last.fence]
        await first.release()

    with stage.world:
        stage.play(story)


def test_what_a_group_loses_is_told_once_for_all(stage):
    heard = []

    async def work(hf):
        async with hf.all("a", "b", on_lost=lambda held: heard.append(held.key)) as group:
            await stage.sleep(2)
            stage.world.lock("b").lose()
            await stage.until(group.lost.is_set)
            assert (group.held, group["a"].held, group["b"].held) == (False, True, False)
            assert group.remaining == 0.0

    async def story():
        hf = stage.connect("a")
        with pytest.raises(LeaseLost, match="'b' was lost"):
            await work(hf)
        assert not stage.world.lock("a").held

    stage.play(story)
    assert heard == ["b"]


@pytest.mark.parametrize("face", ["tasks"])
def test_the_work_of_a_group_is_interrupted_once(stage):
    done = []

    async def work(hf):
        async with hf.all("a", "b", cancel_on_lost=True):
            await stage.sleep(2)
            stage.world.lock("a").lose()
            stage.world.lock("b").lose()
            await stage.sleep(5)
            done.append("all")

    async def story():
        hf = stage.connect()
        with pytest.raises(LeaseLost):
            await work(hf)
        await stage.sleep(60)
        group = await hf.all("a", "b", cancel_on_lost=True).acquire()
        stage.world.lock("a").lose()
        assert await group.release() is False
        await stage.sleep(60)
        done.append("the rest")

    stage.play(story)
    assert done == ["the rest"]


@pytest.mark.parametrize("keys", [(), ("a", "a"), tuple(map(str, range(65))), ("",), (5,)])
def test_what_is_no_group_is_refused(stage, keys):
    with pytest.raises(BadRequest):
        stage.connect().all(*keys)


def test_modes_and_other_servers_in_a_group(face, servers):
    """Keys of several servers are taken server by server; whoever names the same servers goes the same way."""
    stage = Stage(face, ",".join(f"holdfast://127.0.0.1:{server.port}" for server in servers.values()))

    async def story():
        hf, other = stage.connect(), stage.connect()
        keys = [stage.key(str(number)) for number in range(8)]
        async with hf.all(*keys, mode="PR") as group, other.all(*reversed(keys), mode="PR") as second:
            assert [held.key for held in second] == [held.key for held in reversed(list(group))]
            assert {held.mode for held in group} == {"PR"}
            assert await hf.all(*keys, mode="EX").try_acquire() is None
        assert repr(hf.all("a", "b")) == "<Group 'a', 'b'>"
        assert repr(group).startswith("<HeldGroup ")

    stage.play(story)


def test_a_closed_client_gives_no_group(stage):
    async def story():
        hf = stage.connect()
        group = hf.all("a", "b")
        await hf.close()
        with pytest.raises(Closed):
            await group.acquire()

    stage.play(story)
