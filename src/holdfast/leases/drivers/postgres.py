"""PostgreSQL, by psycopg 3: blocking, in an event loop, and listening for bells.

Whatever waits for an answer has a limit on this side too, since a server that has gone silent keeps none of its own.
"""

import asyncio
import selectors
import time
from contextlib import suppress
from typing import Any, Final

from holdfast.leases.drivers.port import AsyncConnection, AsyncListener, Connection, Driver, Listener, Times, missing
from holdfast.leases.drivers.postgres_session import begin, meaning
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.postgres import BELL, Postgres
from holdfast.leases.steps import Result, Statement, run, run_async
from holdfast.leases.url import Place

try:
    import psycopg
    from psycopg import waiting
except ImportError as error:
    raise missing("psycopg", "postgres") from error

# How a connection notices that the other side has gone for good.
KEEPALIVE: Final = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
SSLMODES: Final = {"off": "disable", "on": "require", "verify": "verify-full"}


class PostgresDriver(Driver):
    """The way to one PostgreSQL."""

    rings = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self.shown = place.shown

    def connect(self, times: Times) -> Connection:
        connection = self._open(times)
        try:
            connection.dialect = run(connection.execute, begin(times))
        except BaseException:
            connection.close()
            raise
        return connection

    async def connect_async(self, times: Times) -> AsyncConnection:
        connection = await self._open_async(times)
        try:
            connection.dialect = await run_async(connection.execute, begin(times))
        except BaseException:
            connection.drop()
            raise
        return connection

    def listen(self, times: Times) -> Listener:
        connection = self._open(times)
        try:
            connection.execute(Statement(f"LISTEN {BELL}"))
        except BaseException:
            connection.close()
            raise
        return _Listener(connection)

    async def listen_async(self, times: Times) -> AsyncListener:
        connection = await self._open_async(times)
        try:
            await connection.execute(Statement(f"LISTEN {BELL}"))
        except BaseException:
            connection.drop()
            raise
        return _AsyncListener(connection)

    def _open(self, times: Times) -> "_Connection":
        try:
            raw = _Limited.connect(**self._arguments(times))
        except (psycopg.Error, OSError) as error:
            raise self._failed(error) from error
        raw.answer_s = times.answer_s
        return _Connection(raw, self.shown)

    async def _open_async(self, times: Times) -> "_AsyncConnection":
        try:
            async with asyncio.timeout(times.connect_s):
                raw = await _AsyncLimited.connect(**self._arguments(times))
        except (psycopg.Error, OSError, TimeoutError) as error:
            raise self._failed(error) from error
        return _AsyncConnection(raw, self.shown, times)

    def _failed(self, error: Exception) -> Exception:
        state = error.sqlstate if isinstance(error, psycopg.Error) else None
        return meaning(state, f"cannot connect: {error or type(error).__name__}", self.shown)

    def _arguments(self, times: Times) -> dict[str, Any]:
        place = self._place
        given = {
            "host": place.socket or place.host,
            "port": place.port,
            "user": place.user,
            "password": place.password,
            "dbname": place.database,
            "sslmode": SSLMODES[place.tls] if place.tls else None,
            "sslrootcert": place.ca or ("system" if place.tls == "verify" else None),
            "sslcert": place.cert,
            "sslkey": place.key,
        }
        return {
            **{name: value for name, value in given.items() if value is not None},
            **KEEPALIVE,
            "connect_timeout": times.connect_s,
            # Of several servers behind one name, only the one that may be written to has the truth.
            "target_session_attrs": "read-write",
            "application_name": "holdfast leases",
            "autocommit": True,
        }


class _Limited(psycopg.Connection[tuple[Any, ...]]):
    """A connection that does not wait for ever for an answer. Whoever gives up has to close it."""

    answer_s: float = 10.0

    def wait(self, gen: Any, *_args: Any, **_options: Any) -> Any:
        until = time.monotonic() + self.answer_s
        try:
            wanted = next(gen)
            with selectors.DefaultSelector() as selector:
                selector.register(self.pgconn.socket, wanted)
                while True:
                    ready = selector.select(max(0.0, until - time.monotonic()))
                    if not ready:
                        raise psycopg.OperationalError(f"no answer within {self.answer_s:g} s")
                    wanted = gen.send(ready[0][1])
                    selector.modify(self.pgconn.socket, wanted)
        except StopIteration as done:
            return done.value


class _AsyncLimited(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection that does not linger when a task is cancelled. Whoever cancels has to close it."""

    async def wait(self, gen: Any, *_args: Any, **_options: Any) -> Any:
        return await waiting.wait_async(gen, self.pgconn.socket, 1.0)


class _Connection:
    """A connection where the caller blocks."""

    dialect: Postgres

    def __init__(self, raw: _Limited, shown: str) -> None:
        self.raw = raw
        self.shown = shown

    def execute(self, statement: Statement) -> Result:
        try:
            with self.raw.cursor() as cursor:
                cursor.execute(statement.sql.encode(), tuple(statement.values) or None)
                rows = cursor.fetchall() if cursor.description else []
                return Result(cursor.rowcount, rows)
        except (psycopg.Error, OSError) as error:
            raise failed(error, self.shown) from error

    def close(self) -> None:
        with suppress(psycopg.Error, OSError):
            self.raw.close()


class _AsyncConnection:
    """A connection in an event loop."""

    dialect: Postgres

    def __init__(self, raw: _AsyncLimited, shown: str, times: Times) -> None:
        self.raw = raw
        self.shown = shown
        self._answer_s = times.answer_s

    async def execute(self, statement: Statement) -> Result:
        try:
            async with asyncio.timeout(self._answer_s), self.raw.cursor() as cursor:
                await cursor.execute(statement.sql.encode(), tuple(statement.values) or None)
                rows = await cursor.fetchall() if cursor.description else []
                return Result(cursor.rowcount, rows)
        except TimeoutError as error:
            raise DatabaseUnavailable(f"{self.shown} did not answer within {self._answer_s} s") from error
        except (psycopg.Error, OSError) as error:
            raise failed(error, self.shown) from error

    async def close(self) -> None:
        with suppress(psycopg.Error, OSError):
            await self.raw.close()

    def drop(self) -> None:
        self.raw.pgconn.finish()


class _Listener:
    """Bells, where the caller blocks on the file."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def fileno(self) -> int:
        return self._connection.raw.fileno()

    def heard(self) -> list[str]:
        pgconn = self._connection.raw.pgconn
        rung: list[str] = []
        try:
            pgconn.consume_input()
            while (bell := pgconn.notifies()) is not None:
                rung.append(bell.extra.decode())
        except psycopg.Error as error:
            raise failed(error, self._connection.shown) from error
        return rung

    def close(self) -> None:
        self._connection.close()


class _AsyncListener:
    """Bells in an event loop."""

    def __init__(self, connection: _AsyncConnection) -> None:
        self._connection = connection

    async def heard(self) -> list[str]:
        try:
            return [bell.payload async for bell in self._connection.raw.notifies(stop_after=1)]
        except (psycopg.Error, OSError) as error:
            raise failed(error, self._connection.shown) from error

    async def close(self) -> None:
        await self._connection.close()


def failed(error: Exception, shown: str) -> Exception:
    """Say what an error of psycopg means."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    if state is None and not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError):
        state = ""  # psycopg itself refuses what it was given; all else without a state is about the way to the server
    return meaning(state, str(error) or type(error).__name__, shown)
