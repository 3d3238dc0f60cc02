"""What is a request of the native protocol, what is not, and whether a refusal names the field."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.wire import native
from holdfast.wire.native import BadRequest, read_hello, read_request, say_what_is_wrong, write_request

TICKET = "a-ticket-of-16-c"
TOKEN = "0123456789abcdef" * 2


def request(op: str, **fields: Any) -> native.Request:
    return read_request(json.dumps({"id": 1, "op": op, **fields}).encode())


def refusal(line: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read_request(line)
    return caught.value


def detail(op: str, **fields: Any) -> str:
    return refusal(json.dumps({"id": 1, "op": op, **fields}).encode()).detail


# --- what can be asked ---

EXAMPLES: dict[str, dict[str, Any]] = {
    "acquire": {"key": "job", "ticket": TICKET, "mode": "PR", "lease_ms": 5, "patience_ms": 0, "nudge": True},
    "enqueue": {"keys": [{"key": "a"}, {"key": "b", "limit": 2, "units": 2, "mode": "CR"}], "ticket": TICKET},
    "wait": {"ticket": TICKET, "patience_ms": None},
    "convert": {"ticket": TICKET, "mode": "PR", "queue": False, "value": "AA=="},
    "renew": {"claims": [{"key": "job", "token": TOKEN, "kind": "semaphore", "lease_ms": 1}]},
    "end": {"key": "job", "token": TOKEN, "kind": "lock"},
    "look": {"prefix": "", "held": True, "after": "lock:a", "count": 1000},
    "explain": {"key": "job"},
    "deadlocks": {},
    "watch": {"prefix": "a", "kind": "lock", "deadlocks": True},
    "unwatch": {},
    "break": {"key": "job", "reason": "it hangs", "token": TOKEN},
    "stats": {},
    "ping": {},
    "bye": {},
}


def test_every_op_has_an_example() -> None:
    assert tuple(EXAMPLES) == native.OPS


@pytest.mark.parametrize("op", native.OPS)
def test_an_op_is_read_and_what_is_read_can_be_written(op: str) -> None:
    read = request(op, **EXAMPLES[op])
    assert type(read).__struct_config__.tag == op
    assert read.id == 1
    assert read_request(write_request(read)) == read


def test_defaults_are_the_ones_of_the_page() -> None:
    ask = request("acquire", key="job", ticket=TICKET)
    assert isinstance(ask, native.Acquire)
    assert (ask.mode, ask.limit, ask.units, ask.lease_ms, ask.patience_ms, ask.nudge) == (
        None,
        None,
        1,
        None,
        None,
        False,
    )
    end = request("end", ticket=TICKET)
    assert end == native.End(id=1, ticket=TICKET)


@pytest.mark.parametrize("id_", [0, -5, 1 << 53, "", "a" * 64, "ä"])
def test_an_id_is_a_number_or_a_short_text(id_: int | str) -> None:
    assert read_request(json.dumps({"id": id_, "op": "ping"}).encode()) == native.Ping(id=id_)


@pytest.mark.parametrize("ticket", ["a" * 16, "a" * 64, "AZaz09_.:~+/=@-" * 2, "a" * 16 + "#0", "a" * 64 + "#63"])
def test_a_ticket_has_16_to_64_characters_and_perhaps_the_number_of_a_member(ticket: str) -> None:
    assert request("wait", ticket=ticket) == native.Wait(id=1, ticket=ticket)


@pytest.mark.parametrize(
    "ticket",
    ["a" * 15, "a" * 65, "a b" * 8, "ä" * 16, "a" * 16 + "#", "a" * 16 + "#100", "a" * 16 + "\n", "a" * 16 + '"'],
)
def test_other_tickets_are_refused(ticket: str) -> None:
    assert detail("wait", ticket=ticket).startswith("ticket: expected `str` matching regex")


@pytest.mark.parametrize("token", [TOKEN[1:], TOKEN + "0", TOKEN.upper(), TOKEN[:-1] + "\n"])
def test_other_tokens_are_refused(token: str) -> None:
    assert detail("end", key="job", token=token).startswith("token: expected `str` matching regex")


# --- what cannot ---


@pytest.mark.parametrize(
    ("line", "said", "id_"),
    [
        (b'{"id":7}', "op: missing", 7),
        (b'{"op":"ping"}', "id: missing", None),
        (b'{"id":7,"op":"dance"}', "op: invalid value 'dance'", 7),
        (b'{"id":7,"op":3}', "op: expected `str`", 7),
        (b'{"id":7,"op":"\\n"}', "op: invalid value '\n'", 7),
        (b'{"id":"x","op":"ping","loud":1}', "loud: unknown field", "x"),
        (b'{"id":7,"op":"wait"}', "ticket: missing", 7),
        (
            b'{"id":7,"op":"acquire","ticket":"%b","key":5}' % TICKET.encode(),
            "key: expected `str | null`, got `int`",
            7,
        ),
        (
            b'{"id":7,"op":"acquire","ticket":"%b","keys":[{"key":"a"},{"kay":"b"}]}' % TICKET.encode(),
            "keys[1].kay: unknown field",
            7,
        ),
        (
            b'{"id":7,"op":"acquire","ticket":"%b","keys":[{"key":"a"},{}]}' % TICKET.encode(),
            "keys[1].key: missing",
            7,
        ),
        (b'{"id":1.5,"op":"ping"}', "id: expected `int | str`, got `float`", None),
        (b'{"id":true,"op":"ping"}', "id: expected `int | str`, got `bool`", None),
        (b'{"id":9007199254740993,"op":"ping"}', "id: expected `int` <= 9007199254740992", None),
    ],
)
def test_a_refusal_names_the_field_and_whose_request_it_was(line: bytes, said: str, id_: int | str | None) -> None:
    bad = refusal(line)
    assert (bad.detail, bad.id, bad.fatal) == (said, id_, False)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("lease_ms", 0, "expected `int` >= 1"),
        ("lease_ms", native.MS_MAX + 1, f"expected `int` <= {native.MS_MAX}"),
        ("lease_ms", 1.0, "expected `int | null`, got `float`"),
        ("patience_ms", -1, "expected `int` >= 0"),
        ("limit", 0, "expected `int` >= 1"),
        ("limit", native.LIMIT_MAX + 1, f"expected `int` <= {native.LIMIT_MAX}"),
        ("units", 0, "expected `int` >= 1"),
        ("mode", "XX", "invalid enum value 'XX'"),
        ("deadlock", "ignore", "invalid enum value 'ignore'"),
        ("keys", [{"key": "a"}], "expected `array` of length >= 2"),
        ("keys", [{"key": "a"}] * 65, "expected `array` of length <= 64"),
        ("nudge", 1, "expected `bool`, got `int`"),
        ("meta", [], "expected `object | null`, got `array`"),
    ],
)
def test_every_limit_is_told(field: str, value: object, said: str) -> None:
    assert detail("acquire", ticket=TICKET, **{field: value}) == f"{field}: {said}"


def test_a_renewal_takes_so_many_claims_and_a_look_shows_so_many() -> None:
    claim = {"key": "job", "token": TOKEN}
    assert request("renew", claims=[claim] * native.RENEWALS_MAX).id == 1
    assert detail("renew", claims=[claim] * (native.RENEWALS_MAX + 1)) == "claims: expected `array` of length <= 1000"
    assert detail("renew", claims=[]) == "claims: expected `array` of length >= 1"
    assert detail("look", count=native.LOOK_MAX + 1) == "count: expected `int` <= 1000"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"acquire job",
        b'{"id":1,"op":"ping"} x',
        b'{"id":1,"op":"ping","\xff":1}',
        b'{"id":1,"op":"acquire","key":"\xff"}',
        b'{"id":1,"op":"acquire","key":"\\ud800"}',
        b"nul",
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_no_json_ends_the_connection(line: bytes) -> None:
    bad = refusal(line)
    assert (bad.detail, bad.id, bad.fatal) == ("not a line of JSON", None, True)


@pytest.mark.parametrize("line", [b"[]", b"1", b"null", b'"ping"', b"[" * 60_000])
def test_what_is_no_object_ends_the_connection_too(line: bytes) -> None:
    bad = refusal(line)
    assert bad.detail.startswith("a line is an object: expected `object`")
    assert (bad.id, bad.fatal) == (None, True)


def test_nesting_without_end_is_refused_and_not_followed() -> None:
    bad = refusal(b'{"id":1,"op":"ping","x":' + b"[" * 60_000)
    assert bad.id is None


def test_a_field_that_is_wrong_before_the_json_ends_is_refused_without_an_id() -> None:
    bad = refusal(b'{"op":"ping","loud":1,"id":')
    assert (bad.detail, bad.id) == ("loud: unknown field", None)


# --- hello ---


def test_hello_needs_nothing_but_a_version() -> None:
    hello = read_hello(b'{"version":1}')
    assert (hello.client, hello.host, hello.pid, hello.auth, hello.join) == (None,) * 5
    assert (hello.events, hello.on_disconnect) == (True, None)
    assert write_request(hello) == b'{"version":1}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{}", "version: missing"),
        (b'{"version":2}', "version: 2 is not known here; this server speaks 1"),
        (b'{"version":"1"}', "version: expected `int`, got `str`"),
        (b'{"version":1,"name":"x"}', "name: unknown field"),
        (b'{"version":1,"pid":-1}', "pid: expected `int` >= 0"),
        (b'{"version":1,"on_disconnect":"stay"}', "on_disconnect: invalid enum value 'stay'"),
        (b'{"version":1,"client":"%b"}' % (b"x" * 65), "client: at most 64 bytes"),
        (b'{"version":1,"host":"%b"}' % ("ä" * 65).encode(), "host: at most 128 bytes"),
        (b'{"version":1,"client":"a\\nb"}', "client: no control characters"),
        (b"", "not a line of JSON"),
        (b"_", "not a line of JSON"),
    ],
)
def test_a_bad_hello_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_hello(text)
    assert caught.value.detail == said


# --- anything at all ---


def test_an_error_of_an_unknown_form_is_still_told() -> None:
    assert say_what_is_wrong("Something is odd") == "a line is an object: something is odd"


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(line: bytes) -> None:
    assert outcome(line) != ""


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20), st.floats(-1e9, 1e9))
FIELDS = st.sampled_from(["id", "op", "key", "ticket", "keys", "mode", "meta", "x"])


@settings(deadline=None)
@given(st.dictionaries(FIELDS, SCALARS))
def test_any_object_is_a_request_or_refused(fields: dict[str, object]) -> None:
    assert ":" in outcome(json.dumps({"op": "acquire", "ticket": TICKET, **fields}).encode())


def outcome(line: bytes) -> str:
    """Say what becomes of a line."""
    try:
        return f"read: {read_request(line)}"
    except BadRequest as bad:
        return bad.detail
