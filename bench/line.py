"""The line protocol spoken the plain way, over a blocking socket: enough to fill a server with keys.

No part of Holdfast is used here, so that a fault in its codec cannot hide itself.
"""

import socket
from collections.abc import Iterable, Iterator
from itertools import islice

# Requests that travel together; their answers are read before the next ones are sent.
BATCH = 512

Request = tuple[str, str, str]


class Unexpected(Exception):
    """The server answered something else than the measurement is about."""


class Line:
    """One connection; every request gets one line of answer."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.answers = connection.makefile("rb")

    def close(self) -> None:
        """Close the connection, and with it release what it holds."""
        self.answers.close()
        self.socket.close()

    def ask(self, requests: Iterable[Request], expected: str) -> None:
        """Send requests in batches, and insist that every answer begins as expected."""
        for batch in batches(requests):
            self.socket.sendall("".join(f"{command}\n{key}\n{arg}\n" for command, key, arg in batch).encode())
            for request in batch:
                answer = self.answers.readline().decode()
                if not answer.startswith(expected):
                    raise Unexpected(f"{request} was answered {answer!r} instead of {expected!r}")


def batches(requests: Iterable[Request]) -> Iterator[list[Request]]:
    """Cut requests into lists of a bounded length."""
    rest = iter(requests)
    while batch := list(islice(rest, BATCH)):
        yield batch
