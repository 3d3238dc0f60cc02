"""The line door on a store whose answers come after the disk: who stops talking meanwhile, and who has to wait.

The same answers on a store that answers at once are in test_line_answers.py.
"""

import pytest

from holdfast.testing.line_stage import LineCaller, LineStage, token
from holdfast.words import SECOND


@pytest.fixture
def stage() -> LineStage:
    return LineStage(late=True)


@pytest.fixture
def caller(stage: LineStage) -> LineCaller:
    return stage.caller()


def test_an_answer_comes_with_the_commit(stage: LineStage, caller: LineCaller) -> None:
    assert caller.ask("l", "job", "0") == ""
    stage.commit()
    assert caller.heard() == f"ok {token(1)} 33"


def test_what_is_pipelined_is_answered_in_order_one_commit_after_the_other(
    stage: LineStage, caller: LineCaller
) -> None:
    caller.send(b"l\njob\n0\nl\njob\n0\nping\n_\n_\n")
    stage.commit()
    assert caller.heard() == f"ok {token(1)} 33"
    stage.commit()
    assert caller.heard() == "timeout\nok"


def test_whoever_stops_talking_while_the_store_has_yet_to_answer_hears_the_answer(
    stage: LineStage, caller: LineCaller
) -> None:
    caller.send(b"l\njob\n0\n")
    caller.hang_up()
    assert not caller.closed
    stage.commit()
    assert caller.heard() == f"ok {token(1)} 33"
    assert caller.closed
    stage.commit()
    assert stage.caller().ask("l", "job", "0") == ""
    stage.commit()
    assert stage.callers[-1].heard() == f"ok {token(2)} 33"  # the first one has left, and took its lock along


def test_all_that_was_said_before_is_answered_before_the_end(stage: LineStage, caller: LineCaller) -> None:
    caller.send(b"l\none\n0\nl\ntwo\n0\nping\n_\n_\n")
    caller.hang_up()
    stage.commit()
    assert not caller.closed
    stage.commit()
    assert caller.heard() == f"ok {token(1)} 33\nok {token(2)} 33\nok"
    assert caller.closed


def test_statistics_are_an_answer_too(stage: LineStage, caller: LineCaller) -> None:
    caller.send(b"stats\n_\n_\n")
    caller.hang_up()
    stage.commit()
    assert caller.heard().startswith("ok {")
    assert caller.closed


def test_whoever_stops_talking_and_then_has_to_wait_for_others_is_gone(stage: LineStage) -> None:
    holder, caller, third = stage.caller(), stage.caller(), stage.caller()
    holder.send(b"l\njob\n0\n")
    caller.send(b"l\njob\n60\n")
    third.send(b"l\njob\n60\n")
    caller.hang_up()
    stage.commit()
    assert caller.closed
    assert caller.heard() == ""
    stage.commit()
    holder.ask("r", "job", token(1))
    stage.commit()
    assert third.heard() == f"ok {token(2)} 33"


def test_whoever_stops_talking_while_blocked_is_gone_at_once(stage: LineStage, caller: LineCaller) -> None:
    stage.caller().send(b"l\njob\n0\n")
    stage.commit()
    caller.send(b"l\njob\n60\n")
    stage.commit()
    caller.hang_up()
    assert caller.closed


def test_whoever_vanishes_before_the_answer_leaves_nothing_held(stage: LineStage, caller: LineCaller) -> None:
    caller.send(b"l\njob\n0\n")
    caller.vanish()
    other = stage.caller()
    other.send(b"l\njob\n0\n")
    stage.commit()
    assert other.heard() == f"ok {token(2)} 33"


def test_a_lease_runs_from_the_commit_and_not_from_the_request(stage: LineStage, caller: LineCaller) -> None:
    caller.send(b"l\njob\n0 5\n")
    stage.after(4)
    stage.commit()
    holder = stage.memory.table.resources[b"lock:job"].sole
    assert holder is not None
    assert holder.deadline == stage.clock.now + 5 * SECOND
