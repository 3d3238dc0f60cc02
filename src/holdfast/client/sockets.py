"""The keeper's sockets: never blocking, TLS included, all of them served by one thread with a selector.

Names are looked up in short-lived threads, because that blocks. What the bytes mean is the links' business.
"""

import queue
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from holdfast.client.network import READ_BYTES, tune, wrap
from holdfast.client.ports import Address, Receiver

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE


class SocketPipe:
    """One connection. All but `write` and `close` is called by the thread of its sockets alone."""

    def __init__(self, sockets: "Sockets", address: Address, receiver: Receiver) -> None:
        self._sockets = sockets
        self._address = address
        self._receiver = receiver
        self._out = bytearray()
        self._sock: Any = None  # a socket, or one wrapped in TLS
        self._step: Callable[[int], None] = self._idle
        self._interest = 0
        self._places: list[Any] = []  # where the name leads that have not been tried
        self.closed = False

    def write(self, data: bytes) -> None:
        self._out += data
        self._sockets.dirty(self)

    def close(self) -> None:
        self.closed = True
        self._sockets.dirty(self)

    # --- in the thread ---

    def begin(self) -> None:
        """Find out where the name leads."""
        try:
            places = socket.getaddrinfo(
                self._address.host, self._address.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except socket.gaierror:
            threading.Thread(target=self._look_up, name="holdfast-lookup", daemon=True).start()
        else:
            self._found(places, "", 0)

    def _look_up(self) -> None:
        places: list[Any] = []
        why = ""
        try:
            places = socket.getaddrinfo(self._address.host, self._address.port, type=socket.SOCK_STREAM)
        except OSError as error:
            why = str(error)
        self._sockets.later(lambda now: self._found(places, why, now))

    def _found(self, places: list[Any], why: str, now: int) -> None:
        self._places = places
        self._connect(now, why or "the name leads nowhere")

    def _connect(self, now: int, why: str) -> None:
        """Try the next place there is."""
        while self._places and not self.closed:
            family, kind, protocol, _, place = self._places.pop(0)
            self._sock = socket.socket(family, kind, protocol)
            self._sock.setblocking(False)
            try:
                self._sock.connect(place)
            except BlockingIOError:
                pass
            except OSError as error:
                why = str(error)
                self._drop()
                continue
            self._step = self._finish_connect
            self._want(WRITE)
            return
        if not self.closed:
            self._broken(f"cannot connect to {self._address}: {why}", now)

    def _finish_connect(self, now: int) -> None:
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._drop()
            self._connect(now, OSError(code, "").strerror or f"error {code}")
            return
        tune(self._sock)
        if self._address.tls is None:
            self._open(now)
            return
        plain = self._sock
        self._want(0)
        self._sock = wrap(plain, self._address, blocking=False)
        self._step = self._shake_hands
        self._shake_hands(now)

    def _shake_hands(self, now: int) -> None:
        if self._try(self._sock.do_handshake, now) is not None:
            self._open(now)

    def _open(self, now: int) -> None:
        self._step = self._serve
        self._want(READ)
        self._receiver.connected(now)
        self.flush(now)

    def _serve(self, now: int) -> None:
        # Under TLS, what was read may hold more than one record, of which the selector knows nothing.
        while not self.closed:
            data = self._try(lambda: self._sock.recv(READ_BYTES), now)
            if data is None:
                break
            if not data:
                self._broken("the server closed the connection", now)
                return
            self._receiver.received(data, now)
            if len(data) < READ_BYTES and self._address.tls is None:
                break
        self.flush(now)

    def flush(self, now: int) -> None:
        """Send what there is to send, as far as it goes."""
        if self._step != self._serve or self.closed:
            return
        while self._out:
            sent = self._try(lambda: self._sock.send(self._out), now, wants=READ)
            if sent is None:
                return
            del self._out[:sent]
        if not self.closed:
            self._want(READ)

    def _try(self, work: Callable[[], Any], now: int, wants: int = 0) -> Any:
        """Do something with the socket; None if it has to wait, or is over."""
        import ssl

        try:
            done = work()
        except (BlockingIOError, ssl.SSLWantWriteError):
            self._want(WRITE | READ if wants else self._interest or READ)
        except ssl.SSLWantReadError:
            self._want(READ)
        except OSError as error:
            self._broken(str(error) or type(error).__name__, now)
        else:
            return True if done is None else done
        return None

    def on_event(self, now: int) -> None:
        if not self.closed:
            self._step(now)

    def shut(self) -> None:
        """Let go of the socket."""
        self.closed = True
        self._drop()

    # --- inside ---

    def _idle(self, now: int) -> None:
        """Nothing has been connected yet."""

    def _want(self, interest: int) -> None:
        if interest != self._interest:
            self._sockets.watch(self._sock, self, interest)
            self._interest = interest

    def _drop(self) -> None:
        if self._sock is not None:
            if self._interest:
                self._sockets.watch(self._sock, self, 0)
                self._interest = 0
            self._sock.close()
            self._sock = None

    def _broken(self, why: str, now: int) -> None:
        if not self.closed:
            self.shut()
            self._receiver.broken(why, now)


class Sockets:
    """The selector, and a way to wake whoever waits in it."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._near, self._far = socket.socketpair()
        for end in (self._near, self._far):
            end.setblocking(False)
        self._selector.register(self._near, READ)
        self._dirty: list[SocketPipe] = []
        self._fresh: list[SocketPipe] = []
        self._later: queue.SimpleQueue[Callable[[int], None]] = queue.SimpleQueue()

    # --- from any thread that has the keeper ---

    def open(self, address: Address, receiver: Receiver) -> SocketPipe:
        """Begin a connection; the thread goes on with it."""
        pipe = SocketPipe(self, address, receiver)
        self._fresh.append(pipe)
        return pipe

    def dirty(self, pipe: SocketPipe) -> None:
        """A connection has something to send, or is to be closed."""
        self._dirty.append(pipe)

    @property
    def busy(self) -> bool:
        """Tell whether the thread has something to do right now."""
        return bool(self._dirty or self._fresh)

    # --- from any thread ---

    def later(self, work: Callable[[int], None]) -> None:
        """Have something done in the thread."""
        self._later.put(work)
        self.wake()

    def wake(self) -> None:
        """Let the thread come back from waiting."""
        with suppress(BlockingIOError):  # it has not come back from the last thousands of calls; it will
            self._far.send(b".")

    # --- from the thread of its own ---

    def wait(self, timeout_s: float | None) -> list[SocketPipe]:
        """Wait for the network, without the keeper; answer which connections have something to do."""
        ready = []
        for key, _ in self._selector.select(timeout_s):
            if key.data is not None:
                ready.append(key.data)
            else:
                self._near.recv(READ_BYTES)
        return ready

    def serve(self, ready: list[SocketPipe], now: int) -> None:
        """Let connections get on, with the keeper in hand."""
        while not self._later.empty():
            self._later.get()(now)
        for pipe in ready:
            pipe.on_event(now)
        self.settle(now)

    def settle(self, now: int) -> None:
        """Send and close what is to be, until there is nothing more."""
        while self.busy:
            fresh, self._fresh = self._fresh, []
            dirty, self._dirty = self._dirty, []
            for pipe in fresh:
                if not pipe.closed:
                    pipe.begin()
            for pipe in dirty:
                if pipe.closed:
                    pipe.shut()
                else:
                    pipe.flush(now)

    def watch(self, sock: socket.socket, pipe: SocketPipe, interest: int) -> None:
        """Change what is waited for on a socket."""
        if sock in self._selector.get_map():
            if interest:
                self._selector.modify(sock, interest, pipe)
            else:
                self._selector.unregister(sock)
        elif interest:
            self._selector.register(sock, interest, pipe)

    def close(self) -> None:
        """Let go of everything; the sockets themselves are those of the parent, if this is the child of a fork."""
        self._selector.close()
        self._near.close()
        self._far.close()
