"""LockServer's leases over HTTP, byte for byte: what is sent, what is believed, and what ends the connection."""

import json
from dataclasses import replace

import pytest

from holdfast.client.asks import (
    Acquire,
    Convert,
    End,
    Ended,
    Enqueue,
    Member,
    Query,
    Refusal,
    Renew,
    Renewed,
    Seen,
    Wait,
)
from holdfast.client.dialects.lockserver import TEXT_CHARS_MAX, WAIT_MS_MAX
from holdfast.errors import BadPeer, BadRequest, Busy, Forbidden, StoreBusy, TooMany, Unavailable, Unknown
from tests.client.dialects.codecs import MILLISECOND, SEATS, SECOND, TICKET, WANT, answers, proof
from tests.client.dialects.leases import ACQUIRE, END, GRANTED, HELD, LEASE, OWNER, RECOVER, RENEW, fresh, reply


def answered(ask, status, body, *headers):
    """Give what one request is answered by one reply."""
    (answer,) = answers(fresh, [ask], reply(status, body, *headers))
    return answer


def refused(ask, status, body, *headers):
    answer = answered(ask, status, body, *headers)
    assert isinstance(answer, Refusal)
    return answer


def sent(ask, auth=None):
    """Give the first line, the headers and the body of a request."""
    head, _, body = fresh(auth).write(ask, "me").partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in rest)
    assert int(headers.pop("Content-Length", 0)) == len(body)
    return first, headers, json.loads(body) if body else None


# --- what is sent ---


def test_nothing_is_said_first():
    codec = fresh()
    assert codec.greeting() == b""
    assert codec.ready


def test_a_lease_is_asked_for_in_the_words_of_the_original_and_ours_are_in_the_head():
    first, headers, body = sent(Acquire(WANT, 2 * SECOND), auth="open sesame")
    assert first == "POST /v1/locks/job/acquire?wait_ms=2000 HTTP/1.1"
    assert body == {"owner_id": OWNER, "ttl_ms": 30_000}
    assert headers == {
        "Host": "locks:8080",
        "Accept": "application/json",
        "User-Agent": "holdfast",
        "Authorization": "Bearer open sesame",
        "Content-Type": "application/json",
        "Idempotency-Key": TICKET,
    }


@pytest.mark.parametrize(
    ("patience_ns", "query"),
    [
        (0, ""),
        (1, "?wait_ms=1"),  # what is not nothing does not become nothing
        (1_500 * MILLISECOND, "?wait_ms=1500"),
        (3600 * SECOND, f"?wait_ms={WAIT_MS_MAX}"),
        (None, f"?wait_ms={WAIT_MS_MAX}"),
    ],
)
def test_nobody_waits_longer_in_one_request_than_a_proxy_puts_up_with(patience_ns, query):
    assert sent(Acquire(WANT, patience_ns))[0] == f"POST /v1/locks/job/acquire{query} HTTP/1.1"


@pytest.mark.parametrize(
    ("key", "path"),
    [("a b", "a%20b"), ("ä", "%C3%A4"), ("%2F", "%252F"), ("a?b#c", "a%3Fb%23c"), ("a\r\nb", "a%0D%0Ab"), ("~", "~")],
)
def test_a_key_is_one_segment_of_the_path_whatever_is_in_it(key, path):
    assert sent(Acquire(replace(WANT, key=key), 0))[0] == f"POST /v1/locks/{path}/acquire HTTP/1.1"


def test_a_renewal_and_a_release_show_the_whole_proof():
    shown = {"owner_id": "me/1", "lease_id": "one-lease", "fencing_token": 7}
    first, headers, body = sent(Renew([(proof(), 1_500 * MILLISECOND + 1)]))
    assert (first, body) == ("POST /v1/locks/job/renew HTTP/1.1", shown | {"extend_by_ms": 1501})
    assert "Idempotency-Key" not in headers
    first, _, body = sent(END)
    assert (first, body) == ("POST /v1/locks/job/release HTTP/1.1", shown)


def test_a_lease_is_looked_up_and_a_server_is_pinged():
    assert sent(RECOVER)[::2] == ("GET /v1/locks/job HTTP/1.1", None)
    assert sent(Query("ping"))[::2] == ("GET /healthz HTTP/1.1", None)


def test_the_owner_is_the_same_for_one_claim_another_for_the_next_and_does_not_tell_the_ticket():
    assert fresh().owner_of(WANT) == OWNER
    assert fresh().owner_of(replace(WANT, ticket="ticket-of-a-0002")) != OWNER
    assert OWNER.startswith("me@host:1/")
    assert TICKET not in OWNER


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"mode": "PR"}, "mode"),
        ({"units": 2}, "units"),
        ({"nudge": True}, "on_contended"),
        ({"refuse_deadlock": True}, "deadlock"),
        ({"members": (Member("a"), Member("b"))}, "several keys"),
        ({"key": "a/b"}, "without /"),
        ({"key": ""}, "not empty"),
        ({"key": "."}, "not empty"),
        ({"key": ".."}, "not empty"),
        ({"lease_ns": 601 * SECOND}, "at most 600 s"),
    ],
)
def test_what_the_protocol_cannot_do_is_refused_rather_than_left_out(changes, what):
    codec = fresh()
    with pytest.raises(BadRequest, match=what):
        codec.write(Acquire(replace(WANT, **changes), 0), "me")
    assert codec.waiting == []
    assert codec.has_room()


def test_there_are_no_semaphores():
    with pytest.raises(BadRequest, match="semaphores"):
        sent(Acquire(replace(SEATS, mode="EX"), 0))


@pytest.mark.parametrize(
    ("ask", "word"),
    [
        (Enqueue(WANT), "enqueue"),
        (Wait(WANT, None), "wait"),
        (Convert(WANT, "PR", None), "convert"),
        (Query("explain", {"key": "job"}), "explain"),
        (End(WANT, proof(), b"value"), "values"),
    ],
)
def test_verbs_that_it_does_not_have_are_refused_by_name(ask, word):
    with pytest.raises(BadRequest, match=word):
        sent(ask)


def test_a_token_that_would_smuggle_in_a_header_is_refused_and_not_shown():
    with pytest.raises(BadRequest, match="Authorization") as refusal:
        sent(ACQUIRE, auth="open\r\nX: sesame")
    assert "sesame" not in str(refusal.value)


# --- what is believed ---


def test_a_grant_tells_the_fence_and_the_lease_of_which_nobody_knows_what_is_left():
    grant = answered(ACQUIRE, 200, LEASE)
    assert grant == GRANTED
    assert grant.left_ns is None


def test_a_server_may_say_less_than_the_original():
    assert answered(ACQUIRE, 200, {"acquired": True, "fencing_token": 7, "lease_id": "one-lease"}) == GRANTED


@pytest.mark.parametrize(
    "changes",
    [
        {"acquired": False},
        {"acquired": "true"},
        {"acquired": None},
        {"fencing_token": 0},
        {"fencing_token": -1},
        {"fencing_token": 1 << 64},
        {"fencing_token": 7.0},
        {"fencing_token": "7"},
        {"fencing_token": True},
        {"fencing_token": None},
        {"lease_id": ""},
        {"lease_id": 7},
        {"lease_id": None},
        {"lock_name": "another"},
        {"owner_id": "somebody else"},
    ],
)
def test_what_is_not_quite_a_grant_is_none(changes):
    codec = fresh()
    codec.write(ACQUIRE, "me")
    with pytest.raises(BadPeer):
        codec.read(reply(200, LEASE | changes))
    assert codec.waiting == ["me"]
    assert not codec.has_room()


@pytest.mark.parametrize("status", [200, 409])
@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"ok", b'{"acquired":', b"\xff", b"[" * 100_000, b"9" * 5000])
def test_an_answer_that_decides_something_has_to_be_an_object(status, body):
    codec = fresh()
    codec.write(ACQUIRE, "me")
    with pytest.raises(BadPeer):
        codec.read(reply(status, body))
    assert codec.waiting == ["me"]


def test_who_is_refused_hears_who_holds_it_and_when_to_come_back():
    answer = refused(ACQUIRE, 409, HELD | {"recommended_retry_ms": 737})
    assert type(answer.error) is Busy
    assert str(answer.error) == "other holds it"
    assert (answer.advice_ns, answer.ours) == (737 * MILLISECOND, False)


def test_what_a_server_says_for_people_is_cut():
    answer = refused(ACQUIRE, 409, HELD | {"current_owner_id": "x" * 10_000})
    assert len(str(answer.error)) < TEXT_CHARS_MAX + 20
    answer = refused(ACQUIRE, 400, {"error": "x" * 10_000})
    assert len(str(answer.error)) == TEXT_CHARS_MAX


def test_a_lease_whose_grant_was_lost_is_known_by_its_owner():
    assert refused(ACQUIRE, 409, HELD | {"current_owner_id": OWNER}).ours


def test_a_store_that_is_busy_has_decided_nothing():
    answer = refused(ACQUIRE, 409, {"acquired": False, "recommended_retry_ms": 50, "reason": "BUSY_RETRY"})
    assert type(answer.error) is StoreBusy
    assert (answer.advice_ns, answer.ours) == (50 * MILLISECOND, False)


@pytest.mark.parametrize(
    ("advice", "ms"),
    [(-5, 0), (0, 0), (25, 25), (10**30, 600_000), (1.5, 0), ("9", 0), (None, 0)],
)
def test_advice_is_taken_within_bounds(advice, ms):
    assert refused(ACQUIRE, 409, HELD | {"recommended_retry_ms": advice}).advice_ns == ms * MILLISECOND


@pytest.mark.parametrize(("after", "s"), [("2", 2), ("-2", 0), ("999999", 0), ("Wed, 21 Oct 2015", 0), ("\xb2", 0)])
def test_advice_in_the_head_is_taken_too(after, s):
    codec = fresh()
    codec.write(ACQUIRE, "me")
    head = f"HTTP/1.1 503 X\r\nRetry-After: {after}\r\nContent-Length: 0\r\n\r\n".encode("latin-1")
    ((_, answer),) = codec.read(head)
    assert answer.advice_ns == s * SECOND


@pytest.mark.parametrize(
    ("status", "body", "renewed"),
    [
        (200, {"renewed": True, "lease_expiry_ms": 1}, True),
        (200, {"renewed": 1}, False),
        (200, {}, False),
        (409, {"renewed": False, "reason": "NOT_OWNER_OR_EXPIRED"}, False),
        (409, {"renewed": False, "reason": "BUSY_RETRY"}, None),
    ],
)
def test_a_renewal_is_one_is_none_or_is_not_known(status, body, renewed):
    assert answered(RENEW, status, body) == Renewed([renewed])


@pytest.mark.parametrize(
    ("body", "was_there"),
    [({"released": True}, True), ({"released": False, "reason": "NOT_OWNER"}, False), ({}, False)],
)
def test_an_end_tells_whether_there_was_anything_to_end(body, was_there):
    assert answered(END, 200, body) == Ended(was_there=was_there)


def test_a_release_that_met_a_busy_store_has_not_happened():
    answer = refused(END, 200, {"released": False, "reason": "BUSY_RETRY"})
    assert type(answer.error) is StoreBusy
    assert answer.advice_ns > 0


def test_a_look_finds_a_lease_of_ours_again_and_no_other():
    ours = {"lock_name": "job", "held": True, "owner_id": OWNER, "lease_id": "one-lease", "fencing_token": 7}
    assert answered(RECOVER, 200, ours) == GRANTED
    for other in (ours | {"owner_id": "other"}, {"lock_name": "job", "held": False}, {"held": True, "owner_id": OWNER}):
        assert answered(RECOVER, 200, other) == Seen(other)


@pytest.mark.parametrize("ask", [ACQUIRE, RENEW, END, RECOVER, Query("ping")])
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, BadRequest),
        (401, Forbidden),
        (403, Forbidden),
        (404, BadPeer),
        (301, BadPeer),
        (204, BadPeer),
        (413, BadRequest),
        (429, TooMany),
        (408, Unavailable),
        (503, Unavailable),
        # Whether these have done it, nobody knows.
        (500, Unknown),
        (502, Unknown),
        (504, Unknown),
    ],
)
def test_a_status_becomes_the_error_that_it_means(ask, status, error):
    body = b"" if status == 204 else b"<html>a proxy speaks</html>"
    assert type(refused(ask, status, body).error) is error


def test_the_words_of_the_server_are_passed_on():
    assert str(refused(END, 400, {"error": "ttl_ms is out of range"}).error) == "ttl_ms is out of range"
    assert str(refused(END, 503, b"").error) == "the server answered 503"


def test_a_ping_is_answered_by_anything_that_is_well():
    assert answered(Query("ping"), 200, b"fine") == Seen({})
