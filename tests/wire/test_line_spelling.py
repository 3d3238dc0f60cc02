"""How numbers and white space may be written, and how long a line may be.

Which command takes which of them is tested in test_line.py.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.wire.line import NOT_AN_INTEGER, BadLine, LineCodec, fields, parse_integer, too_long, trim
from holdfast.words import SECOND, Claim

# All white space of Unicode, in UTF-8: what separates fields.
SPACES = [chr(code).encode() for code in (0x09, 0x0B, 0x0C, 0x0D, 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B))] + [
    chr(code).encode() for code in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
]
# What looks empty and is no white space, and what is no character at all.
NO_SPACES = [chr(code).encode() for code in (0x00, 0x1C, 0x1F, 0x180E, 0x200B, 0x2060, 0xFEFF)] + [b"\xa0", b"\xe2\x80"]


# --- numbers ---


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0", 0),
        (b"-0", 0),
        (b"+0", 0),
        (b"+7", 7),
        (b"-7", -7),
        (b"007", 7),
        (b"-007", -7),
        (b"0" * 250 + b"5", 5),
        (b"-" + b"0" * 250, 0),
        (b"-" + b"0" * 250 + b"5", -5),
        (b"+" + b"0" * 5000 + b"5", 5),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"00009223372036854775807", 2**63 - 1),
    ],
)
def test_an_integer_may_be_written_like_this(text: bytes, value: int) -> None:
    assert parse_integer(text) == value


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"+",
        b"-",
        b"+-1",
        b"--1",
        b"1-",
        b"1_000",
        b"1 000",
        b" 1",
        b"1\n",
        b"1.0",
        b"1e3",
        b"0x10",
        "٣".encode(),
        "\uff11".encode(),
        b"\xb2",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"99999999999999999999",
        b"-99999999999999999999",
        b"1" * 5000,
    ],
)
def test_an_integer_may_not_be_written_like_this(text: bytes) -> None:
    with pytest.raises(BadLine) as caught:
        parse_integer(text)
    assert caught.value.code == NOT_AN_INTEGER


@given(st.integers(-(2**64), 2**64))
def test_an_integer_is_read_exactly_where_it_fits_64_bits(value: int) -> None:
    if -(2**63) <= value < 2**63:
        assert parse_integer(b"%d" % value) == value
    else:
        with pytest.raises(BadLine):
            parse_integer(b"%d" % value)


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_fields_are_parted_by_all_white_space_of_unicode(space: bytes) -> None:
    assert fields(space + b"1" + space + space + b"30" + space) == [b"1", b"30"]
    assert trim(space + b" 1" + space + b"30" + space) == b"1" + space + b"30"
    request = LineCodec(SECOND).decode(b"l", b"job", b"1" + space + b"30")
    assert isinstance(request, Claim)
    assert (request.patience_ns, request.lease_ns) == (SECOND, 30 * SECOND)


@pytest.mark.parametrize("other", NO_SPACES, ids=repr)
def test_fields_are_parted_by_nothing_else(other: bytes) -> None:
    assert fields(b"1" + other + b"2") == [b"1" + other + b"2"]
    assert trim(other) == other


@given(st.binary(max_size=40))
def test_white_space_is_found_in_bytes_as_it_is_in_text(data: bytes) -> None:
    white = b"".join([*SPACES, b"\n"]).decode()
    text = data.decode("utf-8", "surrogateescape")
    assert trim(data) == text.strip(white).encode("utf-8", "surrogateescape")
    for space in white:
        text = text.replace(space, " ")
    assert fields(data) == [field.encode("utf-8", "surrogateescape") for field in text.split(" ") if field]


# --- how long a line may be ---


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_line_may_have_256_bytes(place: int) -> None:
    frame = [b"l", b"k", b"1"]
    frame[place] = b"x" * 256
    assert not too_long(frame)
    frame[place] = b"x" * 257
    assert too_long(frame)
    assert too_long(frame[: place + 1])


def test_carriage_returns_count() -> None:
    assert too_long([b"l", b"k" * 256 + b"\r", b"1"])
    assert not too_long([b"l", b"k" * 255 + b"\r", b"1"])


@pytest.mark.parametrize("command", [b"auth", b"auth\r", b"auth\r\r"])
def test_only_the_token_of_auth_may_be_longer(command: bytes) -> None:
    assert not too_long([command, b"_", b"t" * 65_536])
    assert too_long([command, b"_", b"t" * 65_537])
    assert too_long([command, b"k" * 257, b"t"])
    assert too_long([command, b"k" * 257])


@pytest.mark.parametrize("command", [b"Auth", b"auth ", b"", b"authx"])
def test_what_is_not_exactly_auth_has_the_common_cap(command: bytes) -> None:
    assert too_long([command, b"_", b"t" * 257])


def test_nothing_is_not_too_long() -> None:
    assert not too_long([])
    assert not too_long([b""])
