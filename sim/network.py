"""The network between callers and server: bytes on their way, peers that do not read, ends of all kinds.

Who sends what is decided by the callers, when it arrives by the world.
"""

from holdfast.testing.transport import PaperTransport
from sim.history import Came, CameEnd, Cut, Flowed, History, Lost, Stalled, Torn, Wrote


class Link(PaperTransport):
    """One connection, both ways, and what its server's end says and hears."""

    def __init__(self, peer: int, history: History) -> None:
        super().__init__()
        self.peer = peer
        self.on_way = bytearray()  # sent by the caller, not yet at the server
        self.end_on_way = False
        self._history = history

    @property
    def has_news(self) -> bool:
        """Say whether something can arrive at the server."""
        return self.reading and (bool(self.on_way) or self.end_on_way)

    @property
    def has_mail(self) -> bool:
        """Say whether the server has written what the caller has not read."""
        return bool(self._arrived or self.buffer)

    # --- what the server does ---

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self.ended:
            self._history.add(Wrote, self.peer, bytes(data))
        super().write(data)

    def close(self) -> None:
        if not self.closing:
            self._history.add(Cut, self.peer, "close")
        super().close()

    def abort(self) -> None:
        if not self.ended:
            self._history.add(Cut, self.peer, "abort")
        super().abort()

    def pause(self) -> None:
        self._history.add(Stalled, self.peer)
        super().pause()

    def resume(self) -> None:
        self._history.add(Flowed, self.peer)
        super().resume()

    # --- what the network does ---

    def arrive_some(self, count: int) -> None:
        """Let that many of the bytes on their way arrive, or the end behind the last of them."""
        if self.on_way:
            data = bytes(self.on_way[:count])
            del self.on_way[:count]
            self._history.add(Came, self.peer, data)
            self.arrive(data)
        else:
            self.end_on_way = False
            self._history.add(CameEnd, self.peer)
            self.arrive_end()

    def reset(self) -> None:
        if not self.ended:
            self._history.add(Torn, self.peer)
        self.on_way.clear()
        self.end_on_way = False
        super().reset()

    def farewell(self) -> None:
        self._history.add(Lost, self.peer)
        super().farewell()
