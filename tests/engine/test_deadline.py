"""What happens when a lease or somebody's patience runs out, in which order, and on crowded keys.

The agenda of a crowded key is a matter of speed: it may change nothing of what is tested here.
"""

import random

import pytest

from holdfast.engine.deadline import CROWD
from holdfast.engine.resource import AGENDA_PER_CLAIM, holders_count
from holdfast.words import CR, CW, EX, FOREVER, NL, PR, SECOND, Answer, Reason, Renew
from tests.engine.kit import KEY, Scene, span


def test_a_lease_runs_out_at_its_instant_and_not_before() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.ask("b")
    scene.sleep(30 - 1e-9)
    assert scene.after(0) == []
    assert scene.after(1e-9) == [("ended", "a", Reason.EXPIRED), ("granted", "b")]


def test_a_lease_counts_from_the_grant_and_not_from_the_request() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.ask("b", lease=30)
    scene.after(59)
    assert scene.holders == ["b"]
    assert scene.after(1) == [("ended", "b", Reason.EXPIRED)]


def test_a_lease_for_ever_never_runs_out() -> None:
    scene = Scene()
    scene.ask("a")
    assert scene.table.next_deadline() == FOREVER
    assert scene.after(10 * 366 * 24 * 3600) == []
    assert scene.holders == ["a"]


def test_s25_patience_that_runs_out_withdraws_the_waiter_and_serves_those_behind_it() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", EX, patience=10)
    scene.ask("c", PR)
    assert scene.after(10) == [("ended", "b", Reason.TIMED_OUT), ("granted", "c")]


def test_at_one_instant_a_lease_ends_before_patience_does() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.ask("b", patience=30)
    assert scene.after(30) == [("ended", "a", Reason.EXPIRED), ("granted", "b")]


def test_at_one_instant_leases_end_in_the_order_of_their_grants() -> None:
    scene = Scene()
    for name in "abc":
        scene.ask(name, PR, lease=30)
    assert [news[1] for news in scene.after(30)] == ["a", "b", "c"]


def test_at_one_instant_patience_ends_in_the_order_of_arrival() -> None:
    scene = Scene()
    scene.ask("a", lease=31)
    for name in "bcd":
        scene.ask(name, patience=30)
    assert [news[1] for news in scene.after(30)] == ["b", "c", "d"]


def test_at_one_instant_a_lease_ends_before_the_patience_of_the_conversion_that_needs_it() -> None:
    scene = Scene()
    scene.ask("a", PR, lease=30)
    scene.convert("a", PR)
    scene.ask("b", PR, lease=30)
    scene.convert("a", EX, patience=30)
    assert scene.after(30) == [("ended", "a", Reason.EXPIRED), ("ended", "b", Reason.EXPIRED)]


def test_the_lease_of_a_converting_holder_runs_out_all_the_same() -> None:
    scene = Scene()
    scene.ask("a", PR, lease=30)
    scene.ask("b", PR)
    scene.convert("a", EX)
    scene.ask("c", PR)
    assert scene.after(30) == [("ended", "a", Reason.EXPIRED), ("granted", "c")]


def test_a_late_look_does_everything_in_the_order_in_which_it_was_due() -> None:
    scene = Scene()
    scene.ask("a", lease=20)
    scene.ask("b", lease=10, patience=10)
    scene.ask("c", patience=25)
    scene.ask("d", patience=15)
    assert scene.after(100, late=True) == [
        ("ended", "b", Reason.TIMED_OUT),
        ("ended", "d", Reason.TIMED_OUT),
        ("ended", "a", Reason.EXPIRED),
        ("granted", "c"),
    ]


def test_a_command_that_comes_before_the_tick_does_what_was_due_first() -> None:
    scene = Scene()
    scene.ask("a", lease=30)
    scene.sleep(30)
    assert scene.ask("b") is Answer.GRANTED
    assert scene.news == [("ended", "a", Reason.EXPIRED)]


def test_a_conversion_falls_back_without_losing_the_end_of_its_lease() -> None:
    scene = Scene()
    scene.ask("a", PR, lease=30)
    scene.ask("b", PR)
    scene.convert("a", EX, patience=10)
    assert scene.after(10) == [("stayed", "a", Reason.TIMED_OUT)]
    assert scene.after(20) == [("ended", "a", Reason.EXPIRED)]


# --- crowds ---


def crowded_scene() -> Scene:
    """Set a scene with so many bystanders that the key keeps an agenda: the first look at it makes one."""
    scene = Scene()
    scene.crowd(CROWD)
    scene.ask("spark", NL, lease=1)
    assert scene.after(1) == [("ended", "spark", Reason.EXPIRED)]
    scene.ask("more", NL)
    scene.ask("spark", NL, lease=1)
    scene.after(1)
    assert scene.key.agenda == []
    return scene


def test_a_crowd_runs_out_in_the_order_of_its_deadlines() -> None:
    scene = Scene()
    leases = list(range(100, 150))
    random.Random(1).shuffle(leases)
    for lease in leases:
        scene.ask(str(lease), NL, lease=lease)
    ended = [news[1] for news in scene.after(150, late=True)]
    assert ended == [str(lease) for lease in sorted(leases)]
    assert scene.key.agenda is None
    assert scene.key.soonest == FOREVER


def test_on_a_crowded_key_a_renewed_lease_does_not_end_at_its_old_time() -> None:
    scene = crowded_scene()
    scene.ask("a", NL, lease=30)
    scene.after(20)
    scene.renew("a", 30)
    assert scene.after(29) == []
    assert scene.after(1) == [("ended", "a", Reason.EXPIRED)]


def test_on_a_crowded_key_what_is_gone_does_not_end_again() -> None:
    scene = crowded_scene()
    scene.ask("a", NL, lease=30)
    scene.end("a")
    assert scene.after(31) == []


def test_on_a_crowded_key_a_lease_made_endless_never_ends() -> None:
    scene = crowded_scene()
    scene.ask("a", NL, lease=30)
    scene.renew("a", None)
    assert scene.after(31) == []
    assert "a" in scene.holders


def test_on_a_crowded_key_a_conversion_that_fell_back_still_loses_its_lease_in_time() -> None:
    scene = Scene()
    scene.crowd(CROWD + 8)
    scene.ask("a", NL, lease=30)
    scene.ask("b", CR)
    scene.convert("a", EX, patience=10)
    scene.ask("spark", NL, patience=5)
    assert scene.after(5) == [("ended", "spark", Reason.TIMED_OUT)]  # the agenda is made while a converts
    assert len(scene.key.agenda or []) == 1
    assert scene.after(5) == [("stayed", "a", Reason.TIMED_OUT)]
    assert scene.after(20) == [("ended", "a", Reason.EXPIRED)]


def test_a_crowd_of_nobody_who_ever_ends_is_never_looked_at() -> None:
    scene = crowded_scene()
    assert scene.key.soonest == FOREVER
    assert scene.table.next_deadline() == FOREVER


def test_the_agenda_of_a_key_that_is_renewed_often_stays_short() -> None:
    scene = crowded_scene()
    scene.ask("a", NL, lease=1000)
    for _ in range(1000):
        scene.now += SECOND // 1000
        scene.table.renew(Renew(KEY, scene["a"].token, span(1000)), scene.now, [])
    claims = holders_count(scene.key)
    assert len(scene.key.agenda or []) <= AGENDA_PER_CLAIM * claims


@pytest.mark.parametrize("seed", range(10))
def test_crowded_or_not_the_same_happens_at_the_same_time(seed: int) -> None:
    assert random_story(random.Random(seed), crowd=CROWD + 1) == random_story(random.Random(seed), crowd=0)


def random_story(dice: random.Random, crowd: int) -> list[object]:
    scene = Scene()
    scene.crowd(crowd)
    story: list[object] = []
    for number in range(120):
        name = str(number)
        scene.ask(name, dice.choice([NL, CW, PR, EX]), lease=dice.randrange(1, 20), patience=dice.randrange(1, 20))
        other = str(dice.randrange(number + 1))
        match dice.randrange(5):
            case 0:
                scene.renew(other, dice.randrange(1, 20))
            case 1:
                scene.convert(other, dice.choice([NL, PR, EX]), patience=dice.randrange(1, 9))
            case 2:
                scene.cancel(other)
            case 3:
                scene.end(other)
            case _:
                story.append(scene.after(dice.randrange(3), late=dice.random() < 0.3))
        story.append((scene.holders, scene.waiters, scene.converters))
    return story


def test_the_patience_of_a_wait_without_end_never_runs_out() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b")
    assert scene["b"].deadline >= FOREVER
    assert scene.after(10**9) == []
    assert scene.waiters == ["b"]
