"""A connection without a network: the transport that a protocol writes to, and the peer's end for whoever plays it.

It keeps the promises that event loops make to a protocol, and their order. No protocol and no clock is known here.
"""

import asyncio
from typing import Protocol


class Speaker(Protocol):
    """What a transport calls: asyncio's protocols, and all that have their methods."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class PaperTransport(asyncio.Transport):
    """Carries bytes from a protocol to a peer with so much room for them, and hands over what the peer says.

    A closed or broken connection has `ended` at once, or when its last bytes have left; the protocol hears of it in
    `farewell`, as an event loop tells it in one of its next rounds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.room: int | None = None  # how many bytes the peer takes before it looks at them; None: all that come
        self.buffer = bytearray()  # what has been written and has not left, for want of room
        self.reading = True
        self.closing = False
        self.ended = False
        self._protocol: Speaker
        self._arrived = bytearray()  # at the peer, which has not looked at it yet
        self._high_bytes = 65_536
        self._paused = False
        self._error: Exception | None = None
        self._told = False

    # --- for the protocol ---

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.ended:
            return
        self.buffer += data
        self._move()
        if len(self.buffer) > self._high_bytes and not self._paused:
            self._paused = True
            self.pause()

    def set_protocol(self, protocol: Speaker) -> None:  # type: ignore[override]  # compiled ones descend from nothing
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self._high_bytes = high

    def get_write_buffer_size(self) -> int:
        return len(self.buffer)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = not self.closing

    def is_reading(self) -> bool:
        return self.reading

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        """Close when everything has left."""
        self.closing = True
        self.reading = False
        self.ended = self.ended or not self.buffer

    def abort(self) -> None:
        """Close now; what has not left is lost."""
        self._break(None)

    # --- for the peer ---

    def connect(self, protocol: Speaker) -> None:
        """Tell the protocol that the connection stands."""
        self._protocol = protocol
        protocol.connection_made(self)

    def arrive(self, data: bytes) -> None:
        """Hand over what the peer said."""
        self._protocol.data_received(data)

    def arrive_end(self) -> None:
        """Say that the peer will say no more; unless the protocol wants to go on alone, the connection closes."""
        if not self._protocol.eof_received():
            self.close()

    def reset(self) -> None:
        """Break the connection, as when the peer is gone."""
        self._break(ConnectionResetError("the peer has reset the connection"))

    def take(self, count: int | None = None) -> bytes:
        """Look at what has arrived, which makes room for more."""
        end = len(self._arrived) if count is None else count
        data = bytes(self._arrived[:end])
        del self._arrived[:end]
        self._move()
        if self._paused and not self.buffer and not self.ended:
            self._paused = False
            self.resume()
        if self.closing and not self.buffer:
            self.ended = True
        return data

    def farewell(self) -> None:
        """Tell the protocol, once, that the connection is over."""
        if self.ended and not self._told:
            self._told = True
            self._protocol.connection_lost(self._error)

    def pause(self) -> None:
        """Tell the protocol that the peer does not keep up."""
        self._protocol.pause_writing()

    def resume(self) -> None:
        """Tell the protocol that all it wrote has left."""
        self._protocol.resume_writing()

    def _move(self) -> None:
        """Let leave what the peer has room for."""
        count = len(self.buffer) if self.room is None else max(0, self.room - len(self._arrived))
        self._arrived += self.buffer[:count]
        del self.buffer[:count]

    def _break(self, error: Exception | None) -> None:
        if not self.ended:
            self._error = error
        self.closing = self.ended = True
        self.reading = False
        self.buffer.clear()
