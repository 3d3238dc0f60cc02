"""Lengths of time as Go writes them.

Which ones a command takes is tested with the command.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.durations import parse, spell


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("0s", 0),
        ("800ms", 800_000_000),
        ("20s", 20_000_000_000),
        ("1m30s", 90_000_000_000),
        ("1.5h", 5_400_000_000_000),
        (".5s", 500_000_000),
        ("1.s", 1_000_000_000),
        ("2us3ns", 2_003),
        ("1µs", 1_000),
        ("1h1h", 7_200_000_000_000),
    ],
)
def test_a_length_of_time_is_read_as_go_reads_it(text, ns):
    assert parse(text) == ns


@pytest.mark.parametrize("text", ["", "20", "s", ".s", "1 s", "-1s", "1S", "1d", "1s ", "٣s", "1e3s", "9" * 64 + "s"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(ValueError, match="is no length of time"):
        parse(text)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5us"),
        (800_000_000, "800ms"),
        (20_000_000_000, "20s"),
        (90_000_000_000, "1m30s"),
        (3_600_000_000_000, "1h"),
        (1_250_000_000, "1.25s"),
    ],
)
def test_a_length_of_time_is_written_as_short_as_it_gets(ns, text):
    assert spell(ns) == text


@given(st.integers(0, 10**16))
def test_what_was_written_is_read_as_it_was(ns):
    assert parse(spell(ns)) == ns
