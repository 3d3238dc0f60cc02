"""A history of a store of transactions, straightened: as if every transaction had been one call that answers at once.

What a transaction did counts when it was told, at the time when it was performed; what was lost never was. Nothing is
judged here.
"""

from copy import copy
from dataclasses import dataclass, field, replace

from sim.checkers.asks import STATS
from sim.checkers.talks import Request, Talks
from sim.history import (
    Applied,
    Began,
    Committed,
    Connected,
    Event,
    Failed,
    Freed,
    Handed,
    HungUp,
    Lost,
    Minted,
    Occupied,
    Performing,
    Resurfaced,
    Slept,
    Started,
    Stopped,
    Swept,
    Taken,
    Ticked,
    Told,
    Torn,
    Work,
    Wrote,
)

# A store that has failed does nothing by itself for so long.
RETRY_NS = 1_000_000_000


@dataclass(slots=True)
class Derived(Event):
    """Something that a straightened history says and that nobody has seen."""


@dataclass(slots=True)
class Left(Derived):
    """The server gave up a session; what it has on the store is still there."""

    peer: int


@dataclass(slots=True)
class Withdrawn(Derived):
    """What a peer waits for was withdrawn, because the server is to finish."""

    peer: int


@dataclass(slots=True)
class Undone(Derived):
    """A transaction came to nothing."""


@dataclass(slots=True)
class Recalled(Derived):
    """What had come to nothing behind this has happened after all, since then, and no server has known it."""

    since: int


@dataclass(slots=True)
class _Transaction:
    works: tuple[Work, ...]
    requests: dict[int, Request]  # by peer
    at: int
    parts: list[Event] = field(default_factory=list)
    committed: bool = False
    failed: bool = False
    told_step: int = -1
    told_place: int = 0


def straighten(talks: Talks) -> Talks:
    """Give the same talks as they would be with a store that answers at once; where they are, nothing changes."""
    if not any(isinstance(event, Started) and event.rules.durable for event in talks.events):
        return talks
    return _Straightener(talks).run()


class _Straightener:
    def __init__(self, raw: Talks) -> None:
        self._raw = raw
        self._out = copy(raw)
        self._out.events, self._out.taken, self._out.answered, self._out.requests = [], {}, {}, []
        self._copies = {request.place: copy(request) for request in raw.requests}
        self._offset = 0  # what the server's clock shows beyond the time of the world
        self._last_kept = 0
        self._occupied_at: int | None = None
        self._stopped_at: int | None = None
        self._open: set[int] = set()
        self._under_way: dict[int, Request] = {}  # what the store was handed and has not turned to, by peer
        self._transaction: _Transaction | None = None  # the last one, until it is told
        self._told = _Transaction((), {}, 0)
        self._written: _Transaction | None = None  # one that failed, and is in the file all the same

    def run(self) -> Talks:
        for place, event in enumerate(self._raw.events):
            self._see(place, event)
        return self._out

    def _see(self, place: int, event: Event) -> None:
        match event:
            case Taken():
                self._take(place, event)
            case Wrote():
                self._write(place, event)
            case Performing() | Began() | Applied() | Minted() | Committed() | Failed():
                self._follow(event)
            case Told():
                self._tell(event)
            case Started():
                self._start(event)
            case Stopped():
                self._stop(event)
            case Resurfaced():
                self._resurface(event)
            case Occupied() | Freed() | Slept():
                self._excuse(event)
            case Ticked() | Swept(what="keys") | Handed():
                pass  # what comes of them is part of a transaction
            case _:
                self._pass_on(event)

    def _excuse(self, event: Event) -> None:
        """While its store is busy, the server does nothing by itself."""
        if isinstance(event, Slept):
            self._nap(event.step, event.at, event.until)
        elif isinstance(event, Occupied):
            self._occupied_at = event.at
        elif self._occupied_at is not None:
            self._nap(event.step, self._occupied_at, event.at)
            self._occupied_at = None

    def _pass_on(self, event: Event) -> None:
        """A session that the server gives up is at its end only when the store has heard of it."""
        if isinstance(event, Connected):
            self._open.add(event.peer)
        if isinstance(event, Lost):
            event = Torn(event.step, event.at, event.peer)
        elif isinstance(event, HungUp):
            self._open.discard(event.peer)
            event = Left(event.step, event.at, event.peer)
        self._emit(replace(event))

    def _emit(self, event: Event) -> int:
        """Put an event down, in the server's time; answer its place."""
        event.at += self._offset
        self._out.events.append(event)
        return len(self._out.events) - 1

    def _nap(self, step: int, start: int, end: int) -> None:
        """Excuse the server for a while, in the time of the world."""
        if end > start:
            self._emit(Slept(step, start, end + self._offset))

    # --- requests ---

    def _take(self, place: int, event: Taken) -> None:
        request = self._copies[place]
        if request.handed:
            self._under_way[event.peer] = request
        else:
            self._put(request, event.step, event.at)

    def _put(self, request: Request, step: int, at: int) -> None:
        """From here on the request counts."""
        taken = self._raw.events[request.place]
        assert isinstance(taken, Taken)
        request.place = self._emit(replace(taken, step=step, at=at))
        request.step, request.at = step, at + self._offset
        self._out.taken[request.place] = request
        self._out.requests.append(request)

    def _write(self, place: int, event: Wrote) -> None:
        here = self._emit(replace(event))
        there = self._out.answered[here] = []
        for answered in self._raw.answered[place]:
            request = self._copies[answered.place]
            if request.handed and self._told.told_step == event.step:
                request.connections = len(self._open)
                request.told_at = event.at + self._offset
                request.reply_place, request.reply_at = self._told.told_place, self._told.at + self._offset
                self._out.answered[self._told.told_place].append(request)
            else:
                request.reply_place, request.reply_at = here, event.at + self._offset
                there.append(request)

    # --- transactions ---

    def _follow(self, event: Event) -> None:
        if isinstance(event, Performing):
            peers = [peer for peer, what in event.works if what == "request"]
            requests = {peer: self._under_way.pop(peer) for peer in peers if peer in self._under_way}
            self._transaction = _Transaction(event.works, requests, event.at)
            return
        transaction = self._transaction
        if transaction is None:
            return
        match event:
            case Began():
                transaction.at = event.at
            case Committed():
                transaction.committed = True
                self._written = None
                self._last_kept = max(self._last_kept, transaction.at + self._offset)
            case Failed():
                if event.written:
                    self._written = _as_written(transaction)
                transaction.failed = True
            case _:
                transaction.parts.append(event)

    def _tell(self, event: Told) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            return
        self._unroll(transaction, event.step)
        transaction.told_step = event.step
        transaction.told_place = self._emit(Told(event.step, transaction.at))
        self._out.answered[transaction.told_place] = []
        self._told = transaction
        if transaction.failed:
            self._nap(event.step, event.at, event.at + RETRY_NS)

    def _unroll(self, transaction: _Transaction, step: int) -> None:
        """Put down all that the transaction did, as if it had happened here."""
        at = transaction.at
        if transaction.failed:
            self._emit(Undone(step, at))
            for request in transaction.requests.values():
                request.failed = request.ask.verb != STATS
                self._put(request, step, at)
            return
        if any(what == "sweep" for _, what in transaction.works):
            self._emit(Swept(step, at, "keys"))
        for part in transaction.parts:
            if isinstance(part, Minted):
                self._emit(replace(part, step=step, at=at))
            elif isinstance(part, Applied):
                self._apply(part, transaction, step)

    def _apply(self, part: Applied, transaction: _Transaction, step: int) -> None:
        at = transaction.at
        match part.what:
            case "request" if part.peer in transaction.requests:
                self._put(transaction.requests[part.peer], step, at)
            case "hangup":
                self._emit(HungUp(step, at, part.peer))
            case "cancel":
                self._emit(Withdrawn(step, at, part.peer))
            case "tick":
                self._emit(Ticked(step, at))

    def _resurface(self, event: Resurfaced) -> None:
        """All this counts from now on, and nobody is told: who asked has heard that it failed, or will hear nothing."""
        transaction = self._written
        assert transaction is not None
        self._lose_all(event)
        self._emit(Recalled(event.step, event.at, transaction.at + self._offset))
        requests = len(self._out.requests)
        self._unroll(transaction, event.step)
        del self._out.requests[requests:]  # it has been judged as one that failed
        self._last_kept = max(self._last_kept, transaction.at + self._offset)

    # --- starts and ends ---

    def _start(self, event: Started) -> None:
        """No server's clock shows less than what was kept before it."""
        stopped_at = self._stopped_at
        self._offset = max(event.clock, self._last_kept) - event.at
        if stopped_at is not None:
            self._nap(event.step, stopped_at - self._offset, event.at)
        self._emit(replace(event))

    def _lose_all(self, event: Event) -> None:
        for peer in sorted(self._open):
            self._emit(Torn(event.step, event.at, peer))
        self._open.clear()

    def _stop(self, event: Stopped) -> None:
        """What had been committed has happened, although nobody heard of it; all else has not."""
        self._lose_all(event)
        transaction, self._transaction = self._transaction, None
        if transaction is not None and transaction.committed:
            self._unroll(transaction, event.step)
        self._written = None
        self._under_way.clear()
        self._excuse(Freed(event.step, event.at))
        self._stopped_at = event.at + self._offset
        self._emit(replace(event))


def _as_written(transaction: _Transaction) -> _Transaction:
    """Copy what has not been told yet, as it would be if it had been kept and nobody were ever told."""
    requests = {peer: replace(request, reply=None, token=b"") for peer, request in transaction.requests.items()}
    return replace(transaction, requests=requests)
