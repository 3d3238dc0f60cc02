"""A real HTTP server on a free port, a clock that is moved by hand, and peers that speak to it in bytes.

No expectation lives here.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from holdfast.doors.http import HttpDoor
from holdfast.doors.http_protocol import HttpConnection, HttpServer, HttpSettings
from holdfast.testing.clock import HandClock
from holdfast.wire.http import HttpReply, HttpRequest, reply
from holdfast.words import SECOND

GET = b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n"


class Echo:
    """Replies with the path, the body and the query. What is asked of /wait is answered when `open` is set."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.asked: list[str] = []
        self.left: list[str] = []

    async def handle(self, request: HttpRequest) -> HttpReply:
        self.asked.append(request.path)
        if request.path == "/bug":
            raise ZeroDivisionError
        if request.path == "/wait":
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.left.append(request.path)
                raise
        if request.path == "/long":
            return HttpReply(status=200, body=b"x" * 4_000_000)
        return reply(200, {"path": request.path, "body": len(request.body), "query": dict(request.query)})

    def waits(self, request: HttpRequest) -> bool:
        return request.path == "/wait" and "bound" not in request.query


class House:
    """A server on a free port, and its clock."""

    def __init__(self, app: Any = None) -> None:
        self.clock = HandClock()
        self.echo = Echo()
        self.left = 0
        self.bugs: list[Any] = []
        door = HttpDoor(self.echo, None, self.clock, body_bytes_max=65_536, make_id=lambda: "id")
        settings = HttpSettings(read_timeout_ns=5 * SECOND, idle_timeout_ns=60 * SECOND)
        self.http = HttpServer(app or door, self.clock, settings, asyncio.get_running_loop())

    @property
    def connection(self) -> HttpConnection:
        (connection,) = self.http.connections
        return connection

    def connect(self) -> HttpConnection:
        def left() -> None:
            self.left += 1

        return self.http.connect(left)

    def after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.http.tick(self.clock.now)


class Peer:
    """The other side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def answer(self) -> tuple[int, bytes]:
        """Hear one answer: the status and the body."""
        head = await self.head()
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(head.split(b" ")[1]), await self.reader.readexactly(length)

    async def status(self) -> int:
        return (await self.answer())[0]

    async def ask(self, data: bytes) -> int:
        return (await self.ask_all(data))[0]

    async def ask_all(self, data: bytes) -> tuple[int, bytes]:
        self.writer.write(data)
        return await self.answer()

    async def is_closed(self) -> bool:
        return await self.reader.read() == b""


@asynccontextmanager
async def opened(
    house: House, serving: ssl.SSLContext | None = None, calling: ssl.SSLContext | None = None
) -> AsyncIterator[Callable[[], Coroutine[Any, Any, Peer]]]:
    """Open the server, and give the way to it."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, what: house.bugs.append(what))
    server = await loop.create_server(house.connect, "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    writers = []

    async def come() -> Peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=10_000_000, ssl=calling)
        writers.append(writer)
        before = len(house.http.connections)
        await until(lambda: len(house.http.connections) >= max(before, 1))
        return Peer(reader, writer)

    try:
        yield come
    finally:
        house.http.abort()
        for writer in writers:
            writer.close()
        server.close()
        await until(lambda: not house.http.connections)


async def until(condition: Callable[[], Any]) -> None:
    """Let everybody go on until it is so; the time limit of the whole story ends a wait that is in vain."""
    while not condition():
        await turn()


async def turn() -> None:
    """Let everybody do what can be done now."""
    await asyncio.sleep(0)


def play(story: Callable[[House, Peer], Coroutine[Any, Any, None]], app: Any = None) -> House:
    """Play a story between a server and one peer."""

    async def whole() -> House:
        house = House(app)
        async with opened(house) as come:
            await story(house, await come())
        return house

    return asyncio.run(asyncio.wait_for(whole(), 20))
