"""An event loop in virtual time: sleeps take no time, wakes come at their instants, connections are the world's."""

import asyncio
import gc

import pytest

from holdfast.testing.program import Killed
from holdfast.testing.turns import Stuck, WorldClosed
from holdfast.testing.virtual_loop import run
from holdfast.testing.world import World
from holdfast.words import SECOND
from tests.testing.virtual_kit import ADDRESS


@pytest.fixture
def world():
    with World() as world:
        yield world


class Talker(asyncio.Protocol):
    """Hears lines."""

    def __init__(self):
        self.heard = asyncio.Queue()

    def data_received(self, data):
        self.heard.put_nowait(data)

    def connection_lost(self, error):
        self.heard.put_nowait(error)


async def connect(program, seconds=5):
    protocol = Talker()
    until = program.clock() + seconds * SECOND
    return await program.world().network.connect(ADDRESS, protocol, until), protocol


def test_sleeps_pass_in_virtual_time(world):
    heard = []

    async def nap(seconds):
        await asyncio.sleep(seconds)
        heard.append((seconds, world.clock.now))

    async def main():
        await asyncio.gather(nap(3600), nap(0.5), nap(2))
        return "done"

    assert run(world.program("a"), main()) == "done"
    assert [round(now, 3) for _, now in heard] == [0.5, 2, 3600]


def test_a_connection_speaks_with_the_server_and_hears_of_its_end(world):
    program = world.program("a")
    world.net.delay(0.25)

    async def main():
        transport, protocol = await connect(program)
        transport.write(b"l\njob\n0 9\n")
        assert (await protocol.heard.get()).startswith(b"ok ")
        assert world.clock.now == pytest.approx(1.0)
        world.server.kill()
        assert isinstance(await protocol.heard.get(), ConnectionResetError)
        assert transport.is_closing()

    run(program, main())


def test_connecting_fails_as_it_does_elsewhere(world):
    program = world.program("a")

    async def main():
        world.server.kill()
        with pytest.raises(ConnectionRefusedError):
            await connect(program)
        world.server.start()
        world.net.partition()
        with pytest.raises(TimeoutError):
            await connect(program, 3)
        assert world.clock.now == pytest.approx(3)

    run(program, main())


def test_closing_tells_both_ends(world):
    program = world.program("a")

    async def main():
        transport, protocol = await connect(program)
        transport.write(b"l\njob\n0 9\n")
        await protocol.heard.get()
        assert world.lock("job").held
        transport.close()
        transport.close()
        assert await protocol.heard.get() is None

    run(program, main())
    world.clock.settle()
    assert not world.lock("job").held


def test_waiting_for_what_never_comes_is_told(world):
    async def main():
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="client 'a' waits in its event loop"):
        run(world.program("a"), main())


def test_a_loop_beside_a_thread_shares_its_time(world):
    heard = []

    async def main():
        await asyncio.sleep(2)
        heard.append("loop")

    def other():
        world.sleep(1)
        heard.append("thread")

    tasks = [world.spawn(run, world.program("a"), main()), world.spawn(other)]
    for task in tasks:
        task.join()
    assert heard == ["thread", "loop"]


def test_the_loop_of_a_killed_program_is_let_go_without_a_word(world, capfd):
    program = world.program("a")

    async def main():
        transport, _ = await connect(program)
        try:
            await asyncio.gather(asyncio.sleep(3600), asyncio.Event().wait())
        finally:
            transport.write(b"what the dead have to say\n")

    world.clock.after(5, program.kill)
    with pytest.raises(Killed):
        run(program, main())
    gc.collect()
    assert world.clock.now == pytest.approx(5)
    assert capfd.readouterr().err == ""


def test_a_world_that_is_closed_takes_its_loops_along():
    async def main():
        await asyncio.Event().wait()

    with World() as world:
        task = world.spawn(run, world.program("a"), main())
        world.clock.settle()
    assert task.done
    assert isinstance(task.error, WorldClosed) or task.error is None
