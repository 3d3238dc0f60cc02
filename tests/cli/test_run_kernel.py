"""What the kernel does for `holdfast run`: the clock, the alarm, and who descends from whom.

Only this process and its own children are looked at.
"""

import os
import select
import signal
import subprocess
import sys
import time

import pytest

from holdfast.cli import run_kernel as kernel
from tests.cli.run_stage import watched

SECOND = 1_000_000_000


@pytest.fixture
def family():
    """A child with a child; gives both numbers."""
    child = subprocess.Popen(["sh", "-c", "sleep 300 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
    grandchild = int(child.stdout.readline())
    yield child.pid, grandchild
    os.kill(grandchild, signal.SIGKILL)
    child.kill()
    child.communicate()


def test_the_clock_is_the_one_that_counts_sleep():
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert before <= kernel.now_ns() <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def rings(alarm, wait_s):
    return bool(select.select([alarm], [], [], wait_s)[0])


def test_an_alarm_rings_at_its_instant_and_not_before():
    alarm = kernel.Alarm()
    at = kernel.now_ns() + SECOND // 20
    alarm.set(at)
    assert rings(alarm, 60)
    assert kernel.now_ns() >= at
    alarm.hush()
    assert not rings(alarm, 0)
    alarm.hush()
    alarm.close()


@pytest.mark.parametrize("at_ns", [-SECOND, 0, 1])
def test_an_alarm_for_what_is_over_rings_at_once(at_ns):
    alarm = kernel.Alarm()
    alarm.set(at_ns)
    assert rings(alarm, 60)
    alarm.set(None)
    assert not rings(alarm, 0)
    alarm.close()


def test_trouble_with_the_timer_is_told(monkeypatch):
    alarm = kernel.Alarm()
    alarm.close()
    with pytest.raises(OSError, match="cannot be set"):
        alarm.set(5)
    monkeypatch.setattr(kernel, "TFD_NONBLOCK_CLOEXEC", -1)
    with pytest.raises(OSError, match="no timer"):
        kernel.Alarm()


@pytest.mark.parametrize("listed", [True, False])
def test_a_family_is_known_with_and_without_the_list_of_children(listed, family, monkeypatch):
    child, grandchild = family
    monkeypatch.setattr(kernel, "lists_children", lambda: listed)
    assert kernel.children(child) == [grandchild]
    found = kernel.descendants(os.getpid())
    assert found.index(child) < found.index(grandchild)


def test_without_proc_nobody_is_known(family, monkeypatch, tmp_path):
    monkeypatch.setattr(kernel, "PROC", tmp_path)
    assert kernel.descendants(os.getpid()) == []
    assert kernel.children(os.getpid()) == []


def test_the_dead_are_dead_before_and_after_somebody_has_waited_for_them():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert kernel.is_dead(child.pid)
    child.wait()
    assert kernel.is_dead(child.pid)
    assert not kernel.is_dead(os.getpid())


PARENT = """
import os, signal, sys
from holdfast.cli import run_kernel as kernel
assert kernel.be_called("a-name-that-is-too-long")
assert open("/proc/self/comm").read() == "a-name-that-is-\\n"
if sys.argv[1] == "orphans":
    assert kernel.adopt_orphans()
    middle = os.fork()
    if not middle:
        os.execvp("sh", ["sh", "-c", "sleep 300 & echo $!"])
    os.waitpid(middle, 0)
    (orphan,) = kernel.children(os.getpid())
    os.kill(orphan, signal.SIGKILL)
    assert os.waitpid(orphan, 0)[0] == orphan
else:
    reader, writer = os.pipe()
    if not os.fork():
        assert kernel.die_with_parent(signal.SIGKILL)
        print(os.getpid(), flush=True)
        os.write(writer, b"x")
        signal.pause()
    os.read(reader, 1)
"""


@pytest.mark.parametrize("what", ["orphans", "parent"])
def test_family_ties(what):
    ended = subprocess.run([sys.executable, "-c", PARENT, what], stdout=subprocess.PIPE, text=True, check=True)
    with watched(int(ended.stdout)) as relative:
        relative.ended_at()
