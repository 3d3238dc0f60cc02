"""A connection of virtual time, both ways: bytes that take their time, partitions that keep them, ends of all kinds.

Who sends what is for its two ends to decide, what breaks for `virtual_network.py`. No protocol is known here.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from holdfast.testing.timeline import Timeline
from holdfast.testing.transport import PaperTransport, Speaker

REFUSED = "connection refused"
RESET = "connection reset by peer"
TIMED_OUT = "connection timed out"


class Lane:
    """One direction. What has been sent arrives in its order, however long each piece takes."""

    def __init__(self, timeline: Timeline, delay: Callable[[], int]) -> None:
        self._timeline = timeline
        self._delay = delay
        self._last_at = 0
        self._on_way: deque[Callable[[], None]] = deque()
        self._due = 0  # how many of them have arrived at a place where they are held up
        self.cut = False

    def carry(self, arrive: Callable[[], None]) -> None:
        self._last_at = max(self._timeline.now + self._delay(), self._last_at)
        self._on_way.append(arrive)
        self._timeline.at(self._last_at, self._arrive)

    @property
    def is_empty(self) -> bool:
        return not self._on_way

    def heal(self) -> None:
        """Let go on what a cut has held up, as the network's own repetitions do."""
        self.cut = False
        due, self._due = self._due, 0
        for _ in range(due):
            self._timeline.soon(self._arrive)

    def clear(self) -> None:
        """Lose what is on its way."""
        self._on_way.clear()

    def _arrive(self) -> None:
        if self.cut:
            self._due += 1
        elif self._on_way:
            self._on_way.popleft()()


class ClientEnd(Protocol):
    """The client's end of a connection. The network calls it; it belongs to a program that may stand still."""

    def take(self, data: bytes) -> None: ...

    def finish(self, why: str) -> None:
        """It is over: properly if there is no reason why. Comes last, and once."""


class ServerEnd(PaperTransport):
    """The server's end: what its protocol writes goes on its way at once."""

    def __init__(self, cable: "Cable") -> None:
        super().__init__()
        self._cable = cable
        self._inbox = bytearray()  # what has come and has not been read
        self._joined = False
        self._end_has_come = False
        self._end_told = False
        self._finished = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self._cable.send_down(self.take())

    def close(self) -> None:
        super().close()
        self._finish("")

    def abort(self) -> None:
        super().abort()
        self._finish(RESET)

    def resume_reading(self) -> None:
        super().resume_reading()
        self._cable.wake_server()

    def come(self, data: bytes) -> None:
        """Bytes have come through the network; the process may not look at them yet."""
        if not self.ended:
            self._inbox += data
            self._cable.wake_server()

    def come_end(self) -> None:
        self._end_has_come = True
        self._cable.wake_server()

    def come_reset(self) -> None:
        if not self.ended:
            self._inbox.clear()
            self.reset()
        self._cable.wake_server()

    def connect(self, protocol: Speaker) -> None:
        self._joined = True
        super().connect(protocol)

    def read(self) -> None:
        """Let the process look at what has come."""
        if not self._joined:
            return
        if self.reading and self._inbox:
            data = bytes(self._inbox)
            self._inbox.clear()
            self.arrive(data)
        if self._end_has_come and not self._inbox and not self._end_told and not self.ended:
            self._end_told = True
            self.arrive_end()
        self.farewell()

    def _finish(self, why: str) -> None:
        if not self._finished:
            self._finished = True
            self._cable.finish_down(why)
            self._cable.wake_server()


class Fuse:
    """Breaks a connection behind a certain byte, counted over all connections of a client in one direction."""

    def __init__(self) -> None:
        self._left: int | None = None

    def set(self, count: int) -> None:
        """Let so many bytes more through."""
        self._left = count

    @property
    def is_blown(self) -> bool:
        """Whether it has broken a connection, or was never set."""
        return self._left is None

    def burn(self, data: bytes) -> bytes | None:
        """Count what is to pass; answer what still does if it blows with this, and None if it does not."""
        if self._left is None:
            return None
        if len(data) < self._left:
            self._left -= len(data)
            return None
        passes, self._left = data[: self._left], None
        return passes


class Cable:
    """Joins a client's end to a server's protocol."""

    def __init__(self, timeline: Timeline, delay: Callable[[], int], client: ClientEnd) -> None:
        self.up = Lane(timeline, delay)
        self.down = Lane(timeline, delay)
        self.client = client
        self.server: ServerEnd | None = None  # until the connection stands
        self.is_over = False  # for the client
        self.answers_to_lose: Callable[[], bool] = lambda: False
        self.fuse_up = Fuse()
        self.fuse_down = Fuse()
        self._is_cut = False
        self.wake: Callable[[ServerEnd], None] = ServerEnd.read  # have the server's process look, now or later

    @property
    def is_idle(self) -> bool:
        """Whether nothing will come of it any more."""
        return self.is_over and self.up.is_empty and self.down.is_empty

    def accept(self) -> ServerEnd:
        """The server's system takes the connection; its process joins a protocol to it when it gets round to that."""
        self.server = ServerEnd(self)
        return self.server

    # --- what the client does ---

    def send_up(self, data: bytes) -> None:
        if self.is_over or self._is_cut:
            return
        passes = self.fuse_up.burn(data)
        if passes is None:
            self.up.carry(lambda: self._come(data))
        else:
            self.up.carry(lambda: self._come(passes))
            self._cut()

    def close_up(self) -> None:
        """The client lets go: what it sent arrives, then the end."""
        if not self.is_over:
            self.is_over = True
            self.down.clear()
            self.up.carry(self._come_end)

    def reset_up(self) -> None:
        """The client's system ends it, as it does when the process dies with something unread."""
        self.is_over = True
        self.down.clear()
        self.up.carry(self._come_reset)

    # --- what the server does ---

    def send_down(self, data: bytes) -> None:
        if not data:
            return
        if self.answers_to_lose():
            self.tear(RESET)
            return
        if self._is_cut:
            return
        passes = self.fuse_down.burn(data)
        if passes is None:
            self.down.carry(lambda: self._take(data))
        else:
            self.down.carry(lambda: self._take(passes))
            self._cut()

    def finish_down(self, why: str) -> None:
        self.down.carry(lambda: self.end(why))

    def wake_server(self) -> None:
        if self.server is not None:
            self.wake(self.server)

    # --- what the network does ---

    def tear(self, why: str = RESET, *, client: bool = True, server: bool = True) -> None:
        """Break it, for both ends or for one of them, which then is the only one that knows."""
        if client:
            self.down.clear()
            self.end(why)
        if server:
            self.up.clear()
            self._come_reset()

    def _cut(self) -> None:
        """Break it behind what is on its way, for both ends."""
        self._is_cut = True
        self.up.carry(self._come_end)
        self.down.carry(lambda: self.end(RESET))

    def end(self, why: str) -> None:
        """Tell the client, once."""
        if not self.is_over:
            self.is_over = True
            self.client.finish(why)

    def _take(self, data: bytes) -> None:
        if data and not self.is_over:
            self.client.take(data)

    def _come(self, data: bytes) -> None:
        if data and self.server is not None:
            self.server.come(data)

    def _come_end(self) -> None:
        if self.server is not None:
            self.server.come_end()

    def _come_reset(self) -> None:
        if self.server is not None:
            self.server.come_reset()
