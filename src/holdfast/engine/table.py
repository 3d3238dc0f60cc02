"""The table of keys: finds the resource of a command, applies the transition, keeps track of sessions and time.

It owns all timed work of the engine: `tick(now)` does it, `next_deadline()` says when to call again. No clock here.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from holdfast.engine import claim as moves
from holdfast.engine import convert as conversions
from holdfast.engine import group as groups
from holdfast.engine import refuse
from holdfast.engine import value as block
from holdfast.engine.bond import Ties
from holdfast.engine.deadline import expire
from holdfast.engine.resource import Resource, everybody, holder, is_idle, join_waiting, note, remove
from holdfast.engine.serve import serve
from holdfast.words import (
    CONVERTING,
    ENDED,
    FOREVER,
    GRANTED,
    NOT_HELD,
    QUEUED,
    RENEWED,
    RESIDENT,
    WAITING,
    Answer,
    Cancel,
    Claim,
    Convert,
    Effect,
    End,
    Ended,
    Hangup,
    Mint,
    Reason,
    Renew,
    Ticket,
    Wait,
)

# How many keys one sweep may look at, so that a million of them do not stop the service for a second.
SWEEP_MAX: Final = 10_000


class Table:
    """Every key that anybody has asked for lately."""

    __slots__ = (
        "_idle",
        "_n",
        "_sought",
        "_wakes",
        "changed",
        "idle_max_ns",
        "keys_max",
        "mint",
        "orphans",
        "resources",
        "sessions",
        "soonest",
        "ties",
        "waiters_max",
    )

    def __init__(self, mint: Mint, keys_max: int, waiters_max: int, idle_max_ns: int) -> None:
        self.mint = mint
        self.keys_max = keys_max
        self.waiters_max = waiters_max  # for each key; 0 is no limit
        self.idle_max_ns = idle_max_ns
        self.resources: dict[bytes, Resource] = {}
        self.ties = Ties(self.resources)
        self.sessions: dict[int, dict[Ticket, Claim]] = {}
        # What is kept of sessions that are over, by tickets that only their callers know: whoever comes back with one
        # is that caller.
        self.orphans: dict[Ticket, Claim] = {}
        self._wakes: list[tuple[int, int, Resource]] = []
        self._idle: list[tuple[int, int, Resource]] = []
        self._sought: list[Resource] = []
        self._n = 0  # breaks ties in the heaps by age
        self.soonest = FOREVER  # no wake is earlier
        # The resources that have changed since a store last wrote them down; None where nobody writes anything down.
        self.changed: dict[bytes, Resource] | None = None

    # --- commands: each answers by value and tells others through `out` ---

    def enqueue(self, c: Claim, now: int, out: list[Effect]) -> Answer:
        book = self.sessions.get(c.session)
        if book is None:
            book = self.sessions[c.session] = {}
        assert c.ticket not in book
        r = self.resources.get(c.key)
        if r is None:
            if len(self.resources) >= self.keys_max:
                return Answer.TOO_MANY_KEYS
            r = self.resources[c.key] = Resource(c.key, c.limit)
        elif r.soonest <= now:
            self._expire(r, now, out)
        answer = moves.enqueue(r, c, now, self.mint, self.waiters_max, out, self._closes if c.refuses else None)
        if answer is GRANTED or answer is QUEUED:
            book[c.ticket] = c
            c.book = book
            if self.changed is not None:
                self.changed[r.key] = r
            if answer is QUEUED:
                self.seek(r)
        else:
            self._list_idle(r)
            if out and self.changed is not None:
                self.changed[r.key] = r
        if r.soonest < r.wake:
            self._arm(r)
        if self.ties.loose:
            self.follow(now, out)
        return answer

    def again(self, c: Claim, now: int, out: list[Effect]) -> tuple[Answer, Claim | None] | None:
        """Find what a ticket was given when it was first shown; None if that is over, or has never been.

        What outlived its session belongs to whoever shows its ticket: it is known to nobody but its caller.
        """
        same = self.known(c)
        if same is None:
            return None
        self.settle(self.fresh(same.key, now, out), now, out)
        if same.book is None:
            return None
        if same.key != c.key:
            return Answer.ALREADY_ENQUEUED, None
        if same.kept:
            self.take_in(same, c)
        return (QUEUED if same.state is WAITING else GRANTED), same

    def known(self, c: Claim) -> Claim | None:
        """Find what its ticket names: in its session, or left on the key by a session that is over."""
        same = self.find(c.session, c.ticket)
        if same is not None or c.session == RESIDENT:
            return same
        same = self.orphans.get(c.ticket)
        return same if same is not None and same.key == c.key else None

    def take_in(self, orphan: Claim, c: Claim) -> None:
        """Give a claim whose session is over to the session of who has come back for it."""
        del self.orphans[orphan.ticket]
        orphan.kept = False
        orphan.session, orphan.owner, orphan.about = c.session, c.owner, c.about
        orphan.book = self.sessions.setdefault(c.session, {})
        orphan.book[orphan.ticket] = orphan

    def _orphaned(self, c: Claim) -> None:
        """Note that a claim has outlived its session, where its caller can name it."""
        c.book = None
        c.kept = True
        if isinstance(c.ticket, bytes) and c.ticket not in self.orphans:
            c.book = self.orphans
            c.book[c.ticket] = c

    def wait(self, how: Wait, now: int, out: list[Effect]) -> tuple[Answer, Claim | None]:
        c = self.find(how.session, how.ticket)
        if c is None:
            return groups.wait(self, how, now, out)
        r = self.fresh(c.key, now, out)
        if c.book is None:
            self.settle(r, now, out)
            return Answer.LEASE_EXPIRED if c.reason is Reason.EXPIRED else Answer.NOT_ENQUEUED, None
        if c.bond is not None and c.state is WAITING:
            self.settle(r, now, out)
            return groups.wait_together(self, c, how.patience_ns, now, out), c
        answer = moves.wait(r, c, how.patience_ns, now, self.mint, out)
        self.settle(r, now, out)
        return answer, c

    def meet(self, key: bytes, limit: int, now: int, out: list[Effect]) -> Resource:
        """Find a key, or make room for it; how many there may be is for the caller to ask."""
        if key in self.resources:
            return self.fresh(key, now, out)
        r = self.resources[key] = Resource(key, limit)
        return r

    def renew(self, how: Renew, now: int, out: list[Effect]) -> Answer:
        r = self.resources.get(how.key)
        if r is None:
            return NOT_HELD
        if r.soonest <= now:
            self._expire(r, now, out)
        answer = moves.renew(r, how, now)
        if self.changed is not None and (answer is RENEWED or out):
            self.changed[r.key] = r
        self._list_idle(r)
        if r.soonest < r.wake:
            self._arm(r)
        return answer

    def end(self, how: End, now: int, out: list[Effect]) -> Answer:
        r = self.resources.get(how.key)
        if r is None:
            return NOT_HELD
        if r.soonest <= now:
            self._expire(r, now, out)
        answer = moves.end(r, how, now, self.mint, out)
        if self.changed is not None and (answer is ENDED or out):
            self.changed[r.key] = r
        if r.sole is None and not r.listed:
            self._list_idle(r)
        if r.soonest < r.wake:
            self._arm(r)
        if self.ties.loose:
            self.follow(now, out)
        return answer

    def convert(self, how: Convert, now: int, out: list[Effect]) -> tuple[Answer, Claim | None]:
        c = self.find(how.session, how.ticket)
        if c is None:
            return NOT_HELD, None
        r = self.fresh(c.key, now, out)
        if c.book is None or c.state is WAITING:
            self.settle(r, now, out)
            return NOT_HELD, None
        closes = self._closes_converting if how.refuses else None
        answer = conversions.convert(r, c, how, now, self.mint, out, closes)
        if r.converting is not None:
            self.seek(r)
        self.settle(r, now, out)
        return answer, c

    def cancel(self, how: Cancel, now: int, out: list[Effect]) -> tuple[Answer, Claim | None]:
        c = self.find(how.session, how.ticket)
        if c is None:
            return groups.cancel(self, how, now, out)
        r = self.fresh(c.key, now, out)
        answer = NOT_HELD
        if c.book is not None:
            if how.held and c.state is not WAITING:
                answer = moves.give_back(r, c, Reason.RELEASED, how.value, now, self.mint, out)
            else:
                answer = conversions.cancel(r, c, now, self.mint, out)
        self.settle(r, now, out)
        return answer, c

    def hangup(self, how: Hangup, now: int, out: list[Effect]) -> None:
        """End all that a session has: first what waits, so that nothing is handed to the dead, then what is held."""
        book = self.sessions.pop(how.session, None)
        if not book:
            return
        touched: dict[bytes, Resource] = {}
        self._withdraw(book, now, touched, out)
        if how.keep_held:
            for c in book.values():
                self._orphaned(c)  # held until their leases end
                if self.changed is not None:
                    self.changed[c.key] = self.resources[c.key]
            book = {}
        for c in book.values():
            touched[c.key] = self.resources[c.key]
        for r in touched.values():
            if r.soonest <= now:
                self._expire(r, now, out)  # what ran out unseen comes before what ends now
        for c in list(book.values()):
            self._lapse(c, now, touched, out)
        for r in touched.values():
            serve(r, now, self.mint, out)
            self.settle(r, now, out)

    def _withdraw(self, book: dict[Ticket, Claim], now: int, touched: dict[bytes, Resource], out: list[Effect]) -> None:
        """End all that a session waits for."""
        for c in list(book.values()):
            if c.state is WAITING:
                self._lapse(c, now, touched, out)
            elif c.state is CONVERTING:
                r = touched[c.key] = self.resources[c.key]
                conversions.fall_back(r, c, Reason.LAPSED, out)

    def _lapse(self, c: Claim, now: int, touched: dict[bytes, Resource], out: list[Effect]) -> None:
        r = touched[c.key] = self.resources[c.key]
        r.touched = now
        was, mode = c.state, c.mode
        remove(r, c, Reason.LAPSED)
        block.on_end(r, mode, Reason.LAPSED, None)
        out.append(Ended(c, Reason.LAPSED, was))

    def sought(self) -> list[Resource]:
        """List the keys that somebody waits for; who has left the list since is struck off now."""
        sought = []
        for r in self._sought:
            r.sought = self.resources.get(r.key) is r and (r.waiting is not None or r.converting is not None)
            if r.sought:
                sought.append(r)
        self._sought = sought
        return sought

    def seek(self, r: Resource) -> None:
        """Note that somebody waits for a key."""
        if not r.sought:
            r.sought = True
            self._sought.append(r)

    def _closes(self, c: Claim) -> bool:
        return refuse.may_not_wait(self, [c])

    def _closes_converting(self, c: Claim, want: int) -> bool:
        return refuse.may_not_convert(self, c, want)

    def holder(self, key: bytes, token: bytes) -> Claim | None:
        """Find the holder who shows this token."""
        r = self.resources.get(key)
        return holder(r, token) if r is not None else None

    def find(self, session: int, ticket: Ticket) -> Claim | None:
        book = self.sessions.get(session)
        return book.get(ticket) if book is not None else None

    # --- time ---

    def next_deadline(self) -> int:
        """Say when `tick` has to come next; FOREVER when nothing is timed."""
        return self._wakes[0][0] if self._wakes else FOREVER

    def tick(self, now: int, out: list[Effect]) -> None:
        """Do all timed work that is due."""
        wakes = self._wakes
        while wakes and wakes[0][0] <= now:
            when, _, r = heappop(wakes)
            if r.wake != when:
                continue  # an earlier entry has taken its place
            r.wake = FOREVER
            expire(r, now, self.mint, out)
            self.settle(r, now, out)
        self.soonest = self.next_deadline()

    def sweep(self, now: int) -> int:
        """Forget keys that nobody has used for longer than `idle_max_ns`; say how many."""
        dropped = 0
        self.sought()
        idle = self._idle
        for _ in range(min(SWEEP_MAX, len(idle))):
            if idle[0][0] >= now:
                break
            _, n, r = heappop(idle)
            due = r.touched + self.idle_max_ns
            if self.resources.get(r.key) is not r:
                continue  # another one has taken its place
            if not is_idle(r):
                r.listed = False
            elif due >= now:
                heappush(idle, (due, n, r))
            else:
                del self.resources[r.key]
                if self.changed is not None:
                    self.changed[r.key] = r
                dropped += 1
        return dropped

    # --- resources that come and go with what a store knows ---

    def adopt(self, r: Resource) -> None:
        """Take in a resource that was read from somewhere, in the place of the one that stands here, if any.

        Its claims find themselves in the books of their sessions again, except those that outlived theirs.
        """
        self.drop(r.key)
        self.resources[r.key] = r
        for c in everybody(r):
            self._tie(c)
            if c.kept:
                self._orphaned(c)
                continue
            c.book = self.sessions.setdefault(c.session, {})
            assert c.ticket not in c.book
            c.book[c.ticket] = c
        if r.waiting is not None or r.converting is not None:
            self.seek(r)
        self._list_idle(r)
        if r.soonest < r.wake:
            self._arm(r)

    def drop(self, key: bytes) -> None:
        """Forget what is known of a key, its claims included; nobody is told."""
        r = self.resources.pop(key, None)
        if r is None:
            return
        r.wake = FOREVER
        for c in everybody(r):
            if c.book is not None:
                del c.book[c.ticket]
                c.book = None

    def rejoin(self, r: Resource, c: Claim) -> None:
        """Let somebody who waited for a key before it was taken in wait for it still."""
        join_waiting(r, c)
        note(r, c, c.deadline)
        self.seek(r)
        c.book = self.sessions.setdefault(c.session, {})
        c.book[c.ticket] = c

    def serve(self, r: Resource, now: int, out: list[Effect]) -> None:
        """Grant what can be granted on a key that has been taken in."""
        serve(r, now, self.mint, out)
        self.settle(r, now, out)

    def exchange(self, r: Resource) -> None:
        """Put a resource in the place of the live one that it was copied from; sessions find its claims instead."""
        old = self.resources[r.key]
        for was, c in zip(everybody(old), everybody(r), strict=True):
            c.book = was.book
            self._tie(c)
            if c.book is not None:
                c.book[c.ticket] = c
        r.wake = old.wake
        r.listed = old.listed
        r.sought = old.sought
        self._sought[:] = [r if other is old else other for other in self._sought]
        self.resources[r.key] = r
        for heap in (self._wakes, self._idle):
            heap[:] = [(when, n, r if other is old else other) for when, n, other in heap]

    def _tie(self, c: Claim) -> None:
        if c.bond is not None:
            c.bond.ties = self.ties

    def _list_idle(self, r: Resource) -> None:
        """Have the sweep look at a key that nobody uses any more; whoever comes back before that keeps it."""
        if not r.listed and is_idle(r):
            r.listed = True
            self._n += 1
            heappush(self._idle, (r.touched + self.idle_max_ns, self._n, r))

    def fresh(self, key: bytes, now: int, out: list[Effect]) -> Resource:
        """Let everything happen that is due on a key."""
        r = self.resources[key]
        if r.soonest <= now:
            self._expire(r, now, out)
        return r

    def _expire(self, r: Resource, now: int, out: list[Effect]) -> None:
        expire(r, now, self.mint, out)
        self.follow(now, out)

    def follow(self, now: int, out: list[Effect]) -> None:
        """See to the keys on which something has happened from another key, until there is none."""
        loose = self.ties.loose
        while loose:
            r = loose.pop(0)
            if r.soonest <= now:
                expire(r, now, self.mint, out)
            serve(r, now, self.mint, out)
            self._put_right(r)

    def settle(self, r: Resource, now: int, out: list[Effect]) -> None:
        """Come to an end with a key on which something may have happened."""
        self._put_right(r)
        self.follow(now, out)

    def _put_right(self, r: Resource) -> None:
        if self.changed is not None:
            self.changed[r.key] = r
        self._list_idle(r)
        if r.soonest < r.wake:
            self._arm(r)

    def _arm(self, r: Resource) -> None:
        self._n += 1
        r.wake = r.soonest
        if r.wake < self.soonest:
            self.soonest = r.wake
        heappush(self._wakes, (r.wake, self._n, r))
        if len(self._wakes) > 2 * len(self.resources) + 1000:
            self._wakes[:] = [(other.wake, n, other) for n, other in enumerate(self._live()) if other.wake < FOREVER]
            heapify(self._wakes)

    def _live(self) -> list[Resource]:
        return list(self.resources.values())
