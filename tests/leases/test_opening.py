"""Opening a backend: what URLs, engines and objects become, and what is refused with a hint."""

import sys
from typing import Any

import pytest
import sqlalchemy

from holdfast.errors import BadRequest, ConfigError
from holdfast.leases.async_backend import AsyncDatabaseBackend
from holdfast.leases.backend import DatabaseBackend
from holdfast.leases.drivers.mariadb import MariaDbDriver
from holdfast.leases.drivers.port import Times
from holdfast.leases.opening import open_async_backend, open_backend
from holdfast.leases.url import place_of

URLS = ["mariadb://u@h/d", "mysql://u@h/d", "postgres://u@h/d", "postgresql://u@h/d", "sqlite:leases.db"]


@pytest.mark.parametrize("url", URLS)
def test_a_url_becomes_a_backend_and_nothing_is_connected_yet(url: str) -> None:
    assert isinstance(open_backend(url), DatabaseBackend)
    assert isinstance(open_async_backend(url), AsyncDatabaseBackend)


def test_a_backend_is_shown_without_its_password() -> None:
    assert open_backend("mysql://u:secret@h/d").shown == "mariadb://u@h:3306/d"  # type: ignore[attr-defined]
    engine = sqlalchemy.create_engine("mysql+pymysql://u:secret@h/d")
    assert "secret" not in open_backend(engine).shown  # type: ignore[attr-defined]


def test_of_an_engine_for_sqlite_the_path_is_taken(sqlite_url: str) -> None:
    engine = sqlalchemy.create_engine(sqlite_url.replace("sqlite:", "sqlite:///"))
    backend: Any = open_backend(engine)
    assert backend.shown == sqlite_url
    assert backend.prepare() == ["made the table cluster_locks"]
    backend.close()


def test_an_engine_for_another_database_is_refused() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    engine.dialect.name = "oracle"
    with pytest.raises(ConfigError, match="this engine is for oracle"):
        open_backend(engine)
    engine.dispose()


def test_an_engine_in_memory_is_refused() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with pytest.raises(BadRequest, match="names no file"):
        open_backend(engine)
    engine.dispose()


def test_an_async_engine_is_refused_with_a_hint() -> None:
    class AsyncEngine:
        pass

    with pytest.raises(ConfigError, match="hand in an Engine"):
        open_async_backend(AsyncEngine())


def test_an_object_with_all_methods_is_taken_as_it_is() -> None:
    blocking, waiting = open_backend("sqlite:leases.db"), open_async_backend("sqlite:leases.db")
    assert open_backend(blocking) is blocking
    assert open_async_backend(waiting) is waiting
    with pytest.raises(BadRequest, match="not one for asyncio"):
        open_async_backend(blocking)
    with pytest.raises(BadRequest, match="not one for threads"):
        open_backend(waiting)


def test_what_is_no_backend_is_refused_at_once() -> None:
    with pytest.raises(BadRequest, match="dict has no acquire"):
        open_backend({})
    with pytest.raises(BadRequest, match="begins with none of mariadb://"):
        open_backend("oracle://h/d")


def test_a_driver_of_ones_own_may_be_handed_in() -> None:
    assert isinstance(open_backend(MariaDbDriver(place_of("mariadb://h/d"))), DatabaseBackend)


@pytest.mark.parametrize(
    ("module", "url", "how"),
    [
        ("pymysql", "mariadb://u@h/d", "PyMySQL is not installed; install it: pip install 'holdfast[mariadb]'"),
        ("psycopg", "postgres://u@h/d", "psycopg is not installed; install it: pip install 'holdfast[postgres]'"),
    ],
)
def test_a_missing_package_is_reported_with_the_command_that_installs_it(
    module: str, url: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "holdfast.leases.drivers.postgres", raising=False)
    with pytest.raises(ConfigError) as refusal:
        open_backend(url).now()
    assert how in str(refusal.value)


async def connect_async(url: str) -> None:
    await MariaDbDriver(place_of(url)).connect_async(Times())


def test_a_missing_package_for_asyncio_too(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setitem(sys.modules, "asyncmy", None)
    with pytest.raises(ConfigError, match="asyncmy is not installed"):
        asyncio.run(connect_async("mariadb://u@h/d"))
