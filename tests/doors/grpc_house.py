"""A gRPC door with everything behind it, in an event loop of a thread of its own; callers are real, and so is time.

No expectation lives here.
"""

import asyncio
import secrets
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

import grpc

from holdfast.desk import Desk
from holdfast.doors.asker import Asker
from holdfast.doors.grpc import GrpcDoor, GrpcSettings
from holdfast.doors.grpc_leases import LeasesApi
from holdfast.doors.rights import Rights
from holdfast.stores.memory import MemoryStore
from holdfast.system import SystemClock
from holdfast.wire.grpc_leases import METHODS, SERVICE
from holdfast.wire.protobuf import Message, decode, encode
from holdfast.words import SECOND
from tests.office import Caller

T = TypeVar("T")

WAIT_S_MAX = 20


def next_of_key(last: int) -> tuple[int, bytes]:
    """Mint fences that are dense for each key, as a file has them."""
    return last + 1, b"%016x" % (last + 1) + secrets.token_hex(16).encode()


class GrpcHouse:
    """The door, its desk and its store, in which nothing is held."""

    def __init__(self, *, rights: Rights | None = None, calls_max: int | None = None, **broken: Any) -> None:
        self.bugs: list[BaseException] = []
        self.clock = SystemClock().now
        self._timer: asyncio.TimerHandle | None = None
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="door of a test")
        self._rights = rights
        self._calls_max = calls_max
        self._broken = broken
        self._channels: list[Any] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self.door = self.do(self._open())
        return self

    def __exit__(self, *_exc: object) -> None:
        for channel in self._channels:
            channel.close()
        self.do(self._close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something where the door is, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S_MAX)

    async def _open(self) -> GrpcDoor:
        self.memory = MemoryStore(next_of_key, self._alarm, keys_max=10_000, waiters_max=0, idle_max_ns=60 * SECOND)
        self.desk = Desk(self.memory, release_on_disconnect=True)
        self.memory.sink = self.desk
        api = LeasesApi(self.desk, Asker(self.desk, self.clock, resident=True), self.clock, rights=self._rights)
        api.calls.update(self._broken)
        door = GrpcDoor(api, GrpcSettings("127.0.0.1:0", self._calls_max), self.bugs.append)
        await door.start()
        return door

    async def _close(self) -> None:
        self.desk.drain(self.clock())
        await self.door.stop(WAIT_S_MAX)
        if self._timer is not None:
            self._timer.cancel()

    def _alarm(self, when: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(max(when - self.clock(), 0) / SECOND + 0.001, self._tick)

    def _tick(self) -> None:
        self.memory.tick(self.clock())
        self._alarm(min(self.memory.next_deadline(), self.clock() + 60 * SECOND))

    # --- callers ---

    @property
    def url(self) -> str:
        return f"grpc://{self.door.address}"

    def channel(self) -> Any:
        """Open a channel, which is closed with the door."""
        channel = grpc.insecure_channel(self.door.address, options=(("grpc.use_local_subchannel_pool", 1),))
        self._channels.append(channel)
        return channel

    def ask(self, name: str, request: Message, service: str = SERVICE, **more: Any) -> Any:
        """Call, and read the answer."""
        return call(self.channel(), name, request, service, **more)

    def line_caller(self) -> Caller:
        """Come in through another door, which gives the same desk its own claims."""
        return Caller(Elsewhere(self))  # type: ignore[arg-type]  # it looks like an office


class Elsewhere:
    """What a caller of another door sees of the house."""

    def __init__(self, house: GrpcHouse) -> None:
        self.desk = house.desk
        self._house = house

    @property
    def clock(self) -> Any:
        return self

    @property
    def now(self) -> int:
        return self._house.clock()


def call(channel: Any, name: str, request: Message, service: str = SERVICE, **more: Any) -> Any:
    """Call through a channel, and read the answer."""
    answer = channel.unary_unary(f"/{service}/{name}")(encode(request), timeout=WAIT_S_MAX, **more)
    return decode(METHODS[name].reply, answer)
