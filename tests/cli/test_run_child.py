"""A command becomes a process: a group of its own, signals as they come, and what a shell says when it cannot be.

Its end is the business of the guardian.
"""

import errno
import os
import signal

import pytest

from holdfast.cli.run_child import NotStarted, ignored_signals, look_for, not_started, start
from holdfast.cli.run_kernel import children
from tests.cli.run_stage import SHOW_IGNORED, ignored_in


def run(command, environ=None, ignored=()):
    """Start it with its output in a pipe; answers pid, output and wait status."""
    reader, writer = os.pipe()
    kept = os.dup(1)
    os.dup2(writer, 1)
    os.close(writer)
    try:
        pid = start(command, environ or dict(os.environ), ignored)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    with open(reader, "rb") as output:
        said = output.read().decode()
    return pid, said, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_it_heads_a_group_of_its_own():
    pid, said, code = run(["sh", "-c", "echo $$ $(ps -o pgid= -p $$)"])
    assert (said.split(), code) == ([str(pid), str(pid)], 0)


def test_it_gets_the_environment_and_no_other():
    assert run(["/usr/bin/env"], {"ONE": "1"})[1] == "ONE=1\n"


def test_it_is_looked_for_in_its_own_path(tmp_path):
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\necho mine\n")
    program.chmod(0o755)
    assert run(["tool"], {"PATH": str(tmp_path)})[1] == "mine\n"


def test_only_what_was_ignored_is_ignored():
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        assert signal.SIGUSR1 in ignored_signals()
        assert ignored_in(run(SHOW_IGNORED)[1]) == set()
        assert ignored_in(run(SHOW_IGNORED, ignored={signal.SIGUSR1})[1]) == {signal.SIGUSR1}
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_it_has_no_descriptor_of_ours():
    one, _other = os.pipe()
    said = run(["sh", "-c", "ls /proc/$$/fd"])[1].split()
    assert {"0", "1", "2"} <= set(said)
    assert str(one) not in said or one < 10


@pytest.mark.parametrize(
    ("command", "code", "why"),
    [
        (["/nonexistent/tool"], 127, "No such file"),
        (["surely-no-such-tool"], 127, "No such file"),
        (["/etc/passwd/x"], 127, "Not a directory"),
        (["/etc/passwd"], 126, "Permission denied"),
        (["/"], 126, "Permission denied"),
        (["echo", "a\0b"], 126, "Invalid argument"),
    ],
)
def test_what_cannot_be_started_is_refused_as_by_a_shell(command, code, why):
    before = children(os.getpid())
    with pytest.raises(NotStarted, match=why) as caught:
        start(command, dict(os.environ), ())
    assert caught.value.exit_code == code
    assert children(os.getpid()) == before


@pytest.mark.parametrize("program", ["sh", "/bin/sh"])
def test_a_program_that_is_there_is_found(program):
    look_for(program, dict(os.environ))


@pytest.mark.parametrize(
    ("program", "code"),
    [("surely-no-such-tool", 127), ("/nonexistent/x", 127), ("/etc/passwd", 126), ("/", 126), ("", 127)],
)
def test_a_program_that_is_missing_is_missed_before_anybody_waits(program, code):
    with pytest.raises(NotStarted) as caught:
        look_for(program, dict(os.environ))
    assert caught.value.exit_code == code


def test_other_troubles_are_exit_code_126():
    assert not_started("x", errno.E2BIG).exit_code == 126
