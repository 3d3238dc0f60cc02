"""The mint for tests: predictable, rising, and dry when asked to be."""

import pytest

from holdfast.errors import FenceUnavailable
from holdfast.testing.mint import CountingMint, secret_of
from holdfast.words import SECRET_BYTES, TOKEN_BYTES


def test_fences_rise_by_one_from_the_start() -> None:
    mint = CountingMint(start=40)
    assert [mint(0)[0], mint(40)[0], mint(41)[0]] == [40, 41, 42]


def test_each_fence_has_a_secret_and_a_token_of_its_own() -> None:
    secrets = [secret_of(fence) for fence in (1, 2, 2**63, 2**64 - 1)]
    assert {len(secret) for secret in secrets} == {SECRET_BYTES}
    assert len({secret[:TOKEN_BYTES] for secret in secrets}) == len(secrets)
    assert int(secrets[2][:16], 16) == 2**63


def test_a_fence_below_the_last_one_is_a_bug_of_whoever_asks() -> None:
    with pytest.raises(AssertionError):
        CountingMint()(7)


def test_a_dry_mint_gives_nothing_until_it_is_filled_again() -> None:
    mint = CountingMint()
    mint.dry = True
    with pytest.raises(FenceUnavailable):
        mint(0)
    mint.dry = False
    assert mint(0)[0] == 1


def test_a_mint_can_run_dry_after_a_while() -> None:
    mint = CountingMint()
    mint.dry_after(1)
    assert mint(0)[0] == 1
    for _ in range(2):
        with pytest.raises(FenceUnavailable):
            mint(1)
    mint.dry = False
    assert mint(1)[0] == 2
