"""Signals interrupt while the lock is waited for, and are messages while the command runs.

To whom they are passed on is tested with the supervisor.
"""

import os
import select
import signal
import subprocess
import sys

import pytest

from holdfast.cli.run_signals import ENDING, FORWARDED, Interrupted, SignalBox


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", sorted(ENDING))
def test_a_signal_that_ends_us_interrupts_the_wait_once(number):
    with SignalBox(()) as box:
        with pytest.raises(Interrupted) as caught:
            send(number)
        assert (caught.value.number, str(caught.value)) == (number, signal.Signals(number).name)
        send(number)
        assert box.taken() == [number]


def test_a_window_that_changes_its_size_interrupts_nothing():
    with SignalBox(()) as box:
        send(signal.SIGWINCH)
        assert box.taken() == []


def test_kept_signals_wake_who_waits_and_are_taken_in_order():
    with SignalBox(()) as box:
        box.keep()
        assert not select.select([box], [], [], 0)[0]
        for number in FORWARDED:
            send(number)
        assert select.select([box], [], [], 60)[0]
        assert box.taken() == list(FORWARDED)
        assert (box.taken(), select.select([box], [], [], 0)[0]) == ([], [])


def test_others_may_wake_who_waits_for_signals_at_any_time():
    with SignalBox(()) as box:
        box.wake()
        assert select.select([box], [], [], 60)[0]
        assert (box.taken(), select.select([box], [], [], 0)[0]) == ([], [])
    box.wake()


def test_a_signal_that_was_kept_interrupts_when_it_may():
    with SignalBox(()) as box:
        box.keep()
        send(signal.SIGTERM)
        with pytest.raises(Interrupted):
            box.interrupt()
        box.interrupt()


def test_what_was_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalBox({signal.SIGHUP}) as box:
            send(signal.SIGHUP)
            assert box.taken() == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_afterwards_all_is_as_before():
    before = [signal.getsignal(number) for number in (*FORWARDED, signal.SIGTSTP, signal.SIGTTOU)]
    with SignalBox(()):
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in (*FORWARDED, signal.SIGTSTP, signal.SIGTTOU)] == before


STOPS = """
import os, signal
from holdfast.cli.run_signals import SignalBox, die_of
with SignalBox(()) as box:
    os.kill(os.getpid(), signal.SIGTSTP)
    print("went on", flush=True)
    die_of(signal.SIGQUIT)
"""


def test_a_stop_stops_and_death_by_a_signal_is_one():
    # In a group of its own: the kernel lets nobody stop whose group no shell looks after.
    stops = [sys.executable, "-c", STOPS]
    with subprocess.Popen(stops, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == "went on\n"
    assert process.returncode == -signal.SIGQUIT
