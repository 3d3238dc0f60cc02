"""The doctor on clocks: wrong, kept right, hurried, asleep, slow to read; and those of this machine are read at all."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from holdfast.cli.doctor_clock import Reading, findings, rate_ppm, read
from holdfast.cli.doctor_findings import State

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp()
WELL = Reading(wall_s=NOON, slept_s=0.0, synchronised=True, rate_ppm=12.3, source="tsc")


def states(reading):
    return [finding.state for finding in findings(reading)]


def test_a_clock_that_is_well_is_told_so():
    first, second = findings(WELL)
    assert (first.state, first.found) == (State.OK, "2026-07-01 12:00:00 UTC, kept right by NTP")
    assert (second.state, second.found) == (State.OK, "runs at its own pace (within 12 ppm)")


@pytest.mark.parametrize(
    ("changes", "state", "about"),
    [
        ({"wall_s": 0.0}, State.BAD, "cannot be"),
        ({"synchronised": False}, State.WARNING, "nobody keeps it right"),
        ({"synchronised": None}, State.NOTE, "does not tell"),
        ({"rate_ppm": 5_000.0}, State.WARNING, "0.50 % faster"),
        ({"rate_ppm": -9_999.0}, State.WARNING, "1.00 % slower"),
        ({"rate_ppm": 10_000.0}, State.BAD, "1.00 % faster"),
        ({"rate_ppm": -100_000.0}, State.BAD, "10.00 % slower"),
        ({"slept_s": 61.0}, State.WARNING, "has slept 61 s"),
        ({"source": "hpet"}, State.WARNING, "read from hpet"),
    ],
)
def test_each_trouble_is_told_alone_and_comes_with_advice(changes, state, about):
    troubles = [finding for finding in findings(replace(WELL, **changes)) if finding.state is not State.OK]
    assert [(trouble.part, trouble.state) for trouble in troubles] == [("clock", state)]
    assert about in troubles[0].found
    assert troubles[0].advice or state is State.NOTE


def test_what_the_machine_does_not_tell_is_not_judged():
    assert states(Reading(NOON, 0.0, None, None, None)) == [State.NOTE]


@pytest.mark.parametrize(
    ("freq", "tick", "told"),
    [(0, 10_000, 0.0), (65_536, 10_000, 1.0), (-32_768_000, 10_000, -500.0), (0, 11_000, 100_000.0)],
)
def test_a_clock_can_be_hurried_in_two_ways(freq, tick, told):
    assert rate_ppm(freq, tick) == told


def test_this_machine_is_read():
    reading = read()
    assert reading.wall_s > NOON - 365 * 86_400
    assert reading.slept_s > -1
    assert reading.rate_ppm is None or abs(reading.rate_ppm) < 200_000
    assert findings(reading)
