"""The peer says and hears what passes over a real connection; here, to a socket that the test holds itself.

TLS is tried against the real server, in tests/test_server_tls.py.
"""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from holdfast.testing.line_peer import LinePeer


@pytest.fixture
def ends() -> Iterator[tuple[LinePeer, socket.socket]]:
    """Give a peer and the server's end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener, LinePeer(listener.getsockname()[1]) as peer:
        server, _ = listener.accept()
        with server:
            yield peer, server


def test_a_request_is_three_lines_and_an_answer_is_one(ends: tuple[LinePeer, socket.socket]) -> None:
    peer, server = ends
    server.sendall(b"ok 1\nok 2\n")
    assert peer.ask("l", "job", "0 30") == "ok 1"
    assert server.recv(100) == b"l\njob\n0 30\n"
    peer.say("ping")
    assert server.recv(100) == b"ping\n_\n_\n"
    assert peer.hear() == "ok 2"


def test_a_closed_connection_says_nothing_more(ends: tuple[LinePeer, socket.socket]) -> None:
    peer, server = ends
    server.close()
    assert peer.hear() == ""


def test_a_reset_is_a_close_too(ends: tuple[LinePeer, socket.socket]) -> None:
    peer, server = ends
    peer.send(b"nobody reads this")
    server.close()
    assert peer.hear() == ""


def test_half_a_connection_can_be_closed(ends: tuple[LinePeer, socket.socket]) -> None:
    peer, server = ends
    peer.stop_talking()
    assert server.recv(100) == b""
    server.sendall(b"ok\n")
    assert peer.hear() == "ok"


def test_a_handshake_that_fails_leaves_no_connection_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer_in_plain_text, args=(listener,))
        server.start()
        with pytest.raises(ssl.SSLError):
            LinePeer(listener.getsockname()[1], tls=ssl.create_default_context())
        server.join()


def answer_in_plain_text(listener: socket.socket) -> None:
    """Serve one peer, and wait until it has closed the connection."""
    server, _ = listener.accept()
    with server, suppress(ConnectionResetError):
        server.sendall(b"error\n")
        while server.recv(4096):
            pass
