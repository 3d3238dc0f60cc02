"""Every backend keeps the contract, contract.py, for threads and in an event loop: the databases, and engines for them.

What only some of them promise is tested beside them.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import sqlalchemy

from holdfast.leases.backend import DatabaseBackend
from holdfast.leases.drivers.mariadb import MariaDbDriver
from holdfast.leases.drivers.port import Connection, Times
from holdfast.leases.mariadb import MariaDB
from holdfast.leases.url import place_of
from tests.leases.asking import Blocking, InLoop
from tests.leases.contract import BackendContract


class Faces(BackendContract):
    """Two backends over one database, for threads."""

    how: type[Blocking] | type[InLoop] = Blocking

    @pytest.fixture
    def source(self) -> Any:
        raise NotImplementedError

    @pytest.fixture
    def faces(self, source: Any) -> Iterator[list[Any]]:
        with ExitStack() as opened:
            faces = [opened.enter_context(self.how(source)) for _ in range(2)]
            faces[0].prepare()
            yield faces

    @pytest.fixture
    def face(self, faces: list[Any]) -> Any:
        return faces[0]

    @pytest.fixture
    def second(self, faces: list[Any]) -> Any:
        return faces[1]


class TestMariaDB(Faces):
    @pytest.fixture
    def source(self, mariadb_url: str) -> str:
        return mariadb_url


class TestMariaDBInLoop(TestMariaDB):
    how = InLoop


class Plain(MariaDbDriver):
    """MySQL's words, which MariaDB understands too."""

    def connect(self, times: Times) -> Connection:
        connection: Any = super().connect(times)
        connection.dialect = MariaDB(returns=False)
        return connection  # type: ignore[no-any-return]


class TestMySQLWords(Faces):
    @pytest.fixture
    def source(self, mariadb_url: str) -> DatabaseBackend:
        return DatabaseBackend(Plain(place_of(mariadb_url)))


class TestPostgres(Faces):
    @pytest.fixture
    def source(self, postgres_url: str) -> str:
        return postgres_url


class TestPostgresInLoop(TestPostgres):
    how = InLoop


class TestSQLite(Faces):
    @pytest.fixture
    def source(self, sqlite_url: str) -> str:
        return sqlite_url


class TestSQLiteInLoop(TestSQLite):
    how = InLoop


class TestEngineOfMariaDB(Faces):
    @pytest.fixture
    def source(self, mariadb_url: str) -> Iterator[sqlalchemy.Engine]:
        engine = sqlalchemy.create_engine(mariadb_url.replace("mariadb", "mariadb+pymysql", 1))
        yield engine
        engine.dispose()


class TestEngineOfPostgresInLoop(Faces):
    how = InLoop

    @pytest.fixture
    def source(self, postgres_url: str) -> Iterator[sqlalchemy.Engine]:
        engine = sqlalchemy.create_engine(postgres_url.replace("postgres", "postgresql+psycopg", 1))
        yield engine
        engine.dispose()
