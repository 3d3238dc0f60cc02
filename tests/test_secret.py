"""A secret is shown as a token, or as a fence and a lease id: either way round, the same claim is meant.

Who has to show which, and what it proves, is tested where it is decided.
"""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.secret import FENCE_DIGITS, TOKEN_DIGITS, lease_id_of, secret_of, token_of
from holdfast.words import SECRET_BYTES, TOKEN_BYTES

FENCES = st.integers(1, 2**64 - 1)


@st.composite
def secrets(draw: st.DrawFn) -> bytes:
    return b"%016x" % draw(FENCES) + draw(st.binary(min_size=16, max_size=16)).hex().encode()


@given(secrets())
def test_a_lease_id_is_a_random_uuid_in_its_usual_spelling(secret: bytes) -> None:
    text = lease_id_of(secret).decode()
    read = uuid.UUID(text)
    assert str(read) == text
    assert (read.version, read.variant) == (4, uuid.RFC_4122)


@given(secrets())
def test_fence_and_lease_id_together_give_the_token(secret: bytes) -> None:
    assert token_of(int(secret[:FENCE_DIGITS], 16), lease_id_of(secret)) == secret[:TOKEN_DIGITS]


@given(FENCES, st.uuids(version=4))
def test_every_random_uuid_is_the_lease_id_of_a_secret(fence: int, lease_id: uuid.UUID) -> None:
    spelled = str(lease_id).encode()
    secret = secret_of(fence, spelled)
    assert secret is not None
    assert len(secret) == SECRET_BYTES
    assert int(secret[:FENCE_DIGITS], 16) == fence
    assert lease_id_of(secret) == spelled


@given(secrets(), secrets())
def test_lease_ids_differ_where_the_salt_of_the_token_does(one: bytes, other: bytes) -> None:
    if one[FENCE_DIGITS:TOKEN_DIGITS] != other[FENCE_DIGITS:TOKEN_DIGITS]:
        assert lease_id_of(one) != lease_id_of(other)


@pytest.mark.parametrize(
    "lease_id",
    [
        b"",
        b"odd",
        b"12345678-1234-4123-a123-123456789ab",
        b"12345678-1234-4123-a123-123456789abcd",
        b"12345678-1234-4123-a123-123456789abc\n",
        b"12345678-1234-1123-a123-123456789abc",  # another version
        b"12345678-1234-4123-c123-123456789abc",  # another variant
        b"12345678-1234-4123-A123-123456789ABC",
        b"12345678123441234a123123456789abc",
        "12345678-1234-4123-a123-123456789ab\u0661".encode(),
    ],
)
def test_other_texts_belong_to_no_secret(lease_id: bytes) -> None:
    assert secret_of(1, lease_id) is None
    assert token_of(1, lease_id) is None


@pytest.mark.parametrize("fence", [0, -1, 2**64])
def test_numbers_that_are_no_fences_belong_to_no_secret(fence: int) -> None:
    assert token_of(fence, b"12345678-1234-4123-a123-123456789abc") is None


def test_the_digits_are_those_of_all_secrets() -> None:
    assert TOKEN_DIGITS == TOKEN_BYTES
