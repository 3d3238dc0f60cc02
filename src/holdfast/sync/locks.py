# Made from aio/locks.py by tools/faces.py: change that one, and run `python -m tools.faces`.

"""Locks as a caller asks for them: plain, shared and exclusive, semaphores, and places in the queue.

What one holds is in `held.py`. A lock object holds nothing itself: it may be used again and by many at once.
"""

from types import TracebackType
from typing import TypeVar

from holdfast.client.asks import Granted, Want
from holdfast.client.core import Acquiring, Enqueueing, Waiting
from holdfast.client.options import AS_BEFORE, AsBefore, Options, Seconds, optional_ns
from holdfast.client.tickets import new_ticket
from holdfast.errors import BadRequest, Busy
from holdfast.sync.held import Held, held_of
from holdfast.sync.server import Server
from holdfast.sync.waiting import about, current

T = TypeVar("T")


def want_for(server: Server, key: str, options: Options) -> Want:
    """Say what is wanted, under a ticket of its own."""
    return options.want(key, new_ticket(server.world.dice), about())


def left(entered: dict[object, list[T]]) -> T:
    """Take out what is to be left: the last that whoever asks has entered, or the only one that anybody has.

    Fixtures and web frameworks enter in one task or thread and leave in another.
    """
    who = current()
    if who not in entered:
        if sum(map(len, entered.values())) != 1:
            raise BadRequest("it was entered several times, but not here; make a lock object for each with block")
        who = next(iter(entered))
    mine = entered[who]
    last = mine.pop()
    if not mine:
        del entered[who]
    return last


class Lock:
    """A lock by its name, and how to take it. `with` takes it, keeps it alive and gives it back."""

    __slots__ = ("_entered", "_key", "_options", "_server")

    def __init__(self, server: Server, key: str, options: Options) -> None:
        self._server = server
        self._key = key
        self._options = options
        self._entered: dict[object, list[Held]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._key!r}>"

    @property
    def key(self) -> str:
        """The name of the lock."""
        return self._key

    def acquire(self, *, patience: Seconds | AsBefore | None = AS_BEFORE) -> Held:
        """Take it, waiting in the queue for as long as the patience lasts; None is for ever.

        Raises TimedOut, or Busy where there was no patience at all.
        """
        patience_ns = self._options.patience_ns
        if not isinstance(patience, AsBefore):
            patience_ns = optional_ns(patience, "patience")
        acquiring = Acquiring(self._server.rules, want_for(self._server, self._key, self._options), patience_ns)
        self._server.run(acquiring)
        return held_of(self._server, acquiring, self._options)

    def try_acquire(self) -> Held | None:
        """Take it if nobody has it or waits for it; None otherwise."""
        try:
            return self.acquire(patience=0)
        except Busy:
            return None

    def __enter__(self) -> Held:
        held = self.acquire()
        self._entered.setdefault(current(), []).append(held)
        return held

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left(self._entered).leave(error)


class Semaphore(Lock):
    """Seats of a semaphore: so many can be taken at once as its limit says."""

    __slots__ = ()


class RWLock:
    """A lock that many may read under, or one may write under."""

    __slots__ = ("_key", "_options", "_server")

    def __init__(self, server: Server, key: str, options: Options) -> None:
        self._server = server
        self._key = key
        self._options = options

    def read(self) -> Lock:
        """Share it with other readers. What one then holds has `upgrade()`."""
        return Lock(self._server, self._key, self._options.with_mode("PR"))

    def write(self) -> Lock:
        """Have it alone. What one then holds has `downgrade()`."""
        return Lock(self._server, self._key, self._options.with_mode("EX"))


class Place:
    """A place in the queue: it is kept while its owner does something else, and waited for later."""

    __slots__ = ("_done", "_held", "_options", "_server", "_want")

    def __init__(self, server: Server, options: Options, enqueueing: Enqueueing) -> None:
        self._server = server
        self._options = options
        self._want = enqueueing.want
        self._held = None if enqueueing.queued else held_of(server, enqueueing, options)
        self._done = not enqueueing.queued
        if not self._done:
            server.expect(self._want.ticket, _ignore)

    @property
    def held(self) -> Held | None:
        """What is held, if its turn had come when it was asked for, or has been waited for."""
        return self._held

    def wait(self, *, patience: Seconds | None = None) -> Held:
        """Wait until it is this one's turn. Raises TimedOut, and then the place is gone."""
        if self._held is None:
            patience_ns = optional_ns(patience, "patience")
            waiting = Waiting(self._server.rules, self._want, patience_ns)
            self._leave()
            self._server.run(waiting)
            self._held = held_of(self._server, waiting, self._options)
        return self._held

    def _leave(self) -> None:
        self._done = True
        self._server.unexpect(self._want.ticket)

    def cancel(self) -> None:
        """Leave the queue, or give back what is held."""
        if self._held is not None:
            self._held.release()
        elif not self._done:
            self._leave()
            self._server.forget(self._want, None)

    def __enter__(self) -> "Place":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()


def _ignore(grant: Granted | None, why: str) -> None:
    """What counts is that there is a connection to hear it on, for as long as somebody stands in the queue."""


def enqueue(server: Server, key: str, options: Options) -> Place:
    """Take a place in the queue, or the lock if nobody has it."""
    enqueueing = Enqueueing(server.rules, want_for(server, key, options))
    server.run(enqueueing)
    return Place(server, options, enqueueing)
