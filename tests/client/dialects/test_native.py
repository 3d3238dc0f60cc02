"""The native protocol as a client speaks it: how it says hello, and how every request is spelled."""

import json
from dataclasses import replace

import pytest

from holdfast.client.asks import Acquire, Convert, End, Enqueue, Query, Renew, Wait
from holdfast.client.dialects.native import NativeCodec, cost_bytes
from holdfast.errors import BadPeer, BadRequest, Closed, Forbidden, TooMany
from holdfast.wire.native import read_hello, read_request
from tests.client.dialects.codecs import GROUP, MILLISECOND, SEATS, SECOND, TICKET, TOKEN, WANT, hear, proof
from tests.client.dialects.lines import GREETING, RENEWAL, bare, fresh, session, text


def spelled(ask):
    line = fresh().write(ask, "me")
    assert line.endswith(b"\n")
    read_request(line[:-1])  # as our server does, which refuses what it does not know
    return json.loads(line)


# --- the greeting ---


def test_a_client_says_who_it_is():
    command, key, line, rest = bare().greeting().split(b"\n")
    assert (command, key, rest) == (b"hello", b"_", b"")
    hello = read_hello(line)
    assert (hello.client, hello.host, hello.pid, hello.events) == ("billing", "web-1", 4711, True)
    assert (hello.auth, hello.join, hello.on_disconnect) == (None, None, None)


def test_a_client_shows_its_token_and_joins_the_session_that_it_has():
    ours = session("open sesame")
    ours.name = "s" * 48
    hello = read_hello(NativeCodec(ours, events=False).greeting().split(b"\n")[2])
    assert (hello.auth, hello.join, hello.events) == ("open sesame", "s" * 48, False)


@pytest.mark.parametrize("by", [None, 1])
def test_the_answer_to_hello_tells_the_session_and_the_limits(by):
    codec = bare()
    assert not codec.ready
    assert (
        hear(codec, b"ok " + text(GREETING | {"resumed": True, "in_flight_max": 2, "line_bytes_max": 99}), by=by) == []
    )
    assert codec.ready
    assert codec.resumed
    assert (codec.joined, codec.session.name, codec.session.grace_ns) == ("s" * 48, "s" * 48, 30 * SECOND)
    assert codec.line_bytes_max == 99
    codec.write(Query("ping"), 1)
    assert codec.has_room()
    codec.write(Query("ping"), 2)
    assert not codec.has_room()


def test_two_connections_of_a_client_are_in_one_session():
    ours = session()
    hear(NativeCodec(ours, events=True), b"ok " + text(GREETING))
    second = NativeCodec(ours, events=False)
    assert read_hello(second.greeting().split(b"\n")[2]).join == "s" * 48
    assert second.joined is None


@pytest.mark.parametrize(
    ("line", "error", "words"),
    [
        (b"error_auth", Forbidden, "another token"),
        (b"error_draining", Closed, "about to stop"),
        (b"error", BadPeer, "dflock:// may do"),
        (b"HTTP/1.1 400 Bad Request", BadPeer, "is it a Holdfast"),
        (b"", BadPeer, "is it a Holdfast"),
        (b"ok", BadPeer, "no greeting"),
        (b"ok {}", BadPeer, "no greeting"),
        (b"ok []", BadPeer, "no greeting"),
        (b"ok \xff", BadPeer, "no greeting"),
        (b"ok " + text(GREETING | {"session": 5})[:-1], BadPeer, "no greeting"),
        (b"ok " + text(GREETING | {"grace_ms": -1})[:-1], BadPeer, "no greeting"),
        (b"ok " + text(GREETING | {"in_flight_max": 0})[:-1], BadPeer, "no greeting"),
        (b'error {"error":"bad_request","detail":"version: 1 is not known here"}', BadRequest, "version: 1"),
        (b'error {"error":"too_many","detail":"sessions"}', TooMany, "sessions"),
        (b"error {}", BadPeer, "no greeting"),
        (b"error what", BadPeer, "no greeting"),
    ],
)
def test_a_greeting_that_is_none_ends_the_connection(line, error, words):
    for by in (None, 1):
        codec = bare()
        with pytest.raises(error, match=words):
            hear(codec, line + b"\n", by=by)
        assert not codec.ready
        assert codec.joined is None


# --- what is sent ---


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (
            Acquire(WANT, 2 * SECOND),
            {"op": "acquire", "key": "job", "ticket": TICKET, "mode": "EX", "lease_ms": 30_000, "patience_ms": 2000},
        ),
        (Acquire(WANT, None), {"op": "acquire", "key": "job", "ticket": TICKET, "mode": "EX", "lease_ms": 30_000}),
        (
            Enqueue(replace(SEATS, units=2)),
            {
                "op": "enqueue",
                "key": "pool",
                "ticket": TICKET,
                "mode": "CW",
                "limit": 3,
                "units": 2,
                "lease_ms": 30_000,
            },
        ),
        (
            Acquire(replace(WANT, nudge=True, refuse_deadlock=True, about={"thread": "main"}), 0),
            {
                "op": "acquire",
                "key": "job",
                "ticket": TICKET,
                "mode": "EX",
                "lease_ms": 30_000,
                "patience_ms": 0,
                "nudge": True,
                "deadlock": "refuse",
                "meta": {"thread": "main"},
            },
        ),
        (
            Enqueue(GROUP),
            {
                "op": "enqueue",
                "ticket": TICKET,
                "lease_ms": 30_000,
                "keys": [
                    {"key": "from", "mode": "EX"},
                    {"key": "to", "mode": "PR"},
                    {"key": "seats", "mode": "CW", "limit": 5},
                ],
            },
        ),
        (Wait(WANT, 1), {"op": "wait", "ticket": TICKET, "patience_ms": 1}),  # what is not nothing stays something
        (Wait(WANT, None), {"op": "wait", "ticket": TICKET}),
        (Wait(WANT, 1 << 80), {"op": "wait", "ticket": TICKET, "patience_ms": 9_223_372_036_000}),
        (
            Convert(WANT, "PR", 0, b"\0\1"),
            {"op": "convert", "ticket": TICKET, "mode": "PR", "patience_ms": 0, "value": "AAE="},
        ),
        (
            Renew([RENEWAL, (proof(SEATS), 1)]),
            {
                "op": "renew",
                "claims": [
                    {"key": "job", "token": TOKEN, "lease_ms": 30_000},
                    {"key": "pool", "token": TOKEN, "kind": "semaphore", "lease_ms": 1},
                ],
            },
        ),
        (End(WANT, None), {"op": "end", "ticket": TICKET}),
        (End(WANT, proof(token="")), {"op": "end", "ticket": TICKET}),
        (End(WANT, proof(), b""), {"op": "end", "key": "job", "kind": "lock", "token": TOKEN, "value": ""}),
        (End(SEATS, proof(SEATS)), {"op": "end", "key": "pool", "kind": "semaphore", "token": TOKEN}),
        (Query("look", {"prefix": "a", "held": True}), {"op": "look", "prefix": "a", "held": True}),
        (Query("explain", {"key": "job"}), {"op": "explain", "key": "job"}),
        (Query("deadlocks"), {"op": "deadlocks"}),
        (Query("watch", {"key": "job"}), {"op": "watch", "key": "job"}),
        (Query("unwatch"), {"op": "unwatch"}),
        (Query("break", {"key": "job", "reason": "it hangs"}), {"op": "break", "key": "job", "reason": "it hangs"}),
        (Query("stats"), {"op": "stats"}),
        (Query("ping"), {"op": "ping"}),
        (Query("bye"), {"op": "bye"}),
    ],
)
def test_a_request_is_one_object(ask, line):
    assert spelled(ask) == {"id": 1} | line


@pytest.mark.parametrize(("lease_ns", "ms"), [(1, 1), (MILLISECOND, 1), (MILLISECOND + 1, 2)])
def test_a_lease_is_never_asked_for_shorter_than_it_will_be_believed(lease_ns, ms):
    assert spelled(Acquire(replace(WANT, lease_ns=lease_ns), 0))["lease_ms"] == ms
    assert spelled(Renew([(proof(), lease_ns)]))["claims"][0]["lease_ms"] == ms


def test_every_request_has_a_number_of_its_own():
    codec = fresh()
    assert [json.loads(codec.write(Query("ping"), "me"))["id"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (Query("dance"), "knows no dance"),
        (Acquire(replace(WANT, key="\ud800"), 0), "cannot be written in UTF-8"),
        (Query("break", {"key": "job", "reason": "\udfff"}), "cannot be written in UTF-8"),
        (Acquire(replace(WANT, key="x" * 70_000), 0), "the server takes 65536"),
    ],
)
def test_what_cannot_be_sent_is_refused_and_nobody_waits_for_it(ask, words):
    codec = fresh()
    with pytest.raises(BadRequest, match=words):
        codec.write(ask, "me")
    assert codec.waiting == []
    assert json.loads(codec.write(Query("ping"), "me"))["id"] == 1


def test_a_line_has_as_many_bytes_as_the_server_takes_and_no_more():
    size = len(fresh().write(Query("ping"), "me")) - 1
    assert fresh(line_bytes_max=size).write(Query("ping"), "me")
    with pytest.raises(BadRequest):
        fresh(line_bytes_max=size - 1).write(Query("ping"), "me")


@pytest.mark.parametrize("key", ["job", 'a"b\\c', "\n\t\x01", "ä" * 512, "\u2028", "𝄞" * 256])
def test_what_a_renewal_costs_is_never_counted_too_low(key):
    want = replace(SEATS, key=key)
    one = fresh().write(Renew([(proof(want), 1 << 60)]), "me")
    two = fresh().write(Renew([(proof(want), 1 << 60)] * 2), "me")
    assert len(two) - len(one) <= cost_bytes(want)
