"""Ending in order: signals are noted, the loop hears of them, and what a signal did before it does again afterwards."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from holdfast.errors import BadRequest
from holdfast.leases.beats import Beats
from holdfast.watchdog import Stop, Watchdog

NEVER_S = 60.0


@pytest.fixture
def pets():
    """How often the main loop has shown life."""
    return []


@pytest.fixture
def watchdog(pets):
    found = Watchdog(environ={}, beating=Beats(lambda: 0))
    found.feeds(lambda: pets.append(1))
    return found


class At:
    """An event that happens after it has been looked at so often; it may send a signal then."""

    def __init__(self, looks, number=None):
        self._looks = looks
        self._number = number

    def is_set(self):
        self._looks -= 1
        if self._looks == 0 and self._number is not None:
            os.kill(os.getpid(), self._number)
        return self._looks <= 0 and self._number is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_rest_of_the_loop(watchdog, number, pets):
    with Stop(watchdog) as stop:
        assert stop.idle(0)
        assert not stop.idle(NEVER_S, At(1, number))
        assert (stop.asked, stop.signal) == (True, number)
        assert not stop.idle(NEVER_S)
    assert pets


def test_a_lost_lock_ends_the_rest_but_not_the_process(watchdog, pets):
    stop = Stop(watchdog)
    assert not stop.idle(NEVER_S, At(2))
    assert not stop.asked
    assert len(pets) == 2


def test_a_wish_without_a_signal_is_as_good(watchdog):
    stop = Stop(watchdog)
    assert stop.idle(0)
    stop.ask()
    assert not stop.idle(NEVER_S)
    assert stop.signal is None


def test_it_is_the_same_for_asyncio(watchdog, pets):
    async def loop():
        with Stop(watchdog) as stop:
            assert await stop.idle_async(0)
            assert not await stop.idle_async(NEVER_S, At(2))
            assert not await stop.idle_async(NEVER_S, At(1, signal.SIGTERM))
            return stop.signal

    assert asyncio.run(loop()) is signal.SIGTERM
    assert pets


def test_handlers_are_put_back_at_the_end_and_after_the_first_signal(watchdog):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("before"))
    try:
        with Stop(watchdog) as stop:
            os.kill(os.getpid(), signal.SIGTERM)
            assert (stop.asked, heard) == (True, [])
            os.kill(os.getpid(), signal.SIGTERM)
            assert heard == ["before"]
        with Stop(watchdog):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == ["before", "before"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_in_the_middle_of_waiting_for_an_event_blocks_nobody(watchdog):
    """The handler takes no lock, so it does not matter that the loop has one."""
    lost = threading.Event()
    with Stop(watchdog) as stop, lost._cond:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked


def ends(program):
    """Run a program that sends itself what it needs; answers how it ended."""
    return subprocess.run([sys.executable, "-c", program], timeout=NEVER_S, check=False).returncode


PROGRAM = """
import os, signal, time
from holdfast.watchdog import Stop
with Stop(within={within}):
    os.kill(os.getpid(), signal.SIGTERM)
    {work}
"""


def test_a_loop_that_does_not_end_is_ended_by_the_kernel():
    # What hangs below is C that keeps the interpreter to itself: no thread and no handler of Python's runs beside it.
    hangs = "import re; re.match('(a+)+$', 'a' * 60 + 'b')"
    assert ends(PROGRAM.format(within=0.05, work=hangs)) == -signal.SIGALRM


def test_a_loop_that_ends_in_time_is_left_alone():
    assert ends(PROGRAM.format(within=30, work="pass") + "assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)\n") == 0


def test_an_alarm_that_somebody_else_uses_is_not_touched(watchdog):
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        with Stop(watchdog, within=NEVER_S):
            os.kill(os.getpid(), signal.SIGTERM)
            assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_there_has_to_be_some_time_to_end_in(watchdog):
    with pytest.raises(BadRequest, match="some time"):
        Stop(watchdog, within=0)
