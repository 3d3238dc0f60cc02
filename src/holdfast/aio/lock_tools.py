"""What the lock client needs of asyncio: a connection, an event and a worker. Its twin for threads has the same names.

Written by hand, and all that differs between the faces of that client; nothing of HTTP or of locks lives here.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

from holdfast.client.clock import now_ns
from holdfast.client.ports import Address

SECOND = 1_000_000_000
# What may lie unread; the answers that we ask for are far shorter.
UNREAD_BYTES_MAX = 262_144


class _Protocol(asyncio.Protocol):
    """Keeps what arrives until it is taken."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.over = False
        self.error: Exception | None = None
        self.news = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.news.set()
        if len(self.data) > UNREAD_BYTES_MAX and self.transport is not None:
            self.transport.pause_reading()

    def eof_received(self) -> None:
        self.over = True
        self.news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.over = True
        self.error = exc
        self.news.set()
        self.writable.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()


class Wire:
    """A connection. Trouble is an OSError, and a TimeoutError when an instant of the clock has passed."""

    def __init__(self, protocol: _Protocol, transport: asyncio.Transport) -> None:
        self._protocol = protocol
        self._transport = transport
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes, until: int) -> None:
        if self._protocol.over:
            raise ConnectionResetError("the connection is closed")
        self._transport.write(data)
        async with asyncio.timeout(_left(until)):
            await self._protocol.writable.wait()

    async def receive(self, until: int) -> bytes:
        """Wait for bytes; none means that the other side has closed."""
        protocol = self._protocol
        if not protocol.data and not protocol.over:
            protocol.news.clear()
            async with asyncio.timeout(_left(until)):
                await protocol.news.wait()
        if protocol.data:
            data = bytes(protocol.data)
            protocol.data.clear()
            if not protocol.over:
                self._transport.resume_reading()
            return data
        if protocol.error is not None:
            raise ConnectionResetError(str(protocol.error)) from protocol.error
        return b""

    @property
    def quiet(self) -> bool:
        """Tell whether nothing has come that nobody asked for, not even an end; and whether this loop can use it."""
        ours = self._loop is asyncio.get_running_loop()
        return ours and not self._protocol.data and not self._protocol.over

    def close(self) -> None:
        """Let go of it; the loop that it belongs to may be another one, or over."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._transport.abort)

    def forsake(self) -> None:
        """Let go of what belongs to the process that this one was forked from; its loop is not ours to use."""


async def dial(address: Address, until: int) -> Wire:
    """Connect, TLS and all. Raises OSError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_left(until)):
        transport, protocol = await loop.create_connection(
            _Protocol,
            address.host,
            address.port,
            ssl=address.tls,
            server_hostname=address.host if address.tls is not None else None,
        )
    return Wire(protocol, transport)


# What `dial` may raise beside OSError: certificates and names that cannot be.
DIAL_ERRORS = (OSError, ssl.CertificateError, UnicodeError)


class Event:
    """Something that happens once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until it happens, or for so many seconds; tell whether it has happened."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        return self._event.is_set()


class Worker:
    """A task of its own."""

    def __init__(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        self._task = asyncio.create_task(_run(work), name=name)

    async def join(self, seconds: float) -> None:
        """Wait for its end, and end it if that takes too long."""
        if self._task is asyncio.current_task():
            return
        _, pending = await asyncio.wait([self._task], timeout=seconds)
        for task in pending:
            task.cancel()


async def sleep_until(instant: int) -> None:
    await asyncio.sleep(_left(instant))


async def _run(work: Callable[[], Awaitable[None]]) -> None:
    await work()


def _left(until: int) -> float:
    return max(0.0, (until - now_ns()) / SECOND)
