"""The server of the simulator keeps quiet in tests, as it does on the command line.

Nothing else is set up for everybody here.
"""

from collections.abc import Iterator

import pytest
import structlog

from sim.run import keep_quiet


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    keep_quiet()
    yield
    structlog.reset_defaults()
