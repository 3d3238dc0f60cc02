"""One native connection in an event loop: each request gets its own answer, and silence, nonsense and ends are told."""

import asyncio

import pytest

from holdfast.aio.connection import Connection, connect
from holdfast.client.asks import Acquire as Take
from holdfast.client.asks import End as GiveBack
from holdfast.client.asks import Ended, Granted, Query, Seen, Want
from holdfast.client.dialects.native import NativeCodec, Session
from holdfast.client.ports import Address
from holdfast.errors import BadPeer, Forbidden, Unavailable, Unknown
from holdfast.testing import virtual_loop
from holdfast.testing.world import World

SECOND = 1_000_000_000
ADDRESS = Address("world", 6388)


def codec(auth=None):
    return NativeCodec(Session(client="test", host="here", pid=1, auth=auth), events=False)


class Scene:
    """A world with one program, in whose loop a story is told."""

    def __init__(self, world):
        self.world = world
        self.program = world.program("a")
        self.outside = self.program.world()

    async def connect(self, timeout=10, auth=None):  # noqa: ASYNC109  it is that of a connection
        return await connect(self.outside.network, ADDRESS, codec(auth), self.program.clock, timeout * SECOND)

    def after(self, seconds):
        return self.program.clock() + seconds * SECOND

    def play(self, story):
        virtual_loop.run(self.program, story())


@pytest.fixture
def scene():
    with World() as world:
        yield Scene(world)


def want(key, ticket="first"):
    return Want(key=key, ticket=f"ticket-of-{key}-the-{ticket}", lease_ns=30 * SECOND)


def test_requests_overtake_each_other_and_get_their_own_answers(scene):
    async def story():
        connection = await scene.connect()
        first = await connection.ask(Take(want("a"), 0), scene.after(5))
        waiting = asyncio.ensure_future(connection.ask(Take(want("a", "other"), None), None))
        assert isinstance(first, Granted)
        assert isinstance(await connection.ask(Query("ping"), scene.after(5)), Seen)
        assert not waiting.done()
        assert await connection.ask(GiveBack(want("a"), None), scene.after(5)) == Ended(was_there=True)
        second = await waiting
        assert isinstance(second, Granted)
        assert second.fence > first.fence

    scene.play(story)


def test_whoever_stops_waiting_is_not_answered_and_nobody_else_is(scene):
    async def story():
        connection = await scene.connect()
        for key in "abc":
            task = asyncio.ensure_future(connection.ask(Take(want(key), None), None))
            await asyncio.sleep(0)
            task.cancel()
            assert connection.post(GiveBack(want(key), None)) is True
            with pytest.raises(asyncio.CancelledError):
                await task
        await connection.ask(Query("ping"), scene.after(5))
        assert [scene.world.lock(key).held for key in "abc"] == [False] * 3

    scene.play(story)


def test_an_answer_that_is_overdue_ends_the_connection(scene):
    async def story():
        connection = await scene.connect()
        scene.world.server.pause()
        patient = asyncio.ensure_future(connection.ask(Take(want("a"), None), None))
        with pytest.raises(Unknown, match="in time"):
            await connection.ask(Query("ping"), scene.after(3))
        assert scene.world.clock.now == pytest.approx(3)
        with pytest.raises(Unknown):
            await patient
        assert connection.is_over
        assert connection.post(Query("ping")) is False
        with pytest.raises(Unavailable):
            await connection.ask(Query("ping"), None)

    scene.play(story)


def test_a_server_that_says_nothing_for_long_has_to_show_that_it_is_there(scene):
    async def story():
        connection = await scene.connect(timeout=2)
        await connection.ask(Take(want("a"), 0), scene.after(5))
        waiting = asyncio.ensure_future(connection.ask(Take(want("a", "other"), None), None))
        await asyncio.sleep(25)
        assert not waiting.done()
        scene.world.net.partition("a")
        began = scene.world.clock.now
        with pytest.raises(Unknown):
            await waiting
        assert scene.world.clock.now - began <= 13

    scene.play(story)


def test_the_end_of_the_server_is_told_to_all_who_wait(scene):
    async def story():
        connection = await scene.connect()
        await connection.ask(Take(want("a"), 0), scene.after(5))
        takes = [Take(want("a", f"other-{number}"), None) for number in range(3)]
        tasks = [asyncio.ensure_future(connection.ask(take, None)) for take in takes]
        await asyncio.sleep(0.1)
        scene.world.server.kill()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Unknown] * 3
        assert connection.is_over
        connection.close()

    scene.play(story)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"nonsense\n", BadPeer),
        (b'{"id":77,"answer":"ok"}\n', BadPeer),
        (b'{"id":1,"answer":"granted"}\n', BadPeer),
        (b"\xff\xfe\n", BadPeer),
    ],
)
def test_nonsense_ends_the_connection(scene, said, error):
    async def story():
        connection = await scene.connect()
        task = asyncio.ensure_future(connection.ask(Take(want("a"), None), None))
        await asyncio.sleep(0)
        connection.data_received(said)
        with pytest.raises(error):
            await task
        assert connection.is_over
        connection.data_received(said)  # late bytes do no harm

    scene.play(story)


def test_nobody_who_answers_is_no_connection(scene):
    async def story():
        scene.world.server.kill()
        with pytest.raises(Unavailable, match="cannot connect"):
            await scene.connect()
        scene.world.server.start()
        scene.world.server.pause()
        with pytest.raises(Unavailable, match="cannot connect"):
            await scene.connect(timeout=2)
        assert scene.world.clock.now == pytest.approx(2)
        scene.world.clock.after(1, scene.world.server.kill)
        with pytest.raises(Unavailable, match="instead of answering hello"):
            await scene.connect()

    scene.play(story)


def test_a_wrong_token_is_told():
    with World(auth_token="right") as world:
        scene = Scene(world)

        async def story():
            with pytest.raises(Forbidden):
                await scene.connect(auth="wrong")
            assert not (await scene.connect(auth="right")).is_over

        scene.play(story)


@pytest.mark.parametrize("steps", range(8))
def test_whoever_stops_connecting_leaves_no_connection(scene, steps):
    async def story():
        scene.world.net.delay(0.1)
        task = asyncio.ensure_future(scene.connect())
        await asyncio.sleep(steps * 0.05 + 0.01)
        task.cancel()
        connection = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(connection, Connection):
            connection.close()
        await asyncio.sleep(2)
        assert all(cable.is_over for cable in scene.world.program("a").route.cables)
        assert scene.world.server.run.desk.connections <= 1  # the session, for its grace

    scene.play(story)
