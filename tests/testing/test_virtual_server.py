"""A server in virtual time is the real one: it keeps leases, stands still, dies and comes back with what it kept."""

import pytest

from holdfast.testing.world import World
from tests.testing.virtual_kit import ask, dial, hear


@pytest.fixture(params=["durable", "memory"])
def world(request):
    with World(store=request.param, release_on_disconnect=False) as world:
        yield world


def test_a_lease_runs_out_at_its_instant_and_the_next_one_has_it(world):
    one, two = dial(world, "one"), dial(world, "two")
    assert ask(world, one, "l|job|0 5", "one").startswith(b"ok ")
    two.send(b"l\njob\n60 5\n")
    assert hear(world, two, "two", 60).startswith(b"ok ")
    assert world.clock.now == 5.0


def test_a_paused_server_answers_later_and_its_clock_goes_on(world):
    stream = dial(world)
    assert ask(world, stream, "l|job|0 5").startswith(b"ok ")
    world.server.pause()
    stream.send(b"ping\n_\n_\n")
    with pytest.raises(TimeoutError):
        hear(world, stream, seconds=10)
    late = dial(world, "late")
    world.server.resume()
    assert hear(world, stream) == b"ok\n"
    assert ask(world, late, "l|job|0 5", "late").startswith(b"ok ")
    assert world.clock.now == 10.0


def test_a_killed_server_comes_back_with_what_its_store_keeps(world):
    stream = dial(world)
    first = ask(world, stream, "l|job|0 60")
    world.server.kill()
    world.server.kill()
    assert not world.server.alive
    world.server.start()
    world.server.start()
    world.clock.settle()
    assert world.lock("job").held == (world.server.store == "durable")
    world.clock.step(60)
    assert not world.lock("job").held
    second = ask(world, dial(world), "l|job|0 60")
    assert second.split()[1] > first.split()[1]


def test_what_a_killed_server_was_about_to_do_is_not_done(world):
    stream = dial(world)
    world.server.pause()
    stream.send(b"l\njob\n0 60\n")
    world.clock.step(1)
    world.server.restart()
    world.clock.step(1)
    assert not world.lock("job").held


def test_a_commit_takes_time_and_a_kill_in_its_middle_undoes_or_keeps_it_whole():
    with World(release_on_disconnect=False) as world:
        world.server.commit_ns = lambda: 1_000_000_000
        stream = dial(world)
        stream.send(b"l\njob\n0 60\n")
        world.clock.step(0.9)
        assert not world.lock("job").held
        world.clock.step(0.2)  # it is durable now, and nobody has been told
        assert world.lock("job").held
        world.server.restart()
        with pytest.raises(ConnectionResetError):
            hear(world, stream)
        assert world.lock("job").held


def test_a_clock_that_runs_faster_ends_leases_sooner(world):
    world.clock.drift(world.server, 10)
    stream = dial(world)
    assert ask(world, stream, "l|job|0 11").startswith(b"ok ")
    world.clock.step(9.99)
    assert world.lock("job").held
    world.clock.step(0.02)
    assert not world.lock("job").held


def test_a_step_of_the_wall_clock_ends_no_lease_and_is_seen_by_the_next_server(world):
    stream = dial(world)
    assert ask(world, stream, "l|job|0 60").startswith(b"ok ")
    world.clock.step_wall_clock(3600)
    world.clock.step(59)
    assert world.lock("job").held
    world.server.restart()
    world.clock.settle()
    assert not world.lock("job").held


def test_a_server_that_drains_sends_new_requests_away(world):
    stream = dial(world)
    world.server.drain()
    assert ask(world, stream, "l|job|0 60") == b"error_draining\n"


def test_a_lock_can_be_broken_and_its_lease_ended(world):
    stream = dial(world)
    for end in (world.lock("job").lose, world.lock("job").expire):
        assert ask(world, stream, "l|job|0 60").startswith(b"ok ")
        assert world.lock("job").modes == ["EX"]
        end()
        assert not world.lock("job").held
        with pytest.raises(LookupError, match="nobody holds 'lock:job'"):
            end()
    assert ask(world, stream, "sl|pool|0 2 60").startswith(b"ok ")
    assert len(world.semaphore("pool").fences) == 1
