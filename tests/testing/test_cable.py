"""A cable carries bytes in their order, however late, keeps them while it is cut, and ends once."""

import random

import pytest

from holdfast.testing.cable import RESET, Cable, Lane
from holdfast.testing.timeline import Timeline
from holdfast.words import FOREVER


class Client:
    """An end that remembers what it hears."""

    def __init__(self):
        self.heard = []

    def take(self, data):
        self.heard.append(data)

    def finish(self, why):
        self.heard.append(f"over: {why}")


class Echo:
    """A protocol that says everything again."""

    def __init__(self):
        self.heard = []

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.heard.append(data)
        self.transport.write(data)

    def eof_received(self):
        self.heard.append("end")
        return False

    def connection_lost(self, error):
        self.heard.append(f"lost: {error}")


def joined(delay=lambda: 10):
    timeline, client, echo = Timeline(0), Client(), Echo()
    cable = Cable(timeline, delay, client)
    cable.accept().connect(echo)
    return timeline, cable, client, echo


def run(timeline):
    while timeline.next_at() < FOREVER:
        timeline.step()


def test_pieces_arrive_in_their_order_however_long_each_takes():
    timeline, heard, dice = Timeline(0), [], random.Random(1)
    lane = Lane(timeline, lambda: dice.randrange(100))
    for number in range(50):
        lane.carry(lambda number=number: heard.append(number))
    run(timeline)
    assert heard == list(range(50))
    assert lane.is_empty


def test_bytes_go_up_and_answers_come_down_after_their_time():
    timeline, cable, client, echo = joined()
    cable.send_up(b"hello")
    timeline.step()
    assert (timeline.now, echo.heard, client.heard) == (10, [b"hello"], [])
    run(timeline)
    assert (timeline.now, client.heard) == (20, [b"hello"])


def test_a_cut_keeps_bytes_until_it_is_healed():
    timeline, cable, client, echo = joined()
    cable.down.cut = True
    cable.send_up(b"one")
    cable.send_up(b"two")
    run(timeline)
    assert echo.heard == [b"one", b"two"]
    assert client.heard == []
    cable.down.heal()
    run(timeline)
    assert client.heard == [b"one", b"two"]


def test_a_client_that_closes_is_heard_to_the_end():
    timeline, cable, client, echo = joined()
    cable.send_up(b"bye")
    cable.close_up()
    cable.send_up(b"not this")
    run(timeline)
    assert echo.heard == [b"bye", "end", "lost: None"]
    assert client.heard == []
    assert cable.is_idle


def test_a_server_that_closes_is_heard_to_the_end():
    timeline, _cable, client, echo = joined()
    echo.transport.write(b"last")
    echo.transport.close()
    run(timeline)
    assert client.heard == [b"last", "over: "]
    assert echo.heard == ["lost: None"]


def test_a_server_that_aborts_resets():
    timeline, _cable, client, echo = joined()
    echo.transport.abort()
    run(timeline)
    assert client.heard == [f"over: {RESET}"]


def test_a_tear_ends_both_ends_once_and_loses_what_was_on_its_way():
    timeline, cable, client, echo = joined()
    cable.send_up(b"lost")
    cable.tear()
    cable.tear()
    run(timeline)
    assert client.heard == [f"over: {RESET}"]
    assert echo.heard == ["lost: the peer has reset the connection"]


def test_one_end_alone_may_hear_of_a_tear():
    timeline, cable, client, echo = joined()
    cable.tear(client=False)
    run(timeline)
    assert client.heard == []
    assert len(echo.heard) == 1


def test_an_answer_can_be_lost_with_its_connection():
    timeline, cable, client, echo = joined()
    cable.answers_to_lose = lambda: True
    cable.send_up(b"did this happen?")
    run(timeline)
    assert echo.heard[0] == b"did this happen?"
    assert client.heard == [f"over: {RESET}"]


@pytest.mark.parametrize(
    ("direction", "server_heard", "client_heard"),
    [
        ("fuse_up", [b"hello", b"wo", "end"], [b"hello"]),
        ("fuse_down", [b"hello", b"world", "end"], [b"hello", b"wo"]),
    ],
)
def test_a_fuse_breaks_it_behind_a_certain_byte_for_both_ends(direction, server_heard, client_heard):
    timeline, cable, client, echo = joined()
    fuse = getattr(cable, direction)
    assert fuse.is_blown
    fuse.set(7)
    assert not fuse.is_blown
    for piece in (b"hello", b"world", b"late"):
        cable.send_up(piece)
        for _ in range(2):
            timeline.step()
    run(timeline)
    assert fuse.is_blown
    assert [heard for heard in echo.heard if heard != "lost: None"] == server_heard
    assert client.heard == [*client_heard, f"over: {RESET}"]


def test_a_peer_that_pauses_reading_gets_it_later():
    timeline, cable, _client, echo = joined()
    echo.transport.pause_reading()
    cable.send_up(b"wait")
    run(timeline)
    assert echo.heard == []
    echo.transport.resume_reading()
    run(timeline)
    assert echo.heard == [b"wait"]
