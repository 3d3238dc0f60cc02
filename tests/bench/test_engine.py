"""Every measurement of the engine runs, in small; no figure is judged here."""

import pytest

from bench.engine import MEASUREMENTS, measure


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_each_measurement_measures_something(name: str) -> None:
    assert measure(MEASUREMENTS[name], count=400, rounds=1) > 0
