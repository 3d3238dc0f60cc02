"""The connections of a backend that blocks: which to take, which to trust, what to do when one is over.

What is asked on them is somebody else's business; `async_pool.py` is the same for asyncio.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.client.process import generation
from holdfast.errors import HoldfastError
from holdfast.leases.dialect import Dialect
from holdfast.leases.drivers.port import Connection, Driver, GivenUp, Times, patiently
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.steps import Statement, Steps, run

T = TypeVar("T")

CONNECTIONS_MAX: Final = 16
# A connection that has rested for so long is asked whether it is still there, and for so long, it is not kept.
DOUBT_S: Final = 1.0
REST_S_MAX: Final = 60.0

PING: Final = Statement("SELECT 1")

# Connections of a parent, in the child of a fork. Whoever closed or forgot them would speak in the parent's name.
_left_behind: list[object] = []


class Pool:
    """Connections with the same times."""

    def __init__(self, driver: Driver, times: Times, connections_max: int = CONNECTIONS_MAX) -> None:
        self._driver = driver
        self._times = times
        self._connections_max = connections_max
        self._resting: list[tuple[Connection, float]] = []
        self._begin()

    def _begin(self) -> None:
        """Begin with no connection, and with locks that nobody has."""
        self._generation = generation()
        self._lock = threading.Lock()
        self._seats = threading.BoundedSemaphore(self._connections_max)
        self._resting = []
        self._era = 0

    def run(self, operation: Callable[[Dialect], Steps[T]], *, again: bool) -> T:
        """Run an operation; with `again`, once more on a new connection if one that had rested is over."""
        if self._generation != generation():
            _left_behind.append(self._resting)
            self._begin()
        seats = self._seats
        if not seats.acquire(timeout=self._times.answer_s):
            raise DatabaseUnavailable(f"all {self._connections_max} connections to {self._driver.shown} are in use")
        try:
            era = self._era
            rested = self._take()
            if rested is not None:
                try:
                    return self._use(rested, era, operation)
                except GivenUp:
                    raise
                except DatabaseUnavailable:
                    # What rested beside it has most likely ended with it.
                    self.close()
                    era = self._era
                    if not again:
                        raise
            return self._use(self._connect(), era, operation)
        finally:
            seats.release()

    def _use(self, connection: Connection, era: int, operation: Callable[[Dialect], Steps[T]]) -> T:
        try:
            value = run(patiently(connection.execute, self._times), operation(connection.dialect))
        except HoldfastError as error:
            if isinstance(error, DatabaseUnavailable) and not isinstance(error, GivenUp):
                connection.close()
                raise
            self._keep(connection, era)
            raise
        except BaseException:
            connection.close()
            raise
        self._keep(connection, era)
        return value

    def _connect(self) -> Connection:
        """Connect, and make sure that everything is as a lease needs it."""
        connection = self._driver.connect(self._times)
        try:
            run(patiently(connection.execute, self._times), connection.dialect.verify())
        except BaseException:
            connection.close()
            raise
        return connection

    def _take(self) -> Connection | None:
        """Take the one that has rested least, if it is still there."""
        with self._lock:
            if not self._resting:
                return None
            connection, since = self._resting.pop()
        rested_s = time.monotonic() - since
        if rested_s > REST_S_MAX:
            connection.close()
            self.close()
            return None
        if rested_s > DOUBT_S:
            try:
                patiently(connection.execute, self._times)(PING)
            except DatabaseUnavailable:
                connection.close()
                self.close()
                return None
        return connection

    def _keep(self, connection: Connection, era: int) -> None:
        with self._lock:
            if era == self._era:
                self._resting.append((connection, time.monotonic()))
                return
        connection.close()

    def close(self) -> None:
        """Let go of all connections that rest; those in use follow when they are done with."""
        if self._generation != generation():
            return
        with self._lock:
            resting, self._resting = self._resting, []
            self._era += 1
        for connection, _since in resting:
            connection.close()
