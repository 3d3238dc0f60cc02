"""The service of the watchdog page is run as it stands: it leads, hangs, is stopped and dies.

Only its times are shorter, and its work is to tell of itself.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from configparser import ConfigParser
from contextlib import closing

import pytest

from holdfast.leases import LEASE_SECONDS
from tests.cli.leases_stage import Database, shown
from tests.docs.pages import blocks, read
from tests.docs.wire import WAIT_S_MAX
from tests.watchdog.supervisor import supervisor

PAGE = "docs/operate/watchdog.md"
UNIT = "deploy/systemd/holdfast-leases-example.service"
# In a story that waits for leases they are short.
SHORT = {"beat_timeout=15": "beat_timeout=0.4", "op=": "lease=1.2, op="}
# What the leader does: it tells of each time, and hangs when it is told to, looking on for as long as it is the leader.
WORK = """
import os, threading, time

def maintain(lock):
    print("works", lock.fence, time.monotonic(), flush=True)
    if os.path.exists(f"hang-{os.getpid()}"):
        now = seen = 0
        while lock.held:
            seen = now
            now = time.monotonic()
        print("held", lock.fence, seen, flush=True)
        threading.Event().wait()
"""


def program(replaced):
    """Take the program from the page; no test waits for 5 seconds."""
    (text,) = [block.text for block in blocks(read(PAGE)) if block.text.startswith("# maintainer.py\n")]
    for old, new in ({"stop.idle(5": "stop.idle(0.05"} | replaced).items():
        assert old in text
        text = text.replace(old, new)
    return text


class Node:
    """One process of the service."""

    def __init__(self, folder, environ):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "maintainer.py"],
            cwd=folder,
            env=os.environ | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tells(self, what):
        """Wait until it tells that; answers fence and time."""
        for line in self.process.stdout:
            word, fence, at = line.split()
            if word == what:
                return int(fence), float(at)
        raise AssertionError(f"it ended and never told {what!r}")

    def hang(self):
        (self.folder / f"hang-{self.process.pid}").touch()

    def ends(self, number):
        """Send a signal; answers how it ended."""
        self.process.send_signal(number)
        self.process.communicate(timeout=WAIT_S_MAX)
        return self.process.returncode


@pytest.fixture
def database(tmp_path):
    with closing(Database(f"sqlite:{tmp_path}/leases.db")) as found:
        yield found.prepare()


@pytest.fixture
def start(tmp_path, database):
    """Start nodes of the service."""
    nodes = []

    def one(environ=None, **replaced):
        (tmp_path / "maintainer.py").write_text(program(replaced.get("replaced", {})))
        (tmp_path / "work.py").write_text(WORK)
        nodes.append(Node(tmp_path, {"HOLDFAST_BACKEND": database.url} | (environ or {})))
        return nodes[-1]

    yield one
    for node in nodes:
        node.process.kill()
        node.process.communicate()


def test_a_leader_that_hangs_sheds_its_lease_while_it_is_alive_and_another_takes_over(start):
    leader = start(replaced=SHORT)
    fence, _ = leader.tells("works")
    leader.hang()
    other = start(replaced=SHORT)
    higher, took_at = other.tells("works")
    assert higher > fence
    # The first knew of it by itself, before.
    _, held_at = leader.tells("held")
    assert held_at <= took_at
    assert leader.process.poll() is None
    # This is what systemd does with it in the end.
    assert leader.ends(signal.SIGABRT) == -signal.SIGABRT
    assert other.ends(signal.SIGTERM) == 0


def test_a_leader_that_is_stopped_gives_its_lock_back_and_systemd_hears_of_everything(start, database, tmp_path):
    with supervisor(tmp_path) as systemd:
        leader = start(systemd.environ(watchdog_s=60))
        fence, _ = leader.tells("works")
        assert leader.ends(signal.SIGTERM) == 0
        assert database.keys() == []
        assert systemd.heard() == [
            "READY=1\nSTATUS=waits to be elected",
            "WATCHDOG=1",
            f"STATUS=elected, fence {fence}",
            "STATUS=waits to be elected",
            "STOPPING=1",
        ]


def test_what_a_killed_leader_has_left_is_shed_by_the_command_of_the_unit(start, database):
    leader = start()
    leader.tells("works")
    _, _, command = next(line for line in read(UNIT).splitlines() if line.startswith("ExecStopPost=")).partition(
        "/bin/holdfast "
    )
    arguments = command.replace("%n", "maintainer.service").split()
    assert shown(*arguments, backend=database.url) == ["maintainer.service: nothing to free"]
    assert leader.ends(signal.SIGKILL) == -signal.SIGKILL
    assert database.keys() == ["cluster/"]
    (line,) = shown(*arguments, backend=database.url, environ={"SERVICE_RESULT": "signal"})
    assert line.startswith("maintainer.service (signal): freed cluster/, which ")
    assert f"pid {leader.process.pid} (Cluster maintenance) had" in line
    # Whoever comes next need not wait for the lease.
    assert start().tells("works")[0] == 2


def test_the_lines_that_matter_are_those_of_the_unit():
    (shown_lines,) = [block.text.splitlines() for block in blocks(read(PAGE)) if block.language == "ini"]
    assert set(shown_lines) <= set(read(UNIT).splitlines())


def test_the_unit_leaves_time_to_stop_and_sees_what_proves_a_death():
    unit = ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    unit.optionxform = str
    unit.read_string(read(UNIT))
    service = unit["Service"]
    within = int(re.search(r"within=(\d+)", program({}))[1])
    assert int(service["TimeoutStopSec"]) > within
    assert int(service["WatchdogSec"]) > int(re.search(r"beat_timeout=(\d+)", program({}))[1])
    assert "ProcSubset" not in service
    assert "PrivatePIDs" not in service
    assert service["ExecStart"].endswith("maintainer.py")
    assert shlex.split(service["ExecStopPost"])[0] == "-/opt/holdfast/bin/holdfast"


def test_the_figures_are_those_of_the_code_and_the_unit():
    page, unit = read(PAGE), read(UNIT).splitlines()
    assert LEASE_SECONDS == 60
    assert "WatchdogSec=60" in unit
    assert "beat_timeout=15" in page
    assert f"after {15 + LEASE_SECONDS} seconds at most" in page
    assert f"after {LEASE_SECONDS} seconds at most" in page
