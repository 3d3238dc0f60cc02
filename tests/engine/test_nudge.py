"""Who is told that somebody wants what they hold, and how often. S numbers are the statements of the design.

A nudge changes nothing; what its hearer does about it is tested in test_convert.py.
"""

from itertools import product

import pytest

from holdfast.words import BESIDE, CR, CW, EX, NL, PR, PW, Answer, Mode, Reason
from tests.engine.kit import Scene
from tests.engine.naive import compatible


@pytest.mark.parametrize(("held", "want"), list(product(Mode, Mode)), ids=lambda mode: mode.name)
def test_s26_a_holder_is_nudged_iff_its_mode_is_incompatible_with_the_blocked_request(held: Mode, want: Mode) -> None:
    scene = Scene()
    scene.ask("a", held, listens=True)
    scene.ask("b", want)
    assert scene.news == ([] if compatible(held.name, want.name) else [("nudged", "a", want)])


def test_s26_a_nudge_goes_to_each_holder_that_stands_in_the_way() -> None:
    scene = Scene()
    scene.ask("a", CR, listens=True)
    scene.ask("b", PR, listens=True)
    scene.ask("c", PR)
    scene.ask("d", PR, listens=True)
    scene.ask("e", PW)
    assert scene.news == [("nudged", "b", PW), ("nudged", "d", PW)]


def test_s26_a_converting_holder_is_nudged_with_the_mode_that_it_has() -> None:
    scene = Scene()
    scene.ask("a", PR, listens=True)
    scene.ask("b", PR)
    scene.convert("a", EX)
    assert scene.news == []
    scene.ask("c", CW)
    assert scene.news == [("nudged", "a", CW)]


def test_s26_a_conversion_nudges_the_others_and_never_itself() -> None:
    scene = Scene()
    scene.ask("a", PR, listens=True)
    scene.ask("b", PR, listens=True)
    scene.convert("a", EX)
    assert scene.news == [("nudged", "b", EX)]


def test_s27_a_holder_hears_only_once_of_the_same_mode() -> None:
    scene = Scene()
    scene.ask("a", EX, listens=True)
    scene.ask("b", PR)
    scene.ask("c", PR)
    assert scene.news == []


def test_s27_a_holder_hears_again_of_a_higher_mode_and_not_of_a_lower_one() -> None:
    scene = Scene()
    scene.ask("a", PR, listens=True)
    for name, want in [("b", CW), ("c", PW), ("d", CW), ("e", EX), ("f", PW)]:
        scene.ask(name, want)
        assert scene.news == ([("nudged", "a", want)] if name in "bce" else [])


def test_s27_reading_and_writing_together_are_both_told_because_neither_outranks_the_other() -> None:
    scene = Scene()
    scene.ask("a", PW, listens=True)
    scene.ask("b", PR)
    scene.ask("c", CW)
    assert scene.news == [("nudged", "a", CW)]
    scene.ask("d", PR)
    assert scene.news == []


def test_s27_a_conversion_makes_a_holder_hear_again() -> None:
    scene = Scene()
    scene.ask("a", PW, listens=True)
    scene.ask("b", EX)
    scene.convert("a", PR)
    assert scene.news == [("nudged", "a", EX)]


def test_s27_who_takes_the_same_key_again_hears_anew() -> None:
    scene = Scene()
    scene.ask("a", EX)
    scene.ask("b", EX, listens=True)
    scene.ask("c", EX)
    scene.end("a")
    assert scene.news == [("granted", "b"), ("nudged", "b", EX)]


def test_s28_after_a_pass_that_leaves_requests_blocked_the_new_holders_are_told() -> None:
    scene = Scene()
    scene.ask("a", EX)
    scene.ask("b", PR, listens=True)
    scene.ask("c", PR, listens=True)
    scene.ask("d", CW)
    scene.ask("e", PW)
    scene.end("a")
    assert scene.news == [
        ("granted", "b"),
        ("granted", "c"),
        ("nudged", "b", CW),
        ("nudged", "c", CW),
        ("nudged", "b", PW),
        ("nudged", "c", PW),
    ]


def test_s28_after_a_pass_that_leaves_a_conversion_blocked_its_own_holder_is_not_told() -> None:
    scene = Scene()
    scene.ask("a", PR, listens=True)
    scene.ask("b", PR)
    scene.ask("c", PR)
    scene.convert("a", EX)
    scene.end("b")
    assert scene.news == []


def test_s28_a_converting_holder_is_told_when_another_wants_the_same_mode() -> None:
    scene = Scene()
    scene.ask("a", PR, listens=True)
    scene.ask("b", PR)
    scene.ask("c", PR)
    scene.convert("a", EX)
    scene.ask("d", EX)
    assert scene.news == [("nudged", "a", EX)]


def test_s28_while_one_converts_and_another_mode_is_wanted_by_one_waiter_the_right_ones_are_told() -> None:
    scene = Scene()
    scene.ask("a", EX)
    scene.ask("b", NL, listens=True)
    scene.convert("b", PR)
    scene.ask("c", CW)
    scene.end("a")
    assert scene.news == [("granted", "b"), ("nudged", "b", CW)]


def test_s28_a_waiter_and_a_converting_holder_are_told_apart() -> None:
    scene = Scene()
    scene.ask("a", PR, listens=True)
    scene.ask("b", PR, listens=True)
    scene.convert("a", EX)
    scene.ask("c", CW)
    assert scene.news == [("nudged", "a", CW)]  # b has heard of EX
    scene.convert("b", PR)
    assert scene.news == [("nudged", "b", CW), ("nudged", "b", EX)]


def test_s29_a_grant_is_told_before_any_nudge_about_it() -> None:
    scene = Scene()
    scene.ask("a", EX)
    scene.ask("b", PR, listens=True)
    scene.ask("c", EX)
    scene.end("a")
    assert scene.news == [("granted", "b"), ("nudged", "b", EX)]


def test_s31_a_nudge_takes_nothing_away() -> None:
    scene = Scene()
    scene.ask("a", EX, listens=True)
    scene.ask("b", EX)
    assert scene.holders == ["a"]
    assert scene.after(10**6) == []
    assert scene.holders == ["a"]


@pytest.mark.parametrize("want", Mode, ids=lambda mode: mode.name)
def test_s31_going_down_to_the_advised_mode_lets_the_other_in(want: Mode) -> None:
    scene = Scene()
    scene.ask("a", EX, listens=True)
    scene.ask("b", want)
    scene.convert("a", BESIDE[want])
    assert set(scene.holders) == {"a", "b"}


def test_a_want_of_seats_alone_nudges_nobody() -> None:
    scene = Scene()
    scene.ask("a", CW, units=2, limit=2, listens=True)
    scene.ask("b", CW, units=1, limit=2)
    assert scene.news == []


def test_s30_a_listener_hears_how_its_claim_ends_even_if_it_asked_for_it() -> None:
    scene = Scene()
    scene.ask("a", EX, listens=True)
    scene.end("a")
    assert scene.news == [("ended", "a", Reason.RELEASED)]


def test_on_a_key_with_holders_that_do_not_listen_nobody_is_looked_at() -> None:
    scene = Scene()
    scene.ask("a", CR)
    assert scene.ask("b", EX) is Answer.QUEUED
    assert scene.key.listeners == 0
    scene.ask("c", PW, listens=True)
    scene.end("a")
    assert scene.news == [("granted", "b")]
    assert scene.key.listeners == 0
