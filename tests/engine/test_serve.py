"""The grant pass: who is served when something is given back, and what happens when no fence can be had.

S numbers are the statements of the design.
"""

import pytest

from holdfast.engine.serve import FENCE_RETRY_NS, may_convert
from holdfast.words import CR, CW, EX, FOREVER, NL, PR, PW, SECOND, Answer, Mode, Reason
from tests.engine.kit import Scene


def test_s3_after_each_grant_the_pass_goes_on_with_the_new_head() -> None:
    scene = Scene()
    scene.ask("a", EX)
    for name, want in [("b", PR), ("c", CR), ("d", PR), ("e", EX), ("f", PR)]:
        scene.ask(name, want)
    scene.end("a")
    assert scene.news == [("granted", "b"), ("granted", "c"), ("granted", "d")]
    assert scene.waiters == ["e", "f"]


def test_s3_only_the_head_of_the_queue_may_be_granted() -> None:
    scene = Scene()
    scene.ask("a", PW)
    scene.ask("b", PR)
    scene.ask("c", CR)
    scene.ask("d", NL)
    assert scene.waiters == ["b", "c", "d"]
    scene.cancel("b")
    assert scene.news == [("granted", "c"), ("granted", "d")]


def test_s3_no_waiter_is_granted_while_a_conversion_waits() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.ask("c", PR)
    scene.convert("a", EX)
    scene.ask("d", PR)
    scene.end("b")
    assert scene.news == []
    scene.end("c")
    assert scene.news == [("granted", "a")]
    scene.end("a")
    assert scene.news == [("granted", "d")]


def test_s11_all_conversions_are_tried_before_any_waiter() -> None:
    scene = Scene()
    scene.ask("a", EX)
    scene.ask("b", NL)
    scene.ask("c", NL)
    scene.ask("d", PR)
    scene.convert("b", PR)
    scene.convert("c", CR)
    scene.end("a")
    assert scene.news == [("granted", "b"), ("granted", "c"), ("granted", "d")]


def test_s11_a_release_that_serves_only_the_first_conversion_leaves_the_rest_waiting() -> None:
    scene = Scene()
    scene.ask("a", PW)
    scene.ask("b", NL)
    scene.ask("c", NL)
    scene.ask("d", NL)
    scene.convert("b", PR)
    scene.convert("c", CW)
    scene.ask("e", CR)
    scene.end("a")
    assert scene.news == [("granted", "b")]
    assert (scene.converters, scene.waiters) == (["c"], ["e"])


def test_a_granted_conversion_has_a_fence_of_its_own_and_starts_its_lease_again() -> None:
    scene = Scene()
    scene.ask("a", PR, lease=30)
    scene.ask("b", PR)
    scene.convert("a", EX)
    scene.after(20)
    scene.end("b")
    assert scene["a"].fence == 3
    assert scene["a"].secret.startswith(b"%016x" % 1)  # what proves a claim never changes
    scene.after(29)
    assert scene.holders == ["a"]


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name)
def test_a_holder_never_stands_in_the_way_of_its_own_conversion(mode: Mode) -> None:
    scene = Scene()
    scene.ask("a", mode)
    assert all(may_convert(scene.key, scene["a"], want) for want in Mode)


# --- no fence can be had ---


def test_whoever_cannot_be_given_a_fence_keeps_its_place() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b")
    scene.ask("c")
    scene.mint.dry = True
    assert scene.end("a") is Answer.ENDED
    assert scene.news == []
    assert (scene.holders, scene.waiters) == ([], ["b", "c"])
    assert scene.key.stuck


def test_a_stuck_key_is_tried_again_by_itself() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b")
    scene.mint.dry = True
    scene.end("a")
    assert scene.table.next_deadline() == scene.now + FENCE_RETRY_NS
    assert scene.after(FENCE_RETRY_NS / SECOND) == []
    assert scene.table.next_deadline() == scene.now + FENCE_RETRY_NS
    scene.mint.dry = False
    assert scene.after(FENCE_RETRY_NS / SECOND) == [("granted", "b")]
    assert scene.table.next_deadline() == FOREVER


def test_a_newcomer_to_a_stuck_key_serves_those_before_it_first() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b", PR)
    scene.mint.dry = True
    scene.end("a")
    assert scene.ask("c", PR) is Answer.QUEUED
    scene.mint.dry = False
    assert scene.ask("d", PR) is Answer.GRANTED
    assert scene.news == [("granted", "b"), ("granted", "c")]
    assert scene["d"].fence > scene["c"].fence > scene["b"].fence


def test_a_conversion_that_cannot_be_given_a_fence_keeps_its_old_mode_and_its_place() -> None:
    scene = Scene()
    scene.ask("a", PR)
    scene.ask("b", PR)
    scene.convert("a", EX)
    scene.mint.dry = True
    scene.end("b")
    assert (scene["a"].mode, scene.converters) == (PR, ["a"])
    scene.mint.dry = False
    scene.after(1)
    assert scene["a"].mode == EX


def test_a_waiter_runs_out_of_patience_on_a_stuck_key_too() -> None:
    scene = Scene()
    scene.ask("a")
    scene.ask("b", patience=10)
    scene.mint.dry = True
    scene.end("a")
    assert scene.after(10) == [("ended", "b", Reason.TIMED_OUT)]
    assert not scene.key.stuck
    assert scene.table.next_deadline() == FOREVER


def test_a_key_that_gets_stuck_halfway_through_a_pass_has_granted_the_first_half() -> None:
    scene = Scene()
    scene.ask("a", EX)
    scene.ask("b", CW)
    scene.ask("c", CW)
    scene.mint.dry_after(1)
    scene.end("a")
    assert scene.news == [("granted", "b")]
    assert scene.waiters == ["c"]
    scene.mint.dry = False
    scene.end("b")
    assert scene.news == [("granted", "c")]
