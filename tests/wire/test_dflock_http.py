"""The session API as text: which path asks for what, what a body means, and how each answer is spelled.

Sessions, rights and time do not exist here.
"""

import json
from typing import Any

import pytest

from holdfast.testing.mint import secret_of
from holdfast.wire import dflock_http as wire
from holdfast.wire.dflock_http import Codec, Refusal, Route, Verb
from holdfast.wire.http import HttpReply, HttpRequest
from holdfast.wire.problems import Refusal as DoorRefusal
from holdfast.words import CW, EX, FOREVER, SECOND, UNLIMITED, Answer, Claim, End, Renew, WaitFor

ID = "0123456789abcdef0123456789abcdef"
LONGEST_S = 9_223_372_036


def request(method: str, path: str, **more: Any) -> HttpRequest:
    return HttpRequest(method=method, path=path, **more)


def route(method: str, raw_path: str) -> Route:
    return wire.route(request(method, raw_path, raw_path=raw_path))


def told(reply: HttpReply) -> Any:
    assert reply.body.endswith(b"}\n")
    assert (reply.media_type, dict(reply.headers)["X-Content-Type-Options"]) == ("application/json", "nosniff")
    return json.loads(reply.body)


def refusal(method: str, raw_path: str) -> HttpReply:
    with pytest.raises(Refusal) as refused:
        route(method, raw_path)
    return refused.value.reply


# --- paths ---


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", "/health", Verb.HEALTH),
        ("HEAD", "/health", Verb.HEALTH),
        ("GET", "/ready", Verb.READY),
        ("GET", "/v1/stats", Verb.STATS),
        ("POST", "/v1/sessions", Verb.OPEN),
        ("GET", "/openapi.json", Verb.DOCUMENT),
        ("GET", "/v1/openapi.json", Verb.DOCUMENT),
    ],
)
def test_a_path_without_parts_of_its_own_says_what_it_asks_for(method: str, path: str, verb: Verb) -> None:
    assert route(method, path) == Route(verb=verb)


@pytest.mark.parametrize(("method", "tail", "verb"), [("DELETE", "", Verb.CLOSE), ("POST", "/ping", Verb.PING)])
def test_a_session_is_named_by_its_path(method: str, tail: str, verb: Verb) -> None:
    expected = Route(verb=verb, name=ID.encode())
    assert route(method, f"/v1/sessions/{ID}{tail}") == expected


@pytest.mark.parametrize(("kind", "namespace"), [("locks", b"lock:"), ("semaphores", b"sem:")])
@pytest.mark.parametrize(
    ("tail", "verb"),
    [
        ("", Verb.ACQUIRE),
        ("/release", Verb.RELEASE),
        ("/renew", Verb.RENEW),
        ("/enqueue", Verb.ENQUEUE),
        ("/wait", Verb.WAIT),
    ],
)
def test_locks_and_semaphores_have_the_same_verbs(kind: str, namespace: bytes, tail: str, verb: Verb) -> None:
    expected = Route(verb=verb, namespace=namespace, name=b"job")
    assert route("POST", f"/v1/{kind}/job{tail}") == expected


@pytest.mark.parametrize(
    ("segment", "key"),
    [
        ("a%2Fb", b"a/b"),
        ("a%2frelease", b"a/release"),
        ("%FF%00", b"\xff\x00"),
        ("100%25", b"100%"),
        ("a%252Fb", b"a%2Fb"),
        ("a+b", b"a+b"),
        ("release", b"release"),
        ("%C3%A9", b"\xc3\xa9"),
        ("\u00e9", b"\xc3\xa9"),
    ],
)
def test_a_key_is_one_segment_and_its_slashes_come_percent_encoded(segment: str, key: bytes) -> None:
    found = route("POST", f"/v1/locks/{segment}")
    assert (found.verb, found.name) == (Verb.ACQUIRE, key)


def test_a_path_that_is_only_known_decoded_is_not_decoded_again() -> None:
    found = wire.route(request("POST", "/v1/locks/100%25\udcff/renew"))
    assert (found.verb, found.name) == (Verb.RENEW, b"100%25\xff")


@pytest.mark.parametrize("path", ["/v1/locks/%", "/v1/locks/%4", "/v1/locks/%zz/release", "/%x"])
def test_half_an_escape_is_a_bad_request(path: str) -> None:
    reply = refusal("POST", path)
    assert (reply.status, told(reply)["error"]) == (400, "bad_request")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/v1",
        "/v1/lock/job",
        "/v1/locks",
        "/v1/locks/job/steal",
        "/v1/locks/job/release/",
        "/v1/locks/a/b/release",
        f"/v1/sessions/{ID}/pong",
        "/v1/stats/",
        "//health",
        "/v1%2Fstats",
        "/V1/stats",
    ],
)
def test_any_other_path_is_not_found(path: str) -> None:
    reply = refusal("POST", path)
    assert (reply.status, told(reply)["error"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/health", "GET, HEAD"),
        ("DELETE", "/v1/stats", "GET, HEAD"),
        ("GET", "/v1/sessions", "POST"),
        ("GET", f"/v1/sessions/{ID}", "DELETE"),
        ("GET", f"/v1/sessions/{ID}/ping", "POST"),
        ("GET", "/v1/locks/job", "POST"),
        ("PUT", "/v1/semaphores/job/wait", "POST"),
        ("post", "/v1/locks/job", "POST"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(method: str, path: str, allowed: str) -> None:
    reply = refusal(method, path)
    assert (reply.status, told(reply)) == (405, {"error": "method_not_allowed"})
    assert dict(reply.headers)["Allow"] == allowed


# --- keys, ids, headers ---


@pytest.mark.parametrize("key", [b"x", b"x" * 256, b"a/b", b"\xff\x00", "schlüssel".encode(), b"\x0b\xc2\xa0"])
def test_a_key_is_any_bytes_but_white_space(key: bytes) -> None:
    assert wire.check_key(key) == key


@pytest.mark.parametrize("key", [b"", b"x" * 257, b"two words", b"tab\t", b"\r", b"line\n"])
def test_a_key_that_no_line_could_carry_is_refused(key: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        wire.check_key(key)
    assert refused.value.reply.status == 400


def test_the_id_of_a_session_is_spelled_in_one_way_only() -> None:
    assert wire.check_session_id(ID.encode()) == ID
    for bad in (b"", ID.upper().encode(), ID[:-1].encode(), (ID + "0").encode(), (ID + "\n").encode()):
        with pytest.raises(Refusal) as refused:
            wire.check_session_id(bad)
        assert refused.value.reply.status == 400


def test_a_call_has_to_say_whose_it_is() -> None:
    assert wire.session_header(request("POST", "/", headers={"x-dflockd-session": "anything"})) == "anything"
    for headers in ({}, {"x-dflockd-session": ""}):
        with pytest.raises(Refusal) as refused:
            wire.session_header(request("POST", "/", headers=headers))
        assert told(refused.value.reply)["detail"] == "the header X-Dflockd-Session is missing"


# --- bodies ---


def facts(command: object) -> dict[str, object]:
    names = ("key", "want", "units", "limit", "lease_ns", "patience_ns", "queue", "tracked", "listens", "token")
    return {name: getattr(command, name) for name in names if hasattr(command, name)}


def read(path: str, body: bytes) -> wire.Command:
    return Codec(lease_default_ns=33 * SECOND).command(route("POST", path), body)


LOCK, SEATS = "/v1/locks/job", "/v1/semaphores/job"


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (
            LOCK,
            b'{"acquire_timeout_s":10,"lease_ttl_s":5}',
            Claim(b"lock:job", EX, 1, UNLIMITED, 5 * SECOND, 10 * SECOND),
        ),
        (LOCK, b"{}", Claim(b"lock:job", EX, 1, UNLIMITED, 33 * SECOND, 0)),
        (
            LOCK,
            b' {"acquire_timeout_s":null,"lease_ttl_s":null}\r\n',
            Claim(b"lock:job", EX, 1, UNLIMITED, 33 * SECOND, 0),
        ),
        (
            LOCK,
            b'{"acquire_timeout_s":9223372036,"lease_ttl_s":9223372036}',
            Claim(b"lock:job", EX, 1, UNLIMITED, LONGEST_S * SECOND, LONGEST_S * SECOND),
        ),
        (SEATS, b'{"limit":3,"lease_ttl_s":0}', Claim(b"sem:job", CW, 1, 3, 33 * SECOND, 0)),
        (SEATS, b'{"limit":1,"acquire_timeout_s":2}', Claim(b"sem:job", CW, 1, 1, 33 * SECOND, 2 * SECOND)),
        (LOCK + "/enqueue", b"", Claim(b"lock:job", EX, 1, UNLIMITED, 33 * SECOND, FOREVER, tracked=True)),
        (LOCK + "/enqueue", b" \n", Claim(b"lock:job", EX, 1, UNLIMITED, 33 * SECOND, FOREVER, tracked=True)),
        (
            LOCK + "/enqueue",
            b'{"lease_ttl_s":4}',
            Claim(b"lock:job", EX, 1, UNLIMITED, 4 * SECOND, FOREVER, tracked=True),
        ),
        (SEATS + "/enqueue", b'{"limit":2}', Claim(b"sem:job", CW, 1, 2, 33 * SECOND, FOREVER, tracked=True)),
        (LOCK + "/wait", b'{"timeout_s":7}', WaitFor(b"lock:job", 7 * SECOND)),
        (SEATS + "/wait", b"{}", WaitFor(b"sem:job", 0)),
        (LOCK + "/release", b'{"token":"abc"}', End(b"lock:job", b"abc")),
        (SEATS + "/release", b'{"token":"\xc3\xa9"}', End(b"sem:job", b"\xc3\xa9")),
        (LOCK + "/renew", b'{"token":"abc"}', Renew(b"lock:job", b"abc", 33 * SECOND)),
        (SEATS + "/renew", b'{"token":"abc","lease_ttl_s":60}', Renew(b"sem:job", b"abc", 60 * SECOND)),
        (LOCK + "/release", b'{"token":"' + b"x" * 256 + b'"}', End(b"lock:job", b"x" * 256)),
    ],
)
def test_a_body_means_what_the_line_protocol_means(path: str, body: bytes, expected: wire.Command) -> None:
    command = read(path, body)
    assert (type(command), facts(command)) == (type(expected), facts(expected))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (LOCK, b""),
        (LOCK, b"  "),
        (LOCK + "/wait", b""),
        (LOCK + "/release", b""),
        (LOCK, b"null"),
        (LOCK, b"[]"),
        (LOCK, b"{} {}"),
        (LOCK, b"{}x"),
        (LOCK, b"{"),
        (LOCK, b'{"acquire_timeout_s":1.0}'),
        (LOCK, b'{"acquire_timeout_s":1e2}'),
        (LOCK, b'{"acquire_timeout_s":"1"}'),
        (LOCK, b'{"acquire_timeout_s":true}'),
        (LOCK, b'{"acquire_timeout_s":-1}'),
        (LOCK, b'{"acquire_timeout_s":9223372037}'),
        (LOCK, b'{"acquire_timeout_s":1' + b"0" * 5000 + b"}"),
        (LOCK, b'{"acquire_timeout_s":' + b"[" * 50_000),
        (LOCK, b'{"lease_ttl_s":-1}'),
        (LOCK, b'{"lease_ttl_s":9223372037}'),
        (LOCK, b'{"Lease_TTL_s":1}'),
        (LOCK, b'{"limit":1}'),
        (LOCK, b'{"timeout_s":1}'),
        (LOCK, b'{"\xff":1}'),
        (LOCK + "/enqueue", b'{"acquire_timeout_s":1}'),
        (LOCK + "/enqueue", b"{"),
        (SEATS, b"{}"),
        (SEATS, b'{"limit":0}'),
        (SEATS, b'{"limit":-1}'),
        (SEATS, b'{"limit":9223372036854775808}'),
        (SEATS + "/enqueue", b""),
        (SEATS + "/enqueue", b'{"limit":null}'),
        (LOCK + "/release", b"{}"),
        (LOCK + "/release", b'{"token":null}'),
        (LOCK + "/release", b'{"token":""}'),
        (LOCK + "/release", b'{"token":1}'),
        (LOCK + "/release", b'{"token":"a b"}'),
        (LOCK + "/release", b'{"token":"a\\n"}'),
        (LOCK + "/release", b'{"token":"\\u00a0"}'),
        (LOCK + "/release", b'{"token":"\\ud800"}'),
        (LOCK + "/release", b'{"token":"' + b"x" * 257 + b'"}'),
        (LOCK + "/release", b'{"token":"' + "é".encode() * 129 + b'"}'),
        (LOCK + "/release", b'{"token":"abc","lease_ttl_s":1}'),
        (LOCK + "/renew", b'{"token":"abc","lease_ttl_s":-1}'),
    ],
)
def test_a_body_that_does_not_do_is_a_bad_request(path: str, body: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        read(path, body)
    assert (refused.value.reply.status, told(refused.value.reply)["error"]) == (400, "bad_request")


def test_a_bad_body_is_told_what_is_wrong_with_it() -> None:
    with pytest.raises(Refusal) as refused:
        read(LOCK, b'{"lease_ttl_s":"soon"}')
    assert "lease_ttl_s" in told(refused.value.reply)["detail"]


# --- replies ---


def granted(*, tracked: bool = False) -> Claim:
    claim = Claim(b"lock:job", EX, 1, UNLIMITED, 30 * SECOND, 0, tracked=tracked)
    claim.token = secret_of(7)[:32]
    return claim


def test_a_grant_tells_token_and_lease() -> None:
    claim = granted()
    fields = {"token": claim.token.decode(), "lease_ttl_s": 30}
    assert told(wire.reply_to(claim, Answer.GRANTED, claim)) == {"status": "ok"} | fields
    assert told(wire.reply_to(WaitFor(b"lock:job", 0), Answer.GRANTED, claim)) == {"status": "ok"} | fields


def test_a_place_that_is_granted_at_once_is_called_acquired() -> None:
    claim = granted(tracked=True)
    assert told(wire.reply_to(claim, Answer.GRANTED, claim))["status"] == "acquired"


def test_a_renewal_tells_how_long_it_is_held_now() -> None:
    assert told(wire.reply_to(Renew(b"lock:job", b"t", 60 * SECOND), Answer.RENEWED, None)) == {"remaining_s": 60}


def test_what_is_given_back_leaves_nothing_to_say() -> None:
    reply = wire.reply_to(End(b"lock:job", b"t"), Answer.ENDED, None)
    assert (reply.status, reply.body, reply.media_type) == (204, b"", "")


@pytest.mark.parametrize(
    ("answer", "status"), [(Answer.QUEUED, "queued"), (Answer.BUSY, "timeout"), (Answer.TIMED_OUT, "timeout")]
)
def test_what_is_not_granted_yet_or_in_time_is_no_error(answer: Answer, status: str) -> None:
    reply = wire.reply_to(granted(), answer, None)
    assert (reply.status, told(reply)) == (200, {"status": status})


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (Answer.NOT_HELD, 404, "not_held"),
        (Answer.NOT_ENQUEUED, 409, "not_enqueued"),
        (Answer.ALREADY_ENQUEUED, 409, "already_enqueued"),
        (Answer.LEASE_EXPIRED, 409, "lease_expired"),
        (Answer.LIMIT_MISMATCH, 409, "limit_mismatch"),
        (Answer.TOO_MANY_KEYS, 503, "max_locks"),
        (Answer.TOO_MANY_WAITERS, 503, "max_waiters"),
        (Answer.NO_FENCE, 503, "fence_persistence"),
        (Answer.DRAINING, 503, "draining"),
        (Answer.CLOSED, 503, "draining"),
        (Answer.STORE_BUSY, 503, "store_busy"),
        (Answer.STORE_FAILED, 503, "store_failed"),
    ],
)
def test_each_refusal_has_its_status_and_its_word(answer: Answer, status: int, code: str) -> None:
    reply = wire.reply_to(granted(), answer, None)
    assert (reply.status, told(reply)["error"]) == (status, code)


def test_every_answer_that_these_commands_can_get_is_spelled() -> None:
    # Conversions, deadlocks and cancelling by ticket are not part of this API.
    never = {Answer.CONVERTING, Answer.WOULD_DEADLOCK, Answer.CANCELLED}
    assert {*wire.REPLIES, Answer.GRANTED, Answer.RENEWED} == {*Answer} - never


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (wire.unauthorized(), 401, "unauthorized"),
        (wire.forbidden(), 403, "forbidden"),
        (wire.session_gone(), 410, "session_gone"),
        (wire.refused(DoorRefusal(429, "rate_limited", "too many")), 429, "rate_limited"),
        (wire.refused(DoorRefusal(413, "body_too_long", "too long")), 400, "bad_request"),
        (wire.max_sessions(), 503, "max_sessions"),
        (wire.max_sessions_per_ip(), 503, "max_sessions_per_ip"),
    ],
)
def test_each_refusal_before_the_desk_has_its_status_and_its_word(reply: HttpReply, status: int, code: str) -> None:
    assert (reply.status, told(reply)["error"]) == (status, code)


def test_some_refusals_tell_in_headers_what_to_do() -> None:
    assert ("WWW-Authenticate", "Bearer") in wire.unauthorized().headers
    assert ("Retry-After", "1") in wire.refused(DoorRefusal(429, "rate_limited", "", ("Retry-After", "1"))).headers
    assert ("Retry-After", "1") in wire.REPLIES[Answer.STORE_BUSY].headers


def test_the_service_tells_of_itself() -> None:
    assert told(wire.opened(ID, 20 * SECOND)) == {"session_id": ID, "idle_timeout_s": 20}
    assert (wire.OK.status, told(wire.OK)) == (200, {"status": "ok"})
    assert (wire.NOT_READY.status, told(wire.NOT_READY)) == (503, {"status": "draining"})
    assert told(wire.stats(b'{"locks":[]}')) == {"locks": []}
