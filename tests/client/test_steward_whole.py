"""Renewal the whole way: a client, a network and a server in virtual time. A lease outlives restarts, resets and lost
answers, is lost exactly when it should be, and leaves nothing at the server."""

import pytest

from holdfast.errors import LeaseLost
from holdfast.testing.world import World


@pytest.fixture
def world():
    with World() as world:
        yield world


def lasting(world):
    """Take a lock to hold for long; note if it is lost."""
    client = world.connect("holder")
    notices = []
    held = client.lock("job", lease=30, on_lost=notices.append).acquire()
    return client, held, notices


@pytest.mark.parametrize("down_s", [0.5, 5, 15])
def test_a_server_that_is_restarted_on_a_file_within_the_lease_costs_nothing(world, down_s):
    _, held, notices = lasting(world)
    for _ in range(4):
        world.clock.step(7)
        world.server.kill()
        world.clock.step(down_s)
        world.server.start()
    world.clock.step(60)
    assert (held.held, notices, world.lock("job").fences) == (True, [], [held.fence])


def test_a_server_that_stays_away_costs_the_lease_at_its_deadline(world):
    _, held, notices = lasting(world)
    world.server.kill()
    deadline = world.clock.now + held.remaining
    world.clock.step(held.remaining - 0.01)
    assert held.held
    world.clock.step(0.01)
    world.clock.settle()
    assert (held.held, notices) == (False, [held])
    assert world.clock.now == pytest.approx(deadline)


def test_a_server_that_has_forgotten_everything_costs_the_lease_when_it_is_back():
    with World(store="memory") as world:
        _, held, _ = lasting(world)
        world.clock.step(5)
        world.server.restart()
        assert world.wait(held.lost, 10)
        with pytest.raises(LeaseLost):
            held.check()


def test_connections_that_are_reset_all_the_time_cost_nothing(world):
    client, held, notices = lasting(world)
    for _ in range(200):
        world.clock.step(0.61)
        world.net.reset(client)
    assert (held.held, notices, world.lock("job").fences) == (True, [], [held.fence])


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_answers_that_are_lost_with_their_connections_cost_nothing(world, lost):
    client, held, notices = lasting(world)
    for _ in range(5):
        world.net.drop_answers(lost, client)
        world.clock.step(20)
    assert (held.held, notices, world.lock("job").fences) == (True, [], [held.fence])


def test_nothing_is_left_at_the_server_of_a_lease_that_was_lost_while_answers_were(world):
    client, held, _ = lasting(world)
    world.clock.step(9)
    world.net.partition(client, up=False)  # it hears what is asked, and nobody hears it
    assert world.wait(held.lost, 60)
    world.net.heal(client)
    world.clock.step(2)
    assert not world.lock("job").held
