"""A client's process: its clock, and what standing still and dying mean for its connections and its waits."""

import pytest

from holdfast.testing.program import Killed
from holdfast.testing.turns import Stuck
from holdfast.testing.world import World
from holdfast.words import FOREVER, SECOND
from tests.testing.virtual_kit import ask, dial, hear


@pytest.fixture
def world():
    with World() as world:
        yield world


@pytest.mark.parametrize("ppm", [0, 20_000, -20_000, 333_333])
def test_an_instant_is_when_its_clock_shows_so_much_and_not_before(world, ppm):
    program = world.program("a")
    program.drift(ppm)
    for span in (0, 1, 7, SECOND, 10 * SECOND + 1):
        then = program.clock() + span
        program.sleep(then)
        assert then <= program.clock() <= then + 1
    assert program.instant(FOREVER) == FOREVER


def test_a_clock_that_drifts_does_not_jump(world):
    program = world.program("a")
    before = program.clock()
    program.drift(500_000)
    assert program.clock() == before
    world.clock.step(10)
    assert program.clock() == before + 15 * SECOND


def test_a_program_that_stands_still_hears_nothing_until_it_goes_on(world):
    stream = dial(world)
    stream.send(b"ping\n_\n_\n")
    program = world.program("a")
    program.freeze()
    world.clock.after(7, program.thaw)
    assert hear(world, stream) == b"ok\n"
    assert world.clock.now == 7.0


def test_waiting_for_one_that_stands_still_for_ever_is_told(world):
    stream = dial(world)
    world.freeze("a")
    with pytest.raises(Stuck, match=r"client 'a' waits for world:6388 to say something.*but stands still"):
        hear(world, stream)


def test_what_comes_to_it_while_it_stands_still_keeps_its_order(world):
    program, heard = world.program("a"), []
    program.freeze()
    program.act(lambda: heard.append(1))
    program.act(lambda: (heard.append(2), program.freeze()))
    program.act(lambda: heard.append(3))
    program.thaw()
    program.act(lambda: heard.append(4))
    world.clock.settle()
    assert heard == [1, 2]
    program.thaw()
    world.clock.settle()
    assert heard == [1, 2, 3, 4]


def test_a_killed_program_is_hung_up_by_its_system(world):
    stream = dial(world)
    assert ask(world, stream, "l|job|0 60").startswith(b"ok ")
    world.kill("a")
    world.kill("a")
    world.clock.settle()
    assert not world.lock("job").held
    with pytest.raises(Killed):
        stream.send(b"x")
    with pytest.raises(Killed):
        world.program("a").sleep(0)


def test_a_program_dies_while_it_waits(world):
    stream = dial(world)
    world.clock.after(1, lambda: world.kill("a"))
    with pytest.raises(Killed):
        hear(world, stream)
    assert world.clock.now == 1.0


@pytest.mark.parametrize(("count", "held"), [(0, False), (5, False), (10, False), (11, True)])
def test_a_program_can_die_at_any_byte_that_it_sends(count, held):
    world = World(store="memory")
    stream, program = dial(world), world.program("a")
    program.sends_max = count
    with pytest.raises(Killed):
        stream.send(b"l\njob\n0 60\n" + b" ")  # a line that is cut short is no request
    seen = []
    world.timeline.watchers.append(lambda: seen.append(world.lock("job").held))
    world.clock.settle()
    assert any(seen) == held
    assert program.dead


def test_a_program_can_die_at_any_byte_that_it_receives(world):
    stream, program = dial(world), world.program("a")
    program.receives_max = 2
    with pytest.raises(Killed):
        ask(world, stream, "ping|_|_")


def test_a_call_that_may_block_can_be_interrupted(world):
    stream, program = dial(world), world.program("a")

    def interrupt(what):
        raise KeyboardInterrupt(what)

    program.blocking = interrupt
    with pytest.raises(KeyboardInterrupt, match="receive"):
        hear(world, stream)
    with pytest.raises(KeyboardInterrupt, match="dial"):
        dial(world)


def test_a_lock_lets_one_thread_through_and_the_others_wait_in_virtual_time(world):
    lock, seen = world.program("a").world().lock(), []

    def work(name, seconds):
        with lock:
            world.sleep(seconds)
            seen.append((name, world.clock.now))

    tasks = [world.spawn(work, name, seconds) for name, seconds in (("one", 2), ("two", 3))]
    world.clock.step(1)
    assert not lock.acquire(blocking=False)
    assert not lock.acquire(timeout=0.5)
    assert world.clock.now == 1.5
    for task in tasks:
        task.join()
    assert seen == [("one", 2.0), ("two", 5.0)]
    with pytest.raises(RuntimeError, match="unlocked"):
        lock.release()
