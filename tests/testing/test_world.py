"""A world in virtual time: what a test of somebody's own program can do to its leases, and what then is so."""

import asyncio

import pytest

from holdfast.errors import Busy, LeaseLost, TimedOut, Unavailable
from holdfast.testing.program import Killed
from holdfast.testing.world import World


@pytest.fixture
def world():
    with World() as world:
        yield world


def test_a_lock_is_held_renewed_and_given_back_in_virtual_time(world):
    client = world.connect("worker")
    with client.lock("job", lease=30) as held:
        world.clock.step(3600)
        assert held.held
        assert world.lock("job").fences == [held.fence]
        assert world.lock("job").modes == ["EX"]
    assert not world.lock("job").held
    assert world.clock.now == 3600.0


def test_a_lock_that_is_lost_is_known_to_be_lost(world):
    heard = []
    client = world.connect("worker")
    held = client.lock("job", on_lost=heard.append).acquire()
    world.clock.step(2)  # who has held something for a second has a connection on which to hear of such things
    world.lock("job").lose()
    assert (held.held, heard) == (False, [held])
    with pytest.raises(LeaseLost):
        held.check()


def test_what_was_lost_while_nobody_listened_is_known_as_soon_as_there_is_a_connection(world):
    client = world.connect("worker")
    held = client.lock("job", lease=3600).acquire()
    world.lock("job").lose()
    assert held.held
    world.clock.step(1.1)
    assert not held.held


def test_a_lease_that_has_run_out_is_noticed_when_it_is_renewed(world):
    client = world.connect("worker")
    held = client.lock("job", lease=30).acquire()
    world.net.partition(client)
    world.lock("job").expire()
    assert held.held
    world.net.heal(client)
    assert world.wait(held.lost, 11)


def test_what_nobody_holds_cannot_be_lost(world):
    with pytest.raises(LookupError, match="nobody holds"):
        world.lock("job").lose()


def test_a_partition_costs_the_lease_before_the_server_gives_it_away(world):
    one, two = world.connect("one"), world.connect("two")
    held = one.lock("job", lease=30).acquire()
    world.net.partition(one)
    waiter = world.spawn(two.lock("job", lease=30).acquire)
    assert world.wait(lambda: not held.held, 30)
    lost_at = world.clock.now
    assert lost_at < 30 <= 30 + lost_at
    waiter.join()
    assert lost_at < world.clock.now == 30.0
    world.net.heal()
    assert held.release() is False
    assert world.lock("job").fences == [held.fence + 1]


@pytest.mark.parametrize("where", [{"sent": 150}, {"received": 150}, {"sent": 0, "received": 0}])
def test_a_connection_can_be_cut_behind_a_certain_byte(world, where):
    client = world.connect("worker")
    world.net.cut_after(client, **where)
    held = client.lock("job").acquire()
    assert world.lock("job").fences == [held.fence]
    route = world.program("worker").route
    assert route.fuse_up.is_blown
    assert route.fuse_down.is_blown


def test_one_direction_of_the_network_can_be_cut(world):
    client = world.connect("worker")
    held = client.lock("job", lease=30).acquire()
    world.net.partition(client, up=False)
    world.clock.step(29.5)
    assert not held.held
    assert world.lock("job").held  # renewals still arrive, and nobody hears of them


def test_a_frozen_process_knows_at_once_when_it_goes_on(world):
    client = world.connect("worker")
    held = client.lock("job", lease=30).acquire()
    world.freeze(client)
    world.clock.step(29.5)
    world.thaw(client)
    assert not held.held


def test_a_killed_process_leaves_its_lock_to_the_next_when_its_lease_is_over(world):
    one, two = world.connect("one"), world.connect("two")
    one.lock("job", lease=30).acquire()
    world.kill(one)
    with pytest.raises(Killed):
        one.lock("other").acquire()
    two.lock("job").acquire()
    assert world.clock.now == 30.0


def test_a_server_that_stands_still_answers_later(world):
    client = world.connect("worker", timeout=10)
    world.server.pause()
    world.clock.after(3, world.server.resume)
    held = client.lock("job").acquire()
    assert (held.held, world.clock.now) == (True, 3.0)


def test_a_server_that_is_down_is_unavailable(world):
    world.server.kill()
    with pytest.raises(Unavailable):
        world.connect("worker", timeout=5).lock("job").acquire()
    assert world.clock.now == 5.0


def test_a_server_that_comes_back_in_time_costs_nobody_anything(world):
    client = world.connect("worker")
    held = client.lock("job", lease=30).acquire()
    world.server.kill()
    world.clock.step(15)
    world.server.start()
    world.clock.step(600)
    assert held.held
    assert world.lock("job").fences == [held.fence]


def test_lost_answers_and_broken_connections_are_survived(world):
    client = world.connect("worker")
    world.net.drop_answers(2)
    held = client.lock("job", lease=30).acquire()
    for _ in range(3):
        world.net.reset(client)
        world.net.drop_answers(1, client)
        world.clock.step(20)
        assert held.held


def test_bytes_take_their_time(world):
    client = world.connect("worker")
    world.net.delay(0.1)
    client.lock("job").acquire().release()
    assert 0.5 < world.clock.now < 1.5


def test_a_clock_that_runs_too_slow_beyond_the_margin_believes_too_long(world):
    """What the margin is for, and what it cannot make up for."""
    for percent, safe in ((1, True), (10, False)):
        client = world.connect(f"worker-{percent}")
        held = client.lock(f"job-{percent}", lease=30).acquire()
        world.clock.drift(client, -percent)
        world.net.partition(client)
        assert world.wait(lambda percent=percent: not world.lock(f"job-{percent}").held, 31)
        assert held.held != safe


def test_a_step_of_the_wall_clock_costs_nobody_a_lease(world):
    client = world.connect("worker")
    held = client.lock("job", lease=30).acquire()
    world.clock.step_wall_clock(86_400)
    world.clock.step(60)
    assert held.held


def test_time_does_not_go_back(world):
    with pytest.raises(ValueError, match="time does not go back"):
        world.clock.step(-1)


def test_semaphores_have_seats(world):
    client = world.connect("worker")
    held = [client.semaphore("pool", 2).acquire() for _ in range(2)]
    assert client.semaphore("pool", 2).try_acquire() is None
    assert world.semaphore("pool").fences == [one.fence for one in held]
    assert world.semaphore("pool").held
    assert not world.lock("pool").held


def test_threads_take_turns_and_the_course_of_events_is_always_the_same():
    def play(seed):
        seen = []
        with World(seed) as world:

            def work(name):
                client = world.connect(name)
                for _ in range(3):
                    with client.lock("job", lease=5):
                        seen.append((name, world.clock.now))
                        world.sleep(world.dice.random())

            for task in [world.spawn(work, name, name=name) for name in ("one", "two", "three")]:
                task.join()
        return seen

    assert play(1) == play(1) != play(2)


def test_waiting_is_bounded_and_says_whether_it_came_true(world):
    assert not world.wait(lambda: False, 5)
    assert world.clock.now == 5.0
    world.connect("worker").lock("job").acquire()
    with pytest.raises(Busy):
        world.connect("other").lock("job", patience=0).acquire()
    with pytest.raises(TimedOut):
        world.connect("third").lock("job", patience=5).acquire()
    assert world.clock.now == 10.0


def test_a_program_with_an_event_loop_is_run_in_virtual_time(world):
    async def main(client):
        async with client.lock("job", lease=30) as held:
            await asyncio.sleep(3600)
            assert held.held
            return held.fence

    assert world.run(main, "worker") == 1
    assert world.clock.now == 3600.0


def test_clients_are_told_apart_by_name_and_strangers_are_refused(world):
    client = world.connect("worker")
    assert world.process_of(client) is world.process_of("worker") is world.program("worker")
    assert world.process_of(world.program("worker")).name == "worker"
    assert world.connect() is not world.connect()
    assert list(world.programs) == ["worker", "client-2", "client-3"]
    with pytest.raises(LookupError, match=r"make clients with world.connect\(\)"):
        world.freeze(object())


def test_what_a_callback_raises_is_raised_at_the_end():
    def fail(held):
        raise ZeroDivisionError("in a callback")

    world = World()
    client = world.connect("worker")
    client.lock("job", on_lost=fail).acquire()
    world.clock.step(2)
    world.lock("job").lose()
    with pytest.raises(ZeroDivisionError, match="in a callback"):
        world.close()


def test_what_a_test_raises_is_not_hidden_by_what_a_callback_has_raised():
    def fail(held):
        raise ZeroDivisionError("in a callback")

    def test():
        with World() as world:
            world.connect("worker").lock("job", on_lost=fail).acquire()
            world.clock.step(2)
            world.lock("job").lose()
            raise KeyError

    with pytest.raises(KeyError):
        test()


def test_threads_share_a_client_and_wait_for_one_another_in_virtual_time(world):
    client = world.connect("worker")
    world.net.delay(0.1)
    names = [f"job-{number % 3}" for number in range(6)]
    tasks = [world.spawn(work_under, world, client, name) for name in names]
    for task in tasks:
        task.join(60)
    assert not any(world.lock(name).held for name in names)


def work_under(world, client, name):
    with client.lock(name, lease=30) as held:
        world.sleep(1)
        held.check()
