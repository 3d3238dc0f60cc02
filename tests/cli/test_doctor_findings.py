"""What the doctor says of one thing: states that can be told apart, and numbers of bytes that people can read."""

import pytest

from holdfast.cli.doctor_findings import Finding, State, size


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (9_900, "9.9 kB"),
        (64_000_000, "64 MB"),
        (1_500_000_000, "1.5 GB"),
        (20_000_000_000_000, "20 TB"),
        (5_000_000_000_000_000, "5000 TB"),
    ],
)
def test_bytes_are_told_in_the_unit_that_matters(count, told):
    assert size(count) == told


def test_states_are_what_people_read():
    assert [state.value for state in State] == ["ok", "note", "warning", "bad"]


def test_what_is_well_needs_no_advice():
    assert Finding("clock", State.OK, "it runs").advice == ""
