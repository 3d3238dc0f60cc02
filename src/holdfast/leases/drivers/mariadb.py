"""MariaDB and MySQL: PyMySQL where the caller blocks, asyncmy in an event loop.

Rows are counted as found, not as changed: a refresh in the same microsecond as the last one changes nothing, and is no
loss.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from holdfast.leases.drivers.mariadb_session import begin, meaning
from holdfast.leases.drivers.port import AsyncConnection, Connection, Driver, Times, missing
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.mariadb import MariaDB
from holdfast.leases.steps import Result, Statement, run, run_async
from holdfast.leases.url import Place

if TYPE_CHECKING:
    import pymysql

FOUND_ROWS: Final = 2


class MariaDbDriver(Driver):
    """The way to one MariaDB or MySQL."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.shown = place.shown

    def connect(self, times: Times) -> Connection:
        try:
            import pymysql
        except ImportError as error:
            raise missing("PyMySQL", "mariadb") from error
        try:
            raw = pymysql.connect(
                **self._arguments(),
                read_timeout=times.answer_s,
                write_timeout=times.answer_s,
                connect_timeout=times.connect_s,
            )
        except (pymysql.MySQLError, OSError) as error:
            raise meaning(number_of(error), f"cannot connect: {said_by(error)}", self.shown) from error
        connection = _Connection(raw, self.shown, pymysql.MySQLError)
        try:
            connection.dialect = run(connection.execute, begin(times))
        except BaseException:
            connection.close()
            raise
        return connection

    async def connect_async(self, times: Times) -> AsyncConnection:
        try:
            import asyncmy
            from asyncmy.errors import MySQLError
        except ImportError as error:
            raise missing("asyncmy", "mariadb") from error
        try:
            async with asyncio.timeout(times.connect_s):
                raw = await asyncmy.connect(**self._arguments(), connect_timeout=times.connect_s)
        except TimeoutError as error:
            raise DatabaseUnavailable(f"{self.shown} did not answer within {times.connect_s} s") from error
        except (MySQLError, OSError, asyncio.IncompleteReadError) as error:
            raise meaning(number_of(error), f"cannot connect: {said_by(error)}", self.shown) from error
        connection = _AsyncConnection(raw, self.shown, times, MySQLError)
        try:
            connection.dialect = await run_async(connection.execute, begin(times))
        except BaseException:
            connection.drop()
            raise
        return connection

    def _arguments(self) -> dict[str, Any]:
        """Give what both drivers take."""
        place = self._place
        return {
            "host": place.host,
            "port": place.port,
            "user": place.user,
            # The drivers would write text in Latin-1, and servers expect UTF-8.
            "password": (place.password or "").encode(),
            "database": place.database,
            "unix_socket": place.socket,
            "ssl": place.context(),
            "charset": "utf8mb4",
            "client_flag": FOUND_ROWS,
            "autocommit": True,
        }


class _Connection:
    """A connection of PyMySQL."""

    dialect: MariaDB

    def __init__(
        self, raw: "pymysql.connections.Connection[Any]", shown: str, error: "type[pymysql.MySQLError]"
    ) -> None:
        self._raw = raw
        self._shown = shown
        self._errors = (error, OSError)
        self._cursor = raw.cursor()

    def execute(self, statement: Statement) -> Result:
        cursor = self._cursor
        try:
            count = cursor.execute(statement.sql, tuple(statement.values) or None)
            rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        except self._errors as error:
            raise meaning(number_of(error), said_by(error), self._shown) from error
        return Result(count, rows, cursor.lastrowid or 0)

    def close(self) -> None:
        # It may be over already.
        with suppress(*self._errors):
            self._raw.close()


class _AsyncConnection:
    """A connection of asyncmy."""

    dialect: MariaDB

    def __init__(self, raw: Any, shown: str, times: Times, error: type[Exception]) -> None:
        self._raw = raw
        self._shown = shown
        self._answer_s = times.answer_s
        self._error = error

    async def execute(self, statement: Statement) -> Result:
        try:
            async with asyncio.timeout(self._answer_s), self._raw.cursor() as cursor:
                await cursor.execute(statement.sql, tuple(statement.values) or None)
                rows = [tuple(row) for row in await cursor.fetchall()] if cursor.description else []
                return Result(cursor.rowcount, rows, cursor.lastrowid or 0)
        except TimeoutError as error:
            raise DatabaseUnavailable(f"{self._shown} did not answer within {self._answer_s} s") from error
        except (self._error, OSError, asyncio.IncompleteReadError) as error:
            raise meaning(number_of(error), said_by(error), self._shown) from error

    async def close(self) -> None:
        # It may be over already, and whoever closes does not wait for a server that is silent.
        with suppress(self._error, OSError):
            async with asyncio.timeout(1):
                await self._raw.ensure_closed()
        self.drop()

    def drop(self) -> None:
        self._raw.close()


def number_of(error: BaseException) -> object:
    """Find the number of an error; what comes from the system has none that is the database's."""
    return error.args[0] if error.args and not isinstance(error, OSError) else 0


def said_by(error: BaseException) -> str:
    """Find what an error says."""
    return str(error.args[-1]) if error.args and not isinstance(error, OSError) else str(error) or type(error).__name__
