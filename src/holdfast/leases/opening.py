"""From a URL, an engine or an object to a backend that is open.

What a database needs is imported when its name comes up, so that a program pays for its own database alone.
"""

import inspect
import sys
from typing import Any

from holdfast.errors import BadRequest, ConfigError
from holdfast.leases import url as urls
from holdfast.leases.async_backend import AsyncDatabaseBackend
from holdfast.leases.backend import DatabaseBackend
from holdfast.leases.drivers.port import Driver
from holdfast.leases.words import AsyncBackend, Backend

METHODS = ("acquire", "refresh", "release", "list", "look", "clear", "now", "wait", "close")


def open_backend(source: Any) -> Backend:
    """Open what a URL names, or an engine of SQLAlchemy; an object that is a backend is taken as it is."""
    if isinstance(source, str) and source.startswith(urls.GRPC):
        from holdfast.leases import grpc_backend

        opened: Backend = grpc_backend.open_backend(source)
        return opened
    driver = _driver(source)
    if driver is not None:
        return DatabaseBackend(driver)
    given: Backend = _checked(source, waits=False)
    return given


def open_async_backend(source: Any) -> AsyncBackend:
    """Open the same for asyncio."""
    if isinstance(source, str) and source.startswith(urls.GRPC):
        from holdfast.leases import grpc_backend

        opened: AsyncBackend = grpc_backend.open_async_backend(source)
        return opened
    driver = _driver(source)
    if driver is not None:
        return AsyncDatabaseBackend(driver)
    given: AsyncBackend = _checked(source, waits=True)
    return given


def _driver(source: Any) -> Driver | None:
    """Find the way to a database."""
    if isinstance(source, Driver):
        return source
    if isinstance(source, str):
        return _driver_of_url(source)
    # Whoever hands in an engine has imported its package.
    sqlalchemy = sys.modules.get("sqlalchemy")
    if sqlalchemy is not None and isinstance(source, sqlalchemy.Engine):
        from holdfast.leases.drivers.engine import driver_of

        return driver_of(source)
    if type(source).__name__ == "AsyncEngine":
        raise ConfigError("hand in an Engine of SQLAlchemy, not an AsyncEngine; the asyncio face takes it as well")
    return None


def _driver_of_url(url: str) -> Driver:
    if url.startswith(urls.SQLITE):
        from holdfast.leases.drivers.sqlite import SqliteDriver

        return SqliteDriver(urls.path_of(url))
    place = urls.place_of(url)
    if place.kind == urls.POSTGRES:
        from holdfast.leases.drivers.postgres import PostgresDriver

        return PostgresDriver(place)
    from holdfast.leases.drivers.mariadb import MariaDbDriver

    return MariaDbDriver(place)


def _checked(source: Any, *, waits: bool) -> Any:
    """Refuse what is no backend, now and not when the first lock is asked for."""
    absent = [name for name in METHODS if not callable(getattr(source, name, None))]
    if absent:
        raise BadRequest(
            f"a backend is a URL, an Engine of SQLAlchemy or an object with the methods of one; "
            f"{type(source).__name__} has no {', '.join(absent)}"
        )
    if inspect.iscoroutinefunction(source.acquire) != waits:
        kind = "asyncio" if waits else "threads"
        raise BadRequest(f"{type(source).__name__} is a backend, and not one for {kind}")
    return source
