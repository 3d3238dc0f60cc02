"""Questions to backends in few words, for tests; and one spelling for both faces of a backend.

No expectation lives here.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self, TypeVar

from holdfast.leases.opening import open_async_backend, open_backend
from holdfast.leases.words import SECOND_US, Ask, Hold

T = TypeVar("T")

LEASE_US = 60 * SECOND_US
KEY = b"cluster/"

_numbers = itertools.count(1)


def ask(key: bytes = KEY, *, lease_us: int = LEASE_US, lock_id: str | None = None, again: bool = False) -> Ask:
    """Ask for a lock as somebody new, unless there is a lock id."""
    pid = next(_numbers)
    return Ask(
        key=key,
        lock_id=lock_id or f"id-{pid}",
        holder={"node": "sf-7", "pid": pid, "operation": "Cluster maintenance"},
        node="sf-7",
        pid=pid,
        process=f"boot:{pid}",
        lease_us=lease_us,
        again=again,
    )


def hold_of(asked: Ask) -> Hold:
    return Hold(asked.key, asked.lock_id)


def gone(backend: Any, asked: Ask) -> bool:
    """Give a lock back; say whether it was ours."""
    (ours,) = backend.release([hold_of(asked)])
    return bool(ours)


class Blocking:
    """A backend where the caller blocks."""

    def __init__(self, source: Any) -> None:
        self.backend: Any = open_backend(source)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.backend.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)


class InLoop:
    """A backend for asyncio, asked from threads: its loop runs in a thread of its own."""

    def __init__(self, source: Any) -> None:
        self.backend: Any = open_async_backend(source)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loop of a test")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.do(self.backend.close())
        self.do(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.backend, name)
        return lambda *arguments: self.do(method(*arguments))


def statement(connection: Any, sql: str, *values: Any) -> list[Sequence[Any]]:
    """Run a statement beside the backend, on a connection of a driver."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return list(cursor.fetchall()) if cursor.description else []
