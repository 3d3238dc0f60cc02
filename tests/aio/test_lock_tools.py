"""What the lock client needs of asyncio: connections with time limits, and those of other loops; events and workers.

The other side is a bare socket of the test itself. The twin for threads is tested in tests/sync.
"""

import asyncio
import socket
import ssl
import struct
import threading

import pytest

from holdfast.aio.lock_tools import DIAL_ERRORS, SECOND, UNREAD_BYTES_MAX, Event, Worker, dial, sleep_until
from holdfast.client.clock import now_ns
from holdfast.client.ports import Address
from tests.certificates import Authority


def soon(seconds=10.0):
    return now_ns() + int(seconds * SECOND)


class Other:
    """The other side: a listener, and the socket of the connection that was made last."""

    def __init__(self, listener):
        self.listener = listener
        self.address = Address("127.0.0.1", listener.getsockname()[1])
        self.socket = None

    async def connect(self):
        wire = await dial(self.address, soon())
        self.close()
        self.socket, _ = self.listener.accept()
        return wire

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        if self.socket is not None:
            self.socket.close()


@pytest.fixture
def other():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = Other(listener)
        yield other
        other.close()


async def news_of(wire):
    """Wait until something has come, an end included."""
    wire._protocol.news.clear()
    async with asyncio.timeout(10):
        await wire._protocol.news.wait()


def test_bytes_go_both_ways(other):
    async def story():
        wire = await other.connect()
        await wire.send(b"question", soon())
        assert other.socket.recv(100) == b"question"
        other.socket.sendall(b"answer")
        assert await wire.receive(soon()) == b"answer"
        other.close()
        assert await wire.receive(soon()) == b""
        assert await wire.receive(soon()) == b""

    asyncio.run(story())


@pytest.mark.parametrize("host", ["127.0.0.1", f"{'x' * 64}.invalid"])
def test_nobody_is_there(host):
    with pytest.raises(DIAL_ERRORS):
        asyncio.run(dial(Address(host, 1), soon()))


def test_waiting_has_an_end(other):
    async def story():
        with pytest.raises(TimeoutError):
            await dial(other.address, now_ns() - SECOND)
        other.listener.accept()[0].close()
        wire = await other.connect()
        with pytest.raises(TimeoutError):
            await wire.receive(soon(0.01))
        with pytest.raises(TimeoutError):
            await wire.send(b"x" * 10_000_000, soon(0.01))
        wire.close()

    asyncio.run(story())


def test_whoever_could_not_write_goes_on_when_there_is_room(other):
    data = b"x" * 10_000_000

    def read():
        got = 0
        while got < len(data):
            got += len(other.socket.recv(1 << 20))

    async def story():
        wire = await other.connect()
        reading = asyncio.create_task(asyncio.to_thread(read))
        await wire.send(data, soon())
        await reading
        wire.close()

    asyncio.run(story())


def test_a_connection_is_quiet_until_something_comes_even_an_end(other):
    async def story():
        wire = await other.connect()
        assert wire.quiet
        other.socket.sendall(b"x")
        await news_of(wire)
        assert not wire.quiet
        assert await wire.receive(soon()) == b"x"
        assert wire.quiet
        other.close()
        await news_of(wire)
        assert not wire.quiet
        with pytest.raises(ConnectionResetError, match="closed"):
            await wire.send(b"x", soon())

    asyncio.run(story())


def test_a_connection_that_breaks_is_an_error(other):
    async def story():
        wire = await other.connect()
        other.reset()
        with pytest.raises(ConnectionResetError):
            await wire.receive(soon())

    asyncio.run(story())


def test_what_nobody_reads_does_not_pile_up(other):
    size = UNREAD_BYTES_MAX * 20

    async def story():
        wire = await other.connect()
        sending = asyncio.create_task(asyncio.to_thread(other.socket.sendall, b"x" * size))
        while wire._transport.is_reading():
            await news_of(wire)
        # One read at most goes beyond the limit; the rest stays with whoever sent it.
        assert UNREAD_BYTES_MAX < len(wire._protocol.data) <= 2 * UNREAD_BYTES_MAX
        got = 0
        while got < size:
            got += len(await wire.receive(soon()))
        await sending
        assert got == size
        wire.close()

    asyncio.run(story())


def test_whoever_waits_learns_at_once_that_another_thread_has_closed_it(other):
    async def story():
        wire = await other.connect()
        waiting = asyncio.create_task(wire.receive(soon(60)))
        await asyncio.sleep(0)
        threading.Thread(target=wire.close).start()
        assert await waiting == b""

    asyncio.run(story())


def test_what_is_forsaken_stays_open(other):
    async def story():
        wire = await other.connect()
        wire.forsake()
        await wire.send(b"still here", soon())
        assert other.socket.recv(100) == b"still here"
        wire.close()

    asyncio.run(story())


def test_a_connection_of_another_loop_is_not_used_and_can_be_closed_when_that_loop_is_over(other):
    async def look():
        return wire.quiet

    loop = asyncio.new_event_loop()
    wire = loop.run_until_complete(other.connect())
    assert loop.run_until_complete(look())
    assert not asyncio.run(look())
    wire._transport.abort()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    wire.close()


def test_under_tls_and_not_to_somebody_with_another_certificate(tmp_path):
    authority, stranger = Authority(tmp_path / "ours"), Authority(tmp_path / "strange")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.sign("server"))

    async def answer(reader, writer):
        writer.write((await reader.read(100)).upper())
        writer.close()

    async def tell():
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        wire = await dial(Address("127.0.0.1", port, authority.trust()), soon())
        await wire.send(b"question", soon())
        assert await wire.receive(soon()) == b"QUESTION"
        wire.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            await dial(Address("127.0.0.1", port, stranger.trust()), soon())
        server.close()

    asyncio.run(tell())


# --- events, workers and waiting ---


def test_an_event_is_waited_for_but_not_for_ever():
    async def story():
        event = Event()
        assert (await event.wait(0.01), event.is_set()) == (False, False)
        waiting = asyncio.create_task(event.wait())
        await asyncio.sleep(0)
        event.set()
        assert (await waiting, event.is_set(), await event.wait(0)) == (True, True, True)

    asyncio.run(story())


def test_a_worker_is_waited_for_and_ended_when_it_takes_too_long():
    done = []

    async def quick():
        done.append("quick")

    async def slow():
        try:
            await asyncio.Event().wait()
        finally:
            done.append("cancelled")

    async def story():
        await Worker(quick, "quick").join(10)
        await Worker(slow, "slow").join(0.01)
        await asyncio.sleep(0)
        assert done == ["quick", "cancelled"]

    asyncio.run(story())


def test_a_worker_does_not_wait_for_itself():
    async def story():
        joined = asyncio.Event()

        async def work():
            await worker.join(60)
            joined.set()

        worker = Worker(work, "worker")
        async with asyncio.timeout(10):
            await joined.wait()

    asyncio.run(story())


def test_a_sleep_lasts_until_an_instant():
    async def story():
        then = soon(0.01)
        await sleep_until(then)
        assert now_ns() >= then
        await sleep_until(then - SECOND)

    asyncio.run(story())
