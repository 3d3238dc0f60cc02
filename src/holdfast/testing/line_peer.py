"""A client of the line protocol over a real socket, for tests of a real server.

It says what it is told and hears what comes; no part of the server's own codec is used here.
"""

import socket
import ssl
from types import TracebackType

WAIT_S_MAX = 20.0


class LinePeer:
    """One connection. Nothing waits longer than `WAIT_S_MAX`."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection((host, port), timeout=WAIT_S_MAX)
        try:
            self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise
        self._lines = self.socket.makefile("rb")

    def __enter__(self) -> "LinePeer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def say(self, command: str, key: str = "_", arg: str = "_") -> None:
        """Send a request, and do not wait for its answer."""
        self.send(f"{command}\n{key}\n{arg}\n".encode())

    def ask(self, command: str, key: str = "_", arg: str = "_") -> str:
        """Send a request and wait for its answer."""
        self.say(command, key, arg)
        return self.hear()

    def hear(self) -> str:
        """Wait for one line; an empty text means that the server has closed the connection."""
        try:
            return self._lines.readline().decode().removesuffix("\n")
        except ConnectionResetError:
            return ""  # closed with bytes that the server had not read, which is a close all the same

    def stop_talking(self) -> None:
        """Close our half of the connection."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._lines.close()
        self.socket.close()
