"""The databases that tests of leases work on; a server is started when the first test wants it, and then for all.

No test and no expectation lives here.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.leases.servers import MariaDbServer, PostgresServer


class Servers:
    """The servers of a session."""

    def __init__(self, names: set[str]) -> None:
        # Both come up side by side, while the first test waits for its own.
        self.mariadb = MariaDbServer() if "mariadb" in names else None
        self.postgres = PostgresServer() if "postgres" in names else None

    def stop(self) -> None:
        for server in (self.mariadb, self.postgres):
            if server is not None:
                server.stop()


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    names: set[str] = {
        name for item in request.session.items if isinstance(item, pytest.Function) for name in item.fixturenames
    }
    started = Servers(names)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def mariadb(servers: Servers) -> MariaDbServer:
    """The MariaDB of this session."""
    assert servers.mariadb is not None
    return servers.mariadb


@pytest.fixture(scope="session")
def postgres(servers: Servers) -> PostgresServer:
    """The PostgreSQL of this session."""
    assert servers.postgres is not None
    return servers.postgres


@pytest.fixture
def mariadb_url(mariadb: MariaDbServer) -> str:
    """A database without tables in MariaDB."""
    return mariadb.clean()


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    """A database without tables in PostgreSQL."""
    return postgres.clean()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file that is not there yet."""
    return f"sqlite:{tmp_path}/leases.db"
