"""Somebody who supervises, for each test that wants it."""

import pytest

from tests.watchdog.supervisor import supervisor


@pytest.fixture
def systemd(tmp_path):
    """A supervisor whose socket has a path."""
    with supervisor(tmp_path) as found:
        yield found
