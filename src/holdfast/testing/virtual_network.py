"""The network of a world: who is joined to the server, how long bytes take, what is cut, lost or reset.

The ends that a client holds are here too; what a client does with them is its own affair.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.client.ports import Address, Receiver
from holdfast.testing.cable import REFUSED, RESET, Cable, ClientEnd, Fuse
from holdfast.testing.timeline import Timeline

if TYPE_CHECKING:
    from holdfast.testing.program import Program
    from holdfast.testing.virtual_server import VirtualServer


class Route:
    """The way between one client and the server."""

    def __init__(self, timeline: Timeline, server: "VirtualServer") -> None:
        self.delay_ns: Callable[[], int] = lambda: 0
        self.cables: list[Cable] = []
        self.fuse_up = Fuse()
        self.fuse_down = Fuse()
        self._timeline = timeline
        self._server = server
        self._cut_up = False
        self._cut_down = False
        self._answers_to_drop = 0

    # --- what breaks ---

    def partition(self, *, up: bool = True, down: bool = True) -> None:
        """Let nothing through, in one direction or in both; neither end hears of it."""
        self._cut_up, self._cut_down = self._cut_up or up, self._cut_down or down
        for cable in self.cables:
            cable.up.cut, cable.down.cut = self._cut_up, self._cut_down

    def heal(self) -> None:
        """Let everything through again, what was held up first."""
        self._cut_up = self._cut_down = False
        for cable in list(self.cables):
            cable.up.heal()
            cable.down.heal()

    def drop_answers(self, count: int) -> None:
        """Lose the next so many answers: each goes under with its connection."""
        self._answers_to_drop += count

    def reset(self, *, client: bool = True, server: bool = True) -> None:
        """Break all connections."""
        for cable in list(self.cables):
            cable.tear(RESET, client=client, server=server)

    def vanish(self) -> None:
        """The client's process is gone; its system ends what it leaves behind."""
        for cable in list(self.cables):
            cable.reset_up()

    def server_died(self) -> None:
        """The server's process is gone, and its system resets the connections: where it can be heard, it is."""
        for cable in list(self.cables):
            cable.server = None
            cable.finish_down(RESET)

    # --- connecting ---

    def connect(self, end: ClientEnd, connected: Callable[[], None]) -> Cable:
        """Begin to connect; `connected` is called when it stands, or the end hears that it does not."""
        self.cables = [cable for cable in self.cables if not cable.is_idle]
        cable = Cable(self._timeline, self._delay, end)
        cable.up.cut, cable.down.cut = self._cut_up, self._cut_down
        cable.answers_to_lose = self._loses_answer
        cable.fuse_up, cable.fuse_down = self.fuse_up, self.fuse_down
        self.cables.append(cable)

        def knock() -> None:
            if self._server.accept(cable):
                cable.down.carry(stand)
            else:
                cable.finish_down(REFUSED)

        def stand() -> None:
            if not cable.is_over:
                connected()

        cable.up.carry(knock)
        return cable

    def _delay(self) -> int:
        return self.delay_ns()

    def _loses_answer(self) -> bool:
        if self._answers_to_drop == 0:
            return False
        self._answers_to_drop -= 1
        return True


def trouble(why: str) -> OSError:
    """Spell how a connection broke as the system does."""
    if why == REFUSED:
        return ConnectionRefusedError(why)
    return ConnectionResetError(why)


class VirtualStream(ClientEnd):
    """A connection that blocks its caller, in virtual time."""

    def __init__(self, program: "Program", address: Address) -> None:
        self._program = program
        self._address = address
        self._inbox = bytearray()
        self._over = False
        self._why = ""
        self._stands = False
        self._closed = False
        self._cable = program.route.connect(self, self._stand)

    def wait_for_connection(self, until: int) -> None:
        """Raises OSError (TimeoutError at `until`)."""
        if not self._wait(lambda: self._stands or self._over, until, f"to connect to {self._address}"):
            self.close()
            raise TimeoutError(f"no connection to {self._address} in time")
        if self._over:
            raise trouble(self._why)

    def send(self, data: bytes) -> None:
        self._program.block("send")
        if self._closed or self._over:
            raise trouble(self._why or RESET)
        self._program.send(self._cable, data)

    def receive(self, until: int) -> bytes:
        self._program.block("receive")
        heard = lambda: bool(self._inbox) or self._over or self._closed  # noqa: E731  a name tells what it is
        if not self._wait(heard, until, f"for {self._address} to say something"):
            raise TimeoutError(f"{self._address} has said nothing in time")
        if self._closed:
            raise OSError("closed here")
        if not self._inbox:
            if self._why:
                raise trouble(self._why)
            return b""
        data = bytes(self._inbox)
        self._inbox.clear()
        return self._program.receive(data)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._cable.close_up()

    def take(self, data: bytes) -> None:
        self._inbox += data

    def finish(self, why: str) -> None:
        self._over = True
        self._why = why

    def _stand(self) -> None:
        self._stands = True

    def _wait(self, ready: Callable[[], bool], until: int, what: str) -> bool:
        return self._program.wait(ready, until, what)


class VirtualPipe(ClientEnd):
    """A connection of a keeper."""

    def __init__(self, program: "Program", receiver: Receiver) -> None:
        self._program = program
        self._receiver = receiver
        self._closed = False
        self._cable = program.route.connect(self, self._stand)

    def write(self, data: bytes) -> None:
        if not self._closed:
            self._program.send(self._cable, data)

    def close(self) -> None:
        self._closed = True
        self._cable.close_up()

    def take(self, data: bytes) -> None:
        self._tell(lambda now: self._receiver.received(self._program.receive(data), now))

    def finish(self, why: str) -> None:
        self._tell(lambda now: self._receiver.broken(why or "the server has closed the connection", now))

    def _stand(self) -> None:
        self._tell(self._receiver.connected)

    def _tell(self, say: Callable[[int], None]) -> None:
        def tell() -> None:
            if not self._closed:
                with self._program.host.keeper():
                    say(self._program.clock())

        self._program.act(tell)


class VirtualTransport(asyncio.Transport, ClientEnd):
    """A connection of an event loop of virtual time."""

    def __init__(self, program: "Program", loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.stands: asyncio.Future[None] = loop.create_future()
        self._program = program
        self._loop = loop
        self._protocol: asyncio.Protocol = protocol
        self._closing = False
        self._told = False
        self._made = False
        self._cable = program.route.connect(self, self._stand)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self._program.send(self._cable, bytes(data))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._cable.close_up()
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def get_write_buffer_size(self) -> int:
        return 0

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_reading(self) -> bool:
        return not self._closing

    def pause_reading(self) -> None:
        raise NotImplementedError("a connection of virtual time is always read")

    def take(self, data: bytes) -> None:
        self._soon(lambda: self._hear(data))

    def finish(self, why: str) -> None:
        self._soon(lambda: self._end(why))

    def _stand(self) -> None:
        self._soon(self._begin)

    def _soon(self, act: Callable[[], None]) -> None:
        """Have the loop do it: in its program, which may stand still."""
        self._program.act(lambda: None if self._loop.is_closed() else self._call(act))

    def _call(self, act: Callable[[], None]) -> None:
        self._loop.call_soon(act)

    def _begin(self) -> None:
        if not self._closing and not self.stands.done():
            self._made = True
            self._protocol.connection_made(self)
            self.stands.set_result(None)

    def _hear(self, data: bytes) -> None:
        if not self._closing:
            self._protocol.data_received(self._program.receive(data))

    def _end(self, why: str) -> None:
        if not self.stands.done():
            self._closing = True
            self.stands.set_exception(trouble(why))
        elif not self._closing:
            self._closing = True
            if not why:
                self._protocol.eof_received()
            self._lose(trouble(why) if why else None)

    def _lose(self, error: Exception | None) -> None:
        if self._made and not self._told:
            self._told = True
            self._protocol.connection_lost(error)
