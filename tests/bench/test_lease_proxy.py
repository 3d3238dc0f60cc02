"""The proxy relays, holds back what it is told to, and lets go of it again."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from bench.lease_proxy import Proxy


@asynccontextmanager
async def joined():
    """Join a client to a server that says what it hears, through a proxy."""

    async def echo(reader, writer):
        while data := await reader.read(100):
            heard.put_nowait(data)
            writer.write(data)
        writer.close()

    heard = asyncio.Queue()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1])
    await proxy.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield proxy, reader, writer, heard
    finally:
        writer.close()
        await proxy.close()
        server.close()
        await server.wait_closed()


OVER = (ConnectionResetError, asyncio.IncompleteReadError)


def test_bytes_pass_both_ways():
    async def main():
        async with joined() as (_, reader, writer, _):
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"

    asyncio.run(main())


def test_what_is_held_back_comes_later():
    async def main():
        async with joined() as (proxy, reader, writer, heard):
            proxy.stall(up=False)
            writer.write(b"one")
            assert await heard.get() == b"one"
            proxy.stall(down=False)
            writer.write(b"two")
            proxy.heal()
            assert await reader.readexactly(6) == b"onetwo"

    asyncio.run(main())


def test_a_cut_ends_connections_and_refuses_others():
    async def main():
        async with joined() as (proxy, reader, writer, _):
            writer.write(b"hello")
            await reader.readexactly(5)
            proxy.cut()
            with pytest.raises(OVER):
                await reader.readexactly(1)
            other, other_writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            with pytest.raises(OVER):
                await other.readexactly(1)
            other_writer.close()
            proxy.heal()
            third, third_writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            third_writer.write(b"again")
            assert await third.readexactly(5) == b"again"
            third_writer.close()

    asyncio.run(main())
