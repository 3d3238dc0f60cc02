"""Both faces of the client under the names of the asyncio one, so that one story is told of both.

A story is a coroutine function. Of the asyncio face it runs in an event loop; of the blocking face in a thread, where
nothing that it awaits ever makes it wait: it has been waited for before. No expectation lives here.
"""

import asyncio
import inspect
import itertools
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from typing import Any

from holdfast import aio, sync
from holdfast.aio.client import connect as connect_tasks
from holdfast.client.ports import World as Outside
from holdfast.sync.client import connect as connect_threads
from holdfast.testing import virtual_loop
from holdfast.testing.world import World

Story = Callable[[], Coroutine[Any, Any, None]]

FACES = ("tasks", "threads")
WAIT_S_MAX = 20.0


class Stage:
    """Where a story is played: a face, a server, and its time."""

    def __init__(self, face: str, url: str) -> None:
        self.face = face
        self.url = url
        self.scheme = url.partition(":")[0]
        self.native = self.scheme == "holdfast"
        self.clients: list[Any] = []
        self._numbers = itertools.count(1)
        self._name = uuid.uuid4().hex

    def play(self, story: Story) -> None:
        """Let it happen, and close the clients."""
        if self.face == "threads":
            drive(self._to_the_end(story))
        else:
            self._run(self._to_the_end(story))

    async def _to_the_end(self, story: Story) -> None:
        try:
            await story()
        finally:
            for client in self.clients:
                await client.close()

    def connect(self, name: str | None = None, url: str | None = None, **options: Any) -> Any:
        """Make a client; in virtual time it lives in the process of this name."""
        name = name or f"client-{next(self._numbers)}"
        make: Any = connect_tasks if self.face == "tasks" else connect_threads
        client = make(url or self.url, name=name, world=self._world(name), **options)
        self.clients.append(client if self.face == "tasks" else Dressed(client))
        return self.clients[-1]

    def key(self, name: str = "job") -> str:
        """Name a key that no other story has."""
        return f"{name}-{self._name}"

    def made(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Make of a coroutine function what the face takes for a function of its own."""
        if self.face == "tasks":
            return function

        def call(*arguments: Any, **named: Any) -> Any:
            return drive(function(*map(dressed, arguments), **named))

        return call

    # --- time ---

    def _world(self, name: str) -> Outside | None:
        return None

    def _run(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run(main)

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        if self.face == "tasks":
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251  the thread is the story's own

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something has come true."""
        limit = time.monotonic() + WAIT_S_MAX
        while not condition():
            assert time.monotonic() < limit, "it has not come true"
            await self.sleep(0.002)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Have something done beside; what comes back is to be awaited."""
        return asyncio.ensure_future(work) if self.face == "tasks" else Ended(threaded(work))


class VirtualStage(Stage):
    """A stage in virtual time: sleeping takes no time, and whoever waits wakes at the instant."""

    def __init__(self, face: str, scheme: str = "holdfast", **settings: Any) -> None:
        super().__init__(face, f"{scheme}://world:6388")
        self.world = World(**settings)

    def _world(self, name: str) -> Outside | None:
        return self.world.program(name).world()

    def _run(self, main: Coroutine[Any, Any, None]) -> None:
        virtual_loop.run(self.world.program("main"), main)

    async def sleep(self, seconds: float) -> None:
        if self.face == "tasks":
            await asyncio.sleep(seconds)
        else:
            self.world.sleep(seconds)

    async def until(self, condition: Callable[[], object]) -> None:
        if self.face == "threads":
            assert self.world.wait(lambda: bool(condition()), 1000), "it has not come true"
        limit = self.world.clock.now + 1000
        while not condition():
            assert self.world.clock.now < limit, "it has not come true"
            await asyncio.sleep(0.001)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.ensure_future(work) if self.face == "tasks" else Ended(self.world.spawn(drive, work).join)


def drive(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine of the blocking face, which never has to wait."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise AssertionError("the blocking face has nothing to await")


def threaded(work: Coroutine[Any, Any, Any]) -> Callable[[], Any]:
    """Drive a coroutine in a thread; what comes back waits for its end."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.extend((drive(work), None))
        except BaseException as error:  # noqa: BLE001  whoever joins gets it
            outcome.extend((None, error))

    thread = threading.Thread(target=run)
    thread.start()

    def join() -> Any:
        thread.join(WAIT_S_MAX)
        result, error = outcome
        if error is not None:
            raise error
        return result

    return join


class Ended:
    """A thread, to be awaited."""

    def __init__(self, join: Callable[[], Any]) -> None:
        self._join = join

    def __await__(self) -> Any:
        return self._join()
        yield


class Dressed:
    """An object of the blocking face: what is awaited in the asyncio face can be awaited, and is done by then."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if not inspect.ismethod(value):
            return dressed(value)
        twin = getattr(twin_of(type(self.inner)), name)

        def call(*arguments: Any, **named: Any) -> Any:
            bare = [item.inner if isinstance(item, Dressed) else item for item in arguments]
            if inspect.iscoroutinefunction(twin):
                return awaited(value, bare, named)
            result = value(*bare, **named)
            return each(result) if inspect.isasyncgenfunction(twin) else dressed(result)

        return call

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.inner(*arguments, **named)

    async def __aenter__(self) -> Any:
        return dressed(self.inner.__enter__())

    async def __aexit__(self, *exc: Any) -> Any:
        return self.inner.__exit__(*exc)

    def __getitem__(self, key: Any) -> Any:
        return dressed(self.inner[key])

    def __iter__(self) -> Any:
        return iter([dressed(item) for item in self.inner])

    def __len__(self) -> int:
        return len(self.inner)

    def __eq__(self, other: object) -> bool:
        return bool(self.inner == (other.inner if isinstance(other, Dressed) else other))

    def __hash__(self) -> int:
        return hash(self.inner)

    def __repr__(self) -> str:
        return repr(self.inner)


async def awaited(function: Callable[..., Any], arguments: list[Any], named: dict[str, Any]) -> Any:
    return dressed(function(*arguments, **named))


async def each(items: Any) -> Any:
    try:
        for item in items:
            yield item
    finally:
        items.close()


def dressed(value: Any) -> Any:
    return Dressed(value) if type(value).__module__.startswith(f"{sync.__name__}.") else value


def twin_of(kind: type) -> Any:
    """Find the class of the asyncio face that a class of the blocking face was made from."""
    return getattr(import_module(kind.__module__.replace(sync.__name__, aio.__name__)), kind.__name__)


async def ended(work: Awaitable[Any]) -> BaseException | None:
    """Wait for something that was begun beside; answer what it has raised."""
    try:
        await work
    except Exception as error:  # noqa: BLE001  it is what was asked for
        return error
    return None
