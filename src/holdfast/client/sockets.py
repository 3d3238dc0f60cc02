"""The keeper's sockets: never blocking, TLS included, all of them served by one thread with a selector.

Names are looked up in short-lived threads, because that blocks. What the bytes mean is the links' business.
"""

import os
import queue
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from holdfast.client.network import READ_BYTES, tune, wrap
from holdfast.client.ports import Address, Receiver

# A connection that always has more to read leaves its turn to the others after so much.
READS_MAX: Final = 16
SHUNNED_MAX: Final = 100
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
        self._place: Any = None  # the one that was tried last
        self.closed = False

    def write(self, data: bytes) -> None:
        self._out += data
        self._sockets.dirty(self)

    def close(self) -> None:
        self.closed = True
        self._sockets.dirty(self)

    # --- in the thread ---

    def begin(self, now: int) -> None:
        """Find out where the name leads."""
        host, port = self._address.host, self._address.port
        try:
            places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (socket.gaierror, UnicodeError):
            try:
                threading.Thread(target=self._look_up, name="holdfast-lookup", daemon=True).start()
            except RuntimeError:  # the process is about to end, and nobody minds any more if this thread blocks
                self._look_up()
        else:
            self._found(places, "", now)

    def _look_up(self) -> None:
        places: list[Any] = []
        why = ""
        try:
            places = socket.getaddrinfo(self._address.host, self._address.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # the second where it is no name at all
            why = str(error)
        self._sockets.later(lambda now: self._found(places, why, now))

    def _found(self, places: list[Any], why: str, now: int) -> None:
        self._places = self._sockets.sorted(places)
        self._connect(now, why or "the name leads nowhere")

    def _connect(self, now: int, why: str) -> None:
        """Try the next place there is."""
        while self._places and not self.closed:
            family, kind, protocol, _, place = self._places.pop(0)
            self._place = place
            try:
                self._sock = socket.socket(family, kind, protocol)
                self._sock.setblocking(False)
                self._step = self._finish_connect
                self._want(WRITE)
                self._sock.connect(place)
            except BlockingIOError:
                return
            except OSError as error:
                why = str(error)
                self._drop()
                continue
            return
        if not self.closed:
            self._broken(f"cannot connect to {self._address}: {why}", now)

    def _finish_connect(self, now: int) -> None:
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._drop()
            self._connect(now, os.strerror(code))
            return
        self._sockets.trust(self._place)
        if self._try(self._tune, now) is None:
            return
        if self._address.tls is None:
            self._open(now)
            return
        self._step = self._shake_hands
        self._shake_hands(now)

    def _tune(self) -> None:
        tune(self._sock)
        if self._address.tls is not None:
            self._want(0)
            self._sock = wrap(self._sock, self._address, blocking=False)

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
        for _ in range(READS_MAX):
            if self.closed:
                break
            data = self._try(lambda: self._sock.recv(READ_BYTES), now)
            if data is None:
                break
            if not data:
                self._broken("the server closed the connection", now)
                return
            self._receiver.received(data, now)
            if len(data) < READ_BYTES and self._address.tls is None:
                break
        else:
            self._sockets.again(self)
        self.flush(now)

    def flush(self, now: int) -> None:
        """Send what there is to send, as far as it goes."""
        if self._step != self._serve or self.closed:
            return
        while self._out:
            sent = self._try(lambda: self._sock.send(self._out), now, wants=WRITE)
            if sent is None:
                return
            del self._out[:sent]
        if not self.closed:
            self._want(READ)

    def _try(self, work: Callable[[], Any], now: int, wants: int = READ) -> Any:
        """Do something with the socket; None if it has to wait, or is over."""
        try:
            done = work()
        except BlockingIOError:
            self._want(self._interest | wants)
        except OSError as error:
            tls_wants = 0 if self._address.tls is None else _tls_wants(error)
            if tls_wants:
                self._want(tls_wants)
            else:
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
        if self._sock is not None and self._step == self._finish_connect:
            self._sockets.shun(self._place)
        self._drop()
        self._sockets.gone(self)

    def leave(self) -> None:
        """Let go of the socket without a word to the selector: in the child of a fork, both are the parent's."""
        self.closed = True
        if self._sock is not None:
            self._sock.close()

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


def _tls_wants(error: OSError) -> int:
    """Say what TLS waits for; nothing, if it is over."""
    import ssl

    if isinstance(error, ssl.SSLWantReadError):
        return READ
    return READ | WRITE if isinstance(error, ssl.SSLWantWriteError) else 0


class Sockets:
    """The selector, and a way to wake whoever waits in it."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._near, self._far = os.pipe()
        for end in (self._near, self._far):
            os.set_blocking(end, False)
        self._selector.register(self._near, READ)
        self._dirty: list[SocketPipe] = []
        self._fresh: list[SocketPipe] = []
        self._again: list[SocketPipe] = []  # what may have more to read than the selector knows of
        # Where connections were not made in time, the latest last: a name that leads elsewhere too is tried there.
        self._shunned: dict[Any, None] = {}
        self._pipes: dict[SocketPipe, None] = {}  # those that are joined to anybody, or about to be
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
            if self._far >= 0:
                os.write(self._far, b".")

    # --- from the thread of its own ---

    def wait(self, timeout_s: float | None) -> list[SocketPipe]:
        """Wait for the network, without the keeper; answer which connections have something to do."""
        ready = []
        for key, _ in self._selector.select(0 if self._again else timeout_s):
            if key.data is not None:
                ready.append(key.data)
            else:
                os.read(self._near, READ_BYTES)
        return ready

    def serve(self, ready: list[SocketPipe], now: int) -> None:
        """Let connections get on, with the keeper in hand."""
        while not self._later.empty():
            self._later.get()(now)
        again, self._again = self._again, []
        for pipe in dict.fromkeys([*ready, *again]):
            pipe.on_event(now)
        self.settle(now)

    def settle(self, now: int) -> None:
        """Send and close what is to be, until there is nothing more."""
        while self.busy:
            fresh, self._fresh = self._fresh, []
            dirty, self._dirty = self._dirty, []
            for pipe in fresh:
                if not pipe.closed:
                    self._pipes[pipe] = None
                    pipe.begin(now)
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

    def shun(self, place: Any) -> None:
        """Nobody has answered there; a router may have swallowed what was sent."""
        self._shunned.pop(place, None)
        self._shunned[place] = None
        if len(self._shunned) > SHUNNED_MAX:
            del self._shunned[next(iter(self._shunned))]

    def trust(self, place: Any) -> None:
        """Somebody has answered there."""
        self._shunned.pop(place, None)

    def sorted(self, places: list[Any]) -> list[Any]:
        """Put first where nobody has been waited for in vain."""
        shunned = list(self._shunned)
        return sorted(places, key=lambda found: shunned.index(found[4]) if found[4] in self._shunned else -1)

    def again(self, pipe: SocketPipe) -> None:
        """Come back to a connection soon, whatever the selector says."""
        self._again.append(pipe)

    def gone(self, pipe: SocketPipe) -> None:
        """A connection has no socket any more."""
        self._pipes.pop(pipe, None)

    def close(self) -> None:
        """Let go of everything, in the child of a fork: what is joined to a server stays joined to the parent's."""
        for pipe in list(self._pipes):
            pipe.leave()
        self._selector.close()
        far, self._far = self._far, -1
        os.close(far)
        os.close(self._near)
