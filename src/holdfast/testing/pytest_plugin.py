"""The pytest plugin: a fixture with a world in virtual time, for whoever has Holdfast and pytest installed.

It is loaded with every run of pytest, so nothing may be imported here that costs anything; the fixture imports what it
needs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.testing.world import World

MARKER = "holdfast_world(seed=0, store='durable', **settings): what `holdfast_world` is made with"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def holdfast_world(request: pytest.FixtureRequest) -> "Iterator[World]":
    """A lock server, its clients, the network between them and a clock that a test holds in its hand."""
    from holdfast.testing.world import World

    marker = request.node.get_closest_marker("holdfast_world")
    with World(**({} if marker is None else marker.kwargs)) as world:
        yield world
