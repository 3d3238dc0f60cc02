"""The line between `holdfast run` and its guardian: small messages both ways, and the news that the other is gone.

Neither side ever waits for the other here; what a message means is known to those two only.
"""

import json
import socket
from contextlib import suppress
from typing import Any

Message = dict[str, Any]

MESSAGE_BYTES_MAX = 65_536
LENT_MAX = 64


class Channel:
    """One end."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self.lent: list[int] = []

    def fileno(self) -> int:
        """Tell what to wait for."""
        return self._end.fileno()

    def send(self, **message: Any) -> None:
        """Send it whole, or drop it when the other is gone or has not listened for hundreds of messages."""
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            self._end.send(json.dumps(message).encode())

    def lend(self, descriptors: list[int]) -> None:
        """Have the other keep these open for as long as it lives, whatever becomes of us."""
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._end, [b"{}"], descriptors[:LENT_MAX])

    def receive(self) -> tuple[list[Message], bool]:
        """Take what has arrived; tells also whether the other is still there."""
        messages: list[Message] = []
        while True:
            try:
                data, lent, _, _ = socket.recv_fds(self._end, MESSAGE_BYTES_MAX, LENT_MAX)
            except BlockingIOError:
                return messages, True
            except ConnectionResetError:
                data, lent = b"", []
            self.lent += lent
            if not data:
                return messages, False
            messages.append(json.loads(data))

    def close(self) -> None:
        """Hang up."""
        self._end.close()


def pair() -> tuple[Channel, Channel]:
    """Make both ends."""
    # This kind keeps messages apart, so that one that does not fit is missing and does not garble the next.
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(one), Channel(other)
