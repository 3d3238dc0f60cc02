"""Real sockets: connections that block their caller, and those of an event loop. The keeper's are in `sockets.py`.

What is sent over them is not known here. A child of a fork gets none of its parent's connections.
"""

import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.client.clock import now_ns
from holdfast.client.ports import Address, Stream
from holdfast.client.process import on_fork

if TYPE_CHECKING:
    import asyncio
    import ssl

SECOND: Final = 1_000_000_000
READ_BYTES: Final = 65_536
# A blocking read comes back after so long at the latest; a shorter one costs one more call of the system.
STANDING_TIMEOUT_S: Final = 5
CONNECT_S_MAX: Final = 10.0
# The longest that is waited for in one piece.
WAIT_S_MAX: Final = 3600.0
# A peer that is gone without a word is found out by the system after about half a minute.
KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))

T = TypeVar("T")

_ours: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()
_transports: "weakref.WeakSet[asyncio.Transport]" = weakref.WeakSet()  # event loops lend nobody their sockets


def tune(sock: socket.socket) -> None:
    """Send at once what is written, and find out about a peer that is gone."""
    _set_options(sock)
    _ours.add(sock)


def _set_options(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def wrap(sock: socket.socket, address: Address, *, blocking: bool = True) -> "ssl.SSLSocket":
    """Put TLS over a connection; one that does not block shakes hands later."""
    assert address.tls is not None
    wrapped = address.tls.wrap_socket(sock, server_hostname=address.host, do_handshake_on_connect=blocking)
    _ours.add(wrapped)
    return wrapped


def _let_go() -> None:
    """Leave the parent its connections: here their numbers lead nowhere, so that the server sees when it hangs up."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    sockets = [*_ours, *(transport.get_extra_info("socket") for transport in _transports)]
    for sock in sockets:
        if sock is not None and sock.fileno() >= 0:
            os.dup2(nowhere, sock.fileno(), inheritable=False)
    os.close(nowhere)
    _ours.clear()
    _transports.clear()


on_fork(_let_go)


class SocketStream:
    """A connection in the clear. Its time limit is the kernel's, which saves a call of the system on each read."""

    def __init__(self, sock: socket.socket, clock: Callable[[], int]) -> None:
        self._sock = sock
        self._clock = clock
        self._timeout_ns = 0
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(SECOND * STANDING_TIMEOUT_S))
        self._limit(SECOND * STANDING_TIMEOUT_S)
        self._receive = sock.recv
        self.send: Callable[[bytes], None] = sock.sendall

    def _limit(self, timeout_ns: int) -> None:
        self._timeout_ns = timeout_ns
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(timeout_ns))

    def receive(self, until: int) -> bytes:
        left = until - self._clock()
        if left < self._timeout_ns or self._timeout_ns < SECOND * STANDING_TIMEOUT_S:
            if left <= 0:
                raise TimeoutError("no answer in time")
            self._limit(min(left, SECOND * STANDING_TIMEOUT_S))
        while True:
            try:
                return self._receive(READ_BYTES)
            except BlockingIOError:
                left = until - self._clock()
                if left <= 0:
                    raise TimeoutError("no answer in time") from None
                self._limit(min(left, SECOND * STANDING_TIMEOUT_S))

    def close(self) -> None:
        _close(self._sock)


class TlsStream:
    """A connection under TLS. One thread may read while another writes, so whoever waits does so outside of TLS:
    that has one state for both ways, and lets only one thread in at a time."""

    def __init__(self, sock: "ssl.SSLSocket", clock: Callable[[], int]) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._clock = clock
        self._inside = threading.Lock()

    def send(self, data: bytes) -> None:
        until = self._clock() + STANDING_TIMEOUT_S * SECOND
        sent = 0
        while sent < len(data):
            rest = memoryview(data)[sent:]
            sent += self._do(partial(self._sock.send, rest), until)

    def receive(self, until: int) -> bytes:
        return self._do(partial(self._sock.recv, READ_BYTES), until)

    def _do(self, work: Callable[[], T], until: int) -> T:
        """Try, and wait for the network, until it is done."""
        import ssl

        while (left := until - self._clock()) > 0:
            try:
                with self._inside:
                    return work()
            except ssl.SSLWantReadError:
                wants = select.POLLIN
            except ssl.SSLWantWriteError:
                wants = select.POLLOUT
            self._wait(wants, left)
        raise TimeoutError("no answer in time")

    def _wait(self, wants: int, left: int) -> None:
        number = self._sock.fileno()
        if number < 0:
            raise OSError("the connection was closed here")
        poll = select.poll()
        poll.register(number, wants)
        poll.poll(min(left / SECOND, WAIT_S_MAX) * 1000)

    def close(self) -> None:
        _close(self._sock)


def _connected(sock: socket.socket, place: Any, limit_s: float) -> socket.socket:
    try:
        tune(sock)  # before it leads anywhere: a fork may come at any time
        sock.settimeout(limit_s)
        sock.connect(place)
    except BaseException:
        sock.close()
        raise
    return sock


def _close(sock: socket.socket) -> None:
    with suppress(OSError):  # it was never connected, or is over already
        # Wakes a thread that reads. TLS has a method of this name, behind which bytes would be read as they are.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    sock.close()


class SocketNetwork:
    """Makes connections over the network of this machine."""

    def __init__(self, clock: Callable[[], int] = now_ns) -> None:
        self._clock = clock

    def dial(self, address: Address, until: int) -> Stream:
        until = min(until, self._clock() + int(CONNECT_S_MAX * SECOND))
        sock = self._reach(address, until)
        try:
            if address.tls is None:
                return SocketStream(sock, self._clock)
            sock.settimeout(self._left_s(until))
            return TlsStream(wrap(sock, address), self._clock)
        except BaseException:
            sock.close()
            raise

    def _reach(self, address: Address, until: int) -> socket.socket:
        """Try the places that a name leads to, one after the other; each may take its share of the time."""
        places = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        why = OSError("the name leads nowhere")
        for number, (family, kind, protocol, _, place) in enumerate(places):
            limit_s = self._left_s(until) / (len(places) - number)
            try:
                return _connected(socket.socket(family, kind, protocol), place, limit_s)
            except OSError as error:
                why = error
        raise why

    def _left_s(self, until: int) -> float:
        left = until - self._clock()
        if left <= 0:
            raise TimeoutError("no time left to connect")
        return left / SECOND

    async def connect(self, address: Address, protocol: "asyncio.Protocol", until: int) -> "asyncio.Transport":
        import asyncio

        loop = asyncio.get_running_loop()
        async with asyncio.timeout(max(0.0, min((until - self._clock()) / SECOND, CONNECT_S_MAX))):
            transport, _ = await loop.create_connection(
                lambda: protocol,
                address.host,
                address.port,
                ssl=address.tls,
                server_hostname=address.host if address.tls else None,
            )
        sock = transport.get_extra_info("socket")
        if sock is not None:
            _set_options(sock)
            _transports.add(transport)
        return transport


def _timeval(timeout_ns: int) -> bytes:
    import struct

    microseconds = max(1, timeout_ns // 1000)  # 0 would be for ever
    return struct.pack("@ll", microseconds // 1_000_000, microseconds % 1_000_000)


def sleep_until(instant: int) -> None:
    """Block the thread until an instant of the clock."""
    while (left := instant - now_ns()) > 0:
        time.sleep(min(left / SECOND, WAIT_S_MAX))
