"""How the asyncio face waits: for an instant, for the keeper, for an event; and how it interrupts a task.

Written by hand; `sync/waiting.py` has the same names for threads. Nothing about locks is decided here.
"""

import asyncio
import inspect
import logging
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from holdfast.client.asks import Answer, Ask
from holdfast.client.link import Call
from holdfast.client.options import shown
from holdfast.client.ports import World
from holdfast.client.steward import Steward
from holdfast.errors import BadRequest, LeaseLost

logger: Final = logging.getLogger("holdfast.client")
SECOND: Final = 1_000_000_000
# An instant that never comes.
FAR: Final = 1 << 62

Event = asyncio.Event


def lock(world: World) -> asyncio.Lock:
    """Make a lock at which tasks may have to wait for a while."""
    return asyncio.Lock()


class Place:
    """Where a client lives: the event loop that it was first used in."""

    __slots__ = ("_loop", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._loop: asyncio.AbstractEventLoop | None = None

    def enter(self) -> None:
        """Refuse to be used in another event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise BadRequest("this client belongs to another event loop; make one for each")

    def soon(self, work: Callable[[], object]) -> None:
        """Have something done in the loop; from any thread."""
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed, and nobody there can be told anything
            self._loop.call_soon_threadsafe(work)

    def tell(self, function: Callable[[Any], object], held: Any) -> None:
        """Call a caller's own function; what it answers to be awaited becomes a task. In the loop."""
        try:
            result = function(held)
        except Exception:
            logger.exception("a function that was to be told of a lease failed")
            return
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(result)
            _told.add(task)
            task.add_done_callback(_was_told)

    def told(self, function: Callable[[Any], object], held: Any) -> Event:
        """Call a caller's own function, and give an event that is set when that is over."""
        over = Event()

        async def tell() -> None:
            try:
                result = function(held)
                if inspect.isawaitable(result):
                    await result
            finally:
                over.set()

        self.tell(lambda _: tell(), held)
        return over


# Tasks that nobody else keeps alive.
_told: "set[asyncio.Future[Any]]" = set()


def _was_told(task: "asyncio.Future[Any]") -> None:
    _told.discard(task)
    if not task.cancelled() and task.exception() is not None:
        logger.error("a function that was to be told of a lease failed", exc_info=task.exception())


async def sleep_until(world: World, instant: int) -> None:
    """Wait for an instant of the client's clock."""
    await asyncio.sleep(max(0.0, (instant - world.clock()) / SECOND))


async def relay(world: World, steward: Steward, ask: Ask, until: int) -> Answer:
    """Have the keeper ask, and wait for the answer."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()

    def settle(call: Call) -> None:
        if future.done():
            return
        if call.error is not None:
            future.set_exception(call.error)
        else:
            assert call.answer is not None
            future.set_result(call.answer)

    def done(call: Call) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, call)

    host = world.host()
    with host.keeper():
        call = steward.call(ask, until=until, done=done)
    try:
        return await future
    except asyncio.CancelledError:
        with host.keeper():
            steward.cancel(call)
        raise


class Countdown:
    """Waits until the keeper has done so many things."""

    __slots__ = ("_event", "_left", "_place")

    def __init__(self, place: Place) -> None:
        self._place = place
        self._left = 0
        self._event = asyncio.Event()

    def expect(self, count: int) -> None:
        """Wait for so many."""
        self._left += count

    def one(self) -> None:
        """One of them is done; from the keeper."""
        self._left -= 1
        if self._left == 0:
            self._place.soon(self._event.set)

    async def wait(self, world: World, until: int) -> bool:
        """Wait for all of them; say whether they were done in time."""
        if self._left > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, (until - world.clock()) / SECOND)):
                    await self._event.wait()
        return self._left <= 0


def current() -> object:
    """Tell who is asking, so that each leaves what it has entered."""
    return asyncio.current_task()


def about() -> dict[str, str]:
    """Tell which task asks, for those who look who holds what."""
    task = asyncio.current_task()
    return {} if task is None else {"task": shown(task.get_name())}


class Interrupter:
    """Cancels the task that made it, once, and knows afterwards that it did."""

    __slots__ = ("_armed", "_place", "_task", "fired")

    def __init__(self, place: Place) -> None:
        self._place = place
        self._task = asyncio.current_task()
        self._armed = True
        self.fired = False

    def fire(self) -> None:
        """Interrupt; from any thread."""
        self._place.soon(self._fire)

    def _fire(self) -> None:
        if self._armed and not self.fired and self._task is not None:
            self.fired = True
            self._task.cancel("the lease was lost")

    def stand_down(self) -> None:
        """Interrupt nobody any more: what could be lost has been given back."""
        self._armed = False

    def disarm(self, error: BaseException | None) -> bool:
        """The work is over; say whether what ended it was this interruption and nothing else."""
        self._armed = False
        if not self.fired or self._task is None:
            return False
        # Whoever else cancelled the task is still to be heard.
        return self._task.uncancel() == 0 and isinstance(error, (asyncio.CancelledError, LeaseLost))


class Channel:
    """What the keeper hears, on its way to who iterates over it. What nobody fetches is bounded."""

    __slots__ = ("_items", "_place")

    ITEMS_MAX: Final = 10_000

    def __init__(self, place: Place) -> None:
        self._place = place
        self._items: asyncio.Queue[Any] = asyncio.Queue()

    def put(self, item: Any) -> None:
        """Pass something on; from any thread."""
        self._place.soon(lambda: self._put(item))

    def _put(self, item: Any) -> None:
        if self._items.qsize() >= self.ITEMS_MAX:
            self._items.get_nowait()  # who watches is behind; the oldest is the least worth
        self._items.put_nowait(item)

    async def get(self) -> Any:
        """Wait for the next one."""
        return await self._items.get()


class Companion:
    """Work that goes on beside whoever began it."""

    __slots__ = ("_task",)

    def __init__(self, place: Place, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._task = asyncio.get_running_loop().create_task(work(), name=name)

    async def join(self, world: World, until: int) -> None:
        """Wait for its end, or end it."""
        await asyncio.wait([self._task], timeout=max(0.0, (until - world.clock()) / SECOND))
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])


async def wait_for(world: World, event: Event, until: int = FAR) -> bool:
    """Wait for an event, or for an instant; say whether it was the event."""
    if until >= FAR:
        await event.wait()
    else:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, (until - world.clock()) / SECOND)):
                await event.wait()
    return event.is_set()


def check_function(function: Callable[..., object]) -> None:
    """Refuse to decorate what cannot be awaited."""
    if not inspect.iscoroutinefunction(function):
        raise BadRequest(f"{function!r} is no coroutine function; holdfast.locked and holdfast.once are for others")


class Shared:
    """One client for each event loop, made when it is first needed, and closed when `asyncio.run` ends the loop."""

    def __init__(self) -> None:
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, Any]]
        self._clients = weakref.WeakKeyDictionary()

    async def get(self, make: Callable[[], Any]) -> Any:
        """Give the client of this loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            client = make()
            life = self._live(client)
            self._clients[loop] = client, life
            await anext(life)
        return self._clients[loop][0]

    async def _live(self, client: Any) -> AsyncIterator[None]:
        # A loop that is shut down ends the generators that were begun in it, which is the only word of its end.
        try:
            yield
        finally:
            await client.close()
