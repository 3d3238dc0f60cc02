"""The guide to testing keeps its word: its test files pass as pytest finds them, and what it names is there.

They run in a folder of their own, with the plugin that pytest loads by itself.
"""

import re
import subprocess
import sys

import pytest

from holdfast.testing import checkers
from holdfast.testing.world import World
from tests.docs.pages import blocks, code, read
from tests.docs.wire import WAIT_S_MAX

PAGE = read("docs/guide/testing.md")
PROGRAM, *TESTS = [block.text for block in blocks(PAGE) if block.language == "python"]


def test_all_test_files_of_the_page_pass(tmp_path):
    (tmp_path / "pages.py").write_text(PROGRAM, encoding="utf-8")
    for number, text in enumerate(TESTS, 1):
        (tmp_path / f"test_{number}.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-W",
            "error",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            tmp_path,
            tmp_path,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    count = sum(text.count("\ndef test_") for text in TESTS)
    assert done.returncode == 0, done.stdout
    assert f"\n{count} passed in " in done.stdout


@pytest.fixture(scope="module")
def world():
    with World() as world:
        yield world


def test_what_the_page_names_of_a_world_is_there(world):
    named = re.findall(r"\b(?:world\.)?((?:net|server|clock)\.[a-z_]+)|\bworld\.([a-z_]+)", " ".join(code(PAGE)))
    paths = {first or second for first, second in named} - {"World"}
    assert {"net.partition", "clock.step", "server.pause", "freeze"} <= paths
    for path in paths:
        found = world
        for name in path.split("."):
            found = getattr(found, name)


def test_all_checkers_are_on_the_page():
    named = re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE)
    assert named == [*(check.__name__ for check in checkers.CHECKERS), "judge"]
