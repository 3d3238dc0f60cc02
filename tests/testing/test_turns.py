"""Turns: threads that wait in virtual time run one at a time, in an order that is always the same."""

import threading

import pytest

from holdfast.testing.timeline import Timeline
from holdfast.testing.turns import Stuck, Turns
from holdfast.words import FOREVER, SECOND


@pytest.fixture
def turns():
    turns = Turns(Timeline(0))
    yield turns
    if not turns.closed:
        turns.close()


def nap(turns, seconds):
    turns.wait(lambda: False, turns.timeline.now + seconds * SECOND, f"for {seconds} s")


def nap_for_ever(turns):
    while True:
        nap(turns, 10)


def test_a_wait_ends_when_it_comes_true_or_when_its_time_is_over(turns):
    flag = []
    turns.timeline.after(5 * SECOND, lambda: flag.append(1))
    assert turns.wait(lambda: bool(flag), 9 * SECOND, "for a flag")
    assert turns.timeline.now == 5 * SECOND
    assert not turns.wait(lambda: len(flag) > 1, 9 * SECOND, "for another")
    assert turns.timeline.now == 9 * SECOND


def test_tasks_run_when_the_others_wait_always_in_the_same_order(turns):
    heard = []

    def walk(name, *naps):
        for seconds in naps:
            nap(turns, seconds)
            heard.append((name, turns.timeline.now // SECOND))
        return name

    tasks = [turns.spawn(lambda: walk("a", 1, 2), "a"), turns.spawn(lambda: walk("b", 2, 1, 1), "b")]
    assert heard == []
    assert [task.join() for task in tasks] == ["a", "b"]
    assert heard == [("a", 1), ("b", 2), ("a", 3), ("b", 3), ("b", 4)]


def test_what_a_task_raises_is_raised_where_it_is_joined(turns):
    def fail():
        nap(turns, 1)
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        turns.spawn(fail, "fails").join()


def test_joining_may_take_too_long(turns):
    task = turns.spawn(lambda: nap(turns, 10), "naps")
    with pytest.raises(TimeoutError, match=r"'naps' has not ended in 3 s"):
        task.join(3)
    assert task.join() is None


def test_whoever_waits_for_what_can_never_be_is_told_who_waits_for_what(turns):
    task = turns.spawn(lambda: turns.wait(lambda: False, FOREVER, "for the moon"), "dreamer")
    with pytest.raises(Stuck) as stuck:
        task.join()
    assert "nothing can happen any more" in str(stuck.value)
    assert "dreamer: the test waits for the moon, for 0 s so far" in str(stuck.value)
    assert "main: the test waits for 'dreamer' to end" in str(stuck.value)


def test_what_goes_on_for_ever_and_ends_no_wait_is_no_progress(turns):
    def again():
        turns.timeline.after(SECOND, again)

    again()
    turns.wait_ns_max = 60 * SECOND
    with pytest.raises(Stuck, match="nothing that ends a wait has happened for 60 s"):
        turns.wait(lambda: False, FOREVER, "for the moon")
    turns.wait(lambda: False, turns.timeline.now + 120 * SECOND, "as long as the test has said", told=True)
    with pytest.raises(Stuck, match="for 60 s"):
        nap_for_ever(turns)


def test_a_thread_of_another_world_is_refused(turns):
    refused = []

    def intrude():
        try:
            nap(turns, 1)
        except RuntimeError as error:
            refused.append(str(error))

    thread = threading.Thread(target=intrude, name="stranger")
    thread.start()
    thread.join()
    assert "thread 'stranger' is not of this world" in refused[0]


def test_closing_sends_home_all_who_wait_and_their_clean_up_does_not_hang(turns):
    left = []

    def linger():
        try:
            nap(turns, 100)
        finally:
            left.append("tried to wait")
            nap(turns, 100)
            left.append("waited")

    task = turns.spawn(linger, "lingers")
    turns.spawn(lambda: left.append("ran"), "never runs")
    nap(turns, 1)
    turns.spawn(lambda: left.append("started"), "never starts")
    turns.close()
    assert task.done
    assert left == ["ran", "tried to wait"]
    with pytest.raises(RuntimeError, match="over"):
        nap(turns, 1)
