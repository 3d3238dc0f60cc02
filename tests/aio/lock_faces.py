"""Both faces of the lock client under the names of the blocking one, so that one story is told of both.

No expectation lives here.
"""

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

from holdfast import aio


class Threads:
    """The blocking face, as it is."""

    name = "threads"

    def client(self, *arguments: Any, **named: Any) -> Any:
        from holdfast.sync.lock_client import LockClient

        return LockClient(*arguments, **named)

    def close(self) -> None:
        """There is nothing to close."""


class Tasks:
    """The asyncio face: everything is done in an event loop on a thread of its own."""

    name = "tasks"

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def client(self, *arguments: Any, **named: Any) -> Any:
        from holdfast.aio.lock_client import LockClient

        return Blocking(self, LockClient(*arguments, **named))

    def run(self, function: Any, *arguments: Any, **named: Any) -> Any:
        async def call() -> Any:
            result = function(*arguments, **named)
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result()

    def close(self) -> None:
        async def end() -> None:
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Blocking:
    """An object of the asyncio face, in blocking clothes."""

    def __init__(self, tasks: Tasks, inner: Any) -> None:
        self._tasks = tasks
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not inspect.ismethod(value):
            return self._dress(value)

        def call(*arguments: Any, **named: Any) -> Any:
            bare = [item._inner if isinstance(item, Blocking) else item for item in arguments]
            return self._dress(self._tasks.run(value, *bare, **named))

        return call

    def _dress(self, value: Any) -> Any:
        if inspect.isasyncgen(value):
            return self._each(value)
        return Blocking(self._tasks, value) if type(value).__module__.startswith(aio.__name__) else value

    def _each(self, generator: Any) -> Any:
        while True:
            try:
                yield self._tasks.run(anext, generator)
            except StopAsyncIteration:
                return

    def __enter__(self) -> Any:
        return self._dress(self._tasks.run(self._inner.__aenter__))

    def __exit__(self, *exc: Any) -> Any:
        return self._tasks.run(self._inner.__aexit__, *exc)

    def __int__(self) -> int:
        return int(self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)


def wait_until(condition: Callable[[], object]) -> None:
    """Look again and again until something has come true."""
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit, "it has not come true in 10 s"
        time.sleep(0.002)


FACES: dict[str, Any] = {"threads": Threads, "tasks": Tasks}
