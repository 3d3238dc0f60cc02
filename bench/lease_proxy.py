"""A relay between a client and a server that can hold back bytes, or cut the connections: a partition on one machine.

It runs in the event loop of whoever makes it, and knows no protocol.
"""

import asyncio
from asyncio import StreamReader, StreamWriter
from contextlib import suppress

READ_BYTES = 65_536


class Proxy:
    """Listens on a free port, and relays to another one."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self._to = port
        self._cut = False
        self._up = asyncio.Event()  # whether bytes pass to the server
        self._down = asyncio.Event()
        self._writers: set[StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.heal()

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End everything."""
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- what goes wrong ---

    def stall(self, *, up: bool = True, down: bool = True) -> None:
        """Keep what is sent, in one direction or in both; neither side hears of it."""
        if up:
            self._up.clear()
        if down:
            self._down.clear()

    def cut(self) -> None:
        """Break all connections, and take no others."""
        self._cut = True
        for writer in self._writers:
            writer.transport.abort()

    def heal(self) -> None:
        """Let everything through again."""
        self._cut = False
        self._up.set()
        self._down.set()

    # --- relaying ---

    async def _join(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            if not self._cut:
                with suppress(OSError):
                    await self._relay(reader, writer)
        except asyncio.CancelledError:
            pass  # it is the end of the proxy, and nobody awaits this task
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _relay(self, reader: StreamReader, writer: StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers.add(back)
        try:
            passes = [
                asyncio.create_task(self._pass(reader, back, self._up)),
                asyncio.create_task(self._pass(there, writer, self._down)),
            ]
            try:
                await asyncio.wait(passes, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in passes:
                    one.cancel()
                await asyncio.gather(*passes, return_exceptions=True)
        finally:
            back.transport.abort()
            self._writers.discard(back)

    @staticmethod
    async def _pass(reader: StreamReader, writer: StreamWriter, way: asyncio.Event) -> None:
        while data := await reader.read(READ_BYTES):
            await way.wait()
            writer.write(data)
            await writer.drain()
        await way.wait()
