"""How the blocking face waits: for an instant, for the keeper, for an event; and how it interrupts a thread.

Written by hand; `aio/waiting.py` has the same names for event loops. Nothing about locks is decided here.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from holdfast.client.asks import Answer, Ask
from holdfast.client.link import Call
from holdfast.client.options import about_thread
from holdfast.client.ports import World
from holdfast.client.steward import Steward
from holdfast.errors import HoldfastError, LeaseLost, Unknown

logger: Final = logging.getLogger("holdfast.client")
SECOND: Final = 1_000_000_000
T = TypeVar("T")

Event = threading.Event
Lock = threading.Lock


class Place:
    """Where a client lives: anywhere in its process."""

    __slots__ = ("_world",)

    def __init__(self, world: World) -> None:
        self._world = world

    def enter(self) -> None:
        """Any thread may use it."""

    def soon(self, work: Callable[[], object]) -> None:
        """Have something quick done, here and now; from any thread."""
        work()

    def tell(self, function: Callable[[Any], object], held: Any) -> None:
        """Call a caller's own function, in a thread where that delays nobody."""
        self._world.tell(lambda: function(held))


def sleep_until(world: World, instant: int) -> None:
    """Wait for an instant of the client's clock."""
    world.sleep(instant)


class _Answered:
    """Tells a thread that its call is done."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal = threading.Event()

    def done(self, call: Call) -> None:
        self.signal.set()


def relay(world: World, steward: Steward, ask: Ask, until: int) -> Answer:
    """Have the keeper ask, and wait for the answer."""
    answered = _Answered()
    host = world.host()
    with host.keeper():
        call = steward.call(ask, until=until, done=answered.done)
    try:
        world.wait(answered.signal, until + SECOND)  # the keeper ends it at `until`
    except BaseException:
        with host.keeper():
            steward.cancel(call)
        raise
    if call.error is not None:
        raise call.error
    if call.answer is None:
        with host.keeper():
            steward.cancel(call)
        raise Unknown("the server did not answer in time")
    return call.answer


class Countdown:
    """Waits until the keeper has done so many things."""

    __slots__ = ("_event", "_left")

    def __init__(self, place: Place) -> None:
        self._left = 0
        self._event = threading.Event()

    def expect(self, count: int) -> None:
        """Wait for so many."""
        self._left += count

    def one(self) -> None:
        """One of them is done; from the keeper."""
        self._left -= 1
        if self._left == 0:
            self._event.set()

    def wait(self, world: World, until: int) -> bool:
        """Wait for all of them; say whether they were done in time."""
        return self._left <= 0 or world.wait(self._event, until)


def current() -> object:
    """Tell who is asking, so that each leaves what it has entered."""
    return threading.get_ident()


def about() -> dict[str, str]:
    """Tell which thread asks, for those who look who holds what."""
    return about_thread()


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Have another thread raise something when it next runs Python code; None takes that back."""
    import ctypes

    what = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)


class Interrupter:
    """Raises LeaseLost in the thread that made it, once, and knows afterwards that it did.

    The thread notices when it next runs Python code: one that is blocked in a call of the system is not woken.
    """

    __slots__ = ("_armed", "_lock", "_thread", "fired")

    def __init__(self, place: Place) -> None:
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._armed = True
        self.fired = False

    def fire(self) -> None:
        """Interrupt; from any thread."""
        with self._lock:
            if self._armed and not self.fired:
                self.fired = True
                _raise_in(self._thread, LeaseLost)

    def disarm(self, error: BaseException | None) -> bool:
        """The work is over; say whether what ended it was this interruption and nothing else."""
        with self._lock:
            self._armed = False
            if self.fired and not isinstance(error, LeaseLost):
                # The work was over before it noticed: nobody else shall be hit by it.
                _raise_in(self._thread, None)
        return self.fired and isinstance(error, LeaseLost)


class Channel:
    """What the keeper hears, on its way to who iterates over it. What nobody fetches is bounded."""

    __slots__ = ("_items",)

    ITEMS_MAX: Final = 10_000

    def __init__(self, place: Place) -> None:
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def put(self, item: Any) -> None:
        """Pass something on; from any thread."""
        if self._items.qsize() >= self.ITEMS_MAX:
            self._items.get()  # who watches is behind; the oldest is the least worth
        self._items.put(item)

    def get(self) -> Any:
        """Wait for the next one."""
        return self._items.get()


class Companion:
    """Work that goes on beside whoever began it."""

    __slots__ = ("_thread",)

    def __init__(self, work: Callable[[], None], name: str) -> None:
        def run() -> None:
            try:
                work()
            except HoldfastError:
                logger.exception("%s came to an end", name)

        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()


def wait_for(event: Event) -> None:
    """Wait for an event."""
    event.wait()


def collect(items: Iterator[T]) -> list[T]:
    """Take all there is."""
    return list(items)
