"""The keeper's sockets on loopback, driven by hand: peers that answer, refuse, reset, say nothing or never stop."""

import os
import selectors
import socket
import ssl
import struct
import threading
import time

import pytest

from holdfast.client import sockets as module
from holdfast.client.ports import Address
from holdfast.client.sockets import Sockets
from tests.certificates import Authority

PATIENCE_S = 30


class Heard:
    """A receiver that notes what it hears."""

    def __init__(self):
        self.connections = 0
        self.data = b""
        self.ends = []

    def connected(self, now):
        self.connections += 1

    def received(self, data, now):
        self.data += data

    def broken(self, why, now):
        self.ends.append(why)


class Stage:
    """Sockets without a thread of their own: the test lends them its own until something has come true."""

    def __init__(self):
        self.sockets = Sockets()
        self.listeners = []
        self.turns = 0

    def listen(self, host="127.0.0.1"):
        listener = socket.create_server((host, 0))
        self.listeners.append(listener)
        return listener

    def open(self, listener=None, *, host="127.0.0.1", port=None, tls=None):
        heard = Heard()
        port = listener.getsockname()[1] if listener is not None else port
        return self.sockets.open(Address(host, port, tls), heard), heard

    def turn(self, timeout_s=0.0):
        self.turns += 1
        self.sockets.settle(0)
        self.sockets.serve(self.sockets.wait(timeout_s), 0)

    def until(self, ready):
        end = time.monotonic() + PATIENCE_S
        while not ready():
            assert time.monotonic() < end, "it does not come about"
            self.turn(0.05)

    def joined(self):
        """Give a pipe, what it heard, and the far end."""
        listener = self.listen()
        pipe, heard = self.open(listener)
        self.until(lambda: heard.connections)
        far, _ = listener.accept()
        self.listeners.append(far)
        return pipe, heard, far

    def close(self):
        self.sockets.close()
        for one in self.listeners:
            one.close()


@pytest.fixture
def stage():
    stage = Stage()
    yield stage
    stage.close()


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_what_is_written_arrives_and_what_arrives_is_heard(stage):
    pipe, heard, far = stage.joined()
    pipe.write(b"hello")
    stage.turn()
    assert far.recv(100) == b"hello"
    far.sendall(b"yes")
    stage.until(lambda: heard.data == b"yes")
    assert heard.connections == 1


def test_what_is_written_before_there_is_a_connection_is_not_lost(stage):
    listener = stage.listen()
    pipe, heard = stage.open(listener)
    pipe.write(b"early")
    stage.until(lambda: heard.connections)
    far, _ = listener.accept()
    with far:
        assert far.recv(100) == b"early"


def test_nobody_at_the_port_is_heard_of_once(stage):
    pipe, heard = stage.open(port=closed_port())
    stage.until(lambda: heard.ends)
    pipe.write(b"too late")
    pipe.close()
    stage.turn()
    assert len(heard.ends) == 1
    assert "refused" in heard.ends[0].lower()
    assert heard.connections == 0


def test_a_name_that_leads_nowhere_is_heard_of(stage):
    _, heard = stage.open(host="no-such-name.invalid", port=1)
    stage.until(lambda: heard.ends)
    assert heard.ends[0].startswith("cannot connect to no-such-name.invalid:1")


def test_what_is_no_name_at_all_is_heard_of(stage):
    _, heard = stage.open(host="a" * 70, port=1)
    stage.until(lambda: heard.ends)
    assert heard.ends[0].startswith("cannot connect")


def test_a_name_is_looked_up_beside_and_led_to(stage):
    listener = stage.listen()
    _, heard = stage.open(listener, host="localhost")
    stage.until(lambda: heard.connections or heard.ends)
    assert heard.connections == 1


def test_a_peer_that_closes_is_heard_of_after_its_last_words(stage):
    _, heard, far = stage.joined()
    far.sendall(b"goodbye")
    far.close()
    stage.until(lambda: heard.ends)
    assert (heard.data, heard.ends) == (b"goodbye", ["the server closed the connection"])


def test_a_peer_that_resets_is_heard_of(stage):
    _, heard, far = stage.joined()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    far.close()
    stage.until(lambda: heard.ends)
    assert "reset" in heard.ends[0]


def test_a_peer_that_does_not_read_holds_up_nobody_else(stage):
    pipe, _, far = stage.joined()
    other, heard, other_far = stage.joined()
    data = os.urandom(1 << 20) * 8
    pipe.write(data)
    stage.turn()
    other.write(b"me too")
    stage.turn()
    assert other_far.recv(100) == b"me too"
    taken = bytearray()
    far.setblocking(False)

    def take():
        with selectors.DefaultSelector() as selector:
            selector.register(far, selectors.EVENT_READ)
            if selector.select(0):
                taken.extend(far.recv(1 << 20))
        return len(taken) == len(data)

    stage.until(take)
    assert taken == data
    assert heard.ends == []


def test_a_peer_that_never_stops_talking_leaves_turns_to_others(stage):
    """One that watches all keys of a busy server hears more than can be read at once; renewals do not wait for that."""
    pipe, heard, _ = stage.joined()

    class Torrent:
        fileno = pipe._sock.fileno
        close = pipe._sock.close
        reads = 0

        def recv(self, size):
            self.reads += 1
            return b"x" * size

        def send(self, data):
            return len(data)

    torrent, real = Torrent(), pipe._sock
    pipe._sock = torrent
    stage.sockets.serve([pipe], 0)
    assert torrent.reads == module.READS_MAX
    assert stage.sockets.wait(PATIENCE_S) == []  # it comes back at once, whatever the selector says
    stage.sockets.serve([], 0)
    assert torrent.reads == 2 * module.READS_MAX
    pipe._sock = real
    assert not heard.ends


def test_who_is_closed_hears_nothing_more(stage):
    pipe, heard, far = stage.joined()
    pipe.close()
    far.sendall(b"are you there")
    stage.turn(0.01)
    stage.turn(0.01)
    assert (heard.data, heard.ends) == (b"", [])
    assert pipe._sock is None


def test_who_is_closed_before_it_began_never_begins(stage):
    listener = stage.listen()
    pipe, heard = stage.open(listener)
    pipe.close()
    stage.turn()
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert heard.connections == 0


def test_closing_leaves_no_file_open(stage):
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        pipe, _, far = stage.joined()
        pipe.close()
        stage.turn()
        far.close()
        stage.listeners[-2].close()
    _, heard = stage.open(port=closed_port())
    stage.until(lambda: heard.ends)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert not stage.sockets._pipes


def test_another_thread_wakes_who_waits(stage):
    done = []
    stage.sockets.later(done.append)
    for _ in range(1000):
        stage.sockets.wake()  # however often
    assert stage.sockets.wait(PATIENCE_S) == []
    stage.sockets.serve([], 7)
    assert done == [7]


def test_where_nobody_has_answered_in_time_is_tried_last(stage):
    """A router may swallow what is sent to one of the addresses that a name has."""
    swallowed, good = ("192.0.2.1", 1), ("127.0.0.1", 2)
    places = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in (swallowed, good)]
    assert stage.sockets.sorted(places) == places
    stage.sockets.shun(swallowed)
    assert stage.sockets.sorted(places) == places[::-1]
    stage.sockets.shun(good)  # the one that was tried longest ago comes first
    assert stage.sockets.sorted(places) == places
    stage.sockets.trust(swallowed)
    stage.sockets.trust(good)
    for number in range(1000):
        stage.sockets.shun(number)
    assert len(stage.sockets._shunned) <= module.SHUNNED_MAX


def test_a_connection_that_was_given_up_while_it_was_made_is_shunned(stage):
    listener = socket.socket()
    stage.listeners.append(listener)
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    fillers = [socket.create_connection(listener.getsockname()) for _ in range(1)]
    stage.listeners += fillers
    pipes = [stage.open(listener)[0] for _ in range(4)]
    stage.turn()
    for pipe in pipes:
        pipe.close()  # at least one of them got no answer: nobody accepts here
    stage.turn()
    assert list(stage.sockets._shunned) == [listener.getsockname()]


# --- TLS ---


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


class Shaker:
    """Takes one connection under TLS in a thread of its own, and then does what it is told."""

    def __init__(self, listener, certificate, talk):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
        self._context = context
        self._listener = listener
        self._talk = talk
        self.trouble = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        far, _ = self._listener.accept()
        with far:
            try:
                with self._context.wrap_socket(far, server_side=True) as wrapped:
                    self._talk(wrapped)
            except OSError as error:
                self.trouble = error

    def join(self):
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


def test_under_tls_everything_arrives_also_what_the_selector_knows_nothing_of(stage, authority):
    size = 3 << 20
    listener = stage.listen()

    def talk(far):
        asked = far.recv(4)
        far.sendall(asked * (size // len(asked)))
        far.recv(1)

    shaker = Shaker(listener, authority.sign("server"), talk)
    pipe, heard = stage.open(listener, tls=authority.trust())
    pipe.write(b"more")
    stage.until(lambda: len(heard.data) == size)
    assert heard.data == b"more" * (size // 4)
    pipe.close()
    stage.turn()
    shaker.join()


def test_under_tls_much_can_be_written_to_a_peer_that_reads_slowly(stage, authority):
    size = 3 << 20
    listener = stage.listen()
    taken = bytearray()

    def talk(far):
        while len(taken) < size:
            taken.extend(far.recv(10_000))
        far.sendall(b"thanks")

    shaker = Shaker(listener, authority.sign("server"), talk)
    pipe, heard = stage.open(listener, tls=authority.trust())
    pipe.write(b"x" * size)
    stage.until(lambda: heard.data == b"thanks")
    assert len(taken) == size
    shaker.join()


def test_a_certificate_that_nobody_signed_is_refused(stage, authority):
    listener = stage.listen()
    shaker = Shaker(listener, authority.sign("server"), lambda far: far.recv(1))
    _, heard = stage.open(listener, tls=ssl.create_default_context())
    stage.until(lambda: heard.ends)
    assert "certificate verify failed" in heard.ends[0]
    assert heard.connections == 0
    shaker.join()


def test_a_peer_that_answers_a_handshake_with_something_else_is_heard_of(stage, authority):
    listener = stage.listen()
    _, heard = stage.open(listener, tls=authority.trust())
    stage.turn(1)
    far, _ = listener.accept()
    with far:
        far.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        stage.until(lambda: heard.ends)
    assert heard.connections == 0


# --- a fork ---


def test_a_child_lets_go_of_what_is_joined_and_does_not_disturb_its_parent(stage):
    """A connection that only a child still has open would keep a claim alive that its parent has given up."""
    pipe, heard, far = stage.joined()
    connecting, _ = stage.open(stage.listeners[0])
    stage.sockets.settle(0)  # this one is on its way
    child = os.fork()
    if child == 0:
        stage.sockets.close()
        clean = pipe._sock.fileno() == connecting._sock.fileno() == -1
        os._exit(0 if clean else 1)
    assert os.waitpid(child, 0)[1] == 0
    pipe.write(b"still here")
    stage.turn()
    assert far.recv(100) == b"still here"
    far.sendall(b"so am I")
    stage.until(lambda: heard.data == b"so am I")
