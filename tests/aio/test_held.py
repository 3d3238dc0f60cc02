"""What is held: what it tells without asking, whom it tells what, how it is given back, and that no error is hidden."""

import os

import pytest

from holdfast.client.lease import State
from holdfast.errors import BadRequest, LeaseLost, Unavailable
from tests.aio.client_faces import ended


class OfTheBody(Exception):
    """What the body of a block raises."""


def test_it_tells_what_it_is_without_asking_anybody(stage):
    async def story():
        hf = stage.connect("a")
        async with hf.lock("job", lease=30, operation="month end") as held:
            stage.world.net.partition("a")
            assert (held.key, held.kind, held.mode, held.state) == ("job", "lock", "EX", State.HELD)
            assert [held.fence] == stage.world.lock("job").fences
            assert len(held.token) == 32
            assert 29 < held.remaining < 30
            assert (held.reason, held.lost.is_set()) == ("", False)
            held.check()
            assert repr(held).startswith(f"<Held 'job' fence={held.fence} held remaining=29.")
            stage.world.net.heal("a")

    stage.play(story)


def test_it_is_renewed_for_as_long_as_it_is_held(stage):
    async def story():
        async with stage.connect().lock("job", lease=30) as held:
            for _ in range(20):
                await stage.sleep(30)
                assert held.remaining > 19
            await held.renew()
            assert held.remaining > 29
        with pytest.raises(LeaseLost, match="it was released"):
            await held.renew()

    stage.play(story)


def test_danger_and_loss_are_told_before_anybody_else_can_have_it(stage):
    heard = []

    async def story():
        world = stage.world
        hf = stage.connect("a")
        note = lambda what: lambda held: heard.append((what, held.state, round(world.clock.now)))  # noqa: E731
        lock = hf.lock("job", lease=30, on_danger=note("danger"), on_lost=note("lost"))
        held = await lock.acquire()
        lost = held.lost
        world.net.partition("a")
        await stage.until(lost.is_set)
        assert world.clock.now < 30
        assert world.lock("job").held
        assert (held.held, held.remaining, held.state) == (False, 0.0, State.LOST)
        assert held.lost is lost
        with pytest.raises(LeaseLost):
            held.check()
        with pytest.raises(LeaseLost):
            await held.renew()
        await stage.until(lambda: len(heard) == 2)
        assert await held.release() is False
        world.net.heal("a")

    stage.play(story)
    assert [(what, state) for what, state, _ in heard] == [("danger", State.DANGER), ("lost", State.LOST)]
    assert [at for *_, at in heard] == [19, 29]


def test_what_is_held_by_a_connection_is_lost_with_it(virtual_stage):
    async def story():
        hf = virtual_stage.connect("a")
        held = await hf.lock("job", lease=30).acquire()
        virtual_stage.world.net.partition("a")
        await virtual_stage.until(held.lost.is_set)
        assert virtual_stage.world.clock.now < 30
        assert virtual_stage.world.lock("job").held
        assert virtual_stage.native or "its connection to the server is gone" in held.reason
        virtual_stage.world.net.heal("a")
        await virtual_stage.sleep(10)
        assert not virtual_stage.world.lock("job").held

    virtual_stage.play(story)


def test_a_loss_that_is_asked_for_later_is_set_from_the_beginning(stage):
    async def story():
        held = await stage.connect("a").lock("job", lease=30).acquire()
        await stage.sleep(2)
        stage.world.lock("job").lose()
        await stage.until(lambda: not held.held)
        assert held.lost.is_set()
        assert "broken" in held.reason

    stage.play(story)


def test_whoever_is_wanted_hears_of_it(stage):
    heard = []

    async def story():
        hf, other = stage.connect(), stage.connect()

        async def give_way(held):
            heard.append(held.key)
            await held.release()

        await hf.lock("job", on_contended=stage.made(give_way)).acquire()
        await stage.sleep(1)
        async with other.lock("job", patience=20):
            assert heard == ["job"]

    stage.play(story)


def test_a_holder_that_hangs_loses_its_lock(stage):
    async def story():
        hf = stage.connect()
        async with hf.lock("job", lease=10, beat_timeout=25) as held:
            for _ in range(10):
                await stage.sleep(20)
                held.beat()
            assert held.held
            await stage.sleep(24)
            assert held.held
            await stage.sleep(12)
            assert not held.held
            assert not stage.world.lock("job").held
            assert await held.release() is False
            await hf.lock("job").acquire()

    with pytest.raises(LeaseLost, match="before the work under it was done"):
        stage.play(story)


def test_a_holder_that_comes_back_in_time_is_renewed_again(stage):
    async def story():
        async with stage.connect().lock("job", lease=30, beat_timeout=12) as held:
            await stage.sleep(32)
            assert held.state is State.DANGER
            held.beat()
            await stage.sleep(1)
            assert held.state is State.HELD

    stage.play(story)


def test_giving_back_twice_does_nothing_more(any_stage):
    async def story():
        hf, other = any_stage.connect(), any_stage.connect()
        held = await hf.lock(any_stage.key()).acquire()
        assert await held.release() is True
        async with other.lock(any_stage.key()):
            assert await held.release() is True
            held.abandon()
            assert await other.try_lock(any_stage.key()) is None
        assert held.state is State.RELEASED
        with pytest.raises(LeaseLost, match="it was released"):
            held.check()

    any_stage.play(story)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_release_survives_lost_answers(stage, lost):
    async def story():
        held = await stage.connect("a").lock("job").acquire()
        stage.world.net.drop_answers(lost, "a")
        assert await held.release() is True
        assert not stage.world.lock("job").held

    stage.play(story)


def test_a_release_that_finds_nobody_is_tried_on_in_the_background(stage):
    async def story():
        held = await stage.connect("a", timeout=2).lock("job", lease=60).acquire()
        stage.world.server.pause()
        assert await held.release() is True
        assert stage.world.lock("job").held
        stage.world.server.resume()
        await stage.until(lambda: not stage.world.lock("job").held)
        assert stage.world.clock.now < 20

    stage.play(story)


def test_the_server_may_have_ended_it_already(stage):
    async def story():
        hf, other = stage.connect(), stage.connect()
        held = await hf.lock(stage.key()).acquire()
        assert await other.break_(stage.key(), reason="test") == 1
        assert await held.release() is False

    stage.play(story)


def test_what_the_body_raises_is_never_hidden(stage):
    async def work(hf, happens):
        async with hf.lock("job", lease=10):
            happens()
            raise OfTheBody

    async def story():
        hf = stage.connect("a", timeout=1)
        with pytest.raises(OfTheBody):
            await work(hf, lambda: None)
        assert not stage.world.lock("job").held
        with pytest.raises(OfTheBody):
            await work(hf, lambda: stage.world.lock("job").lose())
        with pytest.raises(OfTheBody) as raised:  # it cannot be given back
            await work(hf, stage.world.server.pause)
        assert "'job' could not be given back yet" in raised.value.__notes__[0]
        stage.world.server.resume()

    stage.play(story)


def test_a_block_whose_lock_was_lost_does_not_end_well(stage):
    async def story():
        with pytest.raises(LeaseLost, match="'job' was lost before the work under it was done"):
            async with stage.connect().lock("job", lease=10):
                stage.world.lock("job").lose()

    stage.play(story)


@pytest.mark.parametrize("face", ["tasks"])
def test_the_work_is_interrupted_when_the_lock_is_lost(stage):
    """The blocking face needs real threads for that: see tests/sync/test_waiting.py."""
    done = []

    async def work(hf):
        async with hf.lock("job", lease=30, cancel_on_lost=True):
            await stage.sleep(5)
            done.append("a part")
            stage.world.lock("job").lose()
            await stage.sleep(5)
            done.append("all")

    async def story():
        with pytest.raises(LeaseLost, match="'job' was lost"):
            await work(stage.connect())
        await stage.sleep(100)  # nobody is interrupted any more

    stage.play(story)
    assert done == ["a part"]


def test_whoever_has_given_it_back_is_not_interrupted(stage):
    async def story():
        hf = stage.connect("a", timeout=1)
        held = await hf.lock("job", lease=10, cancel_on_lost=True).acquire()
        stage.world.lock("job").lose()
        await held.release()
        await stage.sleep(20)
        async with hf.lock("job", lease=10, cancel_on_lost=True):
            pass
        await stage.sleep(20)

    stage.play(story)


def test_a_value_travels_with_the_lock(stage):
    async def story():
        hf = stage.connect()
        held = await hf.lock("job").acquire()
        assert (held.value, held.value_valid) == (None, True)
        await held.release(b"page 17")
        async with hf.lock("job") as held:
            assert (held.value, held.value_valid) == (b"page 17", True)
            with pytest.raises(BadRequest, match="64"):
                await held.release(b"x" * 65)
            assert held.held
        with pytest.raises(BadRequest, match="mode must be one of"):
            await (await hf.lock("job").acquire()).convert("XX")

    stage.play(story)


def test_an_upgrade_nobody_heard_of_leaves_a_reader(stage):
    """What waits at the server for a caller that does not wait any more keeps no other reader out."""

    async def story():
        hf, other = stage.connect("a", timeout=1), stage.connect("b")
        one = await hf.rwlock("job").read().acquire()
        async with other.rwlock("job").read():
            upgrade = stage.spawn(ended(one.upgrade(patience=300)))
            await stage.sleep(2)
            stage.world.net.reset("a")
            await stage.sleep(5)
            assert stage.world.lock("job").modes == ["PR", "PR"]
        assert await upgrade is None
        assert (one.mode, stage.world.lock("job").modes) == ("EX", ["EX"])
        stage.world.net.partition("a", up=False)
        assert isinstance(await ended(one.downgrade()), Exception)
        assert one.mode == "PR"  # it may be
        stage.world.net.heal("a")
        await stage.sleep(3)
        await one.release()
        assert not stage.world.lock("job").held

    stage.play(story)


def test_it_is_upgraded_also_at_a_server_that_was_started_again(stage):
    async def story():
        other = stage.connect("b")
        held = await stage.connect("a").rwlock("job", lease=60).read().acquire()
        stage.world.server.restart()
        await held.upgrade()
        assert (held.mode, stage.world.lock("job").fences) == ("EX", [held.fence])
        assert await other.rwlock("job").read().try_acquire() is None
        stage.world.server.restart()
        await held.downgrade()
        assert held.mode == "PR"
        assert await held.release() is True
        assert not stage.world.lock("job").held

    stage.play(story)


def test_an_upgrade_of_what_the_server_has_lost_tells_of_the_loss(stage):
    async def story():
        held = await stage.connect("a").rwlock("job", lease=60).read().acquire()
        stage.world.lock("job").lose()
        stage.world.server.restart()
        with pytest.raises(LeaseLost):
            await held.upgrade()
        assert held.state is State.LOST
        await stage.sleep(5)
        assert not stage.world.lock("job").held

    stage.play(story)


@pytest.mark.parametrize("face", ["threads"])
@pytest.mark.parametrize("any_stage", ["holdfast sqlite", "dflock memory", "http memory"], indirect=True)
def test_a_child_of_a_fork_holds_nothing_and_gives_nothing_back(any_stage):
    hf = any_stage.connect()
    with hf.inner.lock(any_stage.key()) as held:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                assert not held.held
                with pytest.raises(LeaseLost, match="forked"):
                    held.check()
                assert held.release() is False
                assert hf.inner.try_lock(any_stage.key()) is None
                with hf.inner.lock(any_stage.key("child"), patience=5) as mine:
                    assert mine.held
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        held.check()
    hf.inner.close()


def test_a_server_that_is_not_there_is_told_of(stage):
    async def story():
        stage.world.server.kill()
        with pytest.raises(Unavailable):
            await stage.connect("a", timeout=1).lock("job").acquire()

    stage.play(story)
