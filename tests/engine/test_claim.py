"""What a caller may do with a claim: enqueue, wait, renew, end. S numbers are the statements of the design.

Whom a release serves is tested in test_serve.py; modes change in test_convert.py.
"""

import random
from itertools import product

import pytest

from holdfast.engine.resource import holders
from holdfast.words import CR, CW, EX, GONE, HELD, NL, PR, PW, UNLIMITED, WAITING, Answer, End, Mode, Reason, Renew
from tests.engine.kit import KEY, Scene, span
from tests.engine.naive import Naive, compatible


@pytest.mark.parametrize(("held", "want"), list(product(Mode, Mode)), ids=lambda mode: mode.name)
def test_s1_on_a_key_without_queues_a_request_is_granted_at_once_iff_it_is_compatible(held: Mode, want: Mode) -> None:
    scene = Scene()
    scene.ask("a", held)
    answer = scene.ask("b", want)
    assert answer is (Answer.GRANTED if compatible(held.name, want.name) else Answer.QUEUED)
    assert scene.news == []


def test_s1_a_request_waits_behind_the_wait_queue_even_if_it_is_compatible() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", EX)
    assert scene.ask("c", NL) is Answer.QUEUED
    assert scene.waiters == ["b", "c"]


def test_s1_a_request_waits_behind_the_convert_queue_even_if_it_is_compatible() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    assert scene.convert("a", EX) is Answer.CONVERTING
    assert scene.ask("c", CR) is Answer.QUEUED


def test_s1_a_converting_holder_counts_with_its_granted_mode() -> None:
    scene = Scene()
    scene.ask("a", CR)
    scene.ask("b", CR)
    scene.convert("a", EX)
    scene.end("b")
    assert scene["a"].mode == EX
    assert scene.ask("c", CR) is Answer.QUEUED


def test_s2_what_cannot_be_granted_goes_to_the_end_of_the_queue() -> None:
    scene = Scene()
    scene.ask("a")
    for name in "bcd":
        assert scene.ask(name) is Answer.QUEUED
    assert scene.waiters == ["b", "c", "d"]
    assert scene["c"].state is WAITING


def test_s2_a_try_that_cannot_be_granted_is_refused() -> None:
    scene = Scene()
    assert scene.ask("a", queue=False) is Answer.GRANTED
    assert scene.ask("b", queue=False) is Answer.BUSY
    assert scene.waiters == []


def test_s4_a_newcomer_does_not_overtake_a_waiter() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", EX)
    assert scene.ask("c", PR) is Answer.QUEUED
    scene.end("a")
    assert scene.news == [("granted", "b")]
    scene.end("b")
    assert scene.news == [("granted", "c")]


@pytest.mark.parametrize("seed", range(20))
def test_s4_the_order_of_grants_is_the_order_of_arrival_for_any_mix_of_modes(seed: int) -> None:
    dice = random.Random(seed)
    scene = Scene()
    names = [str(number) for number in range(30)]
    granted = [name for name in names if scene.ask(name, dice.choice(list(Mode))) is Answer.GRANTED]
    while len(granted) < len(names):
        assert granted == names[: len(granted)]
        scene.end(dice.choice(scene.holders))
        granted += [news[1] for news in scene.news]
    assert granted == names


def test_s6_a_refused_try_leaves_no_state_and_nudges_nobody() -> None:
    scene = Scene()
    scene.ask("a", PR, listens=True)
    scene.ask("b", EX, queue=False)
    assert scene.news == []
    assert scene.ask("c", PR) is Answer.GRANTED
    assert scene.table.sessions[scene.session("b")] == {}
    scene.end("a")
    scene.end("c")
    assert scene.news == []


def test_a_request_without_patience_is_refused_unless_it_is_granted_at_once() -> None:
    scene = Scene()
    assert scene.ask("a", patience=0) is Answer.GRANTED
    assert scene.ask("b", patience=0) is Answer.TIMED_OUT
    assert scene.waiters == []


def test_seats_are_given_as_long_as_there_are_any() -> None:
    scene = Scene()
    assert scene.ask("a", CW, units=3, limit=5) is Answer.GRANTED
    assert scene.ask("b", CW, units=2, limit=5) is Answer.GRANTED
    assert scene.ask("c", CW, units=1, limit=5) is Answer.QUEUED
    scene.end("a")
    assert scene.news == [("granted", "c")]
    assert scene.key.used == 3


def test_a_large_request_for_seats_is_not_starved_by_small_ones() -> None:
    scene = Scene()
    scene.ask("a", CW, units=3, limit=5)
    scene.ask("big", CW, units=5, limit=5)
    assert scene.ask("small", CW, units=1, limit=5) is Answer.QUEUED
    scene.end("a")
    assert scene.news == [("granted", "big")]


@pytest.mark.parametrize("limit", [4, 6, UNLIMITED])
def test_a_request_with_another_limit_is_refused_whatever_the_key_holds(limit: int) -> None:
    scene = Scene()
    scene.ask("a", CW, limit=5)
    assert scene.ask("b", CW, limit=limit) is Answer.LIMIT_MISMATCH
    scene.end("a")
    assert scene.ask("b", CW, limit=limit) is Answer.LIMIT_MISMATCH


def test_a_request_for_more_seats_than_there_are_is_refused() -> None:
    assert Scene().ask("a", CW, units=6, limit=5) is Answer.LIMIT_MISMATCH


def test_a_queue_that_is_full_takes_nobody_in_not_even_those_without_patience() -> None:
    scene = Scene(waiters_max=2)
    for name in "abc":
        scene.ask(name)
    assert scene.ask("d") is Answer.TOO_MANY_WAITERS
    assert scene.ask("e", patience=0) is Answer.TOO_MANY_WAITERS
    assert scene.ask("f", queue=False) is Answer.BUSY
    scene.end("a")
    assert scene.ask("g") is Answer.QUEUED


def test_without_a_fence_nothing_is_granted_and_nothing_is_left_behind() -> None:
    scene = Scene()
    scene.mint.dry = True
    assert scene.ask("a") is Answer.NO_FENCE
    assert holders(scene.key) == []
    assert scene.table.sessions[scene.session("a")] == {}
    scene.mint.dry = False
    assert scene.ask("b") is Answer.GRANTED


# --- the second phase ---


def test_waiting_for_what_is_granted_already_gives_the_whole_lease_from_now() -> None:
    scene = Scene()
    scene.ask("a", lease=30, tracked=True)
    scene.after(20)
    assert scene.wait("a") is Answer.GRANTED
    scene.after(29)
    assert scene.holders == ["a"]
    scene.after(1)
    assert scene.holders == []


def test_a_wait_sets_the_patience_anew() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b", tracked=True)
    assert scene.wait("b", patience=10) is Answer.QUEUED
    assert scene.after(9) == []
    assert scene.after(1) == [("ended", "b", Reason.TIMED_OUT)]


def test_s25_a_wait_that_has_no_patience_withdraws_the_waiter_as_timed_out() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", EX, tracked=True)
    scene.ask("c", PR)
    assert scene.wait("b", patience=0) is Answer.TIMED_OUT
    assert (scene["b"].state, scene["b"].reason) == (GONE, Reason.TIMED_OUT)
    assert scene.news == [("granted", "c")]


def test_a_wait_serves_a_key_that_was_stuck_without_a_fence() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b", tracked=True)
    scene.mint.dry = True
    scene.end("a")
    scene.mint.dry = False
    assert scene.wait("b", patience=0) is Answer.GRANTED
    assert scene.news == [("granted", "b")]


# --- renewing ---


def test_a_renewal_starts_the_lease_again() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.after(20)
    assert scene.renew("a", 30) is Answer.RENEWED
    scene.after(29)
    assert scene.holders == ["a"]
    assert scene.after(1) == [("ended", "a", Reason.EXPIRED)]


def test_a_renewal_keeps_the_fence() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.renew("a", 60)
    assert scene["a"].fence == 1


def test_a_renewal_never_creates_anew_what_has_ended() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.sleep(30)
    assert scene.renew("a", 30) is Answer.NOT_HELD
    assert scene.news == [("ended", "a", Reason.EXPIRED)]
    assert scene.holders == []


def test_a_renewal_with_a_wrong_token_does_not_keep_the_key_alive() -> None:
    scene = Scene()
    scene.ask("a")
    touched = scene.key.touched
    scene.sleep(5)
    assert scene.table.renew(Renew(KEY, b"wrong", span(30)), scene.now, []) is Answer.NOT_HELD
    assert scene.table.end(End(KEY, b"wrong"), scene.now, []) is Answer.NOT_HELD
    assert scene.key.touched == touched


def test_a_renewal_leaves_the_lease_that_a_wait_starts_again() -> None:
    scene = Scene()
    scene.ask("a", lease=10, tracked=True)
    scene.renew("a", 60)
    assert scene.wait("a") is Answer.GRANTED
    assert scene["a"].deadline == scene.now + span(10)


# --- ending ---


def test_a_release_frees_the_key_and_tells_nobody_who_does_not_care() -> None:
    scene = Scene()
    scene.ask("a")
    assert scene.end("a") is Answer.ENDED
    assert scene.news == []
    assert (scene["a"].state, scene["a"].reason) == (GONE, Reason.RELEASED)


def test_s24_the_release_of_an_unknown_lock_is_refused_and_changes_nothing() -> None:
    scene = Scene()
    scene.ask("a")
    scene.end("a")
    scene.ask("b")
    assert scene.end("a") is Answer.NOT_HELD
    assert scene.holders == ["b"]


def test_s24_a_waiter_has_nothing_to_release() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b")
    assert scene.end("b") is Answer.NOT_HELD
    assert scene.waiters == ["b"]


def test_a_session_that_follows_its_claim_hears_how_it_ends() -> None:
    scene = Scene()
    scene.ask("a", tracked=True)
    assert scene.end("a", Reason.BROKEN) is Answer.ENDED
    assert scene.news == [("ended", "a", Reason.BROKEN)]


def test_s30_ending_a_converting_claim_completes_its_conversion_too() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.convert("a", EX)
    assert scene.end("a") is Answer.ENDED
    assert scene.news == [("ended", "a", Reason.RELEASED)]
    assert scene.converters == []


def test_each_grant_has_a_higher_fence_than_the_one_before() -> None:
    scene = Scene()
    fences = []
    for name in "abc":
        scene.ask(name, CR)
        fences.append(scene[name].fence)
        scene.end(name)
    assert fences == sorted(set(fences))


@pytest.mark.parametrize("seed", range(10))
def test_any_mix_of_modes_and_seats_is_granted_as_the_naive_model_grants_it(seed: int) -> None:
    dice = random.Random(seed)
    scene, naive = Scene(), Naive(limit=6)
    for number in range(60):
        if scene.table.resources and holders(scene.key) and dice.random() < 0.4:
            name = dice.choice(scene.holders)
            answer = scene.end(name)
            expected = naive.end(name)
        else:
            name, mode, units = str(number), dice.choice(list(Mode)), dice.randrange(1, 8)
            answer = scene.ask(name, mode, units=units, limit=6)
            expected = naive.ask(name, mode.name, units)
        assert (answer.name.lower(), [news[1] for news in scene.news]) == expected
        assert scene.holders == [lock.name for lock in naive.held]


def test_a_claim_that_is_held_says_so() -> None:
    scene = Scene()
    scene.ask("a", CR)
    scene.ask("b", PW)
    assert {scene["a"].state, scene["b"].state} == {HELD}
