"""A stage for command tests: the commands run for real, only the server at the end writes down its Config.

No test lives here.
"""

import sys
from types import SimpleNamespace

import pytest

from holdfast.config import Config


@pytest.fixture
def started(monkeypatch):
    """The Configs with which a server was started; each of these servers ends at once with exit code 0."""
    configs: list[Config] = []
    # `list.append` answers None, and `or 0` makes an exit code of it.
    server = SimpleNamespace(run=lambda config: configs.append(config) or 0)
    monkeypatch.setitem(sys.modules, "holdfast.server", server)
    return configs
