"""What a driver offers, blocking and not, and what it says when a statement did not go through.

Only types live here, and the way to try again what certainly was not done.
"""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.errors import ConfigError
from holdfast.leases.dialect import Dialect
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.steps import Result, Statement

# How often a statement is tried that the database has undone itself: after a deadlock, or a wait for a row.
TRIES_MAX: Final = 6
PAUSE_S: Final = 0.005


class Undone(Exception):
    """The database has not done what it was asked, and says so; it may be asked again on the same connection."""


class GivenUp(DatabaseUnavailable):
    """It was undone each time. The connection is as good as before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long things may take, in seconds."""

    connect_s: int = 5
    statement_s: int = 10
    row_s: int = 2  # to wait for a row that another statement has

    @property
    def answer_s(self) -> int:
        """How long this side waits for an answer: longer than the server may take to give one."""
        return self.statement_s + 1


# For refreshing: a call that hangs must leave time for another one.
QUICK: Final = Times(connect_s=3, statement_s=4, row_s=1)
# For changing the table, which may be large.
PATIENT: Final = Times(statement_s=3600, row_s=60)


class Connection(Protocol):
    """One connection to a database, used by one thread at a time."""

    @property
    def dialect(self) -> Dialect:
        """In which words this server is spoken to."""

    def execute(self, statement: Statement) -> Result:
        """Execute a statement, which is a transaction of its own.

        Raises Undone, Clash, Forbidden, BadTable, StatementRefused; or DatabaseUnavailable, and then it is over.
        """

    def close(self) -> None: ...


class AsyncConnection(Protocol):
    """The same for asyncio. A call that is cancelled leaves a connection that can only be dropped."""

    @property
    def dialect(self) -> Dialect: ...

    async def execute(self, statement: Statement) -> Result: ...

    async def close(self) -> None: ...

    def drop(self) -> None:
        """Let go of it at once."""


class Listener(Protocol):
    """A connection on which it is told that a lock has been given back."""

    def fileno(self) -> int:
        """Say what becomes readable when there is something to hear."""

    def heard(self) -> list[str]:
        """Say which bells have rung, without waiting. Raises DatabaseUnavailable."""

    def close(self) -> None: ...


class AsyncListener(Protocol):
    """The same for asyncio."""

    async def heard(self) -> list[str]:
        """Wait until bells ring, and say which. Raises DatabaseUnavailable."""

    async def close(self) -> None: ...


class Driver(ABC):
    """The way to one database. `shown` names it without its password."""

    shown: str

    @abstractmethod
    def connect(self, times: Times) -> Connection:
        """Connect. Raises DatabaseUnavailable, Forbidden, or ConfigError where a package is missing."""

    @abstractmethod
    async def connect_async(self, times: Times) -> AsyncConnection:
        """Connect, for asyncio."""

    # Whether the database tells who waits that a lock has been given back.
    rings = False

    def listen(self, times: Times) -> Listener:
        """Connect to hear of locks that are given back."""
        raise NotImplementedError

    async def listen_async(self, times: Times) -> AsyncListener:
        """The same for asyncio."""
        raise NotImplementedError


def missing(package: str, extra: str) -> ConfigError:
    """Say how to install what a database needs."""
    return ConfigError(f"the package {package} is not installed; install it: pip install 'holdfast[{extra}]'")


def pauses() -> Iterator[float]:
    """Say how long to wait before each further try."""
    for tried in range(TRIES_MAX - 1):
        yield PAUSE_S * 2**tried * random.uniform(0.5, 1.5)


def patiently(execute: Callable[[Statement], Result], times: Times) -> Callable[[Statement], Result]:
    """Execute again what the database has undone itself, a few times and for as long as one statement may take."""

    def repeat(statement: Statement) -> Result:
        until = time.monotonic() + times.statement_s
        for pause in pauses():
            try:
                return execute(statement)
            except Undone as undone:
                if time.monotonic() > until:
                    raise _given_up(undone) from undone
            time.sleep(pause)
        try:
            return execute(statement)
        except Undone as undone:
            raise _given_up(undone) from undone

    return repeat


def patiently_async(
    execute: Callable[[Statement], Awaitable[Result]], times: Times
) -> Callable[[Statement], Awaitable[Result]]:
    """The same for asyncio."""

    async def repeat(statement: Statement) -> Result:
        until = time.monotonic() + times.statement_s
        for pause in pauses():
            try:
                return await execute(statement)
            except Undone as undone:
                if time.monotonic() > until:
                    raise _given_up(undone) from undone
            await asyncio.sleep(pause)
        try:
            return await execute(statement)
        except Undone as undone:
            raise _given_up(undone) from undone

    return repeat


def _given_up(undone: Undone) -> GivenUp:
    return GivenUp(f"the database has undone the same statement again and again: {undone}")
