"""One connection of LockServer: one request at a time, answers that are cut, and answers that nobody asked for."""

import json

import pytest

from holdfast.client.asks import Ended
from holdfast.errors import BadPeer
from tests.client.dialects.codecs import hear
from tests.client.dialects.leases import ACQUIRE, END, GRANTED, LEASE, fresh, reply


def test_a_connection_carries_one_request_at_a_time_and_then_the_next():
    codec = fresh()
    codec.write(ACQUIRE, "a")
    assert not codec.has_room()
    assert hear(codec, reply(200, LEASE), by=1) == [("a", GRANTED)]
    assert codec.has_room()
    codec.write(END, "b")
    assert hear(codec, reply(200, {"released": True}), by=1) == [("b", Ended(was_there=True))]


@pytest.mark.parametrize("header", ["Connection: close", "Connection: Keep-Alive, Close"])
def test_a_connection_that_the_server_closes_carries_no_more(header):
    codec = fresh()
    codec.write(ACQUIRE, "me")
    assert codec.read(reply(200, LEASE, header)) == [("me", GRANTED)]
    assert not codec.has_room()


def test_an_answer_without_a_length_ends_with_the_connection():
    codec = fresh()
    codec.write(ACQUIRE, "me")
    assert codec.read(b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(LEASE).encode()) == []
    assert codec.end() == [("me", GRANTED)]


def test_an_answer_that_was_cut_is_none():
    whole = reply(200, LEASE)
    for at in range(len(whole)):
        codec = fresh()
        codec.write(ACQUIRE, "me")
        assert codec.read(whole[:at]) == []
        assert codec.end() == []
        assert codec.waiting == ["me"]


def test_an_answer_without_a_length_that_was_cut_is_none_either():
    codec = fresh()
    codec.write(ACQUIRE, "me")
    codec.read(b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(LEASE).encode()[:-1])
    assert codec.end() == []
    assert codec.waiting == ["me"]


def test_the_end_of_an_idle_connection_is_no_news():
    assert fresh().end() == []


def test_an_answer_that_nobody_asked_for_ends_the_connection():
    with pytest.raises(BadPeer, match="nobody asked"):
        fresh().read(b"HTTP/1.1 408 Request Timeout\r\n\r\n")


def test_a_second_answer_behind_the_first_makes_the_connection_useless():
    codec = fresh()
    codec.write(ACQUIRE, "me")
    assert codec.read(reply(200, LEASE) * 2) == [("me", GRANTED)]
    assert not codec.has_room()
