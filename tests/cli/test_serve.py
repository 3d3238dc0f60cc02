"""`holdfast serve`: its options are the settings, no more and no less.

What the settings must obey is tested with Config.
"""

import itertools

import click
import pytest
from click.testing import CliRunner

from holdfast import __version__
from holdfast.cli.serve import command
from holdfast.config import SETTINGS, Config
from holdfast.settings import Kind


def invoke(arguments, environ=None):
    return CliRunner(env={"COLUMNS": "110", **(environ or {})}).invoke(command(), arguments)


def test_there_is_one_option_for_each_setting():
    names = [name for param in command().params for name in (*param.opts, *param.secondary_opts)]
    flags = [item.flag for item in SETTINGS.values()]
    negations = ["--no-" + item.flag[2:] for item in SETTINGS.values() if item.kind is Kind.BOOLEAN]
    assert sorted(names) == sorted([*flags, *negations, "--version"])


def test_without_arguments_the_defaults_are_served(started):
    assert invoke([]).exit_code == 0
    assert started == [Config()]


def test_each_option_reaches_the_config(started):
    arguments = ["--line", "[::1]:1", "--line-read-timeout=2", "--keys-max", "3", "--line-idle-timeout"]
    assert invoke([*arguments, "--no-release-on-disconnect", "--log-level", "debug"]).exit_code == 0
    assert started == [
        Config(
            line="[::1]:1",
            line_read_timeout_ns=2_000_000_000,
            keys_max=3,
            line_idle_timeout=True,
            release_on_disconnect=False,
            log_level="debug",
        )
    ]


def test_a_variable_counts_where_no_option_is_given(started):
    environ = {"HOLDFAST_KEYS_MAX": "5", "HOLDFAST_WAITERS_MAX": "6", "HOLDFAST_LINE_IDLE_TIMEOUT": "yes"}
    assert invoke(["--keys-max", "4"], environ).exit_code == 0
    assert started == [Config(keys_max=4, waiters_max=6, line_idle_timeout=True)]


@pytest.mark.parametrize(("flag", "variable"), list(itertools.product([None, True, False], [None, "true", "false"])))
def test_a_boolean_option_beats_its_variable_in_both_directions(flag, variable, started):
    arguments = {None: [], True: ["--release-on-disconnect"], False: ["--no-release-on-disconnect"]}[flag]
    environ = {} if variable is None else {"HOLDFAST_RELEASE_ON_DISCONNECT": variable}
    assert invoke(arguments, environ).exit_code == 0
    expected = flag if flag is not None else variable != "false"
    assert started == [Config(release_on_disconnect=expected)]


def test_a_token_file_is_really_read(started, tmp_path):
    file = tmp_path / "token"
    file.write_text(" geheim \r\n")
    assert invoke(["--auth-token-file", str(file)]).exit_code == 0
    assert started == [Config(auth_token="geheim", auth_token_file=str(file))]


@pytest.mark.parametrize(
    ("arguments", "environ", "parts"),
    [
        (["--keys-max", "0"], {}, ["keys_max", "'0'", "from 1 to", "--keys-max"]),
        (["--keys-max="], {}, ["keys_max", "''", "--keys-max"]),
        ([], {"HOLDFAST_LINE": "nowhere"}, ["line", "'nowhere'", "HOST:PORT", "HOLDFAST_LINE"]),
        (["--store", "redis:"], {}, ["store", "'redis:'", "memory:", "--store"]),
        (["--log-level=loud"], {}, ["log_level", "'loud'", "debug, info, warning, error", "--log-level"]),
        (["--auth-token-file", "/dev/null/x"], {}, ["auth_token_file", "/dev/null/x", "Not a directory"]),
    ],
)
def test_a_bad_value_is_one_line_and_exit_code_1(arguments, environ, parts, started):
    result = invoke(arguments, environ)
    assert (result.exit_code, result.stdout, started) == (1, "", [])
    assert result.stderr.startswith("holdfast: ")
    assert result.stderr.count("\n") == 1
    assert all(part in result.stderr for part in parts)


@pytest.mark.parametrize(
    "arguments", [["--nope"], ["--keys-max"], ["extra"], ["--line-idle-timeout=yes"], ["--help="], ["-x"]]
)
def test_a_command_line_that_cannot_be_understood_is_exit_code_2(arguments, started):
    result = invoke(arguments)
    assert (result.exit_code, result.stdout, started) == (2, "", [])
    assert "Error: " in result.stderr


@pytest.mark.parametrize("columns", ["80", "110", "200"])
def test_help_shows_flag_default_and_variable_of_every_setting_under_its_heading(columns):
    result = invoke(["--help"], {"COLUMNS": columns, "HOLDFAST_KEYS_MAX": "x"})
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    position = 0
    for item in SETTINGS.values():
        heading = text.index(f"{item.group}: ")
        entry = f"{item.flag} "
        position = text.index(entry, position)
        assert heading < position
        assert f"[default: {item.shown()}; env: {item.variable}]" in text[position:]
    assert max(map(len, result.stdout.splitlines())) <= min(int(columns), 110)


def test_no_setting_hides_behind_the_word_of_another_group():
    groups = [item.group for item in SETTINGS.values()]
    assert [group for group, _ in itertools.groupby(groups)] == list(dict.fromkeys(groups))


def test_version():
    assert invoke(["--version"]).stdout == f"holdfast {__version__}\n"


def test_the_help_of_a_choice_lists_the_words():
    option = next(param for param in command().params if param.name == "log_format")
    assert option.get_help_record(click.Context(command()))[0] == "--log-format auto|text|json"
