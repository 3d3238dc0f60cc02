"""One server of a client: what is asked again and what is not, who closes what, and what each protocol is refused."""

import pytest

from holdfast.errors import BadRequest, Closed, Forbidden, Unavailable, Unknown
from tests.aio.client_faces import Stage, VirtualStage, ended


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_a_lost_answer_costs_no_second_lock(virtual_stage, lost):
    async def story():
        hf = virtual_stage.connect("a")
        await hf.ping()
        virtual_stage.world.net.drop_answers(lost, "a")
        held = await hf.lock("job", patience=60).acquire()
        assert virtual_stage.world.lock("job").fences == [held.fence]
        assert await held.release() is True
        await virtual_stage.sleep(1)
        assert not virtual_stage.world.lock("job").held

    virtual_stage.play(story)


def test_a_server_that_comes_back_in_time_is_waited_for(virtual_stage):
    async def story():
        virtual_stage.world.server.kill()
        virtual_stage.world.clock.after(5, virtual_stage.world.server.start)
        async with virtual_stage.connect("a", timeout=10).lock("job") as held:
            assert virtual_stage.world.clock.now >= 5
            held.check()

    virtual_stage.play(story)


def test_a_server_that_does_not_come_back_is_given_up(virtual_stage):
    async def story():
        hf = virtual_stage.connect("a", timeout=2)
        virtual_stage.world.server.kill()
        assert type(await ended(hf.lock("job").acquire())) is Unavailable
        virtual_stage.world.server.start()
        virtual_stage.world.server.pause()
        assert isinstance(await ended(hf.lock("job", patience=1).acquire()), (Unavailable, Unknown))
        assert virtual_stage.world.clock.now < 20
        virtual_stage.world.server.resume()
        await virtual_stage.sleep(20)
        assert not virtual_stage.world.lock("job").held

    virtual_stage.play(story)


def test_a_waiter_outlasts_a_restart_of_the_server(virtual_stage):
    async def story():
        hf, other = virtual_stage.connect("a"), virtual_stage.connect("b")
        held = await hf.lock("job", lease=8).acquire()
        waiting = virtual_stage.spawn(other.lock("job").acquire())
        await virtual_stage.sleep(1)
        virtual_stage.world.server.restart()
        await virtual_stage.sleep(20)
        assert held.held is virtual_stage.native
        await held.release()
        got = await waiting
        assert got.fence > held.fence
        await got.release()

    virtual_stage.play(story)


def test_many_ask_over_one_connection_of_our_own_protocol(stage):
    async def story():
        hf = stage.connect("a")
        work = [stage.spawn(one(hf, stage, str(number))) for number in range(20)]
        for task in work:
            await task
        stage.world.net.reset("a")
        assert len(stage.world.program("a").route.cables) <= 2

    stage.play(story)


async def one(hf, stage, key):
    async with hf.lock(key):
        await stage.sleep(0.5)


def test_a_wrong_token_is_not_tried_twice(face):
    stage = VirtualStage(face, auth_token="right")

    async def story():
        with pytest.raises(Forbidden):
            await stage.connect("a", auth="wrong").lock("job").acquire()
        assert stage.world.clock.now == 0
        async with stage.connect("b", auth="right").lock("job"):
            pass
        async with stage.connect("c", url="dflock://:right@world:6388").lock("job"):
            pass

    with stage.world:
        stage.play(story)


def test_a_session_that_the_server_forgot_is_replaced(stage):
    async def story():
        hf = stage.connect("a")
        held = await hf.lock("job", lease=120).acquire()
        stage.world.net.partition("a")
        await stage.sleep(60)  # longer than the grace of a session
        stage.world.net.heal("a")
        assert held.held
        await stage.sleep(60)
        assert held.held
        assert await held.release() is True
        assert not stage.world.lock("job").held

    stage.play(story)


def test_closing_says_goodbye_and_lets_go_of_the_connections(virtual_stage):
    async def story():
        hf = virtual_stage.connect("a")
        await hf.lock("job").acquire()
        await virtual_stage.sleep(5)
        await hf.close()
        await virtual_stage.sleep(1)
        assert not virtual_stage.world.lock("job").held
        assert all(cable.is_over for cable in virtual_stage.world.program("a").route.cables)
        assert virtual_stage.world.server.run.desk.connections == 0

    virtual_stage.play(story)


def test_what_is_granted_while_the_client_closes_is_not_kept(stage):
    """The grant is on its way when the client is closed."""

    async def story():
        hf = stage.connect("a")
        await hf.ping()
        stage.world.net.delay(1, "a")
        waiting = stage.spawn(ended(hf.all("job", "other").acquire()))
        await stage.sleep(1.5)
        assert stage.world.lock("job").held
        await hf.close()
        assert isinstance(await waiting, Closed)
        await stage.sleep(5)
        assert not stage.world.lock("job").held
        assert not stage.world.lock("other").held

    stage.play(story)


def test_http_is_asked_again_in_slices_that_proxies_put_up_with(face, servers):
    stage = Stage(face, f"http://127.0.0.1:{servers['memory'].http_port}")

    async def story():
        hf = stage.connect()
        server = (hf if face == "tasks" else hf.inner)._servers[0]
        assert server.rules.slice_ns == 50_000_000_000
        for work in (lambda: hf.enqueue(stage.key()), lambda: hf.show(stage.key()), hf.deadlocks):
            with pytest.raises(BadRequest, match="use holdfast://"):
                await work()

    stage.play(story)
