"""A backend over a database, where the caller blocks: safe for threads, and after a fork.

What is asked is in the dialects, and how in the drivers; `async_backend.py` is the same for asyncio.
"""

import builtins
import threading
from collections.abc import Sequence

from holdfast.client.process import generation
from holdfast.leases.bells import ANY
from holdfast.leases.drivers.port import PATIENT, QUICK, Driver, Times
from holdfast.leases.ear import Ear
from holdfast.leases.pool import CONNECTIONS_MAX, Pool
from holdfast.leases.postgres import bell_of
from holdfast.leases.steps import Clash, run
from holdfast.leases.words import Ask, Got, Hold, Row, Taken

# How often others may change the table just when it is prepared.
PREPARE_MAX = 5


class DatabaseBackend:
    """Leases in one database. Refreshing has a connection of its own, which nothing else can keep waiting."""

    def __init__(self, driver: Driver, *, connections_max: int = CONNECTIONS_MAX, quick: Times = QUICK) -> None:
        self._driver = driver
        self._pool = Pool(driver, Times(), connections_max)
        self._refreshing = Pool(driver, quick, 1)
        self._ear = Ear(driver) if driver.rings else None
        self._rest()

    def _rest(self) -> None:
        self._generation = generation()
        self._closing = threading.Event()

    @property
    def shown(self) -> str:
        """Name the database, without its password."""
        return self._driver.shown

    def acquire(self, ask: Ask) -> Got | Taken:
        if self._ear is None:
            return self._pool.run(lambda dialect: dialect.acquire(ask), again=True)
        bell = bell_of(ask.key)
        self._ear.bells.ask(bell)
        answer: Got | Taken | None = None
        try:
            answer = self._pool.run(lambda dialect: dialect.acquire(ask), again=True)
            return answer
        finally:
            if not isinstance(answer, Taken):
                self._ear.bells.forget(bell)

    def refresh(self, holds: Sequence[Hold], lease_us: int) -> list[bool]:
        return self._refreshing.run(lambda dialect: dialect.refresh(holds, lease_us), again=True)

    def release(self, holds: Sequence[Hold]) -> list[bool]:
        # Not asked again by itself: if the first one was heard, somebody else may have the lock by now, and an answer
        # to the second one would say no more than that.
        return self._pool.run(lambda dialect: dialect.release(holds), again=False)

    def list(self) -> Sequence[Row]:
        return self._pool.run(lambda dialect: dialect.list(), again=True)

    def look(self, key: bytes) -> Row | None:
        return self._pool.run(lambda dialect: dialect.look(key), again=True)

    def clear(self, holds: Sequence[Hold]) -> int:
        return self._pool.run(lambda dialect: dialect.clear(holds), again=False)

    def now(self) -> int:
        return self._pool.run(lambda dialect: dialect.now(), again=True)

    def wait(self, key: bytes, seconds: float) -> None:
        self._wait(bell_of(key), seconds)

    def wait_any(self, seconds: float) -> None:
        """Wait until some lock may have become free, and no longer than that."""
        self._wait(ANY, seconds)

    def _wait(self, bell: str, seconds: float) -> None:
        if self._ear is not None:
            self._ear.wait(bell, seconds)
            return
        if self._generation != generation():
            self._rest()
        self._closing.wait(seconds)

    def close(self) -> None:
        """Let go of all connections, and wake who waits. Whoever asks again connects again."""
        self._pool.close()
        self._refreshing.close()
        if self._ear is not None:
            self._ear.close()
        self._closing.set()
        self._rest()

    # --- the table ---

    def prepare(self) -> builtins.list[str]:
        """Make the table, or bring it up to date; say what was done. What is held stays held."""
        connection = self._driver.connect(PATIENT)
        try:
            for _ in range(PREPARE_MAX):
                try:
                    return run(connection.execute, connection.dialect.prepare())
                except Clash:
                    continue  # somebody else prepares it just now, and each step may have been done before
            return run(connection.execute, connection.dialect.prepare())
        finally:
            connection.close()

    def verify(self) -> None:
        """Raise BadTable unless the table is there, in this version, and rows are counted as they have to be."""
        self._pool.run(lambda dialect: dialect.verify(), again=True)
