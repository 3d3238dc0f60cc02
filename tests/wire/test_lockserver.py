"""What callers of LockServer's API may ask: every path, every body, every mistake.

The expectations are those of the transcript in specs/lockserver.md; answers are tested in test_lockserver_answers.py.
"""

import json
import uuid
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.secret import lease_id_of
from holdfast.testing.mint import secret_of
from holdfast.wire import lockserver as wire
from holdfast.wire.problems import Refusal
from holdfast.words import EX, SECOND, UNLIMITED

MINUTE = 60 * SECOND
PROOF = {"owner_id": "w1", "lease_id": lease_id_of(secret_of(7)).decode(), "fencing_token": 7}


def refused(function: Any, *arguments: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        function(*arguments)
    assert caught.value.detail
    return caught.value


def acquire(body: bytes | dict[str, Any]) -> tuple[str, int]:
    claim = wire.acquire(b"job", body if isinstance(body, bytes) else json.dumps(body).encode(), 0)
    return claim.owner.decode(), claim.lease_ns // 1_000_000


# --- paths ---


@pytest.mark.parametrize(
    ("method", "path", "verb", "name"),
    [
        ("POST", "/v1/locks/job/acquire", "acquire", "job"),
        ("POST", "/v1/locks/job/acquire/", "acquire", "job"),
        ("POST", "/v1/locks/two words/renew", "renew", "two words"),
        ("POST", "/v1/locks/a:b.c/release", "release", "a:b.c"),
        ("GET", "/v1/locks/job", "get", "job"),
        ("GET", "/v1/locks/job/", "get", "job"),
        ("GET", "/v1/locks/acquire", "get", "acquire"),
        ("GET", "/v1/locks", "list", ""),
    ],
)
def test_a_path_means_one_thing(method: str, path: str, verb: str, name: str) -> None:
    assert wire.route(method, path) == (verb, name)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/locks/", 400),
        ("POST", "/v1/locks/", 400),
        ("PUT", "/v1/locks/", 400),
        ("POST", "/v1/locks/a/b/acquire", 404),
        ("PUT", "/v1/locks/a/b/c", 404),
        ("PUT", "/v1/locks/a/acquire", 405),
        ("DELETE", "/v1/locks/a", 405),
        ("HEAD", "/v1/locks/a", 405),
        ("OPTIONS", "/v1/locks/a/nonsense", 405),
        ("PUT", "/v1/locks", 405),
        ("GET", "/v1/locks/a/acquire", 404),
        ("POST", "/v1/locks/a", 404),
        ("POST", "/v1/locks/a/Acquire", 404),
    ],
)
def test_a_wrong_path_is_refused_in_the_order_of_the_original(method: str, path: str, status: int) -> None:
    assert refused(wire.route, method, path).status == status


@pytest.mark.parametrize(("path", "allowed"), [("/v1/locks/a", "GET"), ("/v1/locks/a/renew", "POST")])
def test_a_wrong_method_is_told_the_right_one(path: str, allowed: str) -> None:
    assert refused(wire.route, "PATCH", path).headers == (("Allow", allowed),)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/v1//locks/a", "/v1/locks/a"),
        ("//v1/locks/a", "/v1/locks/a"),
        ("/v1/locks/x/../a/acquire/", "/v1/locks/a/acquire/"),
        ("/../..", "/"),
        ("/v1/./locks/a", "/v1/locks/a"),
        ("/v1/locks//é ?#", "/v1/locks/%C3%A9%20%3F%23"),
        ("/v1/locks//\udcff", "/v1/locks/%FF"),
        ("//evil.example/", "/evil.example/"),
    ],
)
def test_a_crooked_path_leads_to_the_straight_one(path: str, target: str) -> None:
    reply = wire.moved(path, {})
    assert reply is not None
    assert (reply.status, reply.headers) == (301, (("Location", target),))


def test_a_straight_path_stays() -> None:
    assert wire.moved("/v1/locks/a.b/acquire", {}) is None
    assert wire.moved("/v1/locks/.hidden", {}) is None


def test_the_query_moves_with_the_path() -> None:
    reply = wire.moved("/v1//locks/a/acquire", {"wait_ms": "5", "x": "a b"})
    assert reply is not None
    assert reply.headers == (("Location", "/v1/locks/a/acquire?wait_ms=5&x=a+b"),)


def test_the_path_of_all_locks_is_a_list_and_nothing_else() -> None:
    assert wire.moved("/v1/locks", {}) is None
    assert wire.route("GET", "/v1/locks") == (wire.LIST, "")
    for method in ("POST", "PUT", "DELETE"):
        with pytest.raises(Refusal) as caught:
            wire.route(method, "/v1/locks")
        assert caught.value.status == 405


# --- acquire ---


def test_an_acquire_becomes_an_exclusive_claim() -> None:
    claim = wire.acquire(b"job", b'{"owner_id":"w1","ttl_ms":3000}', 5 * SECOND)
    assert (claim.key, claim.want, claim.units, claim.limit) == (b"lock:job", EX, 1, UNLIMITED)
    assert (claim.owner, claim.lease_ns, claim.patience_ns, claim.queue) == (b"w1", 3 * SECOND, 5 * SECOND, True)


def test_without_patience_it_is_a_try() -> None:
    assert not wire.acquire(b"job", b'{"owner_id":"w1","ttl_ms":3000}', 0).queue


@pytest.mark.parametrize(
    ("body", "owner", "lease_ms"),
    [
        (b'{"owner_id":"w","ttl_ms":600000}', "w", 600_000),
        (b' \r\n\t{"owner_id":"w","ttl_ms":1}', "w", 1),
        (b'{"OWNER_ID":"w","Ttl_Ms":5}', "w", 5),
        (b'{"owner_id":"w","ttl_ms":5} and more', "w", 5),
        (b'{"owner_id":"w","ttl_ms":5}{"owner_id":"x"}', "w", 5),
        (b'{"owner_id":"a","owner_id":"w","ttl_ms":1,"ttl_ms":5}', "w", 5),
        (b'{"owner_id":"a","OWNER_ID":"w","ttl_ms":5}', "w", 5),
        (b'{"owner_id":"w","ttl_ms":0,"ttl_ms":5}', "w", 5),
        (b'{"owner_id":"","owner_id":"w","ttl_ms":5}', "w", 5),
        (b'{"owner_id":"w","owner_id":null,"ttl_ms":5,"ttl_ms":null}', "w", 5),
        (b'{"owner_id":"\xff\xe2\x82","ttl_ms":5}', "\ufffd\ufffd\ufffd", 5),
        (b'{"owner_id":"\\ud800","ttl_ms":5}', "\ufffd", 5),
        (b'{"owner_id":"\\ud83d\\ude00","ttl_ms":5}', "\U0001f600", 5),
        (b'{"owner_id":" ","ttl_ms":5}', " ", 5),
        (b'{"owner_id":"\\u0000","ttl_ms":5}', "\0", 5),
        ('{"owner_id":"w","ttl_m\u017f":5}'.encode(), "w", 5),
    ],
)
def test_bodies_are_read_as_leniently_as_by_the_original(body: bytes, owner: str, lease_ms: int) -> None:
    assert acquire(body) == (owner, lease_ms)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"text",
        b"[]",
        b'["owner_id"]',
        b'[["owner_id","w"],["ttl_ms",5]]',
        b"null",
        b"5",
        b"NaN",
        b'\xef\xbb\xbf{"owner_id":"w","ttl_ms":5}',
        b'{"owner_id":"w","ttl_ms":5',
        b'{"owner_id":"w"}',
        b'{"ttl_ms":5}',
        b'{"owner_id":null,"ttl_ms":5}',
        b'{"owner_id":"","ttl_ms":5}',
        b'{"owner_id":5,"ttl_ms":5}',
        b'{"owner_id":{"a":1},"ttl_ms":5}',
        b'{"owner_id":"w","ttl_ms":"5"}',
        b'{"owner_id":"w","ttl_ms":true}',
        b'{"owner_id":"w","ttl_ms":5.5}',
        b'{"owner_id":"w","ttl_ms":5.0}',
        b'{"owner_id":"w","ttl_ms":1e3}',
        b'{"owner_id":"w","ttl_ms":0}',
        b'{"owner_id":"w","ttl_ms":-1}',
        b'{"owner_id":"w","ttl_ms":600001}',
        b'{"owner_id":"w","ttl_ms":9223372036854775808}',
        b'{"owner_id":"w","ttl_ms":9223372036854775808,"ttl_ms":5}',
        b'{"owner_id":"w","ttl_ms":' + b"9" * 5000 + b"}",
        b'{"owner_id":"w","ttl_ms":"x","ttl_ms":5}',
        b'{"owner_id":"w","ttl_ms":5,"more":1}',
        b'{"owner_id":"w\x01","ttl_ms":5}',
        b'{"owner_id":"w","ttl_ms":5,"x":' + b"[" * 60_000,
        b"[" * 60_000,
    ],
)
def test_a_wrong_body_is_refused(body: bytes) -> None:
    assert refused(acquire, body).status == 400


def test_a_field_that_nobody_knows_is_named_and_cut_short() -> None:
    assert len(refused(acquire, {"x" * 10_000: 1}).detail) < 200


@given(st.binary(max_size=60) | st.text(max_size=30).map(str.encode))
def test_no_bytes_make_it_fail_in_any_other_way(body: bytes) -> None:
    with suppress(Refusal):
        owner, lease_ms = acquire(body)
        assert owner
        assert 1 <= lease_ms <= wire.LEASE_MS_MAX


# --- renew and release ---


def test_a_renewal_shows_the_whole_proof() -> None:
    asked, renew = wire.renew(b"job", json.dumps(PROOF | {"extend_by_ms": 60_000}).encode())
    assert asked.extend_by_ms == 60_000
    assert renew is not None
    assert renew.proof is not None
    assert (renew.key, renew.token, renew.lease_ns) == (b"lock:job", secret_of(7)[:32], MINUTE)
    assert (renew.proof.owner, renew.proof.lease_id.decode()) == (b"w1", PROOF["lease_id"])
    assert not renew.shortens


def test_a_release_shows_the_whole_proof() -> None:
    asked, end = wire.release(b"job", json.dumps(PROOF).encode())
    assert asked.fencing_token == 7
    assert end is not None
    assert end.proof is not None
    assert (end.key, end.token, end.proof.owner) == (b"lock:job", secret_of(7)[:32], b"w1")


@pytest.mark.parametrize("lease_id", ["x", str(uuid.UUID(int=5)), "DC87A91F-2F92-4DF0-8E78-984B5E8206CF"])
def test_what_is_no_lease_id_proves_nothing(lease_id: str) -> None:
    body = json.dumps(PROOF | {"lease_id": lease_id, "extend_by_ms": 5}).encode()
    assert wire.renew(b"job", body)[1] is None
    body = json.dumps(PROOF | {"lease_id": lease_id}).encode()
    assert wire.release(b"job", body)[1] is None


@pytest.mark.parametrize(
    "change",
    [
        {"ttl_ms": 5},
        {"extend_by_ms": None},
        {"extend_by_ms": 0},
        {"extend_by_ms": 600_001},
        {"fencing_token": 0},
        {"fencing_token": "7"},
        {"lease_id": ""},
        {"owner_id": None},
    ],
)
def test_a_wrong_renewal_is_refused(change: dict[str, Any]) -> None:
    body = json.dumps(PROOF | {"extend_by_ms": 5} | change).encode()
    assert refused(wire.renew, b"job", body).status == 400


@pytest.mark.parametrize("change", [{"extend_by_ms": 5}, {"fencing_token": -1}, {"lease_id": None}])
def test_a_wrong_release_is_refused(change: dict[str, Any]) -> None:
    assert refused(wire.release, b"job", json.dumps(PROOF | change).encode()).status == 400


# --- names, headers and queries ---


def test_a_name_is_bytes_and_has_a_limit() -> None:
    assert wire.name_of("é\udcff", 3) == b"\xc3\xa9\xff"
    assert refused(wire.name_of, "é\udcff", 2).status == 400


def test_a_ticket_is_of_one_lock_and_one_key() -> None:
    tickets = {wire.ticket_of(b"a", "1"), wire.ticket_of(b"a1", "1"), wire.ticket_of(b"a", "2")}
    assert len(tickets) == 3
    assert wire.ticket_of(b"a", "1") in tickets


@pytest.mark.parametrize("key", ["", "x" * 256, "é", "a\tb"])
def test_an_idempotency_key_has_limits(key: str) -> None:
    assert refused(wire.ticket_of, b"a", key).status == 400


def test_waiting_is_asked_for_in_milliseconds_and_has_an_end() -> None:
    assert wire.wait_of({}, MINUTE) == 0
    assert wire.wait_of({"wait_ms": "1500"}, MINUTE) == 1_500_000_000
    assert wire.wait_of({"wait_ms": "60001"}, MINUTE) == MINUTE


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "٣", "9" * 30, "2147483648"])
def test_a_wrong_wait_is_refused(text: str) -> None:
    assert refused(wire.wait_of, {"wait_ms": text}, MINUTE).status == 400


def test_a_list_begins_and_goes_on() -> None:
    look = wire.look_of({})
    assert (look.prefix, look.after, look.count, look.held) == (b"lock:", b"", 101, None)
    look = wire.look_of({"prefix": "a", "cursor": b"ab".hex(), "limit": "7", "held": "true"})
    assert (look.prefix, look.after, look.count, look.held) == (b"lock:a", b"lock:ab", 8, True)
    assert wire.look_of({"held": "false"}).held is False


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"),
        ("limit", "1001"),
        ("held", "maybe"),
        ("cursor", "zz"),
        ("cursor", "ABCD"),
        ("cursor", "ab cd"),
        ("cursor", "é"),
    ],
)
def test_a_wrong_list_is_refused(name: str, value: str) -> None:
    assert refused(wire.look_of, {name: value}).status == 400
