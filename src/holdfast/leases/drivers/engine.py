"""An engine of SQLAlchemy, handed in instead of a URL: it knows how to connect, and all else is as without it.

A connection taken from it leaves its pool, since its settings are not those that others expect. The way to the server
has the time limits that whoever made the engine has given it.
"""

from contextlib import suppress
from typing import Any

from holdfast.errors import ConfigError
from holdfast.leases.dialect import Dialect
from holdfast.leases.drivers import mariadb_session, postgres_session
from holdfast.leases.drivers.port import Connection, Driver, Times, missing
from holdfast.leases.drivers.sqlite import SqliteDriver
from holdfast.leases.drivers.threaded import ThreadedDriver
from holdfast.leases.errors import DatabaseUnavailable, StatementRefused
from holdfast.leases.steps import Result, Statement, run
from holdfast.leases.url import SQLITE, path_of

try:
    import sqlalchemy
    from sqlalchemy import exc
except ImportError as error:
    raise missing("SQLAlchemy", "sqlalchemy") from error

SESSIONS: dict[str, Any] = {
    "mariadb": mariadb_session.begin,
    "mysql": mariadb_session.begin,
    "postgresql": postgres_session.begin,
}


def driver_of(engine: sqlalchemy.Engine) -> Driver:
    """Find the way to the database of an engine; of one for SQLite, only the path is taken."""
    kind = engine.dialect.name
    if kind == "sqlite":
        return SqliteDriver(path_of(SQLITE + (engine.url.database or "")))
    if kind not in SESSIONS:
        raise ConfigError(f"leases are kept in MariaDB, MySQL, PostgreSQL or SQLite; this engine is for {kind}")
    return EngineDriver(engine)


class EngineDriver(ThreadedDriver):
    """The way to the database of an engine."""

    def __init__(self, engine: sqlalchemy.Engine) -> None:
        self._engine = engine
        self.shown = engine.url.render_as_string(hide_password=True)

    def connect(self, times: Times) -> Connection:
        try:
            raw = self._engine.connect()
        except (exc.SQLAlchemyError, OSError) as error:
            raise meaning(error, self._engine.dialect.name, self.shown) from error
        try:
            raw = raw.execution_options(isolation_level="AUTOCOMMIT")
            raw.detach()
            connection = _Connection(raw, self.shown)
            connection.dialect = run(connection.execute, SESSIONS[raw.dialect.name](times))
        except exc.SQLAlchemyError as error:
            raw.close()
            raise meaning(error, self._engine.dialect.name, self.shown) from error
        except BaseException:
            raw.close()
            raise
        return connection


class _Connection:
    """A connection that belongs to no pool any more."""

    dialect: Dialect

    def __init__(self, raw: sqlalchemy.Connection, shown: str) -> None:
        self._raw = raw
        self._shown = shown
        self._marks = raw.dialect.paramstyle == "qmark"

    def execute(self, statement: Statement) -> Result:
        sql = statement.sql.replace("%s", "?") if self._marks else statement.sql
        try:
            result = self._raw.exec_driver_sql(sql, tuple(statement.values) or None)
            if result.returns_rows:
                rows = [tuple(row) for row in result]
                return Result(len(rows), rows)
            return Result(result.rowcount, number=result.lastrowid or 0 if self._counts else 0)
        except (exc.SQLAlchemyError, OSError) as error:
            raise meaning(error, self._raw.dialect.name, self._shown) from error

    @property
    def _counts(self) -> bool:
        """Whether the last insert id means something here."""
        return self._raw.dialect.name != "postgresql"

    def close(self) -> None:
        with suppress(exc.SQLAlchemyError, OSError):
            self._raw.close()


def meaning(error: Exception, kind: str, shown: str) -> Exception:
    """Say what an error means that SQLAlchemy has wrapped."""
    said = str(getattr(error, "orig", None) or error) or type(error).__name__
    if isinstance(error, exc.DBAPIError):
        if error.connection_invalidated:
            return DatabaseUnavailable(f"{shown}: {said}")
        cause: Any = error.orig
        if kind == "postgresql":
            state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
            return postgres_session.meaning(state, said, shown)
        number = getattr(cause, "errno", None) or (cause.args[0] if cause.args else 0)
        return mariadb_session.meaning(number, said, shown)
    if isinstance(error, exc.TimeoutError | OSError):
        return DatabaseUnavailable(f"{shown}: {said}")
    return StatementRefused(f"{shown}: {said}")
