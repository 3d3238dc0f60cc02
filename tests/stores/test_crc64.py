"""The checksum against published values and against plain long division.

The journal's use of it is tested with the journal.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.stores.crc64 import crc64


def by_long_division(data: bytes) -> int:
    """Divide bit by bit, without a table."""
    crc = 2**64 - 1
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xD800000000000000 if crc & 1 else 0)
    return crc ^ (2**64 - 1)


def test_the_check_value_of_the_catalogues() -> None:
    assert crc64(b"123456789") == 0xB90956C775A41001


def test_nothing_has_the_checksum_zero() -> None:
    assert crc64(b"") == 0


@pytest.mark.parametrize(
    ("body", "seal"),
    [
        ("64666c666e63310a000000000000000118a0000000100000", 0xFD0BC91794727C8A),
        ("64666c666e63310a000000000000000218a0000000200000", 0xFEC4E41794727C8A),
        ("64666c666e63310a0000000000000003ffffffffffffffff", 0x7481D2179472929C),
    ],
)
def test_the_seals_of_three_known_records(body: str, seal: int) -> None:
    assert crc64(bytes.fromhex(body)) == seal


@given(st.binary(max_size=80))
def test_the_table_agrees_with_long_division(data: bytes) -> None:
    assert crc64(data) == by_long_division(data)


@given(st.binary(min_size=1, max_size=32), st.data())
def test_a_flipped_bit_never_goes_unseen(data: bytes, draw: st.DataObject) -> None:
    bit = draw.draw(st.integers(0, 8 * len(data) - 1))
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    assert crc64(bytes(flipped)) != crc64(data)
