"""The diary: what follows from what callers were told, and what must not follow.

The server in these stories is made up; its answers are right or wrong as the story wants them.
"""

import pytest

from bench.diary import Diary


def token(fence: int) -> str:
    return f"{fence:016x}{'0' * 16}"


def granted(fence: int = 1, until_s: float = 100) -> Diary:
    """Begin a diary in which a is told at the second 0 that it holds the key."""
    diary = Diary()
    diary.asks("key")
    diary.is_granted("key", "a", token(fence), now_s=0, until_s=until_s)
    return diary


def grant(diary: Diary, fence: int, now_s: float) -> None:
    diary.asks("key")
    diary.is_granted("key", "b", token(fence), now_s=now_s, until_s=now_s + 10)


def test_a_life_without_trouble_is_no_violation() -> None:
    diary = granted()
    diary.renews("key", until_s=50)
    diary.is_renewed("key", token(1), accepted=True, now_s=1, until_s=50)
    diary.releases("key")
    diary.is_released("key", token(1), accepted=True, now_s=2)
    grant(diary, 2, now_s=3)
    diary.compare({"key": 2}, {"key": 2}, 4)
    assert diary.violations == []


def test_a_second_holder_is_a_violation() -> None:
    diary = granted()
    grant(diary, 2, now_s=50)
    assert diary.violations == [f"key: b got {token(2)} while a holds {token(1)}"]


def test_whoever_comes_after_the_lease_may_hold() -> None:
    diary = granted(until_s=10)
    grant(diary, 2, now_s=10)
    assert diary.violations == []


def test_whoever_comes_after_a_release_that_nobody_confirmed_may_hold() -> None:
    diary = granted()
    diary.releases("key")
    grant(diary, 2, now_s=1)
    diary.is_released("key", token(1), accepted=False, now_s=2)
    assert diary.violations == []


@pytest.mark.parametrize("fence", [4, 5])
def test_a_fence_that_repeats_or_falls_is_a_violation(fence: int) -> None:
    diary = granted(fence=5, until_s=1)
    grant(diary, fence, now_s=2)
    assert diary.violations == [f"key: b got fence {fence} after fence 5"]


def test_a_renewal_that_is_refused_within_the_lease_is_a_violation() -> None:
    diary = granted()
    diary.renews("key", until_s=200)
    diary.is_renewed("key", token(1), accepted=False, now_s=60, until_s=200)
    assert diary.violations == [f"key: a renewal of {token(1)} was refused, 40.000 s before the end of its lease"]


def test_a_release_that_is_refused_within_the_lease_is_a_violation() -> None:
    diary = granted()
    diary.releases("key")
    diary.is_released("key", token(1), accepted=False, now_s=60)
    assert len(diary.violations) == 1


def test_a_renewal_under_way_counts_for_the_shorter_of_both_leases() -> None:
    diary = granted()
    diary.renews("key", until_s=10)
    diary.server_dies(ghosts_until_s=3)
    assert diary.believed(9) == [("key", token(1))]
    assert diary.believed(10) == []


def test_what_was_being_released_is_neither_held_nor_free() -> None:
    diary = granted()
    diary.releases("key")
    diary.server_dies(ghosts_until_s=3)
    assert diary.believed(1) == diary.left(1) == []
    assert diary.doubtful() == [("key", token(1))]
    diary.settle("key")
    assert diary.left(1) == [("key", token(1))]


def test_a_key_that_somebody_asked_for_when_the_server_died_may_be_held_for_a_lease() -> None:
    diary = granted()
    diary.is_released("key", token(1), accepted=True, now_s=1)
    diary.asks("key")
    diary.server_dies(ghosts_until_s=5)
    assert diary.left(4) == []
    assert diary.left(6) == [("key", token(1))]


def test_a_refused_caller_holds_nothing() -> None:
    diary = granted()
    diary.is_released("key", token(1), accepted=True, now_s=1)
    diary.asks("key")
    diary.is_refused("key")
    diary.server_dies(ghosts_until_s=5)
    assert diary.left(2) == [("key", token(1))]


def test_a_file_that_has_forgotten_a_token_is_a_violation() -> None:
    diary = granted(fence=3, until_s=0)
    diary.compare({"key": 2}, {}, 1)
    diary.compare({}, {}, 1)
    assert diary.violations == [
        "key: the last token in the file is 2, and 3 was given",
        "key: the last token in the file is None, and 3 was given",
    ]


def test_a_file_that_has_forgotten_a_holder_is_a_violation() -> None:
    diary = granted(fence=3)
    diary.compare({"key": 3}, {}, 1)
    assert diary.violations == [f"key: the file says that None holds it, and not {token(3)}"]
