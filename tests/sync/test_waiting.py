"""How threads wait and are interrupted: instants, events, work beside, and an exception that meets its thread alone."""

import subprocess
import sys
import threading
import time

import pytest

from holdfast.client.asks import Query
from holdfast.client.world import real_world
from holdfast.errors import BadRequest, LeaseLost
from holdfast.sync.waiting import (
    Channel,
    Companion,
    Countdown,
    Interrupter,
    Place,
    Shared,
    about,
    check_function,
    current,
    lock,
    relay,
    sleep_until,
    wait_for,
)
from holdfast.testing.program import Program
from holdfast.testing.world import World

SECOND = 1_000_000_000


@pytest.fixture
def world():
    with World() as world:
        yield world


@pytest.fixture
def program(world) -> Program:
    return world.program("a")


def test_instants_and_events_are_waited_for(world, program):
    outside = program.world()
    sleep_until(outside, outside.clock() + 5 * SECOND)
    assert world.clock.now == 5
    event = threading.Event()
    assert wait_for(outside, event, outside.clock() + 3 * SECOND) is False
    world.clock.after(2, event.set)
    assert wait_for(outside, event) is True
    assert world.clock.now == 10
    with lock(outside):
        pass


def test_a_countdown_ends_when_all_is_done_or_in_time(program):
    outside = program.world()
    place = Place(outside)
    assert Countdown(place).wait(outside, 0) is True
    countdown = Countdown(place)
    countdown.expect(2)
    countdown.one()
    assert countdown.wait(outside, outside.clock() + SECOND) is False
    countdown.one()
    assert countdown.wait(outside, outside.clock() + SECOND) is True


def test_a_channel_keeps_what_is_new_and_not_without_end(world, program):
    channel = Channel(Place(program.world()))
    for number in range(Channel.ITEMS_MAX + 5):
        channel.put(number)
    assert (channel.get(), channel.get()) == (5, 6)
    other = Channel(Place(program.world()))
    world.clock.after(2, lambda: other.put("late"))
    assert other.get() == "late"


def test_work_beside_is_waited_for_but_not_for_ever(world, program):
    outside = program.world()
    place = Place(outside)
    seen = []
    Companion(place, lambda: seen.append("quick"), "quick one").join(outside, outside.clock() + SECOND)
    Companion(place, lambda: world.sleep(100), "slow one").join(outside, outside.clock() + SECOND)
    assert (seen, world.clock.now) == (["quick"], 1)


def test_a_function_that_is_told_runs_beside_and_its_end_is_known(world, program, caplog):
    outside = program.world()
    place = Place(outside)
    seen = []

    def fail(held):
        seen.append(held)
        raise ValueError("of the function")

    place.tell(seen.append, "one")
    over = place.told(fail, "two")
    assert seen == []
    assert wait_for(outside, over, outside.clock() + SECOND)
    assert seen == ["one", "two"]
    assert "a function that was to be told of a lease failed" in caplog.text
    program.errors.clear()
    place.enter()


def test_whoever_is_interrupted_while_the_keeper_asks_wants_no_answer(world, program):
    """A connection on which it was asked for is let go, and with it the claim that nobody would know of."""
    from holdfast.client.asks import Acquire, Want
    from holdfast.client.pool_steward import DflockSteward
    from holdfast.client.ports import Address

    outside = program.world()
    with outside.host().keeper() as keeper:
        steward = DflockSteward(keeper, Address("world", 6388), None)
        keeper.add(steward)
    assert relay(outside, steward, Query("ping"), outside.clock() + SECOND) is not None

    def interrupt(what):
        if what == "wait":
            world.clock.after(0.5, world.clock.settle)
            raise KeyboardInterrupt

    program.blocking = interrupt
    want = Want(key="job", ticket="ticket-of-a-0001", lease_ns=30 * SECOND)
    with pytest.raises(KeyboardInterrupt):
        relay(outside, steward, Acquire(want, None), outside.clock() + SECOND)
    program.blocking = lambda what: None
    world.clock.step(2)
    assert not world.lock("job").held


def test_the_thread_that_is_meant_is_interrupted():
    place = Place(real_world())
    ready, outcome = threading.Event(), []

    def work():
        interrupter = Interrupter(place)
        outcome.append(interrupter)
        ready.set()
        limit = time.monotonic() + 20
        error = None
        try:
            while time.monotonic() < limit:
                pass
        except LeaseLost as caught:
            error = caught
        outcome.append((error is not None, interrupter.disarm(error)))

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(20)
    outcome[0].fire()
    outcome[0].fire()
    thread.join(20)
    assert outcome[1] == (True, True)
    outcome[0].fire()  # who has stood down is left alone


@pytest.mark.parametrize("end", ["disarm", "stand_down"])
def test_whoever_is_done_before_it_notices_is_not_hit_later(end):
    interrupter = Interrupter(Place(real_world()))
    # Fired and taken back without a step of Python code of this thread in between that would notice.
    ends = {"disarm": lambda: interrupter.disarm(None), "stand_down": interrupter.stand_down}
    done = threading.Event()
    locked = threading.Lock()
    locked.acquire()

    def fire():
        interrupter.stand_down() if end == "stand_down" else interrupter.disarm(None)
        interrupter.fire()
        done.set()

    thread = threading.Thread(target=fire)
    thread.start()
    assert done.wait(20)
    thread.join()
    assert interrupter.fired is False
    ends[end]()
    assert interrupter.disarm(LeaseLost("of the body")) is False


WORK = """
import sys
import time
from contextlib import suppress

import holdfast

with holdfast.connect(sys.argv[1]) as hf, holdfast.connect(sys.argv[1]) as operator:
    hf.ping()
    try:
        with hf.lock("to-be-lost", lease=2, on_contended=lambda held: None, cancel_on_lost=True) as held:
            assert operator.break_("to-be-lost", reason="test") == 1
            while held.fence:
                time.sleep(0.001)
    except holdfast.LeaseLost as lost:
        print(lost)
    # A whole group is interrupted once, and whoever gave it back is left alone.
    group = hf.all("one", "two", lease=2, cancel_on_lost=True).acquire()
    assert group.release() is True
    held = hf.lock("three", lease=2, cancel_on_lost=True).acquire()
    with suppress(holdfast.LeaseLost):  # until it has given it back, it may be interrupted anywhere
        operator.break_("three", reason="test")
        held.release()
    held.release()
"""


def test_the_work_under_a_lock_is_interrupted_when_it_is_lost(servers_of_ours):
    # In a process of its own: whoever traces every line, as coverage does, is in the way of an interruption.
    command = [sys.executable, "-c", WORK, servers_of_ours]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "'to-be-lost' was lost before the work under it was done" in done.stdout


def test_two_who_ask_for_the_event_of_a_loss_get_the_same(servers_of_ours):
    import holdfast

    with holdfast.connect(servers_of_ours) as hf:
        for _ in range(50):
            held = hf.lock("job", lease=30).acquire()
            start, events = threading.Barrier(4), []

            def ask(held=held, start=start, events=events):
                start.wait()
                events.append(held.lost)

            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(set(map(id, events))) == 1
            held.release()


def test_who_asks_is_the_thread():
    seen = []
    thread = threading.Thread(target=lambda: seen.extend([about(), current()]), name="the one")
    thread.start()
    thread.join()
    assert seen == [{"thread": "the one"}, thread.ident]


def test_only_what_is_called_is_decorated():
    async def coroutine():
        """Be awaited."""

    check_function(len)
    with pytest.raises(BadRequest, match="is a coroutine function"):
        check_function(coroutine)


def test_a_process_has_one_client():
    shared = Shared()
    assert shared.get(object) is shared.get(object)
