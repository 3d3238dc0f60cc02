"""The line for those who wait: what it says of a view, that it follows the queue, and that trouble is only told.

That it is shown while `holdfast run` waits is tested in `test_run.py`.
"""

import os
import queue
import shlex
import socket
from itertools import pairwise

import pytest

from holdfast.cli import run_progress
from holdfast.cli.run_progress import Progress, ahead_of_us, line
from holdfast.sync import connect
from holdfast.testing.process import ServerProcess
from tests.cli.run_user import command_line
from tests.cli.terminal_stage import PROMPT, Person

HERE = {"pid": os.getpid(), "host": socket.gethostname()}
HOLDER = {"host": "db-1", "pid": 7, "operation": "import", "since_ms": 61_500}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess("serve", "--store", "memory:", log=tmp_path_factory.mktemp("progress") / "log") as server:
        yield server


@pytest.mark.parametrize(
    ("view", "told"),
    [
        (None, "waiting for job for 12 s"),
        ({}, "waiting for job for 12 s"),
        ({"holders": [HOLDER]}, "waiting for job for 12 s: held by db-1 pid 7 (import) for 1 m 01 s"),
        (
            {"holders": [HOLDER, HOLDER, HOLDER], "queue": [{"pid": 1, "host": "elsewhere"}, HERE]},
            "waiting for job for 12 s: held by db-1 pid 7 (import) for 1 m 01 s and 2 more, 1 ahead of us",
        ),
        (
            {"holders": [HOLDER], "queue": [HERE]},
            "waiting for job for 12 s: held by db-1 pid 7 (import) for 1 m 01 s, we are next",
        ),
        ({"queue": [{"pid": 1, "host": "elsewhere"}]}, "waiting for job for 12 s"),
    ],
)
def test_a_view_is_put_into_a_line(view, told):
    assert line("job", view, 12.0) == told


def test_nobody_is_mistaken_for_us():
    assert ahead_of_us([{"pid": os.getpid(), "host": "elsewhere"}, {"pid": 1, "host": HERE["host"]}, HERE]) == 2
    assert ahead_of_us([]) is None


def test_who_is_quick_hears_nothing(server, capfd):
    with Progress(f"holdfast://127.0.0.1:{server.port}", "job", "lock", shown=True):
        pass
    assert capfd.readouterr().err == ""


def test_who_does_not_want_to_hear_hears_nothing(server, capfd, monkeypatch):
    monkeypatch.setattr(run_progress, "FIRST_LOOK_S", 0.0)
    with Progress(f"holdfast://127.0.0.1:{server.port}", "job", "lock", shown=False):
        pass
    assert capfd.readouterr().err == ""


class Ears:
    """Hears what is told, and lets a test wait for it."""

    def __init__(self, monkeypatch):
        self._lines = queue.Queue()
        self.heard = []
        monkeypatch.setattr(run_progress, "FIRST_LOOK_S", 0.0)
        monkeypatch.setattr(run_progress, "LOG_LOOK_S", 0.01)
        monkeypatch.setattr(run_progress.click, "echo", lambda text, **_: self._lines.put(text))

    def hears(self, wanted):
        """Listen until a line has this text."""
        while True:
            self.heard.append(self._lines.get(timeout=30))
            if wanted in self.heard[-1]:
                return self.heard[-1]


def test_it_follows_the_queue(server, monkeypatch):
    url, ears = f"holdfast://127.0.0.1:{server.port}", Ears(monkeypatch)
    with connect(url) as client, connect(url) as other, Progress(url, "followed", "lock", shown=True):
        assert ears.hears("waiting").startswith("holdfast: waiting for followed for 0.")
        held = client.lock("followed", operation="import").acquire()
        ears.hears("held by ")
        with other.enqueue("followed"):
            assert "(import) for 0." in ears.hears(", we are next")
        held.release()
        while "held by" in ears.hears("waiting"):
            pass


def test_what_it_cannot_find_out_it_says_once_and_looks_again(monkeypatch, start):
    ears = Ears(monkeypatch)
    monkeypatch.setattr(run_progress, "TIMEOUT_S", 0.05)
    mortal = start("serve", "--store", "memory:")
    with Progress(f"holdfast://127.0.0.1:{mortal.port}", "job", "lock", shown=True):
        ears.hears("waiting for job for ")
        mortal.kill()
        ears.hears("; who is in the way is not known: cannot connect to ")
        start("serve", "--store", "memory:", "--line", f"127.0.0.1:{mortal.port}")
        while "not known" in ears.hears("waiting for job for "):
            pass
    # What is told over and over is how long it has been by now; trouble is not.
    troubles = [told.partition("not known")[2] for told in ears.heard]
    assert all(one != next_one or not one for one, next_one in pairwise(troubles))


def test_other_protocols_do_not_tell_who_is_in_the_way(server, monkeypatch):
    ears = Ears(monkeypatch)
    with Progress(f"dflock://127.0.0.1:{server.port}", "job", "lock", shown=True):
        assert ears.hears("waiting") == "holdfast: waiting for job for 0.0 s"


def test_on_a_terminal_there_is_one_line_which_goes_in_the_end(server, tmp_path):
    url = f"holdfast://127.0.0.1:{server.port}"
    with connect(url, name="tester") as client, Person(tmp_path, {"HOLDFAST_SERVER": url}) as person:
        held = client.lock("typed").acquire()
        person.types(shlex.join(command_line("typed", "--", "echo", "mine")))
        for _ in range(2):
            person.sees("\r\x1b[Kwaiting for typed for ")
            assert "\n" not in person.sees(": held by ")
        held.release()
        person.sees("\r\x1b[Kmine\n")
        person.sees(PROMPT)
