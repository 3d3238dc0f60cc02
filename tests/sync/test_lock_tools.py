"""What the lock client needs of threads and sockets: connections with time limits, workers, names that are looked up.

The other side is a bare socket of the test itself.
"""

import socket
import ssl
import threading
from contextlib import suppress

import pytest

from holdfast.client.clock import now_ns
from holdfast.client.ports import Address
from holdfast.sync import lock_tools
from holdfast.sync.lock_tools import DIAL_ERRORS, SECOND, Wire, Worker, dial, sleep_until
from tests.aio.lock_faces import wait_until
from tests.certificates import Authority


def soon(seconds=10.0):
    return now_ns() + int(seconds * SECOND)


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def place(listener):
    return Address("127.0.0.1", listener.getsockname()[1])


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Wire(ours), theirs


# --- connecting ---


def test_bytes_go_both_ways(listener, place):
    wire = dial(place, soon())
    other, _ = listener.accept()
    wire.send(b"question", soon())
    assert other.recv(100) == b"question"
    other.sendall(b"answer")
    assert wire.receive(soon()) == b"answer"
    other.close()
    assert wire.receive(soon()) == b""
    wire.close()


def test_nobody_is_there():
    with pytest.raises(OSError, match="refused"):
        dial(Address("127.0.0.1", 1), soon())


def test_the_next_address_of_a_name_is_tried_when_one_does_not_answer(monkeypatch, listener, place):
    good = socket.getaddrinfo("127.0.0.1", place.port, type=socket.SOCK_STREAM)
    bad = socket.getaddrinfo("127.0.0.1", 1, type=socket.SOCK_STREAM)
    monkeypatch.setattr(lock_tools, "_resolve", lambda *_given: bad + good)
    dial(place, soon()).close()
    # When the time is up it is not: what is left of the list would be late anyway.
    with pytest.raises(OSError, match="refused"):
        dial(place, now_ns())


def test_a_name_without_an_address_is_no_place(monkeypatch, place):
    monkeypatch.setattr(lock_tools, "_resolve", lambda *_given: [])
    with pytest.raises(OSError, match="has no address"):
        dial(place, soon())


@pytest.mark.parametrize("name", [f"{'x' * 64}.invalid", "a..b"])
def test_a_name_that_is_no_name(name):
    with pytest.raises(DIAL_ERRORS):
        dial(Address(name, 1), soon())


def test_looking_up_a_name_is_left_alone_when_time_is_up(monkeypatch, listener, place):
    answered = threading.Event()

    def slow(*_given, **_named):
        answered.wait(10)
        return []

    monkeypatch.setattr(lock_tools.socket, "getaddrinfo", slow)
    with pytest.raises(TimeoutError, match=r"the address of a\.example could not be found in time"):
        dial(Address("a.example", 1), soon(0.02))
    answered.set()


def test_a_name_is_looked_up(listener, place):
    with suppress(ConnectionRefusedError):  # where its first address is not the one that is listened on, nor its last
        dial(Address("localhost", place.port), soon()).close()
        other, _ = listener.accept()
        other.close()


def test_under_tls_and_not_to_somebody_with_another_certificate(tmp_path, listener, place):
    authority, stranger = Authority(tmp_path / "ours"), Authority(tmp_path / "strange")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.sign("server"))

    def serve():
        for _ in range(2):
            connection, _ = listener.accept()
            with suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
                secure.sendall(secure.recv(100).upper())

    thread = threading.Thread(target=serve)
    thread.start()
    wire = dial(Address(place.host, place.port, authority.trust()), soon())
    wire.send(b"question", soon())
    assert wire.receive(soon()) == b"QUESTION"
    wire.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        dial(Address(place.host, place.port, stranger.trust()), soon())
    thread.join(10)


def test_a_context_that_breaks_leaves_no_socket_open(listener, place):
    class Broken:
        def wrap_socket(self, sock, **_named):
            sockets.append(sock)
            raise ZeroDivisionError

    sockets = []
    with pytest.raises(ZeroDivisionError):
        dial(Address(place.host, place.port, Broken()), soon())
    assert sockets[0].fileno() == -1


# --- a connection ---


def test_waiting_has_an_end(pair):
    wire, _ = pair
    with pytest.raises(TimeoutError):
        wire.receive(soon(0.01))
    with pytest.raises(TimeoutError):
        wire.receive(now_ns() - SECOND)
    with pytest.raises(TimeoutError):
        wire.send(b"x" * 10_000_000, soon(0.01))


def test_a_connection_is_quiet_until_something_comes_even_an_end(pair):
    wire, theirs = pair
    assert wire.quiet
    theirs.sendall(b"x")
    assert not wire.quiet
    wire.receive(soon())
    assert wire.quiet
    theirs.close()
    assert not wire.quiet
    wire.close()
    assert not wire.quiet


def test_whoever_waits_learns_at_once_that_it_was_closed(pair):
    wire, _ = pair

    def wait():
        with suppress(OSError):  # where it was closed before it was waited for
            wire.receive(soon(60))

    waiting = threading.Thread(target=wait)
    waiting.start()
    wire.close()
    waiting.join(10)
    assert not waiting.is_alive()


def test_what_is_forsaken_goes_on_for_whoever_shares_it(pair):
    wire, theirs = pair
    copy = wire._socket.dup()
    wire.forsake()
    with copy:
        theirs.sendall(b"still here")
        assert copy.recv(100) == b"still here"


# --- workers and waiting ---


def test_a_worker_is_waited_for_but_not_for_ever():
    go_on = threading.Event()
    worker = Worker(lambda: go_on.wait(10), "patient")
    worker.join(0.01)
    assert worker._thread.is_alive()
    assert (worker._thread.name, worker._thread.daemon) == ("patient", True)
    go_on.set()
    worker.join(10)
    assert not worker._thread.is_alive()


def test_a_worker_does_not_wait_for_itself():
    joined = threading.Event()
    made = threading.Event()

    def work():
        made.wait(10)
        workers[0].join(60)
        joined.set()

    workers = [Worker(work, "worker")]
    made.set()
    assert joined.wait(10)


def test_a_sleep_lasts_until_an_instant():
    then = soon(0.01)
    sleep_until(then)
    assert now_ns() >= then
    sleep_until(then - SECOND)


def test_the_end_of_a_worker_is_seen():
    worker = Worker(lambda: None, "quick")
    wait_until(lambda: not worker._thread.is_alive())
    worker.join(10)
