"""The Python programs of the guide keep their word: each is run against a real server and prints what stands below it.

A page may have other examples too; those are run by a test of their own.
"""

import os
import re
import subprocess
import sys

import pytest

from holdfast.testing.process import ServerProcess
from tests.docs.pages import blocks, read
from tests.docs.wire import WAIT_S_MAX

PAGES = [f"docs/guide/{name}.md" for name in ("losing-a-lease", "fencing", "elections", "groups")]


def programs(name):
    """Pair each program with the block below it, which shows what it prints."""
    found = blocks(read(name))
    for program, shown in zip(found, [*found[1:], None], strict=True):
        if program.language == "python":
            yield program.text, shown.text if shown is not None and shown.language == "text" else ""


PROGRAMS = [
    pytest.param(program, shown, id=f"{name.rpartition('/')[2]}-{number}")
    for name in PAGES
    for number, (program, shown) in enumerate(programs(name), 1)
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess("serve", log=tmp_path_factory.mktemp("guide") / "log") as server:
        yield server


@pytest.mark.parametrize(("program", "shown"), PROGRAMS)
def test_a_program_prints_what_the_page_shows(program, shown, server):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"HOLDFAST_SERVER": f"holdfast://127.0.0.1:{server.port}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # The client's warning goes where Python sends warnings that nobody has asked for; the page says so.
    assert re.fullmatch(r"('\w+' was lost: .+\n)?", done.stderr), done.stderr
    pattern = re.escape(shown).replace(re.escape("<n>"), "[0-9]+").replace(re.escape("<why>"), ".+")
    assert re.fullmatch(pattern, done.stdout), done.stdout
