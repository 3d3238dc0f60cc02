"""The steward of a native server: one connection of its own in the client's session, for renewals and for news.

What a face asks for itself does not pass here; nor is anything decided about sessions but when to join.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.client.asks import Ask, Granted, News, Query
from holdfast.client.dialects.native import NativeCodec, Session, cost_bytes, granted_in
from holdfast.client.errands import AGAIN
from holdfast.client.lease import Notice
from holdfast.client.link import FOREVER, SECOND, Call, Link
from holdfast.client.ports import Address
from holdfast.client.steward import Kept, Steward

if TYPE_CHECKING:
    from holdfast.client.keeper import Keeper

RENEWALS_MAX: Final = 1000
# A claim that is held for longer than this deserves a connection on which its end would be told.
LISTEN_AFTER_NS: Final = SECOND
# A connection that lasted for less has not served anybody.
GOOD_NS_MIN: Final = SECOND
# A connection that has not been used for so long is tried out, so that nobody relies on a dead one.
SILENCE_NS_MAX: Final = 15 * SECOND


class NativeSteward(Steward):
    """Renews by token, in batches, and passes on what the server tells of its own accord."""

    def __init__(self, keeper: "Keeper", address: Address, session: Session) -> None:
        super().__init__(keeper, address)
        self._session = session
        self._link: Link | None = None
        self._failures = 0
        self._dial_at = 0
        self._dialled_at = 0
        self._places: dict[str, Callable[[Granted | None, str], None]] = {}
        self._watchers: dict[object, tuple[dict[str, Any], Callable[[dict[str, Any] | None], None]]] = {}
        self._watched = False  # the connection has been told what there is to watch

    # --- from the faces ---

    def expect(self, ticket: str, hear: Callable[[Granted | None, str], None]) -> None:
        """Pass on when a place in the queue becomes a grant, or ends; the reason comes with it."""
        self._places[ticket] = hear
        self.wake(self.keeper.clock())

    def forget(self, ticket: str) -> None:
        """Nobody stands in the queue under this ticket any more."""
        self._places.pop(ticket, None)

    def watch(self, fields: dict[str, Any], hear: Callable[[dict[str, Any] | None], None]) -> object:
        """Pass on what happens to keys; None means that something may have been missed meanwhile."""
        watcher = object()
        self._watchers[watcher] = (fields, hear)
        self._watched = False
        self.wake(self.keeper.clock())
        return watcher

    def unwatch(self, watcher: object) -> None:
        """Stop passing on."""
        self._watchers.pop(watcher, None)
        self._watched = False
        self.wake(self.keeper.clock())

    # --- connections ---

    def deliver(self, call: Call, now: int) -> None:
        if self._link is None and now >= self._dial_at:
            self._connect(now)
        if self._link is None:
            call.failed(f"no connection to {self.address}")
        else:
            self._link.submit(call, now)

    def cancel(self, call: Call) -> None:
        call.over = True

    def _connect(self, now: int) -> None:
        codec = NativeCodec(self._session, events=True)
        self._watched = False
        self._dialled_at = now
        self._link = Link(
            self.address, codec, self.keeper.opener, now, greeted=self._greeted, told=self._told, over=self._over
        )
        self.wake(self._link.tick(now))

    def _greeted(self, link: Link, now: int) -> None:
        codec = link.codec
        assert isinstance(codec, NativeCodec)
        if not codec.resumed:
            places, self._places = self._places, {}
            for hear in places.values():
                hear(None, "the server has forgotten who stood in its queues")
        # What was told while there was no connection was told to nobody; a renewal finds out.
        for kept in self.kept.values():
            kept.try_at = now
        self.wake(now)

    def _over(self, link: Link, why: str, now: int) -> None:
        if self._link is link:
            self._link = None
            # A server that greets and then hangs up, again and again, is no better than one that is not there.
            was_good = link.ready_once and now - self._dialled_at >= GOOD_NS_MIN
            self._failures = 0 if was_good else self._failures + 1
            self._dial_at = now + AGAIN.delay_ns(self._failures + 1, self.keeper.chance())
            for _, hear in self._watchers.values():
                hear(None)
            self.wake(self._dial_at)

    def hang_up(self) -> None:
        if self._link is not None:
            self._link.close("the client is closed", self.keeper.clock())

    def listen_at(self, kept: Kept) -> int:
        if self._link is not None:
            return FOREVER
        return kept.lease.confirmed_at + (0 if kept.listens else LISTEN_AFTER_NS)

    def _wants_connection(self, now: int) -> int:
        """Say from when on there has to be a connection."""
        if self._places or self._watchers:
            return now
        return min((self.listen_at(kept) for kept in self.kept.values()), default=FOREVER)

    def tend(self, now: int) -> int:
        if self.closed:
            return FOREVER if self._link is None else self._link.tick(now)
        if self._link is None:
            wanted = max(self._wants_connection(now), self._dial_at)
            if wanted > now:
                return wanted
            self._connect(now)
        link = self._link
        assert link is not None
        codec = link.codec
        assert isinstance(codec, NativeCodec)
        if codec.joined not in (None, self._session.name):
            link.close("the client has another session now", now)
            return self._dial_at
        if link.ready and not self._watched:
            self._tell_what_to_watch(link, now)
        if link.ready and link.idle and now - link.used_at >= SILENCE_NS_MAX:
            link.submit(Call(Query("ping"), now + 5 * SECOND, _ignore), now)
        if not link.ready:
            return link.tick(now)
        # While an answer is awaited, nobody knows when the connection will be idle.
        return min(link.tick(now), link.used_at + SILENCE_NS_MAX if link.idle else now + SECOND)

    # --- renewals ---

    def batches(self, renewals: list[Kept]) -> list[list[Kept]]:
        """Fill lines, as far as the server takes them."""
        batches: list[list[Kept]] = []
        room = 0
        for kept in renewals:
            if kept.cost == 0:
                kept.cost = cost_bytes(kept.proof.want)
            if kept.cost > room or len(batches[-1]) == RENEWALS_MAX:
                batches.append([])
                room = self._line_bytes_max() - 100
            batches[-1].append(kept)
            room -= kept.cost
        return batches

    def _line_bytes_max(self) -> int:
        codec = None if self._link is None else self._link.codec
        return codec.line_bytes_max if isinstance(codec, NativeCodec) else 65_536

    # --- news ---

    def _told(self, news: list[News], now: int) -> None:
        for item in news:
            hear = self._HEARD.get(item.event)
            if hear is not None:  # a later server may tell more than this release knows
                hear(self, item.fields, now)

    def _hear_granted(self, fields: dict[str, Any], now: int) -> None:
        ticket = str(fields.get("ticket"))
        if ticket in self._places:
            grant = granted_in(fields)  # if it cannot be read, there is still somebody who waits
            self._places.pop(ticket)(grant, "")

    def _hear_ended(self, fields: dict[str, Any], now: int) -> None:
        ticket = str(fields.get("ticket"))
        why = str(fields.get("detail") or fields.get("reason"))
        hear = self._places.pop(ticket, None)
        if hear is not None:
            hear(None, why)
        kept = self.kept.get(ticket)
        if kept is not None and fields.get("fence") in (None, kept.proof.fence):
            self.lost(kept, f"the server ended it: {why}", now)

    def _hear_nudged(self, fields: dict[str, Any], now: int) -> None:
        kept = self.kept.get(str(fields.get("ticket")))
        if kept is not None:
            self.keeper.tell(kept.tell, Notice.CONTENDED)

    def _hear_draining(self, fields: dict[str, Any], now: int) -> None:
        self.keeper.log(f"{self.address} is about to stop: {fields.get('detail', '')}")

    def _hear_change(self, fields: dict[str, Any], now: int) -> None:
        for wanted, hear in list(self._watchers.values()):
            if _is_about(wanted, fields):
                hear(fields)

    _HEARD: Final[dict[str, Callable[["NativeSteward", dict[str, Any], int], None]]] = {
        "granted": _hear_granted,
        "ended": _hear_ended,
        "nudged": _hear_nudged,
        "draining": _hear_draining,
        "changed": _hear_change,
        "deadlock": _hear_change,
    }

    def _tell_what_to_watch(self, link: Link, now: int) -> None:
        self._watched = True
        asks: list[Ask] = [Query("unwatch")] if link.told_watches else []
        link.told_watches = bool(self._watchers)
        for fields, _ in self._watchers.values():
            asks.append(Query("watch", fields))
        for ask in asks:
            link.submit(Call(ask, now + 5 * SECOND, _ignore), now)


def _is_about(wanted: dict[str, Any], fields: dict[str, Any]) -> bool:
    if fields.get("event") == "deadlock":
        return bool(wanted.get("deadlocks"))
    if wanted.get("deadlocks") or wanted.get("kind", fields.get("kind")) != fields.get("kind"):
        return False
    key = str(fields.get("key"))
    return key == wanted["key"] if "key" in wanted else key.startswith(wanted.get("prefix", ""))


def _ignore(call: Call) -> None:
    """The answer only shows that the connection lives; a missing one ends it."""
