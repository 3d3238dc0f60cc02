"""The ledger: walks through a history, keeps the book, and finds the first reply that is not what it had to be.

What every request must come to follows from the book alone; no answer of the server changes who holds or waits.
"""

from collections.abc import Iterator

from sim.checkers.book import FENCE_RETRY_NS, FOR_EVER, NOBODY, Book, Key
from sim.checkers.dues import DiscrepancyError
from sim.checkers.moves import Moves
from sim.checkers.sleep import Sleep
from sim.checkers.straight import Left, Recalled, Undone, Withdrawn
from sim.checkers.talks import Finding, Request, Talks
from sim.checkers.turns import Turns
from sim.history import (
    Connected,
    Cut,
    Drained,
    Event,
    HungUp,
    Lost,
    Minted,
    Refused,
    Rules,
    Started,
    Stopped,
    Swept,
    Ticked,
    Torn,
)


def check_ledger(talks: Talks) -> Iterator[Finding]:
    """Stop at the first discrepancy: after it, book and server speak of different worlds."""
    ledger = _Ledger(talks)
    try:
        ledger.walk()
    except DiscrepancyError as error:
        yield Finding("ledger", ledger.step, str(error))


class _Ledger(Moves):
    def __init__(self, talks: Talks) -> None:
        super().__init__()
        self.step = 0
        self._talks = talks
        self._sleep = Sleep(talks.events)
        self._to_drain: list[int] = []  # whose turn it is next to be sent away
        self._last_drained: Request | None = None
        self._gone: set[int] = set()  # whose claims have been seen to
        self._deaf: set[int] = set()  # who cannot be told anything any more
        self._soonest = FOR_EVER
        self._recalled = Recalled(0, -1, 0)
        self._turns = Turns(self._book, [], 0)

    def walk(self) -> None:
        for place, event in enumerate(self._talks.events):
            if event.step != self.step or event.at != self._now:
                self._end_step()
                self._begin_step(event)
            self._turns = Turns(self._book, self._talks.events, place)
            self._see(event)
            request = self._talks.taken.get(place)
            answered = self._talks.answered.get(place, ())
            if request is not None or answered:
                self._conclude()
            if request is not None:
                self._serve(request)
            for one in answered:
                self._match(one)

    # --- steps ---

    def _begin_step(self, event: Event) -> None:
        self.step = event.step
        if event.at != self._now:
            self._now = event.at
            if self._wake_after(self._soonest) < self._now:
                raise DiscrepancyError("the server slept through a lease, a patience or a fence that it could have had")

    def _wake_after(self, when: int) -> int:
        """Say when something due at `when` could be done; what was recalled was unknown to the server that is gone."""
        recalled = self._recalled
        return self._sleep.wake_after(recalled.at if recalled.since <= when <= recalled.at else when)

    def _end_step(self) -> None:
        self._conclude()
        self._dues.close([peer for peer in self._alive if peer not in self._deaf])
        for key in self._book.keys.values():
            if key.has_room_for_next() and self._sleep.wake_after(key.excused_until) < self._now:
                raise DiscrepancyError(f"{key.name} is free, and somebody waits for it")
        self._soonest = self._book.soonest()

    def _conclude(self) -> None:
        """All grants of one move have their fences by now, unless none could be had; that is excused for a while."""
        for key in self._book.keys.values():
            if key.unfenced:
                if self._sleep.wake_after(key.excused_until) < self._now:
                    raise DiscrepancyError(f"{key.name} is free, and nobody was granted it")
                self._unseat(key)
        if self._newcomer is not None:
            key, claim, request = self._newcomer
            self._newcomer = None
            if key.admits_a_newcomer():
                raise DiscrepancyError(f"{key.name} is free, and {request} was not granted it")
            self._queue(key, claim, request)

    def _match(self, request: Request) -> None:
        """A reply has come. While the server sends everybody away, that means that it goes on to the next."""
        self._dues.pay(request)
        if request is self._last_drained:
            self._drain_on()

    # --- events ---

    def _see(self, event: Event) -> None:
        book = self._book
        match event:
            case Ticked():
                self._conclude()
                for key in book.keys.values():
                    self._settle(key)
            case Minted():
                self._mint(event)
            case Refused():
                self._refuse(event)
            case Swept():
                book.sweep(event.what, self._now)
            case Drained():
                self._draining = True
                if not book.rules.durable:
                    self._to_drain = list(self._alive)
                    self._drain_on()
            case Undone():
                book.doubt()
            case Recalled():
                self._recalled = event
            case Started():
                self._start(event.rules)
            case Stopped():
                self._start(book.rules)
            case _:
                self._see_peer(event)

    def _see_peer(self, event: Event) -> None:
        match event:
            case Connected():
                self._sessions[event.peer] = len(self._sessions)
                self._alive.append(event.peer)
            case Lost() | HungUp():
                self._hang_up(event.peer)
            case Torn() | Cut():
                self._deaf.add(event.peer)
            case Left():
                self._alive.remove(event.peer)  # its last request may still be on its way to the store
            case Withdrawn():
                self._withdraw(event.peer)

    def _start(self, rules: Rules) -> None:
        if rules.durable:
            self._book.rules = rules
            self._book.survive()
        else:
            self._book = Book(rules)
        self._draining = False
        self._sessions = {NOBODY: 0}
        self._alive.clear()
        self._blocked.clear()
        self._dues.clear()
        self._newcomer = None

    def _mint(self, event: Minted) -> None:
        key = self._key_of_fence(event.last)
        if key is not None and not key.unfenced:
            key.promote(self._now)
            self._let_in_newcomer(key)
        if key is None or not key.unfenced:
            raise DiscrepancyError(f"fence {event.fence} was made, and nobody can have been granted anything")
        if self._book.rules.durable and event.fence != key.fence + 1:
            raise DiscrepancyError(f"fence {event.fence} was made for {key.name}, whose last one was {key.fence}")
        claim = key.unfenced.pop(0)
        claim.fence = key.fence = event.fence
        request, claim.request = claim.request, None
        if request is not None:
            self._tell(request, key, claim)

    def _key_of_fence(self, last: int) -> Key | None:
        """Find whose grant it is; a key that was never granted can only have a newcomer."""
        newcomer = self._newcomer[0] if self._newcomer is not None else None
        if self._book.rules.durable:
            return newcomer if newcomer is not None and newcomer.fence == last else self._turns.next_key(last)
        return self._book.key_of_fence(last) if last else newcomer

    def _let_in_newcomer(self, key: Key) -> None:
        if self._newcomer is not None and self._newcomer[0] is key and key.admits_a_newcomer():
            claim = self._newcomer[1]
            self._newcomer = None
            key.seat(claim, self._now)
            self._book.keep_phase(claim, key)

    def _refuse(self, event: Refused) -> None:
        key = self._key_of_fence(event.last)
        if key is None:
            raise DiscrepancyError("a fence was asked for, and nobody can have been granted anything")
        key.excused_until = self._now + FENCE_RETRY_NS
        if key.unfenced:
            self._unseat(key)
        elif self._newcomer is not None and self._newcomer[0] is key and key.admits_a_newcomer():
            self._dues.add(self._newcomer[2], b"error")
            self._newcomer = None

    def _unseat(self, key: Key) -> None:
        for claim in key.unseat():
            if claim.request is not None and claim.patience_due <= self._now:
                self._give_up(key, claim, b"timeout")

    # --- ends ---

    def _withdraw(self, peer: int) -> None:
        """A store of transactions was told that somebody is not to wait any more."""
        self._conclude()
        key, claim = self._blocked.get(peer, (None, None))
        if key is None or claim is None:
            return
        self._settle(key)
        if claim in key.queue:
            self._give_up(key, claim, b"error")
            key.promote(self._now)

    def _hang_up(self, peer: int) -> None:
        """A connection is over: what waited goes first, so that nobody who is gone is granted anything."""
        if peer in self._gone:
            return
        self._gone.add(peer)
        self._conclude()
        if peer in self._alive:
            self._alive.remove(peer)
        self._book.forget_phases_of(peer)
        self._blocked.pop(peer, None)
        release = self._book.rules.release_on_disconnect
        for key in self._book.keys.values():
            waited = key.withdraw(key.queue, peer, self._now)
            if not waited and not (release and any(claim.peer == peer for claim in key.held)):
                continue
            self._settle(key)
            if release:
                key.withdraw(key.held, peer, self._now)
            key.promote(self._now)

    def _drain_on(self) -> None:
        """Whoever is blocked is sent away, one after the other: what that makes of the others shows in between."""
        while self._to_drain:
            peer = self._to_drain.pop(0)
            if peer not in self._blocked:
                continue
            key, claim = self._blocked[peer]
            self._last_drained = claim.request
            self._settle(key)
            if claim in key.unfenced and claim.request is not None and claim.request.reply == b"error":
                key.unseat()  # it may have been next, but for a fence
            if claim in key.queue:
                self._give_up(key, claim, b"error")
                self._settle(key)
            if peer not in self._deaf:
                return
