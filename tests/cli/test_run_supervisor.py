"""Commands at a terminal: keys reach whom they should, stopped jobs are stopped jobs, and scripts end when told to.

What happens to a command when its lock is lost is tested with the guardian.
"""

import json
import shlex
import signal
import subprocess
import sys
import threading

import pytest

from holdfast.cli.run_channel import pair
from holdfast.cli.run_deadline import Policy, SharedDeadline
from holdfast.cli.run_guardian import EXIT_INTERNAL
from holdfast.cli.run_signals import SignalBox
from holdfast.cli.run_supervisor import Supervisor
from tests.cli.run_stage import ROOT, SECOND
from tests.cli.terminal_stage import CTRL_BACKSLASH, CTRL_C, CTRL_Z, PROMPT, Person


@pytest.fixture
def person():
    with Person(ROOT) as person:
        yield person


def stage(folder, *command, lease_s=60):
    """Spell the command line of a performance."""
    order = json.dumps([str(folder), lease_s * SECOND, "kill", False, list(command)])
    return shlex.join([sys.executable, "-m", "tests.cli.run_stage", order])


def exit_code(person):
    person.sees(PROMPT)
    person.types("echo code $?.")
    person.sees("code ")
    person.sees("code ")
    return int(person.sees("."))


@pytest.mark.parametrize(("key", "code"), [(CTRL_C, 130), (CTRL_BACKSLASH, 131)])
def test_an_interruption_ends_the_command_and_us(key, code, person, tmp_path):
    person.types(stage(tmp_path, "sh", "-c", "sleep 300 & echo started; wait"))
    person.sees("\nstarted")
    person.presses(key)
    assert exit_code(person) == code


@pytest.mark.parametrize("wish", ["sleep 300 & wait", "read line"])
def test_an_interruption_ends_a_script_as_well(wish, person, tmp_path):
    """Also when the command had asked for the terminal, so that keys reach it alone."""
    (tmp_path / "script").write_text(f"{stage(tmp_path, 'bash', '-c', f'echo started; {wish}')}\necho went on\n")
    person.types(f"bash {tmp_path / 'script'}")
    person.sees("\nstarted")
    person.presses(CTRL_C)
    assert exit_code(person) == 130
    assert "\nwent on" not in person.screen


def test_a_command_that_minds_an_interruption_has_its_own_exit_code(person, tmp_path):
    person.types(stage(tmp_path, "sh", "-c", "trap 'exit 9' INT; echo started; while :; do sleep 0.05; done"))
    person.sees("\nstarted")
    person.presses(CTRL_C)
    assert exit_code(person) == 9


def test_a_command_may_read_what_is_typed(person, tmp_path):
    person.types(stage(tmp_path, "bash", "-c", "read line; echo heard $line; read line; echo then $line"))
    person.types("one")
    person.sees("\nheard one")
    person.types("two")
    person.sees("\nthen two")
    assert exit_code(person) == 0


def test_a_stopped_job_goes_on_in_the_foreground(person, tmp_path):
    person.types(stage(tmp_path, "sh", "-c", "read line; echo heard $line; read line; echo then $line"))
    person.types("me")
    person.sees("\nheard me")
    person.presses(CTRL_Z)
    person.sees("stopped, and nobody renews the lock")
    person.sees(PROMPT)
    person.types("jobs")
    person.sees("Stopped")
    person.sees(PROMPT)
    person.types("fg")
    person.types("you")
    person.sees("\nthen you")
    assert exit_code(person) == 0


def test_a_stopped_job_goes_on_in_the_background(person, tmp_path):
    person.types(
        stage(tmp_path, "sh", "-c", f"echo started; while ! [ -e {tmp_path}/go ]; do sleep 0.05; done; echo done")
    )
    person.sees("\nstarted")
    person.presses(CTRL_Z)
    person.sees("stopped, and nobody renews the lock")
    person.sees(PROMPT)
    person.types(f"bg; touch {tmp_path}/go; wait; echo waited")
    person.sees("\ndone")
    person.sees("\nwaited")


def test_a_job_in_the_background_that_reads_is_stopped_until_it_is_in_front(person, tmp_path):
    person.types(stage(tmp_path, "sh", "-c", "echo started; read line; echo heard $line") + " &")
    person.sees("started\n")
    person.sees("stopped, and nobody renews the lock")
    while True:
        person.types("jobs")
        person.sees("jobs\n")
        if "Stopped" in person.sees(PROMPT):
            break
    person.types("fg")
    person.types("you")
    person.sees("\nheard you")
    assert exit_code(person) == 0


def test_a_stopped_job_is_ended_when_its_lease_ends(person, tmp_path):
    person.types(stage(tmp_path, "sh", "-c", "sleep 300 & echo started; wait", lease_s=2))
    person.sees("\nstarted")
    person.presses(CTRL_Z)
    person.sees("stopped, and nobody renews the lock")
    guardian = int((tmp_path / "guardian").read_text())
    person.types(f"while [ -e /proc/{guardian} ] && ! grep -q Z /proc/{guardian}/stat; do sleep 0.05; done; fg")
    person.sees("told to end (SIGTERM)")
    assert exit_code(person) in (128 + 15, 128 + 9)


def test_a_pipeline_keeps_its_terminal(person, tmp_path):
    person.types(f"{stage(tmp_path, 'echo', 'through')} 2>&1 | {{ read line </dev/tty; cat; echo so $line; }}")
    person.types("typed")
    person.sees("\nthrough")
    person.sees("\nso typed")


class Lapsed:
    """A lease that is over."""

    lease_ns = SECOND

    def deadline_ns(self):
        return 0


def test_a_command_is_killed_of_which_a_stopped_guardian_has_not_told():
    ours, theirs = pair()
    # It starts a command, says nothing of it on the channel, and is gone when the command is.
    with subprocess.Popen(["sh", "-c", "sleep 300 & echo; wait $!"], stdout=subprocess.PIPE) as guardian:
        guardian.stdout.readline()
        threading.Thread(target=lambda: (guardian.wait(), theirs.close())).start()
        with SignalBox(set()) as signals:
            supervisor = Supervisor(
                guardian.pid, ours, SharedDeadline(), signals, policy=Policy.KILL, tell=lambda _text: None
            )
            outcome = supervisor.run(Lapsed(), {})
    ours.close()
    assert outcome.exit_code == EXIT_INTERNAL
    assert guardian.returncode == 128 + signal.SIGKILL
