"""Real sockets: bytes both ways, time limits, names with several places, TLS under two threads, and forks.

The other side is a bare socket of the test itself.
"""

import asyncio
import os
import queue
import socket
import ssl
import stat
import threading
from contextlib import suppress

import pytest

from holdfast.client.clock import now_ns
from holdfast.client.network import SocketNetwork, SocketStream, TlsStream, sleep_until
from holdfast.client.ports import Address
from tests.certificates import Authority
from tests.client.forks import in_child

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
PATIENCE_S = 20


def soon(seconds=PATIENCE_S):
    return now_ns() + int(seconds * SECOND)


class Other:
    """The other side: a listener, and the connection that was made last."""

    def __init__(self, listener, context=None):
        self.listener = listener
        self.port = listener.getsockname()[1]
        self.context = context
        self.socket = None

    def address(self, tls=None):
        return Address("127.0.0.1", self.port, tls)

    def accept(self):
        sock, _ = self.listener.accept()
        sock.settimeout(PATIENCE_S)
        self.socket = sock if self.context is None else self.context.wrap_socket(sock, server_side=True)
        return self.socket

    def accept_meanwhile(self):
        """Accept in a thread, for TLS needs both sides to shake hands; give a way to wait for it."""
        accepted = queue.SimpleQueue()

        def accept():
            try:
                accepted.put(self.accept())
            except OSError as error:
                accepted.put(error)

        threading.Thread(target=accept, daemon=True).start()
        return lambda: accepted.get(timeout=PATIENCE_S)

    def close(self):
        if self.socket is not None:
            self.socket.close()


@pytest.fixture
def other():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = Other(listener)
        yield other
        other.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates") / "authority")


@pytest.fixture(scope="module")
def context(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign("server"))
    return context


@pytest.fixture
def secure(context):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = Other(listener, context)
        yield other
        other.close()


@pytest.fixture
def stream(other):
    stream = SocketNetwork().dial(other.address(), soon())
    other.accept()
    yield stream
    stream.close()


@pytest.fixture
def tls_stream(secure, authority):
    accepted = secure.accept_meanwhile()
    stream = SocketNetwork().dial(secure.address(authority.trust()), soon())
    accepted()
    yield stream
    stream.close()


@pytest.fixture(params=["plain", "tls"])
def pair(request):
    """Give a connection of each kind, and its other end."""
    if request.param == "plain":
        return request.getfixturevalue("stream"), request.getfixturevalue("other").socket
    return request.getfixturevalue("tls_stream"), request.getfixturevalue("secure").socket


# --- connections that block their caller ---


def test_bytes_go_both_ways(pair):
    stream, far = pair
    stream.send(b"question")
    assert far.recv(100) == b"question"
    far.sendall(b"answer")
    assert stream.receive(soon()) == b"answer"


def test_the_end_is_no_bytes(pair):
    stream, far = pair
    far.sendall(b"last words")
    far.close()
    assert stream.receive(soon()) == b"last words"
    assert stream.receive(soon()) == b""


def test_an_answer_that_does_not_come_in_time_is_missed_and_the_next_one_is_not(pair):
    stream, far = pair
    for seconds in (-1, 0, 0.01):
        with pytest.raises(TimeoutError):
            stream.receive(soon(seconds))
    far.sendall(b"answer")
    assert stream.receive(soon()) == b"answer"
    assert isinstance(stream, (SocketStream, TlsStream))


def test_a_short_wait_may_follow_a_long_one_and_the_other_way_round(pair):
    stream, far = pair
    for seconds in (PATIENCE_S, 1, 3600, 1 << 32, 2):
        far.sendall(b"answer")
        assert stream.receive(soon(seconds)) == b"answer"


def test_who_reads_is_woken_when_another_thread_closes(pair):
    stream, _ = pair
    read = queue.SimpleQueue()

    def reads():
        try:
            read.put(stream.receive(soon()))
        except (OSError, ValueError) as error:
            read.put(error)

    threading.Thread(target=reads, daemon=True).start()
    stream.close()
    said = read.get(timeout=PATIENCE_S)
    assert said == b"" or isinstance(said, (OSError, ValueError))
    stream.close()


def test_what_was_closed_neither_sends_nor_receives(pair):
    stream, _ = pair
    stream.close()
    with pytest.raises(OSError):  # noqa: PT011  which of them is the system's choice
        stream.send(b"question")
    with pytest.raises(OSError):  # noqa: PT011
        stream.receive(soon())


def test_a_peer_that_breaks_off_is_trouble(stream, other):
    other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    other.socket.close()
    with pytest.raises(ConnectionResetError):
        stream.receive(soon())


def test_a_long_silence_is_waited_out_in_pieces(other):
    """The kernel's time limit is shorter than the caller's: the clock decides."""
    stream = SocketNetwork().dial(other.address(), soon())
    readings = iter([0, 0, MILLISECOND, 2 * MILLISECOND, 5 * MILLISECOND])
    timed = SocketStream(stream._sock, lambda: next(readings))
    with pytest.raises(TimeoutError):
        timed.receive(3 * MILLISECOND)
    stream.close()


def test_two_threads_send_and_receive_a_lot_at_once(pair):
    stream, far = pair
    size = 1 << 20
    question = os.urandom(size)
    heard = queue.SimpleQueue()

    def echoes():  # one thread for both ways, as TLS wants it
        said = b""
        while len(said) < size:
            data = far.recv(65_536)
            far.sendall(data)
            said += data
        heard.put(said)

    def reads():
        read = b""
        while len(read) < size:
            read += stream.receive(soon())
        heard.put(read)

    for work in (echoes, reads):
        threading.Thread(target=work, daemon=True).start()
    for at in range(0, size, 10_000):
        stream.send(question[at : at + 10_000])
    assert heard.get(timeout=PATIENCE_S) == question
    assert heard.get(timeout=PATIENCE_S) == question


# --- making connections ---


def test_nobody_there_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address("127.0.0.1", listener.getsockname()[1])
    with pytest.raises(ConnectionRefusedError):
        SocketNetwork().dial(address, soon())


def test_when_the_time_is_over_nobody_is_called(other):
    with pytest.raises(TimeoutError, match="no time left"):
        SocketNetwork().dial(other.address(), now_ns())


@pytest.fixture
def places(monkeypatch):
    """Let every name lead to these places."""
    places = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **named: places)
    return places


def place(port, family=socket.AF_INET):
    return (family, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))


def test_a_name_that_leads_to_several_places_is_tried_until_one_answers(places, other):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    places += [place(other.port, family=99), place(closed), place(other.port)]
    stream = SocketNetwork().dial(Address("locks", 1), soon())
    other.accept().sendall(b"here")
    assert stream.receive(soon()) == b"here"
    stream.close()


def test_the_trouble_with_the_last_place_is_told(places):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    places += [place(1, family=99), place(closed)]
    with pytest.raises(ConnectionRefusedError):
        SocketNetwork().dial(Address("locks", 1), soon())


def test_a_name_that_leads_nowhere_is_trouble(places):
    with pytest.raises(OSError, match="leads nowhere"):
        SocketNetwork().dial(Address("locks", 1), soon())


def test_a_server_that_does_not_shake_hands_is_given_up(other, authority):
    with pytest.raises(TimeoutError):
        SocketNetwork().dial(other.address(authority.trust()), soon(0.05))
    far = other.accept()
    with suppress(ConnectionResetError):
        while far.recv(65_536):  # its hello
            pass


def test_a_server_that_nobody_vouches_for_is_not_talked_to(secure):
    accepted = secure.accept_meanwhile()
    with pytest.raises(ssl.SSLCertVerificationError):
        SocketNetwork().dial(secure.address(ssl.create_default_context()), soon())
    assert isinstance(accepted(), OSError)


# --- connections of an event loop ---


class Talk(asyncio.Protocol):
    def __init__(self):
        self.heard = asyncio.get_running_loop().create_future()
        self.lost = asyncio.get_running_loop().create_future()

    def data_received(self, data):
        self.heard.set_result(data)

    def connection_lost(self, exc):
        self.lost.set_result(exc)


def talk(address, far):
    """Connect in a loop, ask and hear; and look at the connection in a child of a fork meanwhile."""

    async def story():
        protocol = Talk()
        transport = await SocketNetwork().connect(address, protocol, soon())
        sock = transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert leads_nowhere_in_a_child(sock.fileno())
        transport.write(b"question")
        await asyncio.to_thread(lambda: far().sendall(b"answer"))
        async with asyncio.timeout(PATIENCE_S):
            heard = await protocol.heard
            transport.abort()
            await protocol.lost
        return heard

    return asyncio.run(story())


def leads_nowhere_in_a_child(number):
    """Say whether a child of a fork finds nothing behind the number of a socket, while its parent does."""
    kind = in_child(lambda: stat.S_ISCHR(os.fstat(number).st_mode))
    return kind == "True" and stat.S_ISSOCK(os.fstat(number).st_mode)


def test_a_loop_connects_in_the_clear_and_under_tls(other, secure, authority):
    assert talk(other.address(), other.accept) == b"answer"
    accepted = secure.accept_meanwhile()
    assert talk(secure.address(authority.trust()), accepted) == b"answer"


def test_a_loop_is_refused_and_runs_out_of_time_like_a_thread(other, authority):
    async def connect(address, until):
        await SocketNetwork().connect(address, asyncio.Protocol(), until)

    with pytest.raises(TimeoutError):
        asyncio.run(connect(other.address(), now_ns()))
    with pytest.raises(TimeoutError):
        asyncio.run(connect(other.address(authority.trust()), soon(0.05)))
    other.listener.close()
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(connect(other.address(), soon()))


# --- forks ---


def test_a_child_of_a_fork_finds_nothing_behind_its_parents_connections(pair):
    stream, far = pair
    assert leads_nowhere_in_a_child(stream._sock.fileno())
    in_child(stream.close)
    stream.send(b"still there")
    assert far.recv(100) == b"still there"


def test_what_a_parent_closes_is_closed_though_a_child_lives_on(stream, other):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)  # until its parent lets go of the other end
        os._exit(0)
    stream.close()
    assert other.socket.recv(100) == b""
    os.close(read)
    os.close(write)
    os.waitpid(child, 0)


# --- time ---


def test_sleeping_until_what_is_past_is_over_at_once_and_else_afterwards():
    sleep_until(0)
    until = now_ns() + MILLISECOND
    sleep_until(until)
    assert now_ns() >= until
