"""What callers may ask: every command, and every mistake with its code.

How numbers and spaces may be written is tested in test_line_spelling.py, how answers look in test_line_replies.py.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.wire import line as wire
from holdfast.wire.line import BadLine, LineCodec
from holdfast.words import CW, EX, FOREVER, SECOND, UNLIMITED, Claim, End, Renew, WaitFor

DEFAULT_LEASE = 33 * SECOND
TOKEN = b"0001a3f217b3c4d87f3c1f2b3e9a8d6e"
KEY = b"job"


def decode(command: str, arg: bytes | str = b"", key: bytes = KEY) -> Any:
    arg = arg.encode() if isinstance(arg, str) else arg
    return LineCodec(DEFAULT_LEASE).decode(command.encode(), key, arg)


def code_of(command: str, arg: bytes | str = b"", key: bytes = KEY) -> int:
    with pytest.raises(BadLine) as caught:
        decode(command, arg, key)
    assert caught.value.detail
    return caught.value.code


def facts(request: object) -> dict[str, object]:
    """Everything that a request says, by name."""
    names = (
        "key",
        "want",
        "units",
        "limit",
        "lease_ns",
        "patience_ns",
        "queue",
        "tracked",
        "listens",
        "token",
        "value",
    )
    return {name: getattr(request, name) for name in names if hasattr(request, name)}


def claim(
    key: bytes, want: object, limit: int, lease_s: int, patience_ns: int, tracked: bool = False
) -> dict[str, object]:
    return {
        "key": key,
        "want": want,
        "units": 1,
        "limit": limit,
        "lease_ns": lease_s * SECOND,
        "patience_ns": patience_ns,
        "queue": True,
        "tracked": tracked,
        "listens": False,
        "token": b"",
    }


# --- every command ---


@pytest.mark.parametrize(
    ("command", "arg", "expected"),
    [
        ("l", "10", claim(b"lock:job", EX, UNLIMITED, 33, 10 * SECOND)),
        ("l", "0 30", claim(b"lock:job", EX, UNLIMITED, 30, 0)),
        ("sl", "10 3", claim(b"sem:job", CW, 3, 33, 10 * SECOND)),
        ("sl", "0 1 5", claim(b"sem:job", CW, 1, 5, 0)),
        ("e", "", claim(b"lock:job", EX, UNLIMITED, 33, FOREVER, tracked=True)),
        ("e", "7", claim(b"lock:job", EX, UNLIMITED, 7, FOREVER, tracked=True)),
        ("se", "3", claim(b"sem:job", CW, 3, 33, FOREVER, tracked=True)),
        ("se", "3 7", claim(b"sem:job", CW, 3, 7, FOREVER, tracked=True)),
    ],
)
def test_what_asks_for_a_claim(command: str, arg: str, expected: dict[str, object]) -> None:
    request = decode(command, arg)
    assert isinstance(request, Claim)
    assert facts(request) == expected


@pytest.mark.parametrize(("command", "name"), [("w", b"lock:job"), ("sw", b"sem:job")])
def test_what_waits_for_an_enqueued_claim(command: str, name: bytes) -> None:
    request = decode(command, " 5 ")
    assert isinstance(request, WaitFor)
    assert facts(request) == {"key": name, "patience_ns": 5 * SECOND}


@pytest.mark.parametrize(("command", "name"), [("r", b"lock:job"), ("sr", b"sem:job")])
@pytest.mark.parametrize("arg", [TOKEN, b" " + TOKEN + b"\t", b"\xc2\xa0" + TOKEN + b"\xe3\x80\x80"])
def test_what_gives_back(command: str, name: bytes, arg: bytes) -> None:
    request = decode(command, arg)
    assert isinstance(request, End)
    assert facts(request) == {"key": name, "token": TOKEN, "value": None}


@pytest.mark.parametrize("arg", [b"a b", TOKEN + b" 30", b"x" * 33, b"\xff\x00"])
def test_a_release_takes_the_whole_line_for_a_token(arg: bytes) -> None:
    assert decode("r", arg).token == arg


@pytest.mark.parametrize(("command", "name"), [("n", b"lock:job"), ("sn", b"sem:job")])
def test_what_renews(command: str, name: bytes) -> None:
    request = decode(command, TOKEN + b" 60")
    assert isinstance(request, Renew)
    assert facts(request) == {"key": name, "lease_ns": 60 * SECOND, "token": TOKEN}
    assert decode(command, TOKEN).lease_ns == DEFAULT_LEASE


def test_what_is_not_about_a_key_ignores_it() -> None:
    for key, arg in ((b"", b""), (b"a b", b"1 2 3 4"), (b"_", b"_")):
        assert isinstance(decode("ping", arg, key), wire.Ping)
        assert isinstance(decode("stats", arg, key), wire.Stats)
    auth = decode("auth", b"\xc2\xa0 open sesame\t", b"")
    assert isinstance(auth, wire.Auth)
    assert auth.token == b"open sesame"


def test_a_codec_gives_the_same_meaning_twice_and_never_the_same_claim() -> None:
    codec = LineCodec(DEFAULT_LEASE)
    first, second = (codec.decode(b"l", KEY, b"3 4") for _ in range(2))
    assert isinstance(first, Claim)
    assert first is not second
    assert facts(first) == facts(second)


def test_what_a_codec_remembers_is_bounded_and_right_after_it_was_forgotten() -> None:
    codec = LineCodec(DEFAULT_LEASE)
    for number in range(2 * wire.CACHE_MAX + 3):
        request = codec.decode(b"l", b"key%d" % number, b"%d" % number)
        assert facts(request) == claim(b"lock:key%d" % number, EX, UNLIMITED, 33, number * SECOND)


# --- every mistake, by its code ---


@pytest.mark.parametrize(
    "command", ["", "L", "l ", " l", "lock", "R", "PING", "barrier", "stable-ref", "signal", "l\x00"]
)
def test_code_3_an_unknown_command(command: str) -> None:
    assert code_of(command, "10") == wire.UNKNOWN_COMMAND == 3


def test_an_unknown_command_is_what_is_said_when_the_key_is_bad_too() -> None:
    assert code_of("nope", "", b"") == wire.UNKNOWN_COMMAND


@pytest.mark.parametrize(
    ("command", "arg"),
    [
        ("l", "ten"),
        ("l", "10 x"),
        ("l", "1.0"),
        ("sl", "x 3"),
        ("sl", "1 x"),
        ("sl", "1 3 x"),
        ("e", "x"),
        ("se", "x"),
        ("se", "3 x"),
        ("n", "token x"),
        ("w", ""),
        ("w", "1 2"),
        ("sw", "x"),
        ("l", "9223372036854775808"),
        ("se", "-9223372036854775809"),
    ],
)
def test_code_4_not_an_integer(command: str, arg: str) -> None:
    assert code_of(command, arg) == wire.NOT_AN_INTEGER == 4


KEYED = {
    "l": b"1",
    "sl": b"1 3",
    "r": TOKEN,
    "sr": TOKEN,
    "n": TOKEN,
    "sn": TOKEN,
    "e": b"",
    "se": b"3",
    "w": b"1",
    "sw": b"1",
}


@pytest.mark.parametrize("command", KEYED)
@pytest.mark.parametrize("key", [b"", b" ", b"a b", b"a\tb", b"a\rb", b"a\nb", b" a", b"a "])
def test_code_5_a_key_that_cannot_be(command: str, key: bytes) -> None:
    assert code_of(command, KEYED[command], key) == wire.BAD_KEY == 5


@pytest.mark.parametrize("command", KEYED)
@pytest.mark.parametrize(
    "key", [b"\x00", b"\xff\xfe", b"a\x0bb", b"a\x0cb", b"a\xc2\xa0b", b"\xe2\x80\xa8", b":", b"k" * 256]
)
def test_a_key_is_made_of_any_other_bytes(command: str, key: bytes) -> None:
    for _ in range(2):
        assert decode(command, KEYED[command], key).key.endswith(b":" + key)


def test_the_key_is_judged_before_the_argument() -> None:
    assert code_of("l", "nonsense and more of it", b"") == wire.BAD_KEY
    assert code_of("r", "", b"") == wire.BAD_KEY


@pytest.mark.parametrize("seconds", ["-1", "9223372037", "-9223372036854775808", "9223372036854775807"])
@pytest.mark.parametrize(("command", "arg"), [("l", "{}"), ("sl", "{} 3"), ("w", "{}"), ("sw", "{}")])
def test_code_6_a_timeout_that_cannot_be(command: str, arg: str, seconds: str) -> None:
    assert code_of(command, arg.format(seconds)) == wire.BAD_TIMEOUT == 6


@pytest.mark.parametrize("command", ["r", "sr"])
@pytest.mark.parametrize("arg", [b"", b"  \t ", b"\xc2\xa0", b"\xe3\x80\x80 \xc2\x85"])
def test_code_7_an_empty_token(command: str, arg: bytes) -> None:
    assert code_of(command, arg) == wire.EMPTY_TOKEN == 7


@pytest.mark.parametrize(
    ("command", "arg"),
    [
        ("l", ""),
        ("l", "  "),
        ("l", "1 2 3"),
        ("sl", ""),
        ("sl", "1"),
        ("sl", "1 2 3 4"),
        ("n", ""),
        ("n", " "),
        ("sn", "a 1 2"),
        ("e", "1 2"),
        ("se", ""),
        ("se", "1 2 3"),
    ],
)
def test_code_8_too_few_or_too_many_arguments(command: str, arg: str) -> None:
    assert code_of(command, arg) == wire.BAD_COUNT == 8


@pytest.mark.parametrize("seconds", ["0", "-0", "-1", "9223372037", "9223372036854775807"])
@pytest.mark.parametrize(
    ("command", "arg"), [("l", "1 {}"), ("sl", "1 3 {}"), ("e", "{}"), ("se", "3 {}"), ("n", "t {}"), ("sn", "t {}")]
)
def test_code_9_a_lease_that_cannot_be(command: str, arg: str, seconds: str) -> None:
    assert code_of(command, arg.format(seconds)) == wire.BAD_LEASE == 9


@pytest.mark.parametrize("limit", ["0", "-1", "-9223372036854775808"])
@pytest.mark.parametrize(("command", "arg"), [("sl", "1 {}"), ("sl", "1 {} 5"), ("se", "{}"), ("se", "{} 5")])
def test_code_13_a_limit_that_cannot_be(command: str, arg: str, limit: str) -> None:
    assert code_of(command, arg.format(limit)) == wire.BAD_LIMIT == 13


def test_a_limit_may_be_as_large_as_an_integer_can_be() -> None:
    assert decode("sl", "1 9223372036854775807").limit == 9223372036854775807


def test_the_longest_times_are_some_292_years() -> None:
    request = decode("l", "9223372036 9223372036")
    assert (request.patience_ns, request.lease_ns) == (9223372036 * SECOND, 9223372036 * SECOND)
    assert max(request.patience_ns, request.lease_ns) < FOREVER


@given(st.binary(max_size=60), st.binary(max_size=60), st.sampled_from([*KEYED, "ping", "stats", "auth", "x"]))
def test_whatever_is_sent_is_a_request_or_a_bad_line(key: bytes, arg: bytes, command: str) -> None:
    try:
        known = isinstance(
            decode(command, arg, key), Claim | End | Renew | WaitFor | wire.Ping | wire.Stats | wire.Auth
        )
    except BadLine as bad:
        known = bad.code in (3, 4, 5, 6, 7, 8, 9, 13)
    assert known
