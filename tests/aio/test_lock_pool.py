"""Connections that are kept, found closed, shared, broken off and left to a child of a fork. Both faces.

Peers are bare sockets that do what a test wants; no server of ours is needed.
"""

import os
import signal
import socket
import struct
import threading
from contextlib import suppress

import pytest

from holdfast.aio.lock_pool import Pool as PoolForTasks
from holdfast.client.clock import now_ns
from holdfast.client.lock_api import Ask
from holdfast.client.ports import Address
from holdfast.errors import BadPeer, Closed, Unavailable, Unknown
from holdfast.sync.lock_pool import Hand, Pool
from tests.aio.lock_faces import Tasks, wait_until

SECOND = 1_000_000_000
ASK = Ask("POST", "/", b"POST / HTTP/1.1\r\n\r\n")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
LAST = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
# What a peer may do instead of answering: say nothing until the other side hangs up, or break the connection.
SILENT, RESET = "silent", "reset"


class Peer:
    """Accepts connections one after the other, and deals with the requests on each as its list says; then it closes."""

    def __init__(self, *connections):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self.heard = []
        threading.Thread(target=self._serve, args=(connections,), daemon=True).start()

    def _serve(self, connections):
        with suppress(OSError):  # the test is over
            for number, answers in enumerate(connections):
                connection, _ = self._listener.accept()
                with connection:
                    for answer in answers:
                        self._answer(connection, number, answer)

    def _answer(self, connection, number, answer):
        heard = b""
        while not heard.endswith(b"\r\n\r\n"):
            piece = connection.recv(4096)
            if not piece:
                return
            heard += piece
        self.heard.append(number)
        if answer == SILENT:
            connection.recv(1)
        elif answer == RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            connection.sendall(answer)

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


class Blocking:
    """A pool of the asyncio face, in blocking clothes."""

    def __init__(self, tasks, *arguments, **named):
        self._tasks = tasks
        self._pool = PoolForTasks(*arguments, **named)
        self.close = self._pool.close

    def exchange(self, *arguments, **named):
        return self._tasks.run(self._pool.exchange, *arguments, **named)

    @property
    def _idle(self):
        return self._pool._idle

    def quiet(self):
        return self._tasks.run(lambda: self._idle[0].quiet)


class Plain(Pool):
    def quiet(self):
        return self._idle[0].quiet


@pytest.fixture
def pool_of(lock_face):
    pools = []

    def make(address, **named):
        kind = (lambda *given, **more: Blocking(lock_face, *given, **more)) if isinstance(lock_face, Tasks) else Plain
        pools.append(kind(address, **named))
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


def test_an_answer_that_says_so_is_the_last_of_its_connection(peer, pool_of):
    there = peer([LAST], [OK])
    pool = pool_of(there.address)
    pool.exchange(ASK, soon())
    assert pool._idle == []
    pool.exchange(ASK, soon())
    assert there.heard == [0, 1]


def test_a_connection_on_which_an_answer_came_before_its_request_is_not_used_again(peer, pool_of):
    """Otherwise each request on it would be given the answer to another one."""
    there = peer([OK + OK, SILENT], [OK])
    pool = pool_of(there.address)
    assert pool.exchange(ASK, soon()).body == b"{}"
    assert pool.exchange(ASK, soon()).body == b"{}"
    assert there.heard == [0, 1]


def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(peer, pool_of):
    there = peer([OK], [OK])
    pool = pool_of(there.address)
    pool.exchange(ASK, soon())
    wait_until(lambda: not pool.quiet())
    pool.exchange(ASK, soon())
    assert there.heard == [0, 1]


@pytest.mark.parametrize("end", [b"", RESET])
def test_a_request_on_a_kept_connection_that_is_closed_upon_it_is_sent_again(peer, pool_of, end):
    there = peer([OK, end], [OK])
    pool = pool_of(there.address)
    pool.exchange(ASK, soon())
    assert pool.exchange(ASK, soon()).body == b"{}"
    assert there.heard == [0, 0, 1]


@pytest.mark.parametrize("end", [b"", RESET])
def test_what_may_not_be_sent_twice_is_not_sent_again(peer, pool_of, end):
    there = peer([OK, end], [OK])
    pool = pool_of(there.address)
    pool.exchange(ASK, soon())
    with pytest.raises(Unknown):
        pool.exchange(ASK, soon(), twice=False)
    assert there.heard == [0, 0]


def test_nobody_is_there(pool_of):
    pool = pool_of(Address("127.0.0.1", 1))
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1 cannot be reached"):
        pool.exchange(ASK, soon())


@pytest.mark.parametrize("answer", [b"", RESET, OK[:-1], OK[:10], b"HTTP/1.1 200 OK\r\n"])
def test_an_answer_that_is_cut_is_unknown(peer, pool_of, answer):
    pool = pool_of(peer([answer]).address)
    with pytest.raises(Unknown):
        pool.exchange(ASK, soon())
    assert pool._idle == []


def test_an_answer_that_is_none(peer, pool_of):
    pool = pool_of(peer([b"ok token 30\r\n\r\n"]).address)
    with pytest.raises(BadPeer):
        pool.exchange(ASK, soon())
    assert pool._idle == []


def test_an_answer_that_does_not_come_in_time(peer, pool_of):
    pool = pool_of(peer([SILENT]).address)
    with pytest.raises(Unknown, match="not answered in time"):
        pool.exchange(ASK, soon(0.03))
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
    pool = pool_of(peer([OK, SILENT]).address)
    pool.exchange(ASK, soon())
    pool.close()
    assert pool._idle == []
    with pytest.raises(Closed):
        pool.exchange(ASK, soon())


def test_an_exchange_under_way_ends_after_the_pool_was_closed_and_its_connection_is_not_kept(peer, pool_of):
    there = peer([SILENT])
    pool = pool_of(there.address)
    failed = []

    def work():
        try:
            pool.exchange(ASK, soon(0.05))
        except Unknown as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: there.heard)
    pool.close()
    thread.join(10)
    assert len(failed) == 1
    assert pool._idle == []


def test_an_exchange_is_broken_off_by_another_thread(peer, pool_of):
    there = peer([SILENT])
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
        pool_of(peer([SILENT]).address).exchange(ASK, soon(60), hand=hand)


@pytest.mark.parametrize("first", ["exchange", "close"])
def test_a_child_of_a_fork_leaves_the_connections_of_its_parent_alone(peer, first):
    """Whether the child asks something itself or closes what it got: the parent goes on with its connection."""
    there = peer([OK, OK], [OK])
    pool = Pool(there.address)
    pool.exchange(ASK, soon())
    pool._lock.acquire()  # as a thread might have done that does not exist in the child
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if first == "close":
                pool.close()
            else:
                pool._take()
            os.write(write, b"%d" % len(pool._idle))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    pool._lock.release()
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"0"
    assert pool.exchange(ASK, soon()).body == b"{}"
    assert there.heard == [0, 0]
    os.close(read)
    os.close(write)
    pool.close()
