"""A caller of the line protocol for tests of documentation, and a wire that breaks every answer into single bytes.

No expectation lives here.
"""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

WAIT_S_MAX = 20


class Caller:
    """One connection to a server."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S_MAX)
        self._stream = self._socket.makefile("rwb")

    def send(self, *lines: str) -> None:
        self._stream.write("".join(f"{line}\n" for line in lines).encode())
        self._stream.flush()

    def answer(self) -> str:
        line = self._stream.readline().decode()
        assert line.endswith("\n"), f"the connection ended with {line!r}"
        return line[:-1]

    def ask(self, *lines: str) -> str:
        self.send(*lines)
        return self.answer()

    def waiters(self, key: str) -> int:
        """Ask the server how many wait for a lock."""
        stats = json.loads(self.ask("stats", "", "").removeprefix("ok "))
        return sum(lock["waiters"] for lock in stats["locks"] if lock["key"] == key)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


@contextmanager
def calling(port: int) -> Iterator[Caller]:
    caller = Caller(port)
    try:
        yield caller
    finally:
        caller.close()


@contextmanager
def slow_wire(port: int) -> Iterator[int]:
    """Stand before a server for one connection, and pass its answers on byte by byte, each when the last was read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wire = threading.Thread(target=_carry, args=(listener, port))
        wire.start()
        try:
            yield listener.getsockname()[1]
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the wire if nobody ever came
            wire.join()


def _carry(listener: socket.socket, port: int) -> None:
    try:
        caller, _ = listener.accept()
    except OSError:
        return  # closed before anybody came
    with caller, socket.create_connection(("127.0.0.1", port)) as server:
        requests = threading.Thread(target=_carry_requests, args=(caller, server))
        requests.start()
        ends = [_spelled(caller.getpeername()), _spelled(caller.getsockname())]
        with suppress(OSError):  # a caller may leave before it has read everything
            while answer := server.recv(4096):
                for place in range(len(answer)):
                    caller.sendall(answer[place : place + 1])
                    while _unread(ends):
                        pass
            caller.shutdown(socket.SHUT_WR)
        requests.join()


def _carry_requests(caller: socket.socket, server: socket.socket) -> None:
    with suppress(OSError):  # either side may be gone
        while request := caller.recv(4096):
            server.sendall(request)
        server.shutdown(socket.SHUT_WR)


def _unread(ends: list[str]) -> int:
    """Ask the kernel how many bytes lie unread at the first end of a loopback connection; 0 when it is gone."""
    for line in Path("/proc/net/tcp").read_text().splitlines():
        fields = line.split()
        if fields[1:3] == ends:
            return int(fields[4].partition(":")[2], 16)
    return 0


def _spelled(address: tuple[str, int]) -> str:
    host, port = address
    return f"{socket.inet_aton(host)[::-1].hex().upper()}:{port:04X}"
