"""The counter never repeats, never wraps and never passes its ceiling; the mint agrees with it, whatever happens.

The journal itself is tested next door; here a few lines of Python stand for it, and once the real one is used.
"""

import itertools
import string
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import FenceUnavailable
from holdfast.stores.fence import DENSE_MAX, FENCE_MAX, DenseMint, Fences, Mint
from holdfast.stores.journal import FENCE_RANGE, Journal

SEED = 0x18A0_0000_0000_0000


class LoadedDice:
    """Dice under a seed, which count the rolls."""

    def __init__(self) -> None:
        self._random = Random(7)
        self.rolls: list[int] = []

    def roll(self, count: int) -> bytes:
        self.rolls.append(count)
        return self._random.randbytes(count)


def granting(step: int) -> tuple[Callable[[int], int], list[int]]:
    """Return an `extend` that always agrees, and the list of what it was asked."""
    asked: list[int] = []

    def extend(fence: int) -> int:
        asked.append(fence)
        return fence + step

    return extend, asked


# --- the counter --------------------------------------------------------------------------------------------


def test_the_first_fence_is_one_above_the_seed_and_each_is_one_above_the_last() -> None:
    fences = Fences(SEED)
    assert fences.last == SEED
    assert [fences.next() for _ in range(3)] == [SEED + 1, SEED + 2, SEED + 3]
    assert fences.last == SEED + 3


def test_below_the_ceiling_nobody_is_asked_and_at_it_every_time() -> None:
    extend, asked = granting(10)
    fences = Fences(100, 103, extend)
    assert [fences.next() for _ in range(15)] == list(range(101, 116))
    assert asked == [103, 113]


@pytest.mark.parametrize("failure", [OSError(28, "disk full"), FenceUnavailable("closed")])
def test_when_the_ceiling_cannot_be_raised_the_number_is_burnt_and_the_next_call_tries_again(
    failure: Exception,
) -> None:
    asked: list[int] = []

    def extend(fence: int) -> int:
        asked.append(fence)
        if len(asked) < 3:
            raise failure
        return fence + 10

    fences = Fences(100, 102, extend)
    assert fences.next() == 101
    for burnt in (102, 103):
        with pytest.raises(FenceUnavailable):
            fences.next()
        assert fences.last == burnt
    assert fences.next() == 104
    assert asked == [102, 103, 104]


def test_the_reason_of_the_disk_reaches_the_caller() -> None:
    def extend(_: int) -> int:
        raise OSError(28, "No space left on device")

    with pytest.raises(FenceUnavailable, match="No space left on device"):
        Fences(5, 6, extend).next()


def test_a_ceiling_that_nobody_can_raise_is_the_end() -> None:
    fences = Fences(100, 102)
    assert fences.next() == 101
    with pytest.raises(FenceUnavailable, match="ceiling"):
        fences.next()


def test_the_numbers_end_instead_of_starting_again() -> None:
    fences = Fences(FENCE_MAX - 3)
    assert [fences.next(), fences.next()] == [FENCE_MAX - 2, FENCE_MAX - 1]
    for _ in range(3):
        with pytest.raises(FenceUnavailable, match="used up"):
            fences.next()
    assert fences.last == FENCE_MAX - 1


# --- the mint -----------------------------------------------------------------------------------------------


def test_a_secret_spells_its_fence_and_then_128_random_bits_in_lowercase_hex() -> None:
    mint = Mint(Fences(0x0001A3F217B3C4D7), LoadedDice())
    fence, secret = mint(0)
    assert fence == 0x0001A3F217B3C4D8
    assert secret[:16] == b"0001a3f217b3c4d8"
    assert len(secret) == 48
    assert set(secret) <= set((string.digits + "abcdef").encode())


def test_secrets_sort_like_their_fences_across_the_borders_of_blocks() -> None:
    mint = Mint(Fences(SEED + 0xFFFF - 300), LoadedDice())
    stamps = [mint(0) for _ in range(1000)]
    assert [fence for fence, _ in stamps] == list(range(SEED + 0xFFFF - 299, SEED + 0xFFFF + 701))
    assert all(secret[:16] == b"%016x" % fence for fence, secret in stamps)
    assert sorted(secret for _, secret in stamps) == [secret for _, secret in stamps]


def test_no_random_bits_are_used_twice_and_all_digits_occur_everywhere() -> None:
    mint = Mint(Fences(SEED), LoadedDice())
    salts = [mint(0)[1][16:] for _ in range(5000)]
    assert len(set(salts)) == 5000
    # 5,000 rolls of a fair die with 16 faces show each face about 312 times, and never under 200.
    for place in range(32):
        faces = Counter(salt[place] for salt in salts)
        assert len(faces) == 16
        assert min(faces.values()) > 200


def test_the_dice_are_rolled_in_pools() -> None:
    dice = LoadedDice()
    mint = Mint(Fences(SEED), dice)
    for _ in range(1000):
        mint(0)
    assert min(dice.rolls) >= 4096
    assert len(dice.rolls) == 4


def test_the_same_dice_make_the_same_secrets() -> None:
    one, other = (Mint(Fences(SEED), LoadedDice()) for _ in range(2))
    assert [one(0) for _ in range(600)] == [other(0) for _ in range(600)]


def test_the_counter_follows_the_mint() -> None:
    fences = Fences(SEED)
    mint = Mint(fences, LoadedDice())
    for _ in range(300):
        fence, _ = mint(0)
        assert fences.last == fence
    assert fences.next() == SEED + 301


@given(st.integers(0, 2**64 - 3000), st.lists(st.integers(0, 400), max_size=8))
def test_others_may_use_the_counter_at_any_moment_and_nothing_repeats(seed: int, pauses: list[int]) -> None:
    fences = Fences(seed)
    mint = Mint(fences, LoadedDice())
    other = Mint(fences, LoadedDice())
    seen: list[int] = []
    for pause in pauses:
        seen += [mint(seen[-1] if seen else 0)[0] for _ in range(pause)]
        seen.append(fences.next())
        fence, secret = other(seen[-1])
        assert secret[:16] == b"%016x" % fence
        seen.append(fence)
    assert seen == list(range(seed + 1, seed + 1 + len(seen)))


@pytest.mark.parametrize("step", [1, 2, 255, 256, 257, 700])
def test_the_mint_never_passes_a_ceiling_that_was_not_raised(step: int) -> None:
    extend, asked = granting(step)
    mint = Mint(Fences(SEED + 77, SEED + 78 + step, extend), LoadedDice())
    fences = [mint(0)[0] for _ in range(2000)]
    assert fences == list(range(SEED + 78, SEED + 2078))
    assert asked == list(range(SEED + 78 + step, SEED + 2078, step))


def test_a_mint_whose_ceiling_stays_low_fails_until_it_is_raised_and_burns_a_number_each_time() -> None:
    failures = itertools.chain([OSError(5, "bad"), OSError(5, "bad")], itertools.repeat(None))

    def extend(fence: int) -> int:
        if failure := next(failures):
            raise failure
        return fence + 10

    fences = Fences(SEED, SEED + 3, extend)
    mint = Mint(fences, LoadedDice())
    assert [mint(0)[0], mint(0)[0]] == [SEED + 1, SEED + 2]
    for burnt in (SEED + 3, SEED + 4):
        with pytest.raises(FenceUnavailable):
            mint(0)
        assert fences.last == burnt
    fence, secret = mint(SEED + 4)
    assert fence == SEED + 5
    assert secret[:16] == b"%016x" % fence


def test_the_last_stamps_of_all_are_sound_and_then_there_are_no_more() -> None:
    mint = Mint(Fences(FENCE_MAX - 3), LoadedDice())
    assert [mint(0)[1][:16] for _ in range(2)] == [b"fffffffffffffffd", b"fffffffffffffffe"]
    for _ in range(2):
        with pytest.raises(FenceUnavailable):
            mint(0)


@pytest.mark.parametrize("minted_before", [0, 1])
def test_a_key_that_has_seen_a_higher_fence_is_our_bug_and_stops_us(minted_before: int) -> None:
    mint = Mint(Fences(SEED), LoadedDice())
    for _ in range(minted_before):
        mint(0)
    with pytest.raises(AssertionError):
        mint(SEED + 500)


def test_a_mint_over_a_journal_crosses_its_ranges_without_a_gap(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "fences", clock_ns=SEED)
    fences = Fences(journal.floor, journal.ceiling, journal.extend)
    mint = Mint(fences, LoadedDice())
    assert mint(0)[0] == SEED + 1
    while fences.last < journal.floor + FENCE_RANGE - 2:
        fences.next()
    assert [mint(0)[0] for _ in range(4)] == list(range(SEED + FENCE_RANGE - 1, SEED + FENCE_RANGE + 3))
    journal.close()
    again = Journal.open(tmp_path / "fences", clock_ns=0)
    assert again.floor == SEED + 2 * FENCE_RANGE
    again.close()


# --- fences that are counted for each key -------------------------------------------------------------------


def test_a_dense_fence_is_one_more_than_the_last_of_its_key_and_nothing_else_matters() -> None:
    mint = DenseMint(LoadedDice())
    assert [mint(last)[0] for last in (0, 1, 7, 0, 2)] == [1, 2, 8, 1, 3]


def test_a_dense_secret_spells_its_fence_and_is_never_the_same() -> None:
    dice = LoadedDice()
    mint = DenseMint(dice)
    secrets = [mint(41)[1] for _ in range(1000)]
    assert all(len(secret) == 48 and secret.startswith(b"%016x" % 42) for secret in secrets)
    assert all(set(secret.decode()) <= set("0123456789abcdef") for secret in secrets)
    assert len(set(secrets)) == 1000
    assert len(dice.rolls) == 4  # many are prepared together


def test_dense_fences_end_where_databases_do() -> None:
    mint = DenseMint(LoadedDice())
    assert mint(DENSE_MAX - 1)[0] == DENSE_MAX == 2**63 - 1
    with pytest.raises(FenceUnavailable, match="used up"):
        mint(DENSE_MAX)
