"""Connections that are kept, found closed, shared, broken off and left to a child of a fork. Both faces where both apply.

Peers are bare sockets that say what a test wants; no server of ours is needed.
"""

import os
import signal
import socket
import threading

import pytest

from holdfast.client.clock import now_ns
from holdfast.client.lock_api import Ask
from holdfast.client.ports import Address
from holdfast.errors import BadPeer, Closed, Unavailable, Unknown
from holdfast.sync.lock_pool import Hand, Pool
from tests.sync.faces import Tasks, wait_until

SECOND = 1_000_000_000
ASK = Ask("POST", "/", b"POST / HTTP/1.1\r\n\r\n")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Peer:
    """Accepts connections one after the other; each answers the requests on it with what its list says, then closes."""

    def __init__(self, *connections):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self.heard = []
        self._thread = threading.Thread(target=self._serve, args=(connections,), daemon=True)
        self._thread.start()

    def _serve(self, connections):
        for number, answers in enumerate(connections):
            connection, _ = self._listener.accept()
            with connection:
                for answer in answers:
                    heard = b""
                    while not heard.endswith(b"\r\n\r\n"):
                        piece = connection.recv(4096)
                        if not piece:
                            break
                        heard += piece
                    self.heard.append(number)
                    connection.sendall(answer)
                if not answers or not answers[-1]:
                    connection.recv(1)

    def close(self):
        self._listener.close()


@pytest.fixture
def peer():
    peers = []

    def make(*connections):
        peers.append(Peer(*connections))
        return peers[-1]

    yield make
    for one in peers:
        one.close()


class PoolOfTasks:
    """A pool of the asyncio face that blocks."""

    def __init__(self, face, *arguments, **named):
        from holdfast.aio.lock_pool import Pool as AioPool

        self.face = face
        self.inner = AioPool(*arguments, **named)
        self.close = self.inner.close

    def exchange(self, *arguments, **named):
        return self.face.run(self.inner.exchange, *arguments, **named)

    @property
    def _idle(self):
        return self.inner._idle


@pytest.fixture
def pool_of(face):
    pools = []

    def make(address, **named):
        pools.append(PoolOfTasks(face, address, **named) if isinstance(face, Tasks) else Pool(address, **named))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def soon(seconds=10.0):
    return now_ns() + int(seconds * SECOND)


def test_a_connection_is_used_again(peer, pool_of):
    there = peer([OK, OK, OK])
    pool = pool_of(there.address)
    assert [pool.exchange(ASK, soon()).body for _ in range(3)] == [b"{}"] * 3
    assert there.heard == [0, 0, 0]


def test_an_answer_that_says_so_closes_its_connection(peer, pool_of):
    there = peer([OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")], [OK])
    pool = pool_of(there.address)
    pool.exchange(ASK, soon())
    assert pool._idle == []
    pool.exchange(ASK, soon())
    assert there.heard == [0, 1]


def test_a_connection_on_which_something_unasked_came_is_not_used_again(peer, pool_of, face):
    there = peer([OK, b""], [OK])
    pool = pool_of(there.address)
    pool.exchange(ASK, soon())
    # The next answer has come already, before it was asked for.
    there2 = peer([OK + OK], [OK])
    pool = pool_of(there2.address)
    assert pool.exchange(ASK, soon()).body == b"{}"
    assert pool.exchange(ASK, soon()).body == b"{}"
    assert there2.heard == [0, 1]


def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(peer, pool_of, face):
    there = peer([OK], [OK])
    pool = pool_of(there.address)
    pool.exchange(ASK, soon())
    (wire,) = pool._idle
    quiet = (lambda: face.run(lambda: wire.quiet)) if isinstance(face, Tasks) else (lambda: wire.quiet)
    wait_until(lambda: not quiet())
    pool.exchange(ASK, soon())
    assert there.heard == [0, 1]


@pytest.mark.parametrize("twice", [True, False])
def test_a_kept_connection_that_closes_upon_the_request(peer, pool_of, twice):
    """It is sent again over a new one, if it may be sent twice."""
    there = peer([OK, b"", b""], [OK])
    pool = pool_of(there.address)
    pool.exchange(ASK, soon())

    def close_upon_request():
        wait_until(lambda: len(there.heard) == 2)
        (there_,) = [hand.wire] if hand.wire else [None]
        return there_

    hand = Hand()
    there.heard.clear()
    # The peer closes after it has heard the request: its list is over.
    closing = peer([OK, *[]], [OK])
    pool = pool_of(closing.address)
    pool.exchange(ASK, soon())
    (wire,) = pool._idle
    # As if the end had not arrived yet when it was looked for.
    type_ = type(wire)
    original = type_.quiet
    try:
        type_.quiet = property(lambda _self: True)
        if twice:
            assert pool.exchange(ASK, soon()).body == b"{}"
        else:
            with pytest.raises(Unknown):
                pool.exchange(ASK, soon(), twice=False)
    finally:
        type_.quiet = original


def test_nobody_is_there(pool_of):
    pool = pool_of(Address("127.0.0.1", 1))
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1 cannot be reached"):
        pool.exchange(ASK, soon())


@pytest.mark.parametrize("answer", [b"", OK[:-1], OK[:10], b"HTTP/1.1 200 OK\r\n"])
def test_an_answer_that_is_cut_is_unknown(peer, pool_of, answer):
    there = peer([answer + b""] if answer else [b"\0"[:0]])
    pool = pool_of(there.address)
    with pytest.raises(Unknown):
        pool.exchange(ASK, soon(0.3))


def test_an_answer_that_is_none(peer, pool_of):
    pool = pool_of(peer([b"ok token 30\r\n\r\n"]).address)
    with pytest.raises(BadPeer):
        pool.exchange(ASK, soon())
    assert pool._idle == []


def test_an_answer_that_does_not_come_in_time(peer, pool_of):
    pool = pool_of(peer([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1", b""]).address)
    with pytest.raises(Unknown, match="not answered in time"):
        pool.exchange(ASK, soon(0.05))
    assert pool._idle == []


def test_no_more_connections_are_kept_than_said(pool_of, go):
    pool = pool_of(Address("127.0.0.1", go.server_address[1]), idle_max=2)
    ask = Ask("GET", "/v1/locks/a", b"GET /v1/locks/a HTTP/1.1\r\n\r\n")
    start = threading.Barrier(6)

    def work():
        start.wait(10)
        pool.exchange(ask, soon())

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert 1 <= len(pool._idle) <= 2


def test_a_pool_that_is_closed(peer, pool_of):
    pool = pool_of(peer([OK, b""]).address)
    pool.exchange(ASK, soon())
    pool.close()
    assert pool._idle == []
    with pytest.raises(Closed):
        pool.exchange(ASK, soon())


def test_an_exchange_is_broken_off_by_another_thread(peer, pool_of):
    there = peer([b"", b""])
    pool = pool_of(there.address)
    hand = Hand()
    failed = []

    def work():
        try:
            pool.exchange(ASK, soon(60), hand=hand)
        except Unknown as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: there.heard)
    hand.break_off()
    thread.join(10)
    assert len(failed) == 1


def test_an_exchange_that_was_broken_off_before_it_began_fails_at_once(peer, pool_of):
    hand = Hand()
    hand.break_off()
    with pytest.raises(Unknown):
        pool_of(peer([b""]).address).exchange(ASK, soon(60), hand=hand)


def test_a_child_of_a_fork_leaves_the_connections_of_its_parent_alone(peer):
    """The child makes its own; the parent goes on with what it has."""
    there = peer([OK, OK], [OK])
    pool = Pool(there.address)
    pool.exchange(ASK, soon())
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, b"%d" % len(pool._idle))
            pool._take()
            os.write(write, b"%d" % len(pool._idle))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"10"
    assert pool.exchange(ASK, soon()).body == b"{}"
    assert there.heard == [0, 0]
    os.close(read)
    os.close(write)
    pool.close()
