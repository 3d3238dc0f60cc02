"""How tasks wait and are interrupted: instants, events, work beside, functions that are told, and what a loop ends."""

import asyncio
import threading

import pytest

from holdfast.aio.waiting import (
    Channel,
    Companion,
    Countdown,
    Interrupter,
    Place,
    Shared,
    about,
    check_function,
    current,
    lock,
    sleep_until,
    wait_for,
)
from holdfast.client.world import real_world
from holdfast.errors import BadRequest, LeaseLost
from holdfast.testing import virtual_loop
from holdfast.testing.world import World

SECOND = 1_000_000_000


@pytest.fixture
def world():
    with World() as world:
        yield world


def play(world, story):
    """Run a story in a program of the world; it gets the place, what is outside, and the clock's reading in seconds."""
    program = world.program("a")
    outside = program.world()
    place = Place(outside)

    async def main():
        place.enter()
        await story(place, outside)

    virtual_loop.run(program, main())


def test_instants_are_waited_for(world):
    async def story(place, outside):
        await sleep_until(outside, outside.clock() + 5 * SECOND)
        await sleep_until(outside, outside.clock() - 5 * SECOND)
        assert world.clock.now == pytest.approx(5)
        event = asyncio.Event()
        assert await wait_for(outside, event, outside.clock() + 3 * SECOND) is False
        assert world.clock.now == pytest.approx(8)
        asyncio.get_running_loop().call_later(2, event.set)
        assert await wait_for(outside, event) is True
        assert await wait_for(outside, event, 0) is True
        async with lock(outside) as entered:
            assert entered is None

    play(world, story)


def test_a_client_belongs_to_one_loop():
    place = Place(real_world())

    async def enter():
        place.enter()

    asyncio.run(enter())
    with pytest.raises(BadRequest, match="another event loop"):
        asyncio.run(enter())
    place.soon(lambda: None)  # its loop is closed, and nobody there can be told


def test_words_from_other_threads_reach_the_loop():
    async def main():
        place, heard = Place(real_world()), asyncio.Event()
        place.enter()
        threading.Thread(target=place.soon, args=(heard.set,)).start()
        await asyncio.wait_for(heard.wait(), 10)

    asyncio.run(main())


def test_functions_of_both_kinds_are_told_and_their_trouble_is_logged(world, caplog):
    heard = []

    async def story(place, outside):
        async def later(held):
            await asyncio.sleep(1)
            heard.append(held)
            raise ValueError("later")

        def now(held):
            heard.append(held)
            raise ValueError("now")

        place.tell(later, "one")
        place.tell(now, "two")
        assert heard == ["two"]
        await asyncio.sleep(2)
        for function in (later, now):
            await wait_for(outside, place.told(function, "three"))

    play(world, story)
    assert heard == ["two", "one", "three", "three"]
    assert [str(record.exc_info[1]) for record in caplog.records] == ["now", "later", "later", "now"]


def test_a_countdown_ends_when_all_is_done_or_in_time(world):
    async def story(place, outside):
        assert await Countdown(place).wait(outside, 0) is True
        countdown = Countdown(place)
        countdown.expect(2)
        countdown.one()
        assert await countdown.wait(outside, outside.clock() + SECOND) is False
        countdown.one()
        assert await countdown.wait(outside, outside.clock() + SECOND) is True

    play(world, story)


def test_an_interruption_is_told_from_a_cancellation(world):
    async def work(place, told, how):
        interrupter = Interrupter(place)
        told.append(interrupter)
        error = None
        try:
            await asyncio.sleep(10)
        except BaseException as caught:  # noqa: BLE001  what it is, is told to the interrupter
            error = caught
            if how == "own":
                error = ValueError("of the body")
        return interrupter.disarm(error), asyncio.current_task().cancelling()

    async def story(place, outside):
        cases = [
            ("fire", False, (True, 0)),
            ("fire", True, (False, 1)),
            ("", True, (False, 1)),
            ("", False, (False, 0)),
        ]
        for fires, cancels, expected in cases:
            told = []
            task = asyncio.ensure_future(work(place, told, ""))
            await asyncio.sleep(1)
            for _ in range(2 if fires else 0):
                told[0].fire()  # once is enough
            await asyncio.sleep(0)
            if cancels:
                task.cancel()
            assert await task == expected
        told = []
        task = asyncio.ensure_future(work(place, told, "own"))
        await asyncio.sleep(1)
        told[0].fire()
        assert await task == (False, 0)
        told[0].fire()
        told = []
        task = asyncio.ensure_future(work(place, told, ""))
        await asyncio.sleep(1)
        told[0].stand_down()
        told[0].fire()
        assert await task == (False, 0)

    play(world, story)


def test_a_lost_lease_that_the_body_raises_itself_is_no_surprise(world):
    async def story(place, outside):
        interrupter = Interrupter(place)
        assert interrupter.disarm(LeaseLost("of the body")) is False

    play(world, story)


def test_a_channel_keeps_what_is_new_and_not_without_end(world):
    async def story(place, outside):
        channel = Channel(place)
        for number in range(Channel.ITEMS_MAX + 5):
            channel.put(number)
        await asyncio.sleep(0)
        assert await channel.get() == 5
        assert await channel.get() == 6

    play(world, story)


def test_work_beside_is_waited_for_and_ended_when_that_takes_too_long(world):
    seen = []

    async def story(place, outside):
        async def quick():
            seen.append(asyncio.current_task().get_name())

        async def slow():
            try:
                await asyncio.sleep(100)
            finally:
                seen.append("ended")

        await Companion(place, quick, "quick one").join(outside, outside.clock() + SECOND)
        await Companion(place, slow, "slow one").join(outside, outside.clock() + SECOND)
        assert world.clock.now == pytest.approx(1)

    play(world, story)
    assert seen == ["quick one", "ended"]


def test_who_asks_is_the_task(world):
    async def story(place, outside):
        asyncio.current_task().set_name("the \x00 one")
        assert about() == {"task": "the ? one"}
        assert current() is asyncio.current_task()

    play(world, story)


def test_only_what_can_be_awaited_is_decorated():
    async def coroutine():
        """Be awaited."""

    check_function(coroutine)
    with pytest.raises(BadRequest, match="no coroutine function"):
        check_function(len)


def test_each_loop_has_one_client_which_is_closed_with_it():
    made = []

    class Client:
        closed = False

        async def close(self):
            self.closed = True

    def make():
        made.append(Client())
        return made[-1]

    shared = Shared()

    async def main():
        assert await shared.get(make) is await shared.get(make)

    asyncio.run(main())
    asyncio.run(main())
    assert [client.closed for client in made] == [True, True]
