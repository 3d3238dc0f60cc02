"""The network of a world: delays, partitions, lost answers, resets, and servers that are not there."""

import pytest

from holdfast.testing.world import World
from tests.testing.virtual_kit import ask, dial, hear


@pytest.fixture
def world():
    with World() as world:
        yield world


def test_bytes_take_their_time_each_way(world):
    world.program("a")
    world.net.delay(0.5)
    stream = dial(world)
    assert world.clock.now == 1.0
    assert ask(world, stream, "ping|_|_") == b"ok\n"
    assert world.clock.now == 2.0


def test_nobody_connects_to_a_server_that_is_not_there(world):
    world.server.kill()
    with pytest.raises(ConnectionRefusedError):
        dial(world)


def test_nobody_connects_through_a_partition(world):
    world.program("a")
    world.net.partition("a")
    with pytest.raises(TimeoutError, match="no connection to world:6388 in time"):
        dial(world, seconds=3)
    assert world.clock.now == 3.0


def test_a_partition_is_silent_and_what_was_said_arrives_when_it_heals(world):
    stream = dial(world)
    world.net.partition("a", up=False)
    stream.send(b"l\njob\n0 60\n")
    with pytest.raises(TimeoutError):
        hear(world, stream)
    assert world.lock("job").held
    world.net.heal()
    assert hear(world, stream).startswith(b"ok ")


def test_a_lost_answer_takes_its_connection_along(world):
    stream = dial(world)
    world.net.drop_answers(1, "a")
    with pytest.raises(ConnectionResetError):
        ask(world, stream, "ping|_|_")
    with pytest.raises(ConnectionResetError):
        stream.send(b"x")
    assert ask(world, dial(world), "ping|_|_") == b"ok\n"


def test_a_reset_is_heard_by_both(world):
    stream = dial(world)
    assert ask(world, stream, "l|job|0 60").startswith(b"ok ")
    world.net.reset("a")
    world.clock.settle()
    assert not world.lock("job").held
    with pytest.raises(ConnectionResetError):
        hear(world, stream)


def test_the_end_of_a_server_is_heard_when_it_can_be(world):
    near, far = dial(world, "near"), dial(world, "far")
    world.net.partition("far")
    world.server.restart()
    with pytest.raises(ConnectionResetError):
        hear(world, near, "near")
    with pytest.raises(TimeoutError):
        hear(world, far, "far")
    world.net.heal("far")
    with pytest.raises(ConnectionResetError):
        hear(world, far, "far")


def test_a_stream_that_was_closed_says_so(world):
    stream = dial(world)
    stream.close()
    stream.close()
    with pytest.raises(OSError, match="closed here"):
        hear(world, stream)
    with pytest.raises(ConnectionResetError):
        stream.send(b"x")


def test_a_server_that_closes_properly_is_the_end_of_a_stream(world):
    stream = dial(world)
    stream.send(b"x" * 300 + b"\n")
    assert hear(world, stream) == b"error\n"
    assert hear(world, stream) == b""
