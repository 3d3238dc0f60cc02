"""The stage shows what its callers would hear from a real server, and when.

What the door does is tested in tests/doors; here the stage itself is tried.
"""

import pytest

from holdfast.testing.line_stage import LineStage, token


def test_callers_talk_to_one_table() -> None:
    stage = LineStage()
    a, b = stage.caller(), stage.caller()
    assert a.ask("l", "job", "0 30") == f"ok {token(1)} 30"
    assert b.ask("l", "job", "5") == ""
    assert a.ask("r", "job", token(1)) == "ok"
    assert b.heard() == f"ok {token(2)} 33"


def test_time_passes_instant_by_instant() -> None:
    stage = LineStage()
    a, b = stage.caller(), stage.caller()
    a.ask("l", "job", "0 2")
    b.ask("l", "job", "5 2")
    started = stage.clock.now
    stage.after(100)
    assert stage.clock.now == started + 100 * 10**9
    assert b.heard() == f"ok {token(2)} 2"
    assert min(stage.alarms) == started + 2 * 10**9


def test_a_caller_that_is_gone_is_told_to_the_door_once() -> None:
    stage = LineStage()
    a, b = stage.caller(), stage.caller()
    a.vanish()
    b.hang_up()
    stage.settle()
    assert (a.lefts, b.lefts) == (1, 1)
    assert (a.closed, b.closed) == (True, True)
    assert stage.door.connections == set()


def test_the_settings_of_the_door_can_be_changed() -> None:
    assert LineStage(lease_default_ns=10**9).caller().ask("l", "job", "0") == f"ok {token(1)} 1"


def test_a_stage_with_a_late_store_needs_a_commit() -> None:
    stage = LineStage(late=True)
    a = stage.caller()
    assert a.ask("l", "job", "0") == ""
    stage.commit()
    assert a.heard() == f"ok {token(1)} 33"


def test_a_stage_without_one_has_nothing_to_commit() -> None:
    with pytest.raises(AssertionError):
        LineStage().commit()


def test_writes_are_counted() -> None:
    caller = LineStage().caller()
    caller.send(b"ping\n_\n_\n" * 3)
    assert caller.heard() == "ok\nok\nok"
    assert caller.transport.writes == 1
