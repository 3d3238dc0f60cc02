"""The bare stage says of the engine what a story can tell. What the stories tell is in tests/stories."""

import pytest

from holdfast.testing.stage import BareStage
from holdfast.testing.story import StoryError, parse, replay


def play(story: str, stage: BareStage | None = None) -> None:
    replay(parse(story), stage or BareStage())


def test_a_grant_tells_all_that_its_holder_may_know() -> None:
    play("""
        a: acquire k units=2 limit=3 lease=0.5
        -> a granted key=k fence=1 mode=CW units=2 lease=0.5
        b: try k units=1 limit=3
        -> b granted fence=2 lease=forever
    """)


def test_a_story_that_is_wrong_about_a_fence_fails() -> None:
    with pytest.raises(StoryError, match="happened: -> a granted key=k fence=1"):
        play("a: acquire k\n-> a granted fence=2")


def test_fences_are_counted_from_the_first_of_the_story_however_high_they_begin() -> None:
    stage = BareStage()
    play("a: acquire k\n-> a granted fence=1\na: release k\n-> a ended", stage)
    play("b: acquire k\n-> b granted fence=2", stage)


def test_a_queue_may_have_an_end() -> None:
    story = "a: acquire k\n-> a granted\nb: acquire k\n-> b waiting\nc: acquire k\n-> c too_many_waiters"
    play(story, BareStage(waiters_max=1))


def test_what_nobody_took_nobody_can_give() -> None:
    play("""
        a: release k
        -> a not_held
        a: acquire k
        -> a granted
        b: release k
        -> b not_held
        b: renew k with=c
        -> b not_held
        b: cancel k
        -> b not_held
        b: wait k
        -> b not_enqueued
        b: convert k CR
        -> b not_held
        b: hangup
        b: release k with=a
        -> b ended
    """)


def test_time_may_pass_with_ticks_with_one_or_with_none() -> None:
    play("""
        a: acquire k lease=1
        -> a granted
        b: acquire k lease=1
        -> b waiting
        time +5s
        -> a ended expired
        -> b granted
        -> b ended expired
        a: acquire k lease=1
        -> a granted
        b: acquire k lease=1
        -> b waiting
        time +5s late
        -> a ended expired
        -> b granted
        time +5s unseen
        a: acquire k
        -> a granted
        -> b ended expired
    """)
