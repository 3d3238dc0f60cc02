"""Enqueue now and wait later: `e` and `w`, and the traps between them.

What takes one step is tested in test_line_answers.py.
"""

import pytest

from holdfast.testing.line_stage import LineCaller, LineStage, token


@pytest.fixture
def stage() -> LineStage:
    return LineStage()


def some(stage: LineStage, count: int) -> list[LineCaller]:
    return [stage.caller() for _ in range(count)]


def test_enqueue_gets_a_free_lock_at_once_and_wait_gives_the_same_token_with_a_full_lease(stage: LineStage) -> None:
    (a,) = some(stage, 1)
    assert a.ask("e", "job", "10") == f"acquired {token(1)} 10"
    assert a.ask("e", "job", "10") == "error_already_enqueued"
    stage.after(9)
    assert a.ask("w", "job", "0") == f"ok {token(1)} 10"
    stage.after(9)
    assert a.ask("w", "job", "0") == "error_not_enqueued"
    assert a.ask("r", "job", token(1)) == "ok"


def test_the_lease_of_a_wait_is_that_of_the_enqueue_also_after_a_renewal(stage: LineStage) -> None:
    (a,) = some(stage, 1)
    a.ask("e", "job", "10")
    assert a.ask("n", "job", f"{token(1)} 99") == "ok 99"
    assert a.ask("w", "job", "0") == f"ok {token(1)} 10"


def test_an_enqueued_caller_keeps_its_place_and_its_lease_starts_when_it_is_granted(stage: LineStage) -> None:
    a, b, c = some(stage, 3)
    a.ask("l", "job", "0 100")
    assert b.ask("e", "job", "10") == "queued"
    assert b.ask("e", "job", "10") == "error_already_enqueued"
    c.ask("l", "job", "100")
    stage.after(50)
    a.ask("r", "job", token(1))
    assert (b.heard(), c.heard()) == ("", "")
    stage.after(9)
    assert b.ask("w", "job", "7") == f"ok {token(2)} 10"
    stage.after(9)
    assert c.heard() == ""
    stage.after(1)
    assert c.heard() == f"ok {token(3)} 33"


def test_a_wait_blocks_until_the_grant(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("l", "job", "0 100")
    b.ask("e", "job", "")
    assert b.ask("w", "job", "60") == ""
    a.ask("r", "job", token(1))
    assert b.heard() == f"ok {token(2)} 33"
    assert b.ask("w", "job", "60") == "error_not_enqueued"


def test_a_wait_that_times_out_ends_the_enqueue(stage: LineStage) -> None:
    a, b, c = some(stage, 3)
    a.ask("l", "job", "0 100")
    b.ask("e", "job", "")
    c.ask("e", "job", "")
    b.ask("w", "job", "5")
    stage.after(5)
    assert b.heard() == "timeout"
    assert b.ask("w", "job", "5") == "error_not_enqueued"
    assert b.ask("e", "job", "") == "queued"
    a.ask("r", "job", token(1))
    assert c.ask("w", "job", "0") == f"ok {token(2)} 33"
    assert b.ask("w", "job", "0") == "timeout"


def test_wait_belongs_to_the_connection_and_the_key_of_its_enqueue(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("e", "job", "")
    assert b.ask("w", "job", "0") == "error_not_enqueued"
    assert a.ask("w", "other", "0") == "error_not_enqueued"
    assert a.ask("sw", "job", "0") == "error_not_enqueued"
    assert a.ask("w", "job", "0") == f"ok {token(1)} 33"


def test_a_release_before_the_wait_clears_the_enqueue_whoever_releases(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("e", "job", "")
    assert b.ask("r", "job", token(1)) == "ok"
    assert a.ask("w", "job", "0") == "error_not_enqueued"
    assert a.ask("e", "job", "") == f"acquired {token(2)} 33"


def test_a_newer_enqueue_is_not_harmed_by_a_stale_token(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("e", "job", "")
    a.ask("r", "job", token(1))
    a.ask("e", "job", "")
    assert a.ask("r", "job", token(1)) == "error"
    assert b.ask("r", "job", token(1)) == "error"
    assert a.ask("w", "job", "0") == f"ok {token(2)} 33"


def test_an_enqueue_whose_lease_ran_out_is_told_until_the_sweep(stage: LineStage) -> None:
    (a,) = some(stage, 1)
    a.ask("e", "job", "5")
    stage.after(5)
    assert a.ask("w", "job", "0") == "error_lease_expired"
    assert a.ask("w", "job", "0") == "error_not_enqueued"


def test_after_the_sweep_an_expired_enqueue_is_forgotten(stage: LineStage) -> None:
    (a,) = some(stage, 1)
    a.ask("e", "job", "5")
    stage.after(5)
    stage.sweep()
    assert a.ask("w", "job", "0") == "error_not_enqueued"


def test_a_new_enqueue_in_that_time_is_simply_served(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("e", "job", "5")
    stage.after(5)
    assert a.ask("e", "job", "5") == f"acquired {token(2)} 5"
    stage.sweep()
    assert a.ask("w", "job", "0") == f"ok {token(2)} 5"
    assert b.ask("l", "job", "0") == "timeout"


def test_semaphores_have_two_phases_too(stage: LineStage) -> None:
    a, b = some(stage, 2)
    assert a.ask("se", "pool", "1 10") == f"acquired {token(1)} 10"
    assert b.ask("se", "pool", "1 20") == "queued"
    assert a.ask("sw", "pool", "0") == f"ok {token(1)} 10"
    b.ask("sw", "pool", "60")
    assert a.ask("sr", "pool", token(1)) == "ok"
    assert b.heard() == f"ok {token(2)} 20"


def test_a_released_claim_is_forgotten_before_the_next_request_also_behind_a_blocked_one(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("e", "job", "10")
    b.ask("l", "other", "0 100")
    a.send(f"l\nother\n60\nr\njob\n{token(1)}\ne\njob\n10\n".encode())
    b.ask("r", "other", token(2))
    assert a.heard().splitlines() == [f"ok {token(3)} 33", "ok", f"acquired {token(4)} 10"]
