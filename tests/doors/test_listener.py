"""The listener accepts, counts and hands over, and survives what accept may report; on both event loops.

What is served behind it is tested with the doors and with the server; here an echo is enough.
"""

import asyncio
import errno
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import ModuleType
from typing import Any

import pytest
import uvloop

from holdfast.doors.listener import (
    ACCEPTS_PER_WAKE,
    BACK_OFF_LEAST_S,
    BACK_OFF_MOST_S,
    KEEPALIVE_IDLE_S,
    PASSING,
    Gate,
    Left,
    Listener,
    bind,
)

LOOPS = [asyncio, uvloop]
WAIT_S_MAX = 20

Story = Callable[[], Awaitable[None]]


def on(loop: ModuleType, story: Story) -> None:
    """Let a story happen on an event loop."""
    with asyncio.Runner(loop_factory=loop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(story(), WAIT_S_MAX))


class Echo(asyncio.Protocol):
    """Gives back what it gets, and says when it is over."""

    def __init__(self, left: Left) -> None:
        self.left = left

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.left()
        self.left()  # saying it twice must not count twice


class House:
    """A listener with its gate, and what has become of it."""

    def __init__(self, sock: socket.socket, gate: Gate) -> None:
        self.gate = gate
        self.errors: list[OSError] = []
        self.made: list[Echo] = []
        self.listener = Listener(sock, self.connect, gate, tls=None, handshake_timeout_s=1, broken=self.errors.append)

    def connect(self, left: Left) -> Echo:
        self.made.append(Echo(left))
        return self.made[-1]


@asynccontextmanager
async def house(gate: Gate | None = None) -> AsyncIterator[tuple[House, int]]:
    (sock,) = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    open_house = House(sock, gate or Gate(0, 0))
    try:
        yield open_house, port
    finally:
        open_house.listener.close()


async def until(truth: Callable[[], bool]) -> None:
    """Let the loop go on until something is true; the story as a whole has a deadline."""
    while not truth():  # noqa: ASYNC110  what the loop does inside sets no event
        await asyncio.sleep(0.001)


async def echoes(port: int, count: int = 1) -> bool:
    """Connect, say something, hear it again; False when the connection was closed instead."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"hello\n")
        return await reader.readline() == b"hello\n"
    except ConnectionResetError:
        return False
    finally:
        writer.close()


# --- the gate ---


def test_a_gate_without_limits_lets_everybody_in() -> None:
    gate = Gate(0, 0)
    assert all(gate.enter("::1") for _ in range(1000))
    assert (gate.inside, gate.refused) == (1000, 0)


def test_a_full_gate_refuses_until_somebody_leaves() -> None:
    gate = Gate(2, 0)
    assert [gate.enter(address) for address in ("a", "b", "c")] == [True, True, False]
    assert (gate.inside, gate.refused) == (2, 1)
    gate.leave("a")
    assert gate.enter("c")


def test_an_address_has_its_own_limit() -> None:
    gate = Gate(0, 2)
    assert [gate.enter(address) for address in ("a", "a", "a", "b")] == [True, True, False, True]
    gate.leave("a")
    assert gate.enter("a")


def test_a_gate_forgets_addresses_that_have_left() -> None:
    gate = Gate(0, 1)
    for number in range(1000):
        assert gate.enter(str(number))
        gate.leave(str(number))
    assert (gate.inside, len(gate._by_address)) == (0, 0)


# --- binding ---


def test_a_port_that_is_taken_cannot_be_bound() -> None:
    (first,) = bind("127.0.0.1", 0)
    with first, pytest.raises(OSError, match="in use"):
        bind("127.0.0.1", first.getsockname()[1])


def test_a_host_that_is_none_cannot_be_bound() -> None:
    with pytest.raises(socket.gaierror):
        bind("no such host", 0)


@contextmanager
def bound(host: str) -> Iterator[list[socket.socket]]:
    sockets = bind(host, 0)
    try:
        yield sockets
    finally:
        for sock in sockets:
            sock.close()


def test_the_ipv6_loopback_can_be_bound() -> None:
    with bound("::1") as (sock,):
        assert sock.family == socket.AF_INET6
        assert sock.getsockname()[0] == "::1"


def test_no_host_is_every_interface_of_both_families() -> None:
    with bound("") as sockets:
        assert {sock.getsockname()[0] for sock in sockets} == {"0.0.0.0", "::"}


def test_when_one_address_of_many_cannot_be_bound_none_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with bound("127.0.0.1") as (taken,):
        port = taken.getsockname()[1]
        addresses = [("127.0.0.2", port), ("127.0.0.1", port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)
        with pytest.raises(OSError, match="in use"):
            bind("both", port)
        with socket.socket() as again:
            again.bind(addresses[0])


# --- accepting ---


@pytest.mark.parametrize("loop", LOOPS)
def test_connections_are_handed_over_and_counted_until_they_end(loop: ModuleType) -> None:
    async def story() -> None:
        async with house() as (open_house, port):
            assert open_house.listener.address == f"127.0.0.1:{port}"
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"hello\n")
            assert await reader.readline() == b"hello\n"
            assert open_house.gate.inside == 1
            writer.close()
            await until(lambda: open_house.gate.inside == 0)

    on(loop, story)


@pytest.mark.parametrize("loop", LOOPS)
def test_sockets_send_small_answers_at_once_and_find_dead_peers(loop: ModuleType) -> None:
    async def story() -> None:
        async with house() as (open_house, port):
            assert await echoes(port)
            sock = open_house.made[0].transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE_S

    on(loop, story)


@pytest.mark.parametrize("loop", LOOPS)
def test_whoever_is_too_much_is_closed_without_a_word(loop: ModuleType) -> None:
    async def story() -> None:
        async with house(Gate(1, 0)) as (open_house, port):
            _, inside = await asyncio.open_connection("127.0.0.1", port)
            await until(lambda: open_house.gate.inside == 1)
            reader, outside = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() == b""
            assert open_house.gate.refused == 1
            outside.close()
            inside.close()
            await until(lambda: open_house.gate.inside == 0)
            assert await echoes(port)

    on(loop, story)


@pytest.mark.parametrize("loop", LOOPS)
def test_many_quick_connections_are_all_served_and_all_counted_out(loop: ModuleType) -> None:
    async def story() -> None:
        async with house() as (open_house, port):
            for _ in range(3):
                assert all(await asyncio.gather(*(echoes(port) for _ in range(ACCEPTS_PER_WAKE + 30))))
            await until(lambda: open_house.gate.inside == 0)
            assert open_house.gate.refused == 0

    on(loop, story)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_peer_that_is_gone_before_it_is_greeted_is_counted_out(loop: ModuleType) -> None:
    async def story() -> None:
        async with house() as (open_house, port):
            for _ in range(20):
                with socket.create_connection(("127.0.0.1", port)) as peer:
                    # Closing with this set sends a reset.
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            assert await echoes(port)
            await until(lambda: open_house.gate.inside == 0)

    on(loop, story)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_that_cannot_be_made_is_counted_out(loop: ModuleType) -> None:
    async def story() -> None:
        (sock,) = bind("127.0.0.1", 0)
        gate = Gate(0, 0)

        def connect(left: Left) -> Echo:
            raise OSError(errno.ENOMEM, "no room")

        listener = Listener(sock, connect, gate, tls=None, handshake_timeout_s=1, broken=lambda error: None)
        reader, writer = await asyncio.open_connection("127.0.0.1", sock.getsockname()[1])
        assert await reader.read() == b""
        assert gate.inside == 0
        writer.close()
        listener.close()

    on(loop, story)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_closed_listener_takes_nobody_in_and_keeps_who_is_inside(loop: ModuleType) -> None:
    async def story() -> None:
        async with house() as (open_house, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await until(lambda: open_house.gate.inside == 1)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"still here\n")
        assert await reader.readline() == b"still here\n"
        writer.close()
        await until(lambda: open_house.gate.inside == 0)

    on(loop, story)


# --- what accept may report ---


@pytest.mark.parametrize("loop", LOOPS)
def test_without_free_descriptors_newcomers_wait_until_there_are_some(loop: ModuleType) -> None:
    async def story() -> None:
        async with house() as (open_house, port):
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            with socket.socket() as peer:
                peer.setblocking(False)
                with socket.socket() as highest:
                    lowest_free = highest.fileno()
                # Whatever is open stays open, and accept finds no number for one more.
                resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
                try:
                    await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", port))
                    await until(lambda: open_house.listener._back_off_s > BACK_OFF_LEAST_S)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                await until(lambda: open_house.gate.inside == 1)
                assert open_house.listener._back_off_s == 0
                assert open_house.errors == []
            await until(lambda: open_house.gate.inside == 0)

    on(loop, story)


class BrokenSocket(socket.socket):
    """A listening socket that reports an error instead of a connection."""

    failure = errno.EBADF

    def accept(self) -> Any:
        raise OSError(self.failure, "made up")


def broken_house(failure: int) -> tuple[House, int]:
    with BrokenSocket() as sock:
        sock.failure = failure
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        sock.setblocking(False)
        kept = BrokenSocket(fileno=sock.detach())
    kept.failure = failure
    return House(kept, Gate(0, 0)), kept.getsockname()[1]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("failure", [errno.EMFILE, errno.ECONNABORTED, errno.EPERM, errno.EHOSTUNREACH])
def test_what_passes_is_waited_for_longer_and_longer(loop: ModuleType, failure: int) -> None:
    async def story() -> None:
        open_house, port = broken_house(failure)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        pauses: list[float] = []

        def grown() -> bool:
            if not pauses or open_house.listener._back_off_s != pauses[-1]:
                pauses.append(open_house.listener._back_off_s)
            return len(pauses) > 5

        await until(grown)
        assert pauses[-4:] == [pause * 2 for pause in pauses[-5:-1]]
        assert open_house.errors == []
        writer.close()
        open_house.listener.close()

    on(loop, story)


def test_the_longest_pause_is_bounded() -> None:
    async def story() -> None:
        open_house, _ = broken_house(errno.EMFILE)
        for _ in range(20):
            open_house.listener._accept()
            assert open_house.listener._resume is not None
            open_house.listener._resume.cancel()
        assert open_house.listener._back_off_s == BACK_OFF_MOST_S
        open_house.listener.close()

    on(asyncio, story)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_broken_socket_is_reported_once(loop: ModuleType) -> None:
    async def story() -> None:
        open_house, port = broken_house(errno.EINVAL)
        assert errno.EINVAL not in PASSING
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: bool(open_house.errors))
        _, other = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0)
        assert [error.errno for error in open_house.errors] == [errno.EINVAL]
        writer.close()
        other.close()
        open_house.listener.close()

    on(loop, story)


@pytest.mark.parametrize("failure", [errno.EAGAIN, errno.EINTR])
def test_nothing_to_accept_is_no_failure(failure: int) -> None:
    async def story() -> None:
        open_house, _ = broken_house(failure)
        open_house.listener._accept()
        assert (open_house.listener._back_off_s, open_house.errors) == (0, [])
        open_house.listener.close()

    on(asyncio, story)
