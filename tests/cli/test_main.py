"""The `holdfast` command from outside: what it lists, what it hands on, and what it does not load.

The subcommands have tests of their own.
"""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from holdfast import __version__
from holdfast.cli.main import holdfast, main


def invoke(arguments, environ=None):
    return CliRunner(env=environ or {}).invoke(holdfast, arguments, prog_name="holdfast")


def test_help_lists_the_subcommands():
    result = invoke(["--help"])
    assert result.exit_code == 0
    for name in ("dflockd", "serve"):
        assert f"\n  {name} " in result.stdout


def test_version():
    assert invoke(["--version"]).stdout == f"holdfast {__version__}\n"


def test_serve_is_reached_with_its_options(started):
    assert invoke(["serve", "--keys-max", "5"], {"HOLDFAST_WAITERS_MAX": "6"}).exit_code == 0
    assert [(config.keys_max, config.waiters_max) for config in started] == [(5, 6)]


def test_dflockd_is_reached_with_its_dialect_and_the_environment(started):
    assert invoke(["dflockd", "-port=0", "--max-locks", "5"], {"DFLOCKD_MAX_WAITERS": "6"}).exit_code == 0
    assert [(config.line, config.keys_max, config.waiters_max) for config in started] == [("127.0.0.1:0", 5, 6)]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--", "-port"], "unexpected argument: '-port'"),
        (["-port=0", "--nope"], "flag provided but not defined: -nope"),
        (["---"], "bad flag syntax: ---"),
        (["-host", "--", "x"], "unexpected argument: 'x'"),
    ],
)
def test_nothing_of_the_line_of_dflockd_is_interpreted_on_the_way(arguments, complaint, started):
    result = invoke(["dflockd", *arguments])
    assert (result.exit_code, started) == (2, [])
    assert complaint in result.stderr


@pytest.mark.parametrize("argument", ["--help", "-help", "-h"])
def test_dflockd_answers_help_itself(argument):
    result = invoke(["dflockd", argument])
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage of holdfast dflockd:\n")


@pytest.mark.parametrize("name", ["serve", "dflockd"])
def test_the_exit_code_of_the_server_is_the_exit_code_of_the_command(name, started, monkeypatch):
    monkeypatch.setattr(sys.modules["holdfast.server"], "run", lambda config: 7)
    assert invoke([name]).exit_code == 7


@pytest.mark.parametrize(("name", "code"), [("serve", 1), ("dflockd", 1)])
def test_a_bad_setting_is_exit_code_1_for_both(name, code, started):
    result = invoke([name], {"HOLDFAST_KEYS_MAX": "0", "DFLOCKD_MAX_LOCKS": "0"})
    assert (result.exit_code, started) == (code, [])


@pytest.mark.parametrize("arguments", [["nope"], ["--nope"]])
def test_an_unknown_command_or_option_is_exit_code_2(arguments):
    assert invoke(arguments).exit_code == 2


def test_main_is_the_program(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["anything", "--version"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"holdfast {__version__}\n"


def test_loading_the_command_loads_nothing_heavy():
    code = "import sys, holdfast.cli.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "holdfast.cli.main" in loaded
    assert not {"asyncio", "uvloop", "structlog", "ssl", "holdfast.server", "holdfast.desk"} & set(loaded)
