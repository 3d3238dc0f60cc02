"""The page about a leader without a lock server keeps its word: it is followed from nothing, on a real MariaDB."""

import os
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.pages import blocks, read
from tests.docs.terminals import ANY, Terminal, parts
from tests.docs.wire import WAIT_S_MAX

PAGE = "docs/guide/leases.md"
BLOCKS = blocks(read(PAGE))
NAME = f"locks_{os.getpid()}"
USER = f"locker_{os.getpid()}"


def ours(text, mariadb):
    """Put our server in the place of the one of the page, and names that nobody else has."""
    return (
        text.replace("locker", USER)
        .replace("/locks", f"/{NAME}")
        .replace("127.0.0.1:3306", f"127.0.0.1:{mariadb.port}")
    )


@pytest.fixture
def url(mariadb):
    """The database of the page, made as it tells an administrator to."""
    mariadb.clean()
    (sql,) = [block.text for block in BLOCKS if block.language == "sql"]
    with mariadb.connect() as connection, connection.cursor() as cursor:
        for statement in re.sub(r"\blocks\b", NAME, sql.replace("locker", USER)).split(";\n"):
            if statement:
                cursor.execute(statement)
        yield ours("mariadb://locker:a-long-password@127.0.0.1:3306/locks", mariadb)
        cursor.execute(f"DROP DATABASE {NAME}")
        cursor.execute(f"DROP USER {USER}")


@pytest.fixture
def prepared(url):
    subprocess.run(
        [Path(sys.executable).parent / "holdfast", "leases", "init", "--backend", url], check=True, timeout=60
    )
    return url


def test_the_table_is_made_as_shown(url, mariadb, tmp_path):
    making = next(block.text for block in BLOCKS if block.language == "console")
    terminal = Terminal(tmp_path, "")
    try:
        for _, command, shown in parts(making):
            terminal.types(ours(command, mariadb))
            terminal.shows(shown)
    finally:
        terminal.close()


def test_each_program_prints_what_stands_below_it(prepared):
    checked = 0
    for program, shown in pairwise(BLOCKS):
        if (program.language, shown.language) != ("python", "text"):
            continue
        done = subprocess.run(
            [sys.executable, "-c", program.text],
            env=os.environ | {"HOLDFAST_BACKEND": prepared},
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(re.escape(shown.text).replace(re.escape("<n>"), "[0-9]+"), done.stdout)
        checked += 1
    assert checked == 3


class Candidate:
    """One process that stands for election."""

    def __init__(self, folder, url):
        self.process = subprocess.Popen(
            [sys.executable, "maintainer.py"],
            cwd=folder,
            env=os.environ | {"HOLDFAST_BACKEND": url, "HOLDFAST_NODE": "sf-7"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def tells(self, pattern):
        """Wait for a line."""
        for line in self.process.stdout:
            if found := re.fullmatch(pattern, line.strip()):
                return found
        raise AssertionError(f"{pattern!r} never came: {self.process.stderr.read()}")

    def ends(self):
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=WAIT_S_MAX)
        return self.process.returncode, errors


def test_one_leads_and_the_next_one_takes_over(prepared, tmp_path):
    (program,) = [block.text for block in BLOCKS if block.text.startswith("# maintainer.py\n")]
    for old, new in {"stop.idle(5": "stop.idle(0.05", "timeout=10": "timeout=0.3"}.items():
        assert old in program
        program = program.replace(old, new)  # no test waits for 5 seconds
    (tmp_path / "maintainer.py").write_text(program)
    with Candidate(tmp_path, prepared) as first:
        began = int(first.tells(r"report under fence (\d+)")[1])
        with Candidate(tmp_path, prepared) as second:
            second.tells("somebody else leads; standing again")
            listing = [block.text for block in BLOCKS if block.language == "console"][-1]
            terminal = Terminal(tmp_path, "")
            try:
                terminal.types(f"export HOLDFAST_BACKEND={prepared}")
                for _, command, shown in parts(listing):
                    terminal.types(command)
                    terminal.shows([re.sub("-{4,}", ANY, line) for line in shown])
            finally:
                terminal.close()
            assert first.ends() == (0, "")
            assert int(second.tells(r"count under fence (\d+)")[1]) == began + 1
            assert second.ends() == (0, "")
