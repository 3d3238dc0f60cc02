"""Who is refreshed when, who is told that its lease is over, what is given back by and by: for all locks of a process.

No input or output, no thread and no clock: `turn(now)` says what is to be asked of which backend, the answer comes in
later, and `refresher.py` and `aio/refresher.py` do the waiting.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.client.lease import Notice, State
from holdfast.client.retry import SECOND
from holdfast.leases.holding import Holding
from holdfast.leases.words import LEASE_SECONDS, REFRESH_RETRY, Hold
from holdfast.words import FOREVER

logger: Final = logging.getLogger("holdfast.leases")

MICROSECOND: Final = 1_000
# By which share of a lease a refresh is tried again, where that is less than REFRESH_RETRY seconds.
RETRY_SHARE: Final = LEASE_SECONDS // REFRESH_RETRY
# How much earlier or later than that a refresh is tried again: holders that failed together do
# not come back together.
JITTER: Final = 0.25
# By which share of a lease it is refreshed before its third is over: an outage that begins just then may last for two
# thirds, although the lease ends here a little earlier than in the database.
EARLY_SHARE: Final = 30
# The last try before the end leaves time for its answer: this share of a lease, and no more than that.
LAST_SHARE: Final = 150
LAST_NS_MAX: Final = SECOND // 2


@dataclass(frozen=True, slots=True)
class Call:
    """Something to ask of a backend: to refresh leases, or to give locks back."""

    book: "Book"
    holds: tuple[Hold, ...]
    sent_at: int
    holdings: tuple[Holding, ...] = ()  # none: to give back

    @property
    def lease_us(self) -> int:
        return self.book.lease_ns // MICROSECOND


@dataclass(slots=True)
class Turn:
    """What is to be done now, and when to come back."""

    news: list[Callable[[], Any]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    due: int = FOREVER


class Book:
    """The leases of one length at one backend: one statement refreshes them all."""

    def __init__(self, backend: Any, lease_ns: int, chance: Callable[[], float]) -> None:
        self.backend = backend
        self.lease_ns = lease_ns
        self._chance = chance
        self._holdings: dict[str, Holding] = {}
        self._leftovers: dict[str, tuple[Hold, int]] = {}  # to be given back, and until when that is worth trying
        self._not_before = 0  # no call begins before this
        self._calling = False

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do here."""
        return not (self._holdings or self._leftovers or self._calling)

    @property
    def holdings(self) -> Iterable[Holding]:
        return self._holdings.values()

    def add(self, holding: Holding) -> None:
        """Look after a lease from now on."""
        self._holdings[holding.hold.lock_id] = holding

    def remove(self, holding: Holding) -> None:
        """Look after it no longer."""
        self._holdings.pop(holding.hold.lock_id, None)

    def leave(self, hold: Hold, now: int) -> None:
        """Give something back as soon as the database lets us; no later than its lease would end by itself."""
        self._leftovers[hold.lock_id] = (hold, now + self.lease_ns)

    def take_all(self) -> tuple[Hold, ...]:
        """Stop relying on everything, and say what is to be given back."""
        holds = [hold for hold, _ in self._leftovers.values()]
        holds += [holding.hold for holding in self._holdings.values() if holding.lease.release()]
        self._holdings.clear()
        self._leftovers.clear()
        return tuple(holds)

    # --- a turn ---

    def turn(self, now: int, turn: Turn) -> None:
        """Note what is due."""
        self.notices(turn)
        self._leftovers = {name: left for name, left in self._leftovers.items() if left[1] > now}
        if not self._calling and now >= self._due():
            call = self._next_call(now)
            if call is not None:
                self._calling = True
                turn.calls.append(call)
        turn.due = min(turn.due, *(notice_at(holding) for holding in self.holdings), self._due())

    def notices(self, turn: Turn) -> None:
        """Note what is to be told, and forget what is over."""
        for holding in list(self.holdings):
            for notice in holding.lease.notices():
                turn.news.append(lambda holding=holding, notice=notice: told(holding, notice))  # type: ignore[misc]
            if holding.lease.state() in (State.LOST, State.RELEASED):
                self.remove(holding)

    def _due(self) -> int:
        """Say when the next call may begin."""
        if self._calling:
            return FOREVER
        wanted = 0 if self._leftovers else min((self._refresh_at(held) for held in self.holdings), default=FOREVER)
        return max(wanted, self._not_before)

    def first_due(self, holding: Holding) -> int:
        """Say when there is first something to do for a lease that has just begun."""
        return min(self._refresh_at(holding), notice_at(holding))

    def _refresh_at(self, holding: Holding) -> int:
        return holding.lease.renew_at - self.lease_ns // EARLY_SHARE

    def _next_try(self, now: int) -> int:
        """Say when to try again if this try fails: after a while, but once more before a lease ends here."""
        pause_ns = min(REFRESH_RETRY * SECOND, self.lease_ns // RETRY_SHARE)
        then = now + int(pause_ns * (1 + JITTER * (2 * self._chance() - 1)))
        ends = (held.lease.deadline - min(self.lease_ns // LAST_SHARE, LAST_NS_MAX) for held in self.holdings)
        return min([then, *(end for end in ends if now < end)])

    def _next_call(self, now: int) -> Call | None:
        """Refresh all in one statement when one is due; give back in between."""
        self._not_before = self._next_try(now)
        if any(self._refresh_at(held) <= now for held in self.holdings):
            for held in self.holdings:
                held.silent = not held.deserves(now)
            deserving = tuple(held for held in self.holdings if not held.silent)
            if deserving:
                return Call(self, tuple(held.hold for held in deserving), now, deserving)
        if self._leftovers:
            return Call(self, tuple(hold for hold, _ in self._leftovers.values()), now)
        return None

    # --- what came of a call ---

    def answered(self, call: Call, ours: Sequence[bool]) -> None:
        """The backend has answered."""
        self._calling = False
        if len(ours) != len(call.holds):
            self.failed(call, ValueError(f"{len(ours)} answers came for {len(call.holds)} locks"))
            return
        if call.holdings:
            for holding, is_ours in zip(call.holdings, ours, strict=True):
                if is_ours:
                    holding.lease.confirm(sent_at=call.sent_at)
                else:
                    holding.lease.lose("the database says that it is not ours any more")
            if self._leftovers:
                self._not_before = 0  # they had to wait for this
            return
        for hold in call.holds:
            self._leftovers.pop(hold.lock_id, None)

    def failed(self, call: Call, error: BaseException) -> None:
        """Nothing is known: nobody has lost anything but time."""
        self._calling = False
        what = "refresh" if call.holdings else "give back"
        logger.warning("could not %s %d locks, and will try again: %s", what, len(call.holds), error)


def notice_at(holding: Holding) -> int:
    """Say when there will be something to tell; what is over already is due at once."""
    at = holding.lease.next_notice_at()
    return FOREVER if at is None else at


def told(holding: Holding, notice: Notice) -> None:
    """Tell the holder and the log."""
    if notice is Notice.LOST:
        logger.error("the lock %s is lost: %s", holding.shown, holding.reason)
        holding.lost()
    else:
        logger.warning("the lock %s is in danger: it has not been refreshed for most of its lease", holding.shown)


class Keeper:
    """All books of a process, or of an event loop."""

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._books: dict[tuple[Hashable, int], Book] = {}

    @property
    def books(self) -> list[Book]:
        return list(self._books.values())

    @property
    def idle(self) -> bool:
        return not self._books

    def book(self, backend: Any, lease_ns: int) -> Book:
        """Give the book for leases of that length at a backend."""
        place = (id(backend), lease_ns)  # the book keeps the backend, so the number stays its own
        book = self._books.get(place)
        if book is None:
            book = self._books[place] = Book(backend, lease_ns, self._chance)
        return book

    def find(self, backend: Any, lease_ns: int) -> Book | None:
        """Give that book if there is one."""
        return self._books.get((id(backend), lease_ns))

    def turn(self, now: int) -> Turn:
        """Say what is to be told, what is to be asked, and when to come back."""
        turn = Turn()
        for place, book in list(self._books.items()):
            book.turn(now, turn)
            if book.idle:
                del self._books[place]
        return turn

    def fail(self, reason: str) -> list[Callable[[], Any]]:
        """Whoever drives it can do so no longer: nothing will be refreshed, so it counts as lost now."""
        turn = Turn()
        for book in self.books:
            for holding in book.holdings:
                holding.lease.lose(reason)
            book.notices(turn)
        return turn.news
