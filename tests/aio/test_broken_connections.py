"""A connection breaks behind each byte, in each direction: the operation goes well or is refused, and nothing is left.

Whoever is told that it holds something does, and of what nobody holds any more the server is rid. The plain life of a
lock is cut behind each of its bytes; longer conversations, and the greeting, behind every so many.
"""

import itertools
from contextlib import suppress

import pytest

from holdfast.errors import HoldfastError
from tests.aio import operations
from tests.aio.client_faces import VirtualStage
from tests.aio.operations import OPERATIONS, Scene
from tests.aio.test_cancelling import nothing_is_left_over

BYTES_MAX = 20_000
STRIDE = 61

CASES = [
    pytest.param(scheme, operation, direction, id=f"{scheme}-{operation.__name__}-{direction}")
    for scheme, operation in OPERATIONS
    for direction in ("sent", "received")
]


@pytest.mark.parametrize(("scheme", "operation", "direction"), CASES)
def test_a_connection_that_breaks_anywhere_leaves_nothing(face, scheme, operation, direction):
    assert cuts(face, scheme, operation, direction, STRIDE) > 0


@pytest.mark.parametrize("direction", ["sent", "received"])
@pytest.mark.parametrize("scheme", ["holdfast", "dflock"])
def test_a_connection_that_breaks_behind_any_byte_of_the_life_of_a_lock_leaves_nothing(face, scheme, direction):
    assert cuts(face, scheme, lived, direction, 1) > 40


async def lived(hf, scene):
    """Take a lock and give it back, on a connection that is there already."""
    await hf.ping()
    scene.arm()
    await operations.given_back(hf, scene)


def cuts(face, scheme, operation, direction, stride):
    """Cut it behind so many bytes, and so many more, until there are no more; say how often."""
    for number in itertools.count():
        assert number * stride < BYTES_MAX
        if not cut(face, scheme, operation, {direction: number * stride}):
            return number
    raise AssertionError


def cut(face, scheme, operation, where):
    """Break the connection that carries a certain byte; say whether there was one."""
    stage = VirtualStage(face, scheme)
    found = []

    async def story():
        hf = stage.connect("ours")
        scene = Scene(stage)
        scene.arm = lambda: stage.world.net.cut_after("ours", **where)
        if operation is not lived:
            scene.arm()
        with suppress(HoldfastError):  # it is told in words of ours
            await operation(hf, scene)
        route = stage.world.program("ours").route
        found.append(route.fuse_up.is_blown and route.fuse_down.is_blown)
        await nothing_is_left_over(stage, hf, where)

    with stage.world:
        stage.play(story)
    return found[0]
