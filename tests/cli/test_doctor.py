"""`holdfast doctor` as a user runs it: what it looks at, how it says so, what to do, and its exit code."""

import csv
import json
import sys

import pytest

from holdfast.cli import doctor
from holdfast.cli.doctor import examine, report, settings, summary, verdict
from holdfast.cli.doctor_findings import Finding, State
from tests.cli.look_stage import NOWHERE, holdfast

WELL = Finding("clock", State.OK, "right")
POOR = Finding("clock", State.WARNING, "slow", "Wind it up.")
ILL = Finding("ports", State.BAD, "taken", "Choose another.")
PARTS = ["settings", "clock", "file system", "limits", "ports", "versions", "server"]


@pytest.fixture
def place(tmp_path):
    """Flags for a store and ports that are nobody's."""
    return ("--store", f"sqlite:{tmp_path}/holdfast.db", "--line", "127.0.0.1:0", "--http", "off")


@pytest.fixture
def finding(monkeypatch):
    """Have the doctor find what a test says."""

    def found(*findings):
        monkeypatch.setattr(doctor, "examine", lambda server, flags: list(findings))

    return found


def test_it_looks_at_everything_and_says_how_it_stands(urls, place):
    result = holdfast("doctor", *place, server=urls.native)
    lines = result.stdout.splitlines()
    assert [line for line in lines[:-1] if line and not line.startswith(" ")] == PARTS
    assert lines[-1].endswith(".")
    assert "no deadlocks" in result.stdout
    assert result.exit_code in (0, 1)  # what it says of this machine is not for a test to know
    assert (result.exit_code == 1) == ("\n  bad " in result.stdout)


def test_it_says_so_for_programs_too(urls, place):
    told = json.loads(holdfast("doctor", *place, "--json", server=urls.http).stdout)
    assert list(dict.fromkeys(one["part"] for one in told)) == PARTS
    assert {one["state"] for one in told} <= {"ok", "note", "warning", "bad"}
    assert all(one["advice"] for one in told if one["state"] in ("warning", "bad"))
    rows = list(csv.DictReader(holdfast("doctor", *place, "--simple", server=urls.http).stdout.splitlines()))
    assert list(rows[0]) == ["part", "state", "found", "advice"]
    assert [row["part"] for row in rows] == [one["part"] for one in told]


def test_a_server_that_was_named_and_is_not_there_is_bad(place):
    for result in (
        holdfast("doctor", *place, "--server", f"holdfast://:secret@{NOWHERE}"),
        holdfast("doctor", *place, server=f"holdfast://:secret@{NOWHERE}"),
    ):
        assert result.exit_code == 1
        assert f"bad      holdfast://{NOWHERE}: cannot connect to {NOWHERE}: Connection refused" in result.stdout
        assert "secret" not in result.stdout


def test_nobody_has_to_be_there_where_nobody_was_named(place, monkeypatch):
    monkeypatch.setattr("holdfast.cli.calling.SERVER_DEFAULT", f"holdfast://{NOWHERE}")
    result = holdfast("doctor", *place)
    assert f"note     nobody answers at holdfast://{NOWHERE}" in result.stdout


def test_a_setting_that_a_server_would_refuse_is_bad_and_the_rest_is_looked_at(urls, place):
    result = holdfast("doctor", *place, server=urls.native, environ={"HOLDFAST_KEYS_MAX": "0"})
    assert result.exit_code == 1
    assert "\n  bad      " in result.stdout
    assert "keys_max" in result.stdout
    assert "a server would not start" in result.stdout
    assert "\nserver\n" in result.stdout


def test_settings_come_from_flags_and_from_the_environment(monkeypatch):
    monkeypatch.setenv("HOLDFAST_CONNECTIONS_MAX", "7")
    monkeypatch.setenv("HOLDFAST_LINE", "127.0.0.1:7001")
    config, (found,) = settings({"line": "127.0.0.1:7002"})
    assert (config.connections_max, config.line, found.state) == (7, "127.0.0.1:7002", State.OK)


def test_what_is_risky_is_a_warning():
    _, found = settings({"line": "0.0.0.0:0"})
    assert {one.state for one in found} == {State.WARNING}


def test_the_store_that_is_looked_at_is_the_one_of_the_settings(urls, tmp_path):
    found = examine(urls.native, {"store": f"sqlite:{tmp_path}/gone/x.db", "line": "off", "http": "off"})
    assert [one.found for one in found if one.part == "file system"] == [f"there is no folder {tmp_path}/gone"]
    assert [one.found for one in found if one.part == "ports"] == ["line: off", "http: off"]


@pytest.mark.parametrize(
    ("found", "line", "code", "strict"),
    [
        ([WELL], "All is well.", 0, 0),
        ([WELL, Finding("server", State.NOTE, "nobody")], "All is well.", 0, 0),
        ([WELL, POOR], "1 warning.", 0, 1),
        ([POOR, POOR], "2 warnings.", 0, 1),
        ([POOR, ILL], "1 bad and 1 warning.", 1, 1),
        ([ILL, ILL], "2 bad.", 1, 1),
    ],
)
def test_the_last_line_and_the_exit_code_say_how_it_stands(finding, found, line, code, strict):
    finding(*found)
    assert summary(found) == line
    assert (verdict(found, strict=False), verdict(found, strict=True)) == (code, strict)
    result = holdfast("doctor")
    assert (result.stdout.splitlines()[-1], result.exit_code) == (line, code)
    for style in ((), ("--json",), ("--simple",)):
        assert holdfast("doctor", "--strict", *style).exit_code == strict


def test_advice_stands_below_what_was_found_part_by_part():
    assert report([WELL, POOR, ILL]) == [
        "clock",
        "  ok       right",
        "  warning  slow",
        "           Wind it up.",
        "ports",
        "  bad      taken",
        "           Choose another.",
        "",
        "1 bad and 1 warning.",
    ]


def test_what_is_too_long_for_the_screen_goes_on_below(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")
    lines = report([Finding("clock", State.BAD, "word " * 20)])
    assert len(lines) == 7
    assert all(len(line) <= 40 for line in lines)
    assert {line[:11] for line in lines[2:-2]} == {" " * 11}


def test_what_was_found_moves_no_cursor():
    assert report([Finding("server", State.BAD, "\x1b[2Jgone")])[1] == "  bad      \\x1b[2Jgone"
