"""The README keeps its word: every example in it is run here, against a real server.

Only the port is changed, to a free one; a program that the examples need is installed by `make test`.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from itertools import chain, pairwise

import pytest

from bench.servers import running
from holdfast.testing.process import ServerProcess
from tests.docs.pages import PORT, ROOT, blocks, read
from tests.docs.wire import WAIT_S_MAX, calling, slow_wire

README = blocks(read("README.md"))
PROGRAMS = {
    "sh": ["sh", "lock.sh"],
    "python": [sys.executable, "lock.py"],
    "perl": ["perl", "lock.pl"],
    "javascript": ["node", "lock.js"],
    "c": ["./lock"],
}
TRANSCRIPTS = [block for block in README if block.language == "console"]
COMMANDS = [block for block in README if block.language == "sh" and not block.text.startswith("#!")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess("serve", log=tmp_path_factory.mktemp("readme") / "log") as server:
        yield server


# Programs with what they print below them.
SHOWN = [pair for pair in pairwise(README) if pair[1].language == "text"]


def program_in(language):
    shown = [program for program, _ in SHOWN]
    (found,) = [
        block for block in README if block.language == language and block not in COMMANDS and block not in shown
    ]
    return found


def test_every_example_is_known_to_a_test_here():
    run = [*TRANSCRIPTS, *COMMANDS, *map(program_in, PROGRAMS), *chain.from_iterable(SHOWN)]
    assert len(README) == len(run)
    assert set(README) <= set(run)


# --- the client ---


@pytest.mark.parametrize(("program", "shown"), SHOWN)
def test_a_program_prints_what_stands_below_it(program, shown, server):
    done = subprocess.run(
        [sys.executable, "-c", program.at_port(server.port)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(re.escape(shown.text).replace("<n>", "[0-9]+"), done.stdout), done.stdout


# --- the five programs ---


@contextmanager
def started(language, text, folder):
    """Run a program as a reader would who saved it in a file."""
    command = PROGRAMS[language]
    file = folder / ("lock.c" if language == "c" else command[-1])
    file.write_text(text)
    if language == "c":
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", "lock", "lock.c"], cwd=folder, check=True)
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_waits_its_turn_works_and_gives_the_lock_back(language, server, tmp_path):
    with (
        calling(server.port) as other,
        slow_wire(server.port) as port,
        started(language, program_in(language).at_port(port), tmp_path) as program,
    ):
        _, held, _ = other.ask("l", "nightly-report", "0 30").split()
        while not other.waiters("nightly-report"):
            assert program.poll() is None, program.communicate()
        assert other.ask("r", "nightly-report", held) == "ok"

        output, errors = program.communicate(timeout=WAIT_S_MAX)
        assert (program.returncode, errors) == (0, "")
        found = re.fullmatch(r"working under fence ([0-9a-f]{16})(?: for at most 30 s)?\n", output)
        assert found
        assert found[1] > held[:16]

        _, held, _ = other.ask("l", "nightly-report", "0 30").split()
        assert other.ask("r", "nightly-report", held) == "ok"


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_without_luck_says_so_and_fails(language, server, tmp_path):
    text = program_in(language).at_port(server.port)
    impatient = text.replace("10 30", "0 30").replace("patience=10", "patience=0.1")
    assert impatient != text
    with calling(server.port) as other:
        assert other.ask("l", "nightly-report", "0 30").startswith("ok ")
        with started(language, impatient, tmp_path) as program:
            output, errors = program.communicate(timeout=WAIT_S_MAX)
    assert (output, errors) == ("", "no lock: timeout\n")
    assert program.returncode > 0  # which number is the language's own choice


# --- what is typed ---


def end(terminals):
    """Press Ctrl-C in every terminal that is still busy."""
    for terminal in terminals:
        if terminal.poll() is None:
            os.killpg(terminal.pid, signal.SIGKILL)
        terminal.communicate()


PLACEHOLDERS = {"n": "[0-9]+", "32 hex": "[0-9a-f]{32}", "ms": "[0-9]{13}", "lease": "[0-9a-f-]{36}"}


def test_what_is_typed_is_answered_as_shown(server):
    terminals, known = [], {}
    try:
        for block in TRANSCRIPTS:
            for line in block.at_port(server.port).replace(":8080", f":{server.http_port}").splitlines():
                for name, value in known.items():
                    line = line.replace(f"<{name}>", value)  # noqa: PLW2901  what was shown before is typed now
                if line.startswith("$ "):
                    terminals.append(typing(line.removeprefix("$ "), server))
                else:
                    hear(terminals[-1], line, known)
    finally:
        end(terminals)


def typing(command, server):
    return subprocess.Popen(
        command,
        shell=True,
        cwd=ROOT,
        env=os.environ | {"HOLDFAST_SERVER": f"holdfast://127.0.0.1:{server.port}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def hear(terminal, expected, known):
    """Read a line, which has to be as shown, and remember the lease id in it."""
    pattern = re.escape(expected)
    for name, form in PLACEHOLDERS.items():
        pattern = pattern.replace(re.escape(f"<{name}>"), f"({form})")
    heard = terminal.stdout.readline().decode().rstrip("\n")
    found = re.fullmatch(pattern, heard)
    assert found, heard
    if "<lease>" in expected:
        known["lease"] = next(group for group in found.groups() if len(group) == 36)


@pytest.mark.parametrize("command", [block.text for block in COMMANDS if block.text.startswith("make ")])
def test_a_make_target_exists(command):
    plan = [*shlex.split(command), "--dry-run"]
    environ = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    subprocess.run(plan, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, check=True)


def test_the_stand_in_for_dflockd_starts_with_the_flags_shown(tmp_path):
    (command,) = [block.text for block in COMMANDS if "dflockd" in block.text]
    program, *arguments = shlex.split(command)
    assert program == ".venv/bin/holdfast"
    here = [argument.replace("/var/lib/dflockd", str(tmp_path)) for argument in arguments]

    def stand_in(port):
        return [sys.executable, "-m", "holdfast", *(argument.replace(PORT, str(port)) for argument in here)]

    with running("dflockd", stand_in) as server, calling(server.port) as caller:
        assert caller.ask("l", "job", "0 30").startswith("ok ")
    assert (tmp_path / "fence").stat().st_size > 0


def test_the_stand_in_for_lockserver_starts_with_the_variables_shown(tmp_path):
    (command,) = [block.text for block in COMMANDS if "lockserver" in block.text]
    *variables, program, name = shlex.split(command)
    assert (program, name) == (".venv/bin/holdfast", "lockserver")
    here = [variable.replace("./", f"{tmp_path}/") for variable in variables]

    def stand_in(port):
        given = [variable.replace("8080", str(port)) for variable in here]
        return ["env", *given, sys.executable, "-m", "holdfast", "lockserver"]

    with (
        running("lockserver", stand_in) as server,
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=WAIT_S_MAX) as answer,
    ):
        assert answer.status == 200
    assert (tmp_path / "lockserver.db").exists()
