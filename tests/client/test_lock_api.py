"""LockServer's API as bytes and values: what is asked, how answers are read, what is refused before it is sent.

Real servers are asked in tests/aio.
"""

import json
from datetime import timedelta

import pytest

from holdfast.client.http import Answer
from holdfast.client.lock_api import (
    NAME_BYTES_MAX,
    OWNER_BYTES_MAX,
    Base,
    Grant,
    LockApi,
    NotAcquired,
    ReleaseResult,
    Renewal,
    UnexpectedStatus,
    base_of,
    ms_of,
    owner_of,
    path_of,
    read_acquire,
    read_look,
    read_release,
    read_renew,
    seconds_of,
)
from holdfast.errors import BadPeer, BadRequest, Busy, Forbidden, Retry, TooMany, Unavailable, Unknown

API = LockApi(base_of("http://127.0.0.1:8080"))
GRANT = Grant("job", "w1", "dc87a91f-2f92-4df0-8e78-984b5e8206cf", 1, 1795027803421, 3000)
ASK = API.renew(GRANT, 60_000)
TAKEN = (
    b'{"acquired":true,"lock_name":"job","owner_id":"w1","lease_id":"dc87a91f-2f92-4df0-8e78-984b5e8206cf",'
    b'"fencing_token":1,"lease_expiry_ms":1795027803421}\n'
)
HELD = (
    b'{"acquired":false,"lock_name":"job","current_owner_id":"w1","current_expiry_ms":1795027803421,'
    b'"recommended_retry_ms":737,"reason":"HELD"}\n'
)
BUSY = (
    b'{"acquired":false,"lock_name":"busy","current_expiry_ms":-6795364578871,"recommended_retry_ms":50,'
    b'"reason":"BUSY_RETRY"}\n'
)


def answer(status, body=b"", **headers):
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body, keeps=True)


def acquired(status, body):
    return read_acquire(ASK, answer(status, body), "job", "w1", 3000)


def parts(ask):
    head, _, body = ask.data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), json.loads(body) if body else None


# --- what is asked ---


def test_an_acquire():
    first, headers, body = parts(API.acquire("a b", "w1", 3000, "5f2c"))
    assert first == "POST /v1/locks/a%20b/acquire HTTP/1.1"
    assert headers["Host"] == "127.0.0.1:8080"
    assert headers["Idempotency-Key"] == "5f2c"
    assert body == {"owner_id": "w1", "ttl_ms": 3000}
    assert "Authorization" not in headers


def test_an_acquire_that_waits_says_so_in_the_query():
    first, _, body = parts(API.acquire("job", "w1", 3000, "5f2c", 500))
    assert first == "POST /v1/locks/job/acquire?wait_ms=500 HTTP/1.1"
    assert body == {"owner_id": "w1", "ttl_ms": 3000}


def test_a_renewal_and_a_release_show_the_whole_proof():
    proof = {"owner_id": "w1", "lease_id": GRANT.lease_id, "fencing_token": 1}
    assert parts(ASK)[2] == proof | {"extend_by_ms": 60_000}
    assert parts(API.release(GRANT))[2] == proof


def test_a_look_has_no_body():
    first, headers, body = parts(API.look("job"))
    assert (first, body) == ("GET /v1/locks/job HTTP/1.1", None)
    assert "Content-Length" not in headers


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h", Base(False, "h", 80, "", None)),
        ("https://h/", Base(True, "h", 443, "", None)),
        ("http://h:8080/locks/", Base(False, "h", 8080, "/locks", None)),
        ("http://:secret@h:1", Base(False, "h", 1, "", "secret")),
        ("http://:a%2Fb%40c@h", Base(False, "h", 80, "", "a/b@c")),
        ("http://[::1]:8080", Base(False, "::1", 8080, "", None)),
    ],
)
def test_where_a_server_is(url, base):
    assert base_of(url) == base


@pytest.mark.parametrize(
    "url", ["", "h:8080", "ftp://h", "http://", "http://h?x=1", "http://h#x", "http://h:0", "http://h:x"]
)
def test_what_is_no_url_of_a_server_is_refused(url):
    with pytest.raises(BadRequest, match="URL of a server"):
        base_of(url)


def test_a_token_that_would_be_overlooked_is_refused_and_not_shown():
    with pytest.raises(BadRequest, match="behind a colon") as raised:
        base_of("https://secret@h")
    assert "secret" not in str(raised.value)


def test_a_prefix_an_address_in_brackets_and_a_token_are_used():
    api = LockApi(base_of("http://:from-url@[::1]:8080/locks"))
    first, headers, _ = parts(api.look("job"))
    assert first == "GET /locks/v1/locks/job HTTP/1.1"
    assert (headers["Host"], headers["Authorization"]) == ("[::1]:8080", "Bearer from-url")
    api = LockApi(base_of("http://:from-url@h"), "given")
    assert parts(api.look("job"))[1]["Authorization"] == "Bearer given"


@pytest.mark.parametrize(
    ("name", "path"),
    [("job", "job"), ("a b", "a%20b"), ("\u00f6%?#&", "%C3%B6%25%3F%23%26"), ("...", "..."), ("~", "~")],
)
def test_a_name_is_one_segment_of_a_path(name, path):
    assert path_of(name) == f"/v1/locks/{path}"


@pytest.mark.parametrize("name", ["", None, 5, b"x", "\ud800", "x" * (NAME_BYTES_MAX + 1), "a/b", ".", ".."])
def test_a_name_that_no_path_can_have_is_refused(name):
    with pytest.raises(BadRequest, match="name"):
        path_of(name)


@pytest.mark.parametrize("owner", ["", None, 5, "x" * (OWNER_BYTES_MAX + 1)])
def test_what_is_no_owner_is_refused(owner):
    with pytest.raises(BadRequest, match="an owner"):
        owner_of(owner)


def test_lengths_of_time():
    assert ms_of("ttl", 0.0014) == 1
    assert ms_of("ttl", 600) == 600_000
    assert ms_of("ttl", timedelta(minutes=2)) == 120_000
    assert seconds_of("interval", timedelta(milliseconds=5)) == 0.005


@pytest.mark.parametrize("ttl", [0, -1, 0.0009, 600.001, float("nan"), float("inf"), "5", None, True])
def test_what_is_no_length_of_a_lease_is_refused(ttl):
    with pytest.raises(BadRequest, match="ttl is"):
        ms_of("ttl", ttl)


# --- how answers are read ---


def test_a_grant_is_read():
    assert acquired(200, TAKEN) == GRANT


def test_a_refusal_is_read():
    with pytest.raises(NotAcquired) as refused:
        acquired(409, HELD)
    error = refused.value
    assert (error.reason, error.retry_after, error.current_owner) == ("HELD", 0.737, "w1")
    assert error.current_expiry == 1795027803.421
    assert isinstance(error, Busy)
    assert error.retry is Retry.LATER
    assert str(error) == "the lock 'job' was not acquired: HELD, by 'w1'"


def test_the_nonsense_that_the_original_says_when_it_is_busy_is_left_out():
    with pytest.raises(NotAcquired) as refused:
        acquired(409, BUSY)
    error = refused.value
    assert (error.reason, error.retry_after, error.current_owner, error.current_expiry) == (
        "BUSY_RETRY",
        0.05,
        None,
        None,
    )


def test_a_refusal_without_details_is_one():
    with pytest.raises(NotAcquired) as refused:
        acquired(409, b'{"acquired":false,"recommended_retry_ms":"soon","current_expiry_ms":true}')
    assert (refused.value.reason, refused.value.retry_after, refused.value.current_expiry) == ("HELD", 0.0, None)


def test_renewals_are_read():
    assert read_renew(ASK, answer(200, b'{"renewed":true,"lease_expiry_ms":5}')) == Renewal(lease_expiry_ms=5)
    assert read_renew(ASK, answer(200, b'{"renewed":true,"lease_expiry_ms":5}')).renewed
    for body in (b'{"renewed":false,"reason":"NOT_OWNER_OR_EXPIRED"}', b'{"renewed":false}'):
        renewal = read_renew(ASK, answer(409, body))
        assert (renewal.renewed, renewal.reason) == (False, "NOT_OWNER_OR_EXPIRED")


def test_releases_are_read():
    assert read_release(ASK, answer(200, b'{"released":true}')) == ReleaseResult(released=True)
    assert ReleaseResult(released=True)
    assert not ReleaseResult(released=False)
    for body in (b'{"released":false,"reason":"NOT_OWNER"}', b'{"released":false}'):
        assert read_release(ASK, answer(200, body)) == ReleaseResult(released=False, reason="NOT_OWNER")


def test_looks_are_read():
    assert read_look(ASK, answer(200, b'{"lock_name":"job","held":false}')) == {"lock_name": "job", "held": False}


@pytest.mark.parametrize("read", [read_renew, read_release, read_look, lambda ask, got: acquired(got.status, got.body)])
@pytest.mark.parametrize("status", [200, 409])
@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b"\xff", b"{}", b"[" * 100_000, b'{"acquired":1}'])
def test_a_body_that_is_no_answer_is_shown_in_the_error(read, status, body):
    with pytest.raises(UnexpectedStatus, match=rf"POST /v1/locks/job/renew was answered {status}"):
        read(ASK, answer(status, body))


@pytest.mark.parametrize(
    "change",
    [
        {"lease_id": ""},
        {"lease_id": 5},
        {"fencing_token": 0},
        {"fencing_token": 1.0},
        {"fencing_token": True},
        {"fencing_token": "1"},
        {"lease_expiry_ms": None},
    ],
)
def test_a_grant_that_lacks_something_is_no_grant(change):
    with pytest.raises(BadPeer, match="was answered without a"):
        acquired(200, json.dumps(json.loads(TAKEN) | change).encode())


@pytest.mark.parametrize(
    ("status", "kind", "retry"),
    [
        (400, BadRequest, Retry.NEVER),
        (404, BadRequest, Retry.NEVER),
        (422, BadRequest, Retry.NEVER),
        (401, Forbidden, Retry.NEVER),
        (403, Forbidden, Retry.NEVER),
        (429, TooMany, Retry.LATER),
        (503, Unavailable, Retry.LATER),
        (408, Unknown, Retry.NOW),
        (500, Unknown, Retry.NOW),
        (502, Unknown, Retry.NOW),
        (301, UnexpectedStatus, Retry.NEVER),
        (418, UnexpectedStatus, Retry.NEVER),
    ],
)
def test_what_a_status_means(status, kind, retry):
    with pytest.raises(UnexpectedStatus) as refused:
        acquired(status, b'{"error":"a sentence"}')
    error = refused.value
    assert isinstance(error, kind)
    assert (error.retry, error.status, error.method, error.path) == (retry, status, "POST", "/v1/locks/job/renew")
    assert (error.body, error.detail) == (
        '{"error":"a sentence"}',
        f"POST /v1/locks/job/renew was answered {status}: a sentence",
    )


@pytest.mark.parametrize(
    ("after", "seconds"), [("2", 2.0), ("", 0.0), ("x", 0.0), ("\u00b2", 0.0), ("999999999", 3600.0)]
)
def test_when_to_come_back(after, seconds):
    with pytest.raises(UnexpectedStatus) as refused:
        read_release(ASK, answer(503, b"", retry_after=after))
    assert refused.value.retry_after == seconds
    assert str(refused.value).endswith("was answered 503: nothing")


def test_a_long_page_is_cut_in_the_error():
    with pytest.raises(UnexpectedStatus) as refused:
        read_release(ASK, answer(500, b"x" * 100_000))
    assert len(str(refused.value)) < 600
