"""`python -m holdfast`, for real, in a process of its own.

What the commands do is tested with the commands.
"""

import subprocess
import sys

import pytest

from holdfast import __version__
from holdfast.cli.dflockd import TABLE
from holdfast.config import SETTINGS


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "holdfast", *arguments], capture_output=True, text=True, check=False)


def test_help():
    result = run("--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: holdfast [OPTIONS] COMMAND [ARGS]...\n")


def test_version():
    assert run("--version").stdout == f"holdfast {__version__}\n"


@pytest.mark.parametrize(("command", "table"), [("serve", SETTINGS.values()), ("dflockd", TABLE)])
def test_the_help_of_each_server_names_all_of_its_variables(command, table):
    result = run(command, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert all(item.variable in result.stdout for item in table)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["serve", "--keys-max=0"], 1, "holdfast: keys_max must be a whole number"),
        (["serve", "--nope"], 2, "Usage: holdfast serve"),
        (["dflockd", "-max-locks=0"], 1, "holdfast: max-locks must be a whole number"),
        (["dflockd", "-nope"], 2, "holdfast dflockd: flag provided but not defined: -nope"),
        (["nope"], 2, "Usage: holdfast"),
    ],
)
def test_what_goes_wrong_shows_in_the_exit_code_and_on_stderr(arguments, code, message):
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.startswith(message)
