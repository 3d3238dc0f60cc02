"""What the lock client needs of threads and sockets: a connection, an event and a worker. Its twin is for asyncio.

Written by hand, and all that differs between the faces of that client; nothing of HTTP or of locks lives here.
"""

import ipaddress
import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast.client.clock import now_ns
from holdfast.client.ports import Address

SECOND = 1_000_000_000
_RECEIVE_BYTES = 65_536
# What a socket is given to end something at once whose time is over: zero would mean not to wait at all.
_MOMENT_S = 0.000_001

Event = threading.Event


class Wire:
    """A connection. Trouble is an OSError, and a TimeoutError when an instant of the clock has passed."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def send(self, data: bytes, until: int) -> None:
        self._socket.settimeout(_left(until))
        self._socket.sendall(data)

    def receive(self, until: int) -> bytes:
        """Wait for bytes; none means that the other side has closed."""
        self._socket.settimeout(_left(until))
        return self._socket.recv(_RECEIVE_BYTES)

    @property
    def quiet(self) -> bool:
        """Tell whether nothing has come that nobody asked for, not even an end."""
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
        except ValueError:  # it is closed
            return False
        return not poll.poll(0)

    def close(self) -> None:
        """Let go of it, also from another thread: whoever waits for it learns so at once."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def forsake(self) -> None:
        """Let go of what belongs to the process that this one was forked from, and still goes on there."""
        self._socket.close()


def dial(address: Address, until: int) -> Wire:
    """Connect, TLS and all. Raises OSError."""
    error: OSError = OSError(f"{address.host} has no address")
    for family, kind, protocol, _, place in _resolve(address.host, address.port, until):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left(until))
            sock.connect(place)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.tls is not None:
                sock = address.tls.wrap_socket(sock, server_hostname=address.host)
        except OSError as reason:
            sock.close()
            error = reason
            if now_ns() >= until:
                break
        except BaseException:
            sock.close()
            raise
        else:
            return Wire(sock)
    raise error


# What `dial` may raise beside OSError: certificates and names that cannot be.
DIAL_ERRORS = (OSError, ssl.CertificateError, UnicodeError)


class Worker:
    """A thread of its own, which does not keep the program from ending."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._thread = threading.Thread(target=work, name=name, daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait for its end, but not for longer than that."""
        if self._thread is not threading.current_thread():
            self._thread.join(seconds)


def sleep_until(instant: int) -> None:
    threading.Event().wait(_left(instant))


def _resolve(host: str, port: int, until: int) -> list[Any]:
    """Look a name up. The system's call knows no time limit, so that it is left alone on a thread when time is up."""
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    found: list[Any] = []
    failures: list[OSError | UnicodeError] = []

    def look() -> None:
        try:
            found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            failures.append(error)

    thread = threading.Thread(target=look, name="holdfast-resolve", daemon=True)
    thread.start()
    thread.join(_left(until))
    if thread.is_alive():
        raise TimeoutError(f"the address of {host} could not be found in time")
    if failures:
        raise failures[0]
    return found


def _left(until: int) -> float:
    return max(_MOMENT_S, (until - now_ns()) / SECOND)
