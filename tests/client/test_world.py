"""The world as it is, put together: one for the process, whose clock, dice and waiting are real."""

import threading

from holdfast.client.clock import now_ns
from holdfast.client.keeper_thread import host
from holdfast.client.network import SocketNetwork
from holdfast.client.ports import World
from holdfast.client.world import real_world

SECOND = 1_000_000_000
MILLISECOND = 1_000_000


def soon(seconds=20):
    return now_ns() + seconds * SECOND


def test_there_is_one_real_world():
    world = real_world()
    assert isinstance(world, World)
    assert real_world() is world
    assert isinstance(world.network, SocketNetwork)


def test_its_clock_is_the_one_that_leases_are_judged_by():
    before = now_ns()
    assert before <= real_world().clock() <= now_ns()


def test_its_dice_never_roll_the_same_twice():
    rolls = {real_world().dice(16) for _ in range(100)}
    assert len(rolls) == 100
    assert {len(roll) for roll in rolls} == {16}


def test_its_host_is_the_one_of_this_process():
    assert real_world().host is host


def test_what_is_so_already_is_not_waited_for():
    event = threading.Event()
    event.set()
    assert real_world().wait(event, 0)


def test_what_does_not_come_in_time_is_waited_for_in_vain():
    event = threading.Event()
    assert not real_world().wait(event, 0)
    until = now_ns() + MILLISECOND
    assert not real_world().wait(event, until)
    assert now_ns() >= until


def test_whoever_waits_is_woken_by_another_thread():
    world = real_world()
    event = threading.Event()
    world.begin(event.set, "sets it")
    assert world.wait(event, soon())


def test_work_is_begun_in_a_thread_of_its_own_and_its_end_can_be_waited_for():
    names = []
    go_on = threading.Event()

    def work():
        names.append(threading.current_thread().name)
        go_on.wait(20)

    over = real_world().begin(work, "the worker")
    assert not over(now_ns())
    go_on.set()
    assert over(soon())
    assert names == ["the worker"]


def test_work_that_fails_is_over_too(monkeypatch):
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    over = real_world().begin(lambda: 1 // 0, "the worker")
    assert over(soon())
    assert real_world().wait(Told(failed), soon())


class Told:
    """Comes true when something is on a list."""

    def __init__(self, told):
        self._told = told

    def is_set(self):
        return bool(self._told)

    def wait(self, timeout=None):
        return threading.Event().wait(0.001)


def test_what_is_told_is_told_in_another_thread():
    told = threading.Event()
    threads = []
    real_world().tell(lambda: (threads.append(threading.current_thread()), told.set()))
    assert told.wait(20)
    assert threads != [threading.current_thread()]


def test_sleeping_ends_after_the_instant():
    until = now_ns() + MILLISECOND
    real_world().sleep(until)
    assert now_ns() >= until
