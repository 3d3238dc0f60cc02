"""A small TCP proxy between a lock and its database: it can cut what is open, refuse what is new, and fall silent.

It runs in threads of its own. No expectation lives here.
"""

import select
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

CHUNK_BYTES = 65536


class Proxy:
    """A proxy on a port of its own; leave its context to end it."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._woken, self._waker = socket.socketpair()
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._refusing = False
        self._flows = {"there": True, "back": True}
        self.accepted = 0
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="proxy")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        self._wake()
        self._thread.join()
        self.cut()
        for end in (self._listener, self._woken, self._waker):
            end.close()

    def in_place_of(self, url: str, port: int) -> str:
        """Lead a URL through the proxy."""
        return url.replace(f":{port}/", f":{self.port}/")

    def cut(self) -> None:
        """Cut all connections."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
            for ends in pairs:
                for end in ends:
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                    end.close()
        self._wake()

    def refuse(self) -> None:
        """Cut all connections, and let nobody in until `restore`."""
        self._refusing = True
        self.cut()

    def stall(self) -> None:
        """Fall silent: what is sent stays underway until `restore`."""
        self._flow(there=False, back=False)

    def stall_answers(self) -> None:
        """Let questions through and keep the answers, until `restore` or `cut`."""
        self._flow(there=True, back=False)

    def restore(self) -> None:
        """Be a good proxy again."""
        self._refusing = False
        self._flow(there=True, back=True)

    def _flow(self, *, there: bool, back: bool) -> None:
        self._flows = {"there": there, "back": back}
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):
            self._waker.send(b"!")

    def _run(self) -> None:
        while not self._ended:
            with self._lock:
                ways: dict[socket.socket, socket.socket] = {}
                for caller, server in self._pairs:
                    if self._flows["there"]:
                        ways[caller] = server
                    if self._flows["back"]:
                        ways[server] = caller
            try:
                ready, _, _ = select.select([self._listener, self._woken, *ways], [], [])
            except (OSError, ValueError):  # one of them was cut meanwhile
                continue
            for end in ready:
                if end is self._woken:
                    self._woken.recv(CHUNK_BYTES)
                elif end is self._listener:
                    self._accept()
                else:
                    self._carry(end, ways[end])

    def _accept(self) -> None:
        caller, _ = self._listener.accept()
        try:
            if self._refusing:
                raise OSError("refused")
            server = socket.create_connection(self._target)
        except OSError:
            caller.close()
            return
        self.accepted += 1
        with self._lock:
            self._pairs.append((caller, server))

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with self._lock:
            pair = next((pair for pair in self._pairs if source in pair), None)
            if pair is None or not self._flows["there" if source is pair[0] else "back"]:
                return
            try:
                chunk = source.recv(CHUNK_BYTES)
                if chunk:
                    target.sendall(chunk)
            except OSError:
                chunk = b""
            if not chunk:
                self._pairs.remove(pair)
                for end in pair:
                    end.close()
