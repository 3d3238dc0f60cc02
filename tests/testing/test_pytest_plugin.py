"""The fixture is there wherever Holdfast is installed, is made as its marker says, and costs nobody else anything."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from holdfast.testing import pytest_plugin
from holdfast.testing.world import World


def test_pytest_finds_it_by_itself():
    (point,) = entry_points(group="pytest11", name="holdfast")
    assert point.load() is pytest_plugin


def test_the_fixture_is_a_world(holdfast_world):
    assert isinstance(holdfast_world, World)
    assert holdfast_world.server.store == "durable"


@pytest.mark.holdfast_world(seed=7, store="memory", keys_max=3)
def test_the_marker_says_what_it_is_made_with(holdfast_world):
    assert holdfast_world.server.store == "memory"
    assert holdfast_world.server.config.keys_max == 3


def test_it_loads_nothing_that_costs_anything():
    code = "import sys, pytest; before = set(sys.modules); import holdfast.testing.pytest_plugin; "
    code += "print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["holdfast", "holdfast.testing", "holdfast.testing.pytest_plugin"]
