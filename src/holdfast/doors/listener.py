"""Listening sockets: accept, count, and hand over to a protocol. Limits are spent here, before a peer costs anything.

No protocol is known here; the same listener serves every door that speaks over a stream.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from holdfast.observe.logs import get_logger

BACKLOG: Final = 1024
ACCEPTS_PER_WAKE: Final = 64
BACK_OFF_LEAST_S: Final = 0.005
BACK_OFF_MOST_S: Final = 1.0
# A peer that vanished without a word is found after about a minute and a half.
KEEPALIVE_IDLE_S: Final = 45
KEEPALIVE_INTERVAL_S: Final = 15
KEEPALIVE_PROBES: Final = 3

# Shortages that pass, and what Linux reports here although it happened to the peer that was next in line (accept(2));
# anything else is a broken socket.
PASSING: Final = (
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOBUFS,
    errno.ENOMEM,
    errno.ECONNABORTED,
    errno.EPERM,
    errno.EPROTO,
    errno.ENOPROTOOPT,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENONET,
)

Left = Callable[[], None]

log = get_logger(part="listener")


class Gate:
    """Counts who is inside, in all and by address. 0 is no limit."""

    def __init__(self, connections_max: int, connections_per_address_max: int) -> None:
        self.connections_max = connections_max
        self.connections_per_address_max = connections_per_address_max
        self.inside = 0
        self.refused = 0
        self._by_address: dict[str, int] = {}

    def enter(self, address: str) -> bool:
        here = self._by_address.get(address, 0)
        full = self.connections_max and self.inside >= self.connections_max
        crowded = self.connections_per_address_max and here >= self.connections_per_address_max
        if full or crowded:
            self.refused += 1
            return False
        self.inside += 1
        self._by_address[address] = here + 1
        return True

    def leave(self, address: str) -> None:
        self.inside -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def bind(host: str, port: int) -> list[socket.socket]:
    """Open a listening socket on every address that the host name stands for; raises OSError."""
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
        )
        for family, kind, proto, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, proto)
            sockets.append(sock)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen(BACKLOG)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


class Listener:
    """Accepts on one socket until it is closed."""

    def __init__(
        self,
        sock: socket.socket,
        connect: Callable[[Left], Any],  # a protocol by its methods; compiled ones do not descend from asyncio's
        gate: Gate,
        *,
        tls: ssl.SSLContext | None,
        handshake_timeout_s: float,
        broken: Callable[[OSError], None],
    ) -> None:
        self._sock = sock
        host, port = sock.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._connect = connect
        self._gate = gate
        self._tls = tls
        self._handshake_timeout_s = handshake_timeout_s
        self._broken = broken
        self._back_off_s = 0.0
        self._resume: asyncio.TimerHandle | None = None
        self._arrivals: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._accept)

    def close(self) -> None:
        """Take nobody in any more; those inside stay."""
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_WAKE):
            try:
                peer, address = self._sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._accept_failed(error)
                return
            self._back_off_s = 0.0
            self._admit(peer, str(address[0]))

    def _accept_failed(self, error: OSError) -> None:
        if error.errno not in PASSING:
            self._loop.remove_reader(self._sock.fileno())
            self._broken(error)
            return
        self._back_off_s = min(max(self._back_off_s * 2, BACK_OFF_LEAST_S), BACK_OFF_MOST_S)
        log.warning("cannot accept", error=str(error), retry_in_s=self._back_off_s)
        self._loop.remove_reader(self._sock.fileno())
        self._resume = self._loop.call_later(self._back_off_s, self._watch_again)

    def _watch_again(self) -> None:
        self._resume = None
        self._loop.add_reader(self._sock.fileno(), self._accept)

    def _admit(self, peer: socket.socket, address: str) -> None:
        if not self._gate.enter(address):
            peer.close()  # silently, as the original does: a client that is told would only try again sooner
            return
        peer.setblocking(False)
        task = self._loop.create_task(self._welcome(peer, address))
        self._arrivals.add(task)
        task.add_done_callback(self._arrivals.discard)

    async def _welcome(self, peer: socket.socket, address: str) -> None:
        left = False

        def leave() -> None:
            nonlocal left
            if not left:
                left = True
                self._gate.leave(address)

        try:
            keep_alive(peer)
            await self._loop.connect_accepted_socket(
                lambda: self._connect(leave),
                peer,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_timeout_s if self._tls else None,
            )
        except (OSError, TimeoutError, ssl.SSLError) as error:
            log.debug("no connection", peer=address, error=str(error))
            peer.close()
            leave()


def keep_alive(sock: socket.socket) -> None:
    """Let the kernel find peers that are gone, and send small answers at once."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
