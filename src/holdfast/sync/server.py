# Made from aio/server.py by tools/faces.py: change that one, and run `python -m tools.faces`.

"""One server of a client: carries operations to it, over whichever protocol it speaks, until they are done.

Which server a key belongs to, and what a lock is, is not known here.
"""

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.client.asks import Answer, Ask, End, Granted, Proof, Query, Want
from holdfast.client.operation import Operation, Rules
from holdfast.client.options import host_name
from holdfast.client.ports import Host, World
from holdfast.client.process import generation
from holdfast.client.retry import RetryPolicy, chance_of
from holdfast.client.steward import Kept, Steward
from holdfast.client.url import DFLOCK, NATIVE, Target
from holdfast.errors import BadRequest, Closed, HoldfastError
from holdfast.sync import connection as wire
from holdfast.sync.waiting import Countdown, Place, lock, relay, sleep_until

if TYPE_CHECKING:
    from holdfast.client.keeper import Keeper
    from holdfast.client.link import Call
    from holdfast.client.native_steward import NativeSteward

logger: Final = logging.getLogger("holdfast.client")
SECOND: Final = 1_000_000_000
# Polling goes on for as long as the patience lasts, which the operation itself sees to.
POLLING: Final = RetryPolicy(max_retries=1 << 30, min_delay=0.025, max_delay=1.0)


class Server:
    """One of the servers that a client was told of. It is connected to when it is first needed."""

    def __init__(self, target: Target, place: Place, world: World, *, name: str, timeout_ns: int) -> None:
        self.target = target
        self.native = target.protocol == NATIVE
        self.world = world
        self.place = place
        self.clock = world.clock
        self._name = name
        self._timeout_ns = timeout_ns
        self._closed = False
        self._connection_closed = False
        wait_s = timeout_ns / SECOND
        self.rules = Rules(
            clock=world.clock,
            chance=chance_of(world.dice),
            timeout_ns=timeout_ns,
            trouble=RetryPolicy(max_retries=1000, max_total_wait=wait_s, min_delay=0.02, max_delay=1.0),
            polling=POLLING,
            slice_ns=None if self.native or target.protocol == DFLOCK else 50 * SECOND,
        )
        self._move_in()

    def _move_in(self) -> None:
        """Begin in this process: a child of a fork has nothing of its parent's."""
        self._connecting = lock(self.world)
        self._connection: wire.Connection | None = None
        self._stays_until = 0
        self._countdown = Countdown(self.place)
        self._listener: NativeSteward | None = None
        self.host: Host = self.world.host()
        with self.host.keeper() as keeper:
            self.steward = self._steward(keeper)
            keeper.add(self.steward)
        self._generation = generation()

    def _steward(self, keeper: "Keeper") -> Steward:
        address, auth = self.target.address, self.target.auth
        if self.native:
            from holdfast.client.dialects.native import Session
            from holdfast.client.native_steward import NativeSteward

            self.session = Session(client=self._name, host=host_name(), pid=os.getpid(), auth=auth)
            self._listener = NativeSteward(keeper, address, self.session)
            return self._listener
        from holdfast.client.pool_steward import DflockSteward, LockServerSteward

        if self.target.protocol == DFLOCK:
            return DflockSteward(keeper, address, auth)
        owner = f"{self._name}@{host_name()}:{os.getpid()}"
        return LockServerSteward(keeper, address, host=str(address), auth=auth, owner=owner)

    def enter(self) -> None:
        """Whoever asks for something passes here first."""
        if self._closed:
            raise Closed("the client is closed")
        if self._generation != generation():
            with self.world.host().keeper():  # one thread moves in, and all others find that done
                if self._generation != generation():
                    self._move_in()
        self.place.enter()

    # --- operations ---

    def run(self, operation: Operation) -> None:
        """Do one operation. However this ends, nothing of it is left at the server that nobody knows of."""
        self.enter()
        try:
            while True:
                if self._closed:
                    raise Closed("the client was closed meanwhile")
                now = self.clock()
                ask = operation.next(now)
                if ask is None:
                    sleep_until(self.world, operation.pause_until)
                    continue
                try:
                    answer = self._ask(operation, ask)
                except HoldfastError as error:
                    operation.missed(error, began=now, now=self.clock())
                    continue
                if operation.heard(answer, self.clock()):
                    return
        except BaseException:
            self.clean_up(operation)
            raise

    def _ask(self, operation: Operation, ask: Ask) -> Answer:
        patience_ns = operation.patience_ns()
        if not self.native:
            operation.asks(now := self.clock())
            limit_ns = (1 << 60) if patience_ns is None else patience_ns
            return relay(self.world, self.steward, ask, now + limit_ns + self._timeout_ns)
        connection = self._connection
        if connection is None or connection.is_over:
            connection = self._connect()
        operation.asks(now := self.clock())
        return connection.ask(ask, None if patience_ns is None else now + patience_ns + self._timeout_ns)

    def _connect(self) -> wire.Connection:
        """Make the one connection that everybody asks over; whoever comes meanwhile waits for it."""
        from holdfast.client.dialects.native import NativeCodec

        with self._connecting:
            if self._connection is not None and not self._connection.is_over:
                return self._connection
            codec = NativeCodec(self.session, events=False)
            connection = wire.connect(
                self.world.network, self.target.address, codec, self.clock, self._timeout_ns, lock=self.world.lock
            )
            self._connection = connection
            if self._closed:
                connection.close()  # nobody else would
            return connection

    def clean_up(self, operation: Operation) -> None:
        """Have ended what may have been granted, or may still be: at once, and again until that is certain."""
        left = operation.leftover()
        if left is not None:
            self.forget(*left)

    def forget(self, want: Want, proof: Proof | None, *, not_before: int = 0) -> None:
        """End something without waiting for it."""
        if self._generation != generation():
            return
        if self.native and not_before <= self.clock():
            self._post(End(want, proof))  # if that fails, the steward finds another way
        with self.host.keeper():
            self.steward.finish(want, proof, not_before=not_before)

    def post(self, ask: Ask) -> None:
        """Ask once, without waiting for an answer."""
        if self._generation == generation() and not self._post(ask):
            with self.host.keeper():
                self.steward.call(ask, until=self.clock() + self._timeout_ns, done=_ignore)

    def _post(self, ask: Ask) -> bool:
        """Ask behind the request that is to be taken back: on the same connection, it cannot overtake that."""
        if self._connection is None:
            return False
        try:
            return self._connection.post(ask)
        except HoldfastError as error:
            logger.debug("the connection was over: %s", error)
            return False

    # --- what is held ---

    def keep(self, kept: Kept) -> None:
        """Have a claim renewed from now on. Raises Closed where nobody would give it back at the end."""
        with self.host.keeper():
            if self._closed:
                raise Closed("the client was closed meanwhile")
            self.steward.keep(kept)

    def drop(self, kept: Kept) -> None:
        """Have a claim renewed no more."""
        with self.host.keeper():
            self.steward.drop(kept)

    def hurry(self, kept: Kept) -> None:
        """Have a claim looked at now: its holder has given a sign of life."""
        with self.host.keeper():
            self.steward.hurry(kept)

    def lost(self, kept: Kept, why: str) -> None:
        """Say that a claim is gone; whoever wants to hear of that is told."""
        with self.host.keeper():
            self.steward.lost(kept, why, self.clock())

    def leave_behind(self, until: int) -> None:
        """Something is to be held until then, even if this client is closed before."""
        self._stays_until = max(self._stays_until, until)

    # --- what is heard ---

    def expect(self, ticket: str, hear: Callable[[Granted | None, str], None]) -> None:
        """Hear when a place in the queue becomes a grant, or is gone; and keep the connection that it belongs to."""
        with self.host.keeper():
            if self._listener is not None:
                self._listener.expect(ticket, hear)

    def unexpect(self, ticket: str) -> None:
        """Nobody stands in the queue under this ticket any more."""
        with self.host.keeper():
            if self._listener is not None:
                self._listener.forget(ticket)

    def watch(self, fields: dict[str, Any], hear: Callable[[dict[str, Any] | None], None]) -> object:
        """Hear what happens to keys; None where something may have been missed."""
        with self.host.keeper():
            assert self._listener is not None
            return self._listener.watch(fields, hear)

    def unwatch(self, watcher: object) -> None:
        """Hear no more of that."""
        with self.host.keeper():
            if self._listener is not None:
                self._listener.unwatch(watcher)

    def needs_native(self, what: str) -> None:
        """Refuse what only our own protocol can do."""
        if not self.native:
            raise BadRequest(f"{self.target.scheme}:// cannot do this: {what}; use holdfast://")

    def needs_leases(self, what: str) -> None:
        """Refuse what only a server can do that keeps a lock when its holder has hung up."""
        if self.target.protocol == DFLOCK:
            raise BadRequest(f"{self.target.scheme}:// cannot do this: {what}; use holdfast://")

    # --- the end ---

    def retire(self) -> None:
        """Take no more requests, and begin to give back what is held: that goes on, whoever waits for it."""
        if self._closed:
            return
        if self._generation != generation():
            self._closed = True
            return
        with self.host.keeper():
            self._closed = True
            self._countdown.expect(self.steward.retire(self._countdown.one))

    def close(self, until: int) -> None:
        """Wait until what was held is given back, but no longer than until an instant; the keeper does what is left."""
        if self._generation != generation() or self._connection_closed:
            return
        try:
            done = self._countdown.wait(self.world, until)
            connection = self._connection
            stays = bool(self.steward.kept) or self.clock() < self._stays_until
            if done and not stays and connection is not None and not connection.is_over:
                connection.ask(Query("bye"), until)
        except HoldfastError as error:
            logger.debug("%s was gone before it was said goodbye to: %s", self.target.address, error)
        finally:
            self.abort()

    def abort(self) -> None:
        """Let go of the connections, whoever still waits for an answer."""
        if self._generation != generation() or self._connection_closed:
            return
        self._connection_closed = True
        with self.host.keeper() as keeper:
            keeper.remove(self.steward)
        if self._connection is not None:
            self._connection.close()


def _ignore(call: "Call") -> None:
    """Whatever is said: it was only to be heard."""
