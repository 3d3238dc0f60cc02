"""The stewards of dflock:// and http:// servers, where every request of a client goes through the keeper.

Which connection a request takes is all that is decided here.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.client.asks import (
    Acquire,
    Ask,
    Convert,
    End,
    Ended,
    Enqueue,
    Granted,
    Query,
    Queued,
    Refusal,
    Renew,
    Wait,
    Want,
)
from holdfast.client.dialects import dflock, lockserver
from holdfast.client.dialects.codec import Codec
from holdfast.client.errands import Errand
from holdfast.client.link import FOREVER, SECOND, Call, Link
from holdfast.client.ports import Address
from holdfast.client.steward import Steward
from holdfast.errors import TooMany

if TYPE_CHECKING:
    from holdfast.client.keeper import Keeper

LINKS_MAX: Final = 1000
# How long a connection is kept open for the next one who needs it; servers close idle ones after some twenty seconds.
IDLE_NS_MAX: Final = 5 * SECOND
IDLE_MAX: Final = 16
# A server that hears nothing from a holder for some twenty seconds may cut it off, claim and all.
SILENCE_NS_MAX: Final = 8 * SECOND


class PoolSteward(Steward):
    """Connections that are opened when they are needed, and kept for a while."""

    def __init__(self, keeper: "Keeper", address: Address, codec: Callable[[], Codec]) -> None:
        super().__init__(keeper, address)
        self._codec = codec
        self.links: list[Link] = []

    @abstractmethod
    def choose(self, call: Call, now: int) -> Link | None:
        """Choose a connection that is open already, or None where a new one is needed."""

    def deliver(self, call: Call, now: int) -> None:
        link = self.choose(call, now)
        if link is None:
            if len(self.links) >= LINKS_MAX:
                call.answered(Refusal(TooMany(f"the client has {LINKS_MAX} connections to {self.address} already")))
                return
            link = Link(self.address, self._codec(), self.keeper.opener, now, over=self._over)
            self.links.append(link)
            self.opened(call, link)
        link.submit(call, now)
        self.wake(link.tick(now))

    def opened(self, call: Call, link: Link) -> None:
        """Note for whom a new connection was opened."""

    def cancel(self, call: Call) -> None:
        if not call.over:
            call.over = True
            if call.link is not None:
                call.link.close("nobody waits for the answer any more", self.keeper.clock())

    def hang_up(self) -> None:
        for link in list(self.links):
            link.close("the client is closed", self.keeper.clock())

    def _over(self, link: Link, why: str, now: int) -> None:
        if link in self.links:
            self.links.remove(link)
        self.gone(link, why, now)

    def gone(self, link: Link, why: str, now: int) -> None:
        """A connection is over."""

    def is_free(self, link: Link) -> bool:
        """Tell whether anybody may take this connection."""
        return link.idle and link.ready and link.codec.has_room()

    def tend(self, now: int) -> int:
        soonest = FOREVER
        free = []
        for link in list(self.links):
            soonest = min(soonest, link.tick(now))
            if self.is_free(link):
                free.append(link)
            elif link.ready and link.idle and not link.codec.has_room():
                link.close("it carries no more requests", now)
        free.sort(key=lambda link: link.used_at)
        surplus = len(free) if self.closed else len(free) - IDLE_MAX
        for place, link in enumerate(free):
            if place < surplus or now - link.used_at >= IDLE_NS_MAX:
                link.close("it was idle", now)
            else:
                soonest = min(soonest, link.used_at + IDLE_NS_MAX)
        return soonest


class DflockSteward(PoolSteward):
    """One connection for each claim, because a claim lives no longer than its connection."""

    def __init__(self, keeper: "Keeper", address: Address, auth: str | None) -> None:
        super().__init__(keeper, address, lambda: dflock.DflockCodec(auth))
        self._of: dict[str, Link] = {}  # by ticket
        self._tickets: dict[Link, str] = {}  # the other way round

    def choose(self, call: Call, now: int) -> Link | None:
        want = _want_of(call.ask)
        if want is not None and want.ticket in self._of:
            return self._of[want.ticket]
        for link in self.links:
            if self.is_free(link) and now - link.used_at < IDLE_NS_MAX:
                self.opened(call, link)
                return link
        return None

    def deliver(self, call: Call, now: int) -> None:
        if isinstance(call.ask, (Acquire, Enqueue, Wait, End)):
            call.after(self._settled)
        super().deliver(call, now)

    def _settled(self, call: Call) -> None:
        """A connection without a claim is free for others."""
        want = _want_of(call.ask)
        if want is not None and not isinstance(call.answer, (Granted, Queued)):
            link = self._of.pop(want.ticket, None)
            if link is not None:
                del self._tickets[link]
                if call.answer == Ended(was_there=False):
                    # A store that could not be asked says the same; what there is goes with its connection.
                    link.close("the server could not give it back, or had it no more", self.keeper.clock())

    def opened(self, call: Call, link: Link) -> None:
        want = _want_of(call.ask)
        if want is not None and isinstance(call.ask, (Acquire, Enqueue)):
            self._of[want.ticket] = link
            self._tickets[link] = want.ticket

    def is_free(self, link: Link) -> bool:
        return link not in self._tickets and super().is_free(link)

    def gone(self, link: Link, why: str, now: int) -> None:
        ticket = self._tickets.pop(link, None)
        if ticket is not None:
            del self._of[ticket]
            kept = self.kept.get(ticket)
            if kept is not None:
                self.lost(kept, f"its connection to the server is gone, and with it the claim: {why}", now)

    def prepare(self, errand: Errand) -> Ask | None:
        """Without a proof there is a connection to hang up, and nothing to say."""
        want = errand.ask.want
        if errand.ask.proof is None:
            link = self._of.get(want.ticket)
            if link is not None:
                link.close("the claim is not wanted any more", self.keeper.clock())
            return None
        return errand.ask

    def tend(self, now: int) -> int:
        soonest = super().tend(now)
        silent = [link for link in self._of.values() if link.idle]
        if any(now - link.used_at >= SILENCE_NS_MAX for link in silent):
            for link in silent:
                if now - link.used_at >= SILENCE_NS_MAX - SECOND:  # those that are due soon go along
                    link.submit(Call(Query("ping"), now + 5 * SECOND, _ignore), now)
                    soonest = min(soonest, link.tick(now))
        return min([soonest, *(link.used_at + SILENCE_NS_MAX for link in silent)])


class LockServerSteward(PoolSteward):
    """Any connection will do, one request at a time."""

    # Each takes a connection, of which the server and the caller's process have only so many.
    renewals_under_way_max = 32

    def __init__(self, keeper: "Keeper", address: Address, *, host: str, auth: str | None, owner: str) -> None:
        super().__init__(keeper, address, lambda: lockserver.LockServerCodec(host, auth, owner))

    def choose(self, call: Call, now: int) -> Link | None:
        for link in self.links:
            if self.is_free(link) and now - link.used_at < IDLE_NS_MAX:
                return link
        return None

    def prepare(self, errand: Errand) -> Ask | None:
        """Without a proof it is asked for once more, to be given back if there is one."""
        if errand.ask.proof is not None:
            return errand.ask
        if errand.ours:
            return Query(lockserver.RECOVER, {"want": errand.ask.want})
        return Acquire(errand.ask.want, 0)


def _want_of(ask: Ask) -> Want | None:
    if isinstance(ask, (Acquire, Enqueue, Wait, Convert, End)):
        return ask.want
    if isinstance(ask, Renew):
        return ask.proofs[0][0].want
    return None


def _ignore(call: Call) -> None:
    """The answer only shows that the connection lives; a missing one ends it."""
