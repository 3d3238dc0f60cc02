"""One native connection in an event loop: many requests in flight, each a future that its answer fulfils.

Written by hand; `sync/connection.py` does the same for threads. When to ask again is not decided here.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from holdfast.client.asks import Answer, Ask, Query
from holdfast.client.ports import Address, Network
from holdfast.errors import HoldfastError, Unavailable, Unknown

if TYPE_CHECKING:
    from holdfast.client.dialects.native import NativeCodec

SECOND: Final = 1_000_000_000
# When somebody waits and nothing has come for so long, the server is asked whether it is there.
SILENCE_NS_MAX: Final = 10 * SECOND


class Connection(asyncio.Protocol):
    """A connection that has been greeted, or is about to be."""

    def __init__(self, codec: "NativeCodec", clock: Callable[[], int], timeout_ns: int) -> None:
        self._codec = codec
        self._clock = clock
        self._timeout_ns = timeout_ns
        self._loop = asyncio.get_running_loop()
        self._greeted: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._heard_at = clock()
        self._watching: asyncio.TimerHandle | None = None
        self._deadlines: dict[asyncio.Future[Answer], int] = {}
        self.is_over = False

    async def ask(self, ask: Ask, until: int | None) -> Answer:
        """Ask, and wait for the answer; one that is overdue at `until` ends the connection."""
        if self.is_over or self._transport is None:
            raise Unavailable("the connection is over")
        if not self._codec.has_room():
            raise Unavailable("as many requests wait on this connection as the server lets")
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._transport.write(self._codec.write(ask, future))
        if until is not None:
            self._deadlines[future] = until
        if self._watching is None:
            self._heard_at = self._clock()
            self._watch()
        try:
            return await future
        finally:
            self._deadlines.pop(future, None)

    def post(self, ask: Ask) -> bool:
        """Ask behind everything that was asked before, and care for no answer; say whether it could be asked."""
        if self.is_over or self._transport is None or not self._codec.has_room():
            return False
        future = self._loop.create_future()
        future.cancel()
        self._transport.write(self._codec.write(ask, future))
        return True

    def close(self) -> None:
        """Let go of it; whoever waits hears that the answer is unknown."""
        self._end(Unknown("the connection was closed here"))

    # --- time ---

    def _watch(self) -> None:
        """Come back when an answer is overdue, or when it has been silent for long; not if nobody waits."""
        self._watching = None
        waiting = [future for future in self._codec.waiting if not future.done()]
        if not waiting or self.is_over:
            return
        now = self._clock()
        overdue = min(self._deadlines.get(future, self._heard_at + (1 << 62)) for future in waiting)
        if overdue <= now:
            self._end(Unknown("the server did not answer in time"))
            return
        if now - self._heard_at >= SILENCE_NS_MAX:
            if not any(isinstance(ask, Query) and ask.op == "ping" for ask in self._codec.asked):
                ping: asyncio.Future[Answer] = self._loop.create_future()
                self._deadlines[ping] = now + self._timeout_ns
                ping.add_done_callback(self._forget)
                assert self._transport is not None
                self._transport.write(self._codec.write(Query("ping"), ping))
            again = now + SECOND
        else:
            again = self._heard_at + SILENCE_NS_MAX
        self._watching = self._loop.call_later(max(0.0, (min(overdue, again) - now) / SECOND), self._watch)

    def _forget(self, ping: "asyncio.Future[Answer]") -> None:
        self._deadlines.pop(ping, None)
        if not ping.cancelled():
            ping.exception()

    # --- from the loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is none by descent
        transport.write(self._codec.greeting())

    def data_received(self, data: bytes) -> None:
        if self.is_over:
            return
        self._heard_at = self._clock()
        try:
            answers = self._codec.read(data)
        except HoldfastError as error:
            self._end(error)
            return
        if self._codec.ready and not self._greeted.done():
            self._greeted.set_result(None)
        for future, answer in answers:
            if not future.done():
                future.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(Unknown(str(exc) if exc is not None else "the server closed the connection"))

    def _end(self, error: HoldfastError) -> None:
        if self.is_over:
            return
        self.is_over = True
        if self._watching is not None:
            self._watching.cancel()
        if self._transport is not None:
            self._transport.abort()
        for future in [*self._codec.waiting, self._greeted]:
            if not future.done():
                future.set_exception(error)
        # Nobody may be waiting to be greeted any more.
        if not self._greeted.cancelled():
            self._greeted.exception()

    async def greeted(self) -> None:
        """Wait until the server has answered the greeting."""
        await self._greeted


async def connect(
    network: Network,
    address: Address,
    codec: "NativeCodec",
    clock: Callable[[], int],
    timeout_ns: int,
    *,
    lock: object = None,  # for threads; here nobody blocks
) -> Connection:
    """Connect and greet. Raises Unavailable where nobody answers, and what the server says where it refuses."""
    connection = Connection(codec, clock, timeout_ns)
    until = clock() + timeout_ns
    try:
        await network.connect(address, connection, until)
        async with asyncio.timeout(max(0.0, (until - clock()) / SECOND)):
            await connection.greeted()
    except OSError as error:
        connection.close()
        raise Unavailable(f"cannot connect to {address}: {error or type(error).__name__}") from error
    except Unknown as error:
        raise Unavailable(f"{address} closed the connection instead of answering hello") from error
    except BaseException:
        connection.close()
        raise
    return connection
