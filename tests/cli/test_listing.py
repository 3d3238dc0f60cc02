"""Listings: tables that fit, CSV and JSON that programs can read, and nothing in any of them that a terminal obeys."""

import csv
import io
import json
import subprocess
import sys

import pytest

from holdfast.cli import listing
from holdfast.cli.listing import Column, cut, paint, print_listing, seconds, spell_json, table, text, width_of

KEY, COUNT = Column("the key", "key", text), Column("count", "count", right=True)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "-"),
        (0, "0.0 s"),
        (0.99, "0.9 s"),
        (9.99, "9.9 s"),
        (10, "10 s"),
        (59.9, "59 s"),
        (60, "1 m 00 s"),
        (3_599, "59 m 59 s"),
        (3_661, "1 h 01 m"),
        (86_399, "23 h 59 m"),
        (90_000, "1 d 01 h"),
    ],
)
def test_a_length_of_time_is_never_told_longer_than_it_is(value, told):
    assert seconds(value) == told


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (None, "-"),
        ("", "-"),
        (0, "0"),
        ("plain é 漢 🔒", "plain é 漢 🔒"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("one\ntwo\r\tthree\x00", "one\\ntwo\\r\\tthree\\x00"),
        ("\u202eturned\u200b\u2028", "\\u202eturned\\u200b\\u2028"),
        ("\x9b31m", "\\x9b31m"),
        ("\udcff", "\\udcff"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_what_somebody_has_sent_stays_in_its_line_and_moves_no_cursor(sent, told):
    assert text(sent) == told


def test_wide_signs_take_two_places_and_accents_none():
    assert [width_of(shown) for shown in ("abc", "漢字", "e\u0301", "🔒")] == [3, 4, 1, 2]


@pytest.mark.parametrize(
    ("shown", "width", "left"),
    [("abcdef", 6, "abcdef"), ("abcdef", 4, "abc…"), ("漢字漢字", 6, "漢字…"), ("ab", 1, "…")],
)
def test_what_is_too_long_is_cut_and_shows_that_it_was(shown, width, left):
    assert cut(shown, width) == left
    assert width_of(cut(shown, width)) <= width


def test_columns_stand_below_each_other_whatever_is_in_them():
    lines = table([{"key": "漢字", "count": 7}, {"key": "a" * 9, "count": None}], [KEY, COUNT], 80)
    assert lines == ["the key    count", "漢字           7", "aaaaaaaaa      -"]


def test_a_table_that_is_too_wide_loses_from_its_widest_column():
    rows = [{"key": "k" * 200, "count": 12}]
    lines = table(rows, [KEY, COUNT], 40)
    assert [width_of(line) for line in lines] == [40, 40]
    assert lines[1] == "k" * 32 + "…     12"


def test_no_column_is_cut_down_to_nothing():
    columns = [Column(str(number), str(number), text) for number in range(9)]
    (_, line) = table([{str(number): "x" * 50 for number in range(9)}], columns, 40)
    assert line == "  ".join(["xxxxxxx…"] * 9)


def test_csv_is_read_back_as_it_was():
    rows = [{"key": 'quote " and, comma', "count": 1}, {"key": "", "count": None}, {"key": "plain", "count": 0.5}]
    lines = listing.csv(rows, [KEY, COUNT])
    assert lines[0] == "key,count"
    assert list(csv.reader(io.StringIO("\n".join(lines[1:])))) == [
        ['quote " and, comma', "1"],
        ["", ""],
        ["plain", "0.5"],
    ]


def test_a_row_of_csv_is_a_line_whatever_is_in_it():
    assert listing.csv([{"key": "a\nb\x1b[2J,c"}], [KEY]) == ["key", '"a\\nb\\x1b[2J,c"']


def test_json_is_read_back_as_it_was_and_obeyed_by_no_terminal():
    value = {"key": 'a\n\x1b\x9b\u202e\u2028\udcff"\\é🔒', "list": [1, None, True]}
    for spelled in (spell_json(value), spell_json(value, indent=2)):
        assert json.loads(spelled) == value
        assert all(one.isprintable() or one == "\n" for one in spelled)
        assert "é🔒" in spelled


def test_an_empty_listing_says_so_to_people_and_is_empty_for_programs(capsys):
    for style, out, err in ((None, "", "Nothing.\n"), ("json", "[]\n", ""), ("simple", "key,count\n", "")):
        print_listing([], [KEY, COUNT], style, empty="Nothing.")
        assert capsys.readouterr() == (out, err)


def test_json_can_show_more_than_the_rows(capsys):
    print_listing([{"key": "a"}], [KEY], "json", raw={"all": 1})
    assert json.loads(capsys.readouterr().out) == {"all": 1}


def test_whoever_reads_through_a_pipe_gets_whole_columns_and_no_colours(capsys):
    print_listing([{"key": "k" * 500, "count": 1}], [KEY, COUNT], None)
    assert "k" * 500 in capsys.readouterr().out
    assert paint("red", fg="red") == "red"


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"TERM": "xterm"}, "\x1b[31mred\x1b[0m"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "red"),
        ({"TERM": "dumb"}, "red"),
    ],
)
def test_colours_are_for_people_who_want_them(environ, told, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert paint("red", fg="red") == told


def test_a_screen_is_as_wide_as_it_says_and_never_narrower_than_a_table_needs(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for columns, width in (("120", 120), ("10", 40)):
        monkeypatch.setenv("COLUMNS", columns)
        assert listing.terminal_width() == width


def test_the_help_of_the_command_loads_nothing_that_only_some_commands_need():
    code = "import sys; from holdfast.cli.main import holdfast; holdfast(['--help'], standalone_mode=False); "
    code += "print(*sys.modules, file=sys.stderr)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()
    assert "holdfast.cli.doctor" in loaded
    assert not {"asyncio", "ssl", "sqlite3", "msgspec", "uvloop", "structlog", "http.client", "tempfile"} & set(loaded)
    assert not {"holdfast.sync", "holdfast.aio", "holdfast.server", "holdfast.desk", "holdfast.cli.peek"} & set(loaded)
