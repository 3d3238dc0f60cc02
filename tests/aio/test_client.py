"""The client itself: what it is told at the beginning, what it gives back at the end, and for how long it is waited."""

import subprocess
import sys
import zlib

import pytest

from holdfast import aio, sync
from holdfast.errors import BadRequest, Closed, LeaseLost
from tests.aio.client_faces import Stage, ended


def test_closing_gives_back_what_is_held(any_stage):
    async def story():
        hf, other = any_stage.connect(), any_stage.connect()
        keys = [any_stage.key(name) for name in "abc"]
        held = [await hf.lock(key).acquire() for key in keys]
        await hf.close()
        await hf.close()
        for key, one in zip(keys, held, strict=True):
            assert not one.held
            assert await one.release() is True
            assert await (await other.try_lock(key)).release()
        with pytest.raises(Closed):
            await hf.lock(keys[0]).acquire()
        with pytest.raises(Closed):
            await hf.try_lock(keys[0])

    any_stage.play(story)


def test_whoever_waits_when_the_client_is_closed_hears_of_it_and_gets_nothing(any_stage):
    async def story():
        hf, other = any_stage.connect(), any_stage.connect()
        held = await other.lock(any_stage.key()).acquire()
        waiting = any_stage.spawn(ended(hf.lock(any_stage.key()).acquire()))
        await any_stage.sleep(0.1)
        await hf.close()
        assert isinstance(await waiting, Closed)
        await held.release()
        assert (await other.lock(any_stage.key(), patience=60).acquire()).fence > held.fence

    any_stage.play(story)


def test_the_end_is_bounded_however_many_servers_are_gone(stage):
    async def story():
        hf = stage.connect("a", url=",".join(f"holdfast://world:{port}" for port in range(1, 6)))
        held = [await hf.lock(str(number), lease=10).acquire() for number in range(20)]
        stage.world.server.pause()
        began = stage.world.clock.now
        await hf.close()
        assert stage.world.clock.now - began <= 2.001
        assert not any(one.held for one in held)
        stage.world.server.resume()
        await stage.sleep(10)
        assert not list(stage.world.server.holdings())

    stage.play(story)


@pytest.mark.parametrize("face", ["tasks"])
@pytest.mark.parametrize("after", [0, 0.5, 1])
def test_a_close_that_is_cancelled_goes_on_for_all_servers(stage, after):
    async def story():
        hf = stage.connect("a", url="holdfast://world:1,holdfast://world:2")
        held = [await hf.lock(str(number), lease=10).acquire() for number in range(8)]
        stage.world.server.pause()
        closing = stage.spawn(hf.close())
        await stage.sleep(after)
        closing.cancel()
        await stage.sleep(0.1)
        stage.world.server.resume()
        await stage.sleep(20)
        assert not list(stage.world.server.holdings())
        assert not any(one.held for one in held)

    stage.play(story)


def test_the_block_of_a_client_closes_it(stage):
    async def work(hf):
        async with hf:
            await hf.lock("job").acquire()
            raise LeaseLost("of the body")

    async def story():
        hf = stage.connect()
        with pytest.raises(LeaseLost, match="of the body"):
            await work(hf)
        assert not stage.world.lock("job").held
        assert repr(hf) == "<Client 'client-1' of world:6388>"

    stage.play(story)


def test_keys_are_spread_over_servers_as_by_dflockds_own_clients(face, servers):
    ports = [server.port for server in servers.values()]
    stage = Stage(face, ",".join(f"dflock://127.0.0.1:{port}" for port in ports))

    async def story():
        hf = stage.connect()
        alone = [stage.connect(url=f"dflock://127.0.0.1:{port}") for port in ports]
        for number in range(6):
            key = stage.key(str(number))
            async with hf.lock(key):
                where = zlib.crc32(key.encode()) % 2
                assert await alone[where].try_lock(key) is None
                assert await (await alone[1 - where].try_lock(key)).release()

    stage.play(story)


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"url": "ftp://host"}, "ftp://host begins with none of"),
        ({"url": "holdfast://a,http://b"}, "one protocol"),
        ({"timeout": 0}, "timeout"),
        ({"margin": -1}, "margin"),
        ({"name": "two\nlines"}, "name"),
    ],
)
def test_what_no_client_can_be_made_of_is_refused_at_once(face, named, why):
    with pytest.raises(BadRequest, match=why):
        (aio if face == "tasks" else sync).connect(**named)


@pytest.mark.parametrize(
    ("wishes", "why"),
    [
        ({"lease": 0}, "lease"),
        ({"patience": -1}, "patience"),
        ({"margin": 30}, "margin"),
        ({"mode": "XX"}, "mode"),
        ({"deadlock": "ignore"}, "deadlock"),
        ({"beat_timeout": 0}, "beat_timeout"),
        ({"operation": "x" * 300}, "operation"),
    ],
)
def test_what_no_lock_can_be_asked_for_with_is_refused_at_once(stage, wishes, why):
    with pytest.raises(BadRequest, match=why):
        stage.connect().lock("job", **wishes)


PROGRAM = """
import sys, holdfast
hf = holdfast.connect({url!r})
held = hf.lock({key!r}, lease=60).acquire()
group = hf.all({key!r} + "-a", {key!r} + "-b").acquire()
print(held.held and group.held, flush=True)
{end}
"""


@pytest.mark.parametrize("any_stage", ["holdfast sqlite", "dflock memory", "http memory"], indirect=True)
@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise KeyboardInterrupt"])
@pytest.mark.parametrize("face", ["threads"])
def test_a_program_that_ends_gives_back_what_it_held(any_stage, end):
    program = PROGRAM.format(url=any_stage.url, key=any_stage.key(), end=end)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.stdout == b"True\n"

    async def story():
        hf = any_stage.connect()
        for key in (any_stage.key(), any_stage.key() + "-a", any_stage.key() + "-b"):
            assert await hf.try_lock(key) is not None

    any_stage.play(story)
