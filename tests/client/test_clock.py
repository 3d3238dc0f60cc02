"""The clock by which leases are judged never steps back, and counts the time that the machine sleeps."""

import time

from holdfast.client import clock


def test_the_clock_never_steps_back():
    readings = [clock.now_ns() for _ in range(1000)]
    assert readings == sorted(readings)
    assert all(isinstance(reading, int) for reading in readings)


def test_the_clock_is_the_one_that_goes_on_while_the_machine_sleeps():
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    now = clock.best_clock()()
    assert before <= now <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def test_where_there_is_no_such_clock_the_monotonic_one_serves(monkeypatch):
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    assert clock.best_clock() is time.monotonic_ns
