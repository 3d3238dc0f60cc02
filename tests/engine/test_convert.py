"""Changing modes: every conversion beside up to three others against a model that was written from the statements.

S numbers are the statements of the design; those on the value block are tested in test_value.py.
"""

from collections.abc import Iterator
from itertools import combinations_with_replacement, permutations, product

import pytest

from holdfast.words import BIT, CR, CW, EX, GONE, HELD, NL, PR, PW, Answer, Mode, Reason
from tests.engine.kit import Scene
from tests.engine.naive import Naive, compatible, is_way_down

ALL = list(Mode)
TOGETHER = [(one, other) for one, other in product(ALL, ALL) if compatible(one.name, other.name)]
WAYS_DOWN = [(old, new) for old, new in product(ALL, ALL) if is_way_down(old.name, new.name)]


def word(answer: Answer) -> str:
    """Spell an answer as the naive model does."""
    return "ended" if answer is Answer.CANCELLED else answer.name.lower()


def crowds(others_max: int) -> Iterator[tuple[Mode, ...]]:
    """List what a holder, who comes first, and up to so many others may hold at the same time."""
    for count in range(others_max + 1):
        for mine, others in product(ALL, combinations_with_replacement(ALL, count)):
            crowd = (mine, *others)
            if all(compatible(a.name, b.name) for n, a in enumerate(crowd) for b in crowd[:n]):
                yield crowd


class Pair:
    """The engine and the naive model, given the same commands; they have to agree on everything."""

    def __init__(self, crowd: tuple[Mode, ...]) -> None:
        self.scene, self.naive = Scene(), Naive()
        self.crowd = [str(number) for number in range(len(crowd))]
        for name, mode in zip(self.crowd, crowd, strict=True):
            self.agree(self.scene.ask(name, mode), self.naive.ask(name, mode.name))

    def agree(self, answer: Answer, expected: tuple[str, list[str]]) -> Answer:
        granted = [news[1] for news in self.scene.news if news[0] == "granted"]
        assert (word(answer), granted) == expected
        held = {name: Mode(self.scene[name].mode).name for name in self.scene.holders}
        assert held == {lock.name: lock.mode for lock in self.naive.held}
        assert self.scene.converters == [lock.name for lock in self.naive.converting]
        assert self.scene.waiters == [lock.name for lock in self.naive.waiting]
        return answer

    def ask(self, name: str, want: int) -> Answer:
        return self.agree(self.scene.ask(name, want), self.naive.ask(name, Mode(want).name))

    def convert(self, name: str, want: int, queue: bool = True) -> Answer:
        answer = self.scene.convert(name, want, queue=queue)
        return self.agree(answer, self.naive.convert(name, Mode(want).name, queue))

    def cancel(self, name: str) -> Answer:
        return self.agree(self.scene.cancel(name), self.naive.cancel(name))

    def end(self, name: str) -> Answer:
        return self.agree(self.scene.end(name), self.naive.end(name))


# --- against the model ---


def test_every_conversion_beside_up_to_three_others_comes_to_what_the_statements_say() -> None:
    for crowd, want, queue in product(list(crowds(3)), ALL, (True, False)):
        pair = Pair(crowd)
        pair.convert("0", want, queue)
        pair.ask("w", PR)
        for name in pair.crowd[1:]:
            pair.end(name)
        pair.end("0")


def test_every_two_conversions_beside_a_third_holder_come_to_what_the_statements_say() -> None:
    for crowd in crowds(2):
        for one, other in product(ALL, ALL):
            pair = Pair(crowd)
            for name, want in zip(pair.crowd, (one, other), strict=False):
                pair.convert(name, want)
            pair.ask("w", CR)
            for name in reversed(pair.crowd):
                pair.end(name)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_conversions_that_are_given_up_in_any_order_leave_what_the_statements_say(order: tuple[int, ...]) -> None:
    for crowd in [crowd for crowd in crowds(2) if len(crowd) == 3]:
        pair = Pair(crowd)
        for name, want in zip(pair.crowd, (EX, PW, CW), strict=True):
            pair.convert(name, want)
        pair.ask("w", PR)
        for number in order:
            pair.cancel(pair.crowd[number])


# --- one by one ---


def test_s7_a_converting_lock_keeps_its_granted_mode_in_force() -> None:
    scene = Scene()
    scene.ask("a", PW)
    scene.ask("b", CR)
    assert scene.convert("a", EX) is Answer.CONVERTING
    assert (scene["a"].mode, scene["a"].want) == (PW, EX)
    assert scene.key.mask == BIT[PW] | BIT[CR]
    scene.ask("c", PR)
    scene.end("b")
    assert scene["a"].mode == EX


@pytest.mark.parametrize(("old", "beside"), TOGETHER, ids=lambda mode: mode.name)
@pytest.mark.parametrize("new", ALL, ids=lambda mode: mode.name)
def test_s8_a_conversion_is_granted_at_once_iff_it_fits_beside_the_others(old: Mode, beside: Mode, new: Mode) -> None:
    scene = Scene()
    scene.ask("a", old)
    scene.ask("b", beside)
    granted = scene.convert("a", new) is Answer.GRANTED
    assert granted is (compatible(new.name, beside.name) or is_way_down(old.name, new.name))


def test_s8_neither_queue_holds_up_a_conversion_that_fits() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", NL)
    scene.ask("c", NL)
    scene.convert("b", EX)
    scene.ask("d", EX)
    assert (scene.converters, scene.waiters) == (["b"], ["d"])
    assert scene.convert("c", PR) is Answer.GRANTED


@pytest.mark.parametrize(("old", "new"), WAYS_DOWN, ids=lambda mode: mode.name)
def test_s9_a_way_down_always_succeeds_at_once_and_serves_others(old: Mode, new: Mode) -> None:
    scene = Scene()
    scene.ask("a", old)
    scene.ask("b", EX)
    assert scene.convert("a", new) is Answer.GRANTED
    assert scene["a"].mode == new
    assert scene.news == ([("granted", "b")] if new == NL and old != NL else [])


def test_s9_a_way_down_keeps_the_fence_and_starts_the_lease_again() -> None:
    scene = Scene()
    scene.ask("a", EX, lease=30)
    scene.after(20)
    scene.convert("a", PR)
    assert scene["a"].fence == 1
    scene.after(29)
    assert scene.holders == ["a"]


@pytest.mark.parametrize("want", [Mode.CR, Mode.PR, Mode.EX], ids=lambda mode: mode.name)
def test_a_conversion_never_makes_a_lease_shorter_than_a_renewal_promised(want: Mode) -> None:
    scene = Scene()
    scene.ask("a", PR, lease=30)
    scene.renew("a", 600)
    assert scene.convert("a", want) is Answer.GRANTED
    assert scene.after(599) == []
    assert scene.after(1) == [("ended", "a", Reason.EXPIRED)]


def test_s9_a_way_up_gets_a_fence_of_its_own() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.convert("a", EX)
    assert scene["a"].fence == 2


def test_s9_reading_and_writing_together_are_exchanged_only_where_nobody_else_is() -> None:
    scene = Scene()
    scene.ask("a", PR)
    assert scene.convert("a", CW) is Answer.GRANTED
    assert scene.convert("a", PR) is Answer.GRANTED
    scene.ask("b", PR)
    assert scene.convert("a", CW) is Answer.CONVERTING


def test_s9_exchanging_one_for_the_other_serves_who_fits_now() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", CW)
    assert scene.waiters == ["b"]
    assert scene.convert("a", CW) is Answer.GRANTED
    assert scene.news == [("granted", "b")]


def test_s10_conversions_that_wait_are_served_strictly_in_order() -> None:
    scene = Scene()
    for name in "abc":
        scene.ask(name, NL)
    scene.ask("d", PW)
    scene.convert("a", EX)
    scene.convert("b", PR)
    scene.convert("c", PW)
    assert scene.converters == ["a", "b", "c"]
    scene.convert("d", CR)
    assert scene.news == []  # b would fit now, but a is before it
    scene.end("d")
    assert scene.news == [("granted", "a")]
    scene.convert("a", NL)
    assert scene.news == [("granted", "b")]
    scene.end("b")
    assert scene.news == [("granted", "c")]


def test_s11_while_a_conversion_waits_no_new_request_is_granted() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.convert("a", EX)
    assert scene.ask("c", NL) is Answer.QUEUED
    assert scene.ask("d", NL, queue=False) is Answer.BUSY


def test_s13_a_try_that_cannot_be_granted_leaves_the_old_mode() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR, listens=True)
    assert scene.convert("a", EX, queue=False) is Answer.BUSY
    assert scene.convert("a", EX, patience=0) is Answer.BUSY
    assert (scene["a"].mode, scene["a"].want, scene["a"].state) == (PR, PR, HELD)
    assert scene.news == []


def test_s14_a_second_conversion_is_refused_while_the_first_one_waits() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.convert("a", EX)
    assert scene.convert("a", NL) is Answer.BUSY
    assert scene["a"].want == EX


def test_s17_two_conversions_that_block_each_other_are_found_when_the_second_comes() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    assert scene.convert("a", EX) is Answer.CONVERTING
    assert scene.convert("b", EX) is Answer.WOULD_DEADLOCK


def test_s18_a_conversion_that_blocks_one_already_queued_is_a_deadlock_too() -> None:
    scene = Scene()
    scene.ask("a", NL)
    scene.ask("b", PR)
    scene.ask("c", PR)
    assert scene.convert("a", EX) is Answer.CONVERTING
    assert scene.convert("b", EX) is Answer.WOULD_DEADLOCK


def test_s18_a_conversion_that_only_waits_its_turn_is_no_deadlock() -> None:
    scene = Scene()
    scene.ask("a", NL)
    scene.ask("b", NL)
    scene.ask("c", PR)
    assert scene.convert("a", EX) is Answer.CONVERTING
    assert scene.convert("b", EX) is Answer.CONVERTING


def test_s19_the_later_conversion_keeps_its_mode_and_the_first_goes_on_when_it_lets_go() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.convert("a", EX)
    scene.convert("b", EX)
    assert (scene["b"].mode, scene["b"].state) == (PR, HELD)
    scene.end("b")
    assert scene.news == [("granted", "a")]


def test_s19_going_down_is_always_a_way_out_of_a_deadlock() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.convert("a", EX)
    assert scene.convert("b", NL) is Answer.GRANTED
    assert scene.news == [("granted", "a")]


def test_s20_a_refused_conversion_tells_the_mode_that_is_still_held() -> None:
    scene = Scene()
    scene.ask("a", PW)
    scene.ask("b", CR)
    scene.convert("a", EX)
    assert scene.convert("b", EX) is Answer.WOULD_DEADLOCK
    assert (scene["b"].mode, scene["b"].want) == (CR, CR)


def test_s21_a_waiter_that_is_cancelled_goes_and_others_are_served() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", EX)
    scene.ask("c", PR)
    assert scene.cancel("b") is Answer.CANCELLED
    assert (scene["b"].state, scene["b"].reason) == (GONE, Reason.CANCELLED)
    assert scene.news == [("granted", "c")]


def test_s22_a_conversion_that_is_cancelled_falls_back_and_others_are_served() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.convert("a", EX)
    scene.ask("c", PR)
    assert scene.cancel("a") is Answer.CANCELLED
    assert (scene["a"].mode, scene["a"].want, scene["a"].state) == (PR, PR, HELD)
    assert scene.news == [("stayed", "a", Reason.CANCELLED), ("granted", "c")]


def test_s23_what_is_held_and_idle_cannot_be_cancelled() -> None:
    scene = Scene()
    scene.ask("a", PR)
    assert scene.cancel("a") is Answer.BUSY
    assert scene.holders == ["a"]


def test_s23_a_cancel_that_comes_after_the_grant_reports_the_grant_only() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.ask("b")
    scene.sleep(30)
    assert scene.cancel("b") is Answer.BUSY
    assert scene.news == [("ended", "a", Reason.EXPIRED), ("granted", "b")]


def test_s23_a_cancel_that_comes_after_the_end_reports_the_end_only() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b", patience=30)
    scene.sleep(30)
    assert scene.cancel("b") is Answer.NOT_HELD
    assert scene.news == [("ended", "b", Reason.TIMED_OUT)]


def test_s25_a_conversion_that_runs_out_of_patience_is_cancelled_as_timed_out() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.ask("c", PR)
    scene.convert("a", EX, patience=10)
    scene.ask("d", PR)
    assert scene.after(10) == [("stayed", "a", Reason.TIMED_OUT), ("granted", "d")]
    assert scene["a"].mode == PR


def test_without_a_fence_a_way_up_is_refused_and_a_way_down_is_not() -> None:
    scene = Scene()
    scene.ask("a", PW)
    scene.mint.dry = True
    assert scene.convert("a", EX) is Answer.NO_FENCE
    assert (scene["a"].mode, scene["a"].fence) == (PW, 1)
    assert scene.convert("a", CR) is Answer.GRANTED


def test_who_waits_has_nothing_to_convert() -> None:
    scene = Scene()
    scene.ask("a", EX)
    scene.ask("b", CW)
    assert scene.convert("b", PW) is Answer.NOT_HELD


def test_a_seat_is_neither_won_nor_lost_by_converting() -> None:
    scene = Scene()
    scene.ask("a", CW, units=2, limit=3)
    scene.convert("a", NL)
    assert scene.key.used == 2
    assert scene.ask("b", CW, units=2, limit=3) is Answer.QUEUED


def test_a_way_sideways_has_its_fence_before_whoever_it_lets_in() -> None:
    scene = Scene()
    scene.ask("a", NL)
    scene.ask("b", PR)
    assert scene.convert("a", CW) is Answer.CONVERTING
    assert scene.convert("b", CW) is Answer.GRANTED
    assert scene.news == [("granted", "a")]
    assert scene["b"].fence < scene["a"].fence
