"""Functions under a lock: whose turn it is, who runs at all, and what stays taken for how long."""

import asyncio

import pytest

import holdfast
from holdfast import aio
from holdfast.errors import BadRequest, Busy
from holdfast.sync import decorators
from holdfast.sync.waiting import Shared


class OfTheFunction(Exception):
    """What a decorated function raises."""


def test_a_function_runs_under_its_lock(any_stage):
    async def story():
        hf, other = any_stage.connect(), any_stage.connect()

        async def work(name, *, times=1):
            """Work."""
            assert await other.try_lock(f"{any_stage.key()}-{name}") is None
            return name * times

        locked = hf.locked(lambda name, times=1: f"{any_stage.key()}-{name}", lease=20)(any_stage.made(work))
        assert await result(locked("ab", times=2)) == "abab"
        assert await (await other.try_lock(f"{any_stage.key()}-ab")).release()

    any_stage.play(story)


def test_a_call_waits_for_its_turn_and_gives_up_when_its_patience_ends(stage):
    async def story():
        hf, other = stage.connect(), stage.connect()

        async def work():
            return "done"

        now = hf.locked("job", patience=0)(stage.made(work))
        later = hf.locked("job", patience=60)(stage.made(work))
        held = await other.lock("job").acquire()
        with pytest.raises(Busy):
            await result(now())
        stage.world.clock.after(5, stage.world.lock("job").expire)
        assert await result(later()) == "done"
        await held.release()

    stage.play(story)


def test_a_job_runs_once_on_machines_whose_clocks_differ(virtual_stage):
    stage = virtual_stage
    ran = []

    async def story():
        hf, other = stage.connect("a"), stage.connect("b")

        async def work(who):
            ran.append(who)
            await stage.sleep(3)
            return who

        if not stage.native:
            job = hf.once("job", at_least=60)(stage.made(work))
            with pytest.raises(BadRequest, match="at_least"):
                await result(job("a"))
            return
        one, two = (client.once("job", at_least=60)(stage.made(work)) for client in (hf, other))
        assert await result(one("a")) == "a"
        await hf.close()
        for _ in range(5):
            await stage.sleep(10)
            assert await result(two("b")) is None
        await stage.sleep(10)
        assert await result(two("b")) == "b"

    stage.play(story)
    assert ran == (["a", "b"] if stage.native else [])


def test_a_machine_that_dies_in_the_middle_has_had_its_turn(stage):
    """However short its lease: the lock stays taken for as long as was said."""

    async def story():
        hf, other = stage.connect("a"), stage.connect("b")

        async def work():
            await stage.sleep(15)
            stage.world.net.partition("a")
            raise OfTheFunction

        async def never():
            raise AssertionError("it has had its turn")

        job = hf.once("job", at_least=300, lease=10)(stage.made(work))
        again = other.once("job", at_least=300, lease=10)(stage.made(never))
        with pytest.raises(OfTheFunction):
            await result(job())
        while stage.world.clock.now < 299:
            await stage.sleep(5)
            if stage.world.clock.now < 299:
                assert await result(again()) is None
        await stage.sleep(30)
        assert not stage.world.lock("job").held
        stage.world.net.heal("a")

    stage.play(story)


def test_without_a_span_the_lock_is_free_when_the_function_is_done(any_stage):
    async def story():
        hf, other = any_stage.connect(), any_stage.connect()

        async def work():
            return await other.try_lock(any_stage.key()) is None

        assert await result(hf.once(any_stage.key())(any_stage.made(work))()) is True
        assert await (await other.try_lock(any_stage.key())).release()

    any_stage.play(story)


def test_a_function_that_fails_fails_as_it_would_without(stage):
    async def story():
        hf = stage.connect()

        async def work():
            raise OfTheFunction

        for decorate in (hf.once("job"), hf.locked("job")):
            with pytest.raises(OfTheFunction):
                await result(decorate(stage.made(work))())
            assert not stage.world.lock("job").held

    stage.play(story)


def test_the_wrong_kind_of_function_is_refused():
    async def coroutine():
        """Be awaited."""

    def plain():
        """Be called."""

    for decorate, function in ((holdfast.locked, coroutine), (holdfast.once, coroutine), (aio.once, plain)):
        with pytest.raises(BadRequest, match="coroutine function"):
            decorate("job")(function)
    with pytest.raises(BadRequest, match="at_least"):
        holdfast.once("job", at_least=-1)


def test_without_a_client_the_server_of_the_environment_is_asked(servers, monkeypatch):
    monkeypatch.setattr(decorators, "_shared", Shared())
    monkeypatch.setenv("HOLDFAST_SERVER", f"holdfast://127.0.0.1:{servers['memory'].port}")

    @holdfast.locked("of-the-environment")
    def plain():
        """Keep my name."""
        assert inner() is None
        return asyncio.run(main())

    @holdfast.once("of-the-environment")
    def inner():
        raise AssertionError("it is locked")

    @aio.once("of-the-environment")
    async def coroutine():
        raise AssertionError("it is locked")

    @aio.locked("another")
    async def outer():
        return await coroutine()

    async def main():
        return await outer()

    assert plain() is None
    assert (plain.__name__, plain.__doc__) == ("plain", "Keep my name.")
    decorators.default_client().close()


async def result(called):
    """Wait for what a decorated function of either face gives."""
    return await called if asyncio.iscoroutine(called) else called
