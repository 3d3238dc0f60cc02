"""How the blocking face waits: for an instant, for the keeper, for an event; and how it interrupts a thread.

Written by hand; `aio/waiting.py` has the same names for event loops. Nothing about locks is decided here.
"""

import inspect
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from holdfast.client.asks import Answer, Ask
from holdfast.client.link import Call
from holdfast.client.options import about_thread
from holdfast.client.ports import Mutex, World
from holdfast.client.steward import Steward
from holdfast.errors import BadRequest, LeaseLost, Unknown

SECOND: Final = 1_000_000_000
# An instant that never comes.
FAR: Final = 1 << 62

Event = threading.Event


def lock(world: World) -> Mutex:
    """Make a lock at which threads may have to wait for a while."""
    return world.lock()


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

    def wait(self, event: Event, until: int) -> bool:
        """Wait for an event, or for an instant."""
        return self._world.wait(event, until)

    def told(self, function: Callable[[Any], object], held: Any) -> Event:
        """Call a caller's own function, and give an event that is set when that is over."""
        over = Event()

        def tell() -> None:
            try:
                function(held)
            finally:
                over.set()

        self._world.tell(tell)
        return over

    def begin(self, work: Callable[[], None], name: str) -> Callable[[int], bool]:
        """Begin work in a thread of its own; what comes back waits for its end, until an instant."""
        return self._world.begin(work, name)


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

    def stand_down(self) -> None:
        """Interrupt nobody any more: what could be lost has been given back."""
        self.disarm(None)

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

    __slots__ = ("_items", "_news", "_place")

    ITEMS_MAX: Final = 10_000

    def __init__(self, place: Place) -> None:
        self._place = place
        self._items: deque[Any] = deque(maxlen=self.ITEMS_MAX)  # who watches is behind; the oldest is the least worth
        self._news = Event()

    def put(self, item: Any) -> None:
        """Pass something on; from any thread."""
        self._items.append(item)
        self._news.set()

    def get(self) -> Any:
        """Wait for the next one."""
        while not self._items:
            self._place.wait(self._news, FAR)
            self._news.clear()
        return self._items.popleft()


class Companion:
    """Work that goes on beside whoever began it."""

    __slots__ = ("_ended",)

    def __init__(self, place: Place, work: Callable[[], None], name: str) -> None:
        self._ended = place.begin(work, name)

    def join(self, world: World, until: int) -> None:
        """Wait for its end, but no longer than until an instant."""
        self._ended(until)


def wait_for(world: World, event: Event, until: int = FAR) -> bool:
    """Wait for an event, or for an instant; say whether it was the event."""
    return world.wait(event, until)


def check_function(function: Callable[..., object]) -> None:
    """Refuse to decorate what has to be awaited."""
    if inspect.iscoroutinefunction(function):
        raise BadRequest(f"{function!r} is a coroutine function; take holdfast.aio.locked or holdfast.aio.once for it")


class Shared:
    """One client for the process, made when it is first needed."""

    def __init__(self) -> None:
        self._client: Any = None

    def get(self, make: Callable[[], Any]) -> Any:
        """Give the client of this process."""
        if self._client is None:
            self._client = make()
        return self._client
