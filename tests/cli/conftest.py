"""A stage for command tests: the commands run for real, and servers are real too, or only write down their Config.

No test lives here.
"""

import sys
from contextlib import closing
from types import SimpleNamespace

import pytest

from holdfast.config import Config
from holdfast.testing.process import ServerProcess
from tests.cli.leases_stage import Database
from tests.cli.look_stage import Urls


@pytest.fixture
def started(monkeypatch):
    """The Configs with which a server was started; each of these servers ends at once with exit code 0."""
    configs: list[Config] = []
    # `list.append` answers None, and `or 0` makes an exit code of it.
    server = SimpleNamespace(run=lambda config: configs.append(config) or 0)
    monkeypatch.setitem(sys.modules, "holdfast.server", server)
    return configs


@pytest.fixture(scope="package")
def urls(tmp_path_factory):
    """The addresses of a real server for all tests that look into one; each has keys of its own there."""
    with ServerProcess("serve", "--store", "memory:", log=tmp_path_factory.mktemp("look") / "log") as server:
        yield Urls(server)


@pytest.fixture
def database(tmp_path):
    """A database of leases in a file, with its table and nothing in that."""
    with closing(Database(f"sqlite:{tmp_path}/leases.db")) as found:
        yield found.prepare()
