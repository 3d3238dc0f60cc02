"""Every answer of the line protocol, where it comes from and what it leaves behind.

Each test is a row of the tables that clients rely on. The two-phase commands have a file of their own beside this one.
"""

import json

import pytest

from holdfast.testing.line_stage import LineCaller, LineStage, token
from holdfast.words import SECOND


@pytest.fixture
def stage() -> LineStage:
    return LineStage()


def some(stage: LineStage, count: int) -> list[LineCaller]:
    return [stage.caller() for _ in range(count)]


# --- locks and semaphores in one phase ---


def test_a_lock_is_granted_with_the_lease_that_was_asked_for_or_the_default(stage: LineStage) -> None:
    (a,) = some(stage, 1)
    assert a.ask("l", "one", "0 7") == f"ok {token(1)} 7"
    assert a.ask("l", "two", "0") == f"ok {token(2)} 33"


def test_a_try_answers_at_once(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("l", "job", "0")
    assert b.ask("l", "job", "0") == "timeout"
    assert b.ask("sl", "pool", "0 1") == f"ok {token(2)} 33"
    assert a.ask("sl", "pool", "0 1") == "timeout"


def test_waiters_are_served_in_the_order_of_their_arrival(stage: LineStage) -> None:
    a, b, c = some(stage, 3)
    a.ask("l", "job", "0")
    b.ask("l", "job", "60")
    c.ask("l", "job", "60")
    a.ask("r", "job", token(1))
    assert (b.heard(), c.heard()) == (f"ok {token(2)} 33", "")
    b.ask("r", "job", token(2))
    assert c.heard() == f"ok {token(3)} 33"


def test_a_newcomer_does_not_overtake_a_waiter_in_any_phase(stage: LineStage) -> None:
    a, b, c = some(stage, 3)
    a.ask("sl", "pool", "0 2")
    a.ask("sl", "pool", "0 2")
    b.ask("se", "pool", "2")
    a.ask("sr", "pool", token(1))
    assert c.ask("sl", "pool", "0 2") == "timeout"
    assert b.ask("sw", "pool", "0") == f"ok {token(3)} 33"


def test_a_wait_that_is_too_long_is_a_timeout_and_leaves_no_place_in_the_queue(stage: LineStage) -> None:
    a, b, c = some(stage, 3)
    a.ask("l", "job", "0 60")
    b.ask("l", "job", "5")
    c.ask("l", "job", "50")
    stage.after(5)
    assert b.heard() == "timeout"
    a.ask("r", "job", token(1))
    assert (b.heard(), c.heard()) == ("", f"ok {token(2)} 33")


def test_a_grant_and_a_timeout_at_one_instant_are_a_grant(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("l", "job", "0 5")
    b.ask("l", "job", "5")
    stage.after(5)
    assert b.heard() == f"ok {token(2)} 33"


def test_nobody_gets_a_lock_twice(stage: LineStage) -> None:
    (a,) = some(stage, 1)
    a.ask("l", "job", "0")
    assert a.ask("l", "job", "3") == ""
    stage.after(3)
    assert a.heard() == "timeout"


def test_a_semaphore_has_as_many_seats_as_its_limit(stage: LineStage) -> None:
    a, b = some(stage, 2)
    for number in (1, 2, 3):
        assert a.ask("sl", "pool", "0 3") == f"ok {token(number)} 33"
    assert b.ask("sl", "pool", "9 3") == ""
    a.ask("sr", "pool", token(2))
    assert b.heard() == f"ok {token(4)} 33"


def test_a_lock_and_a_semaphore_of_one_name_are_two_things(stage: LineStage) -> None:
    (a,) = some(stage, 1)
    assert a.ask("l", "job", "0") == f"ok {token(1)} 33"
    assert a.ask("sl", "job", "0 1") == f"ok {token(2)} 33"
    assert a.ask("sr", "job", token(1)) == "error"
    assert a.ask("r", "job", token(1)) == "ok"


# --- release and renew ---


def test_a_release_needs_the_token_and_nothing_else(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("l", "job", "0")
    for arg in (token(2), token(1)[:-1], token(1) + "0", token(1) + " 33", "x"):
        assert b.ask("r", "job", arg) == "error"
    assert b.ask("r", "nothing", token(1)) == "error"
    assert b.ask("r", "job", f"  {token(1)}\t") == "ok"
    assert a.ask("r", "job", token(1)) == "error"


def test_a_token_is_lowercase_and_its_case_matters(stage: LineStage) -> None:
    stage.mint.next = 0xABCDEF
    (a,) = some(stage, 1)
    a.ask("l", "job", "0")
    assert token(0xABCDEF).startswith("0000000000abcdef")
    assert a.ask("r", "job", token(0xABCDEF).upper()) == "error"
    assert a.ask("r", "job", token(0xABCDEF)) == "ok"


def test_a_renewal_answers_the_whole_new_lease_and_starts_it_now(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("l", "job", "0 10")
    stage.after(9)
    assert b.ask("n", "job", f"{token(1)} 20") == "ok 20"
    stage.after(19)
    assert a.ask("n", "job", f"{token(1)}") == "ok 33"
    stage.after(32)
    assert b.ask("l", "job", "0") == "timeout"
    stage.after(1)
    assert a.ask("n", "job", token(1)) == "error"


def test_a_renewal_without_a_lease_takes_the_default_and_not_the_lease_of_the_grant(stage: LineStage) -> None:
    (a,) = some(stage, 1)
    a.ask("l", "job", "0 5")
    assert a.ask("n", "job", token(1)) == "ok 33"


def test_a_renewal_with_a_wrong_token_or_of_a_semaphore_as_a_lock_is_an_error(stage: LineStage) -> None:
    (a,) = some(stage, 1)
    a.ask("sl", "pool", "0 2")
    assert a.ask("n", "pool", token(1)) == "error"
    assert a.ask("sn", "pool", token(2)) == "error"
    assert a.ask("sn", "pool", f"{token(1)} 9") == "ok 9"


def test_a_lease_that_runs_out_lets_the_next_one_in_at_its_instant(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("l", "job", "0 5")
    b.ask("l", "job", "60 60")
    stage.after(4.999)
    assert b.heard() == ""
    stage.after(0.001)
    assert b.heard() == f"ok {token(2)} 60"
    assert a.ask("r", "job", token(1)) == "error"


def test_a_lease_that_has_run_out_unseen_is_over_for_whoever_asks(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("l", "job", "0 5")
    stage.clock.advance(5)
    assert b.ask("l", "job", "0") == f"ok {token(2)} 33"
    stage.clock.advance(33)
    assert b.ask("n", "job", token(2)) == "error"


# --- limits ---


def test_a_new_key_needs_room_and_an_old_one_does_not() -> None:
    stage = LineStage(keys_max=2, idle_max_ns=10 * SECOND)
    a, b = some(stage, 2)
    a.ask("l", "one", "0 100")
    a.ask("sl", "two", "0 3")
    for command, arg in (("l", "0"), ("l", "60"), ("sl", "0 3"), ("e", ""), ("se", "3")):
        assert b.ask(command, "three", arg) == "error_max_locks"
    assert b.ask("sl", "two", "0 3") == f"ok {token(3)} 33"
    assert b.ask("l", "one", "0") == "timeout"
    stage.after(44)
    stage.sweep()
    assert b.ask("e", "three", "") == f"acquired {token(4)} 33"


def test_idle_keys_count_until_they_are_swept_up_and_a_failed_try_keeps_them() -> None:
    stage = LineStage(keys_max=1, idle_max_ns=10 * SECOND)
    (a,) = some(stage, 1)
    a.ask("l", "one", "0")
    a.ask("r", "one", token(1))
    assert a.ask("l", "two", "0") == "error_max_locks"
    stage.after(10)
    stage.sweep()
    assert a.ask("l", "two", "0") == "error_max_locks"
    stage.after(0.001)
    stage.sweep()
    assert a.ask("l", "two", "0") == f"ok {token(2)} 33"


@pytest.mark.parametrize(("command", "arg"), [("l", "60"), ("l", "0"), ("e", "")])
def test_a_full_queue_takes_nobody_in_not_even_one_who_would_not_wait(command: str, arg: str) -> None:
    stage = LineStage(waiters_max=2)
    a, b, c, d = some(stage, 4)
    a.ask("l", "job", "0")
    b.ask("l", "job", "60")
    assert c.ask("e", "job", "") == "queued"
    assert d.ask(command, "job", arg) == "error_max_waiters"
    assert d.ask("l", "other", "0") == f"ok {token(2)} 33"
    c.vanish()
    assert d.ask("l", "job", "0") == "timeout"


def test_a_semaphore_keeps_its_limit_while_it_is_known(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("sl", "pool", "0 3")
    assert b.ask("sl", "pool", "0 2") == "error_limit_mismatch"
    assert b.ask("se", "pool", "4") == "error_limit_mismatch"
    a.ask("sr", "pool", token(1))
    assert b.ask("sl", "pool", "0 2") == "error_limit_mismatch"
    stage.after(61)
    stage.sweep()
    assert b.ask("sl", "pool", "0 2") == f"ok {token(2)} 33"


def test_already_enqueued_comes_before_every_limit() -> None:
    stage = LineStage(keys_max=1, waiters_max=1)
    a, b = some(stage, 2)
    a.ask("se", "pool", "1")
    assert b.ask("se", "pool", "1") == "queued"
    assert b.ask("se", "pool", "2") == "error_already_enqueued"
    assert b.ask("se", "pool", "1") == "error_already_enqueued"


def test_without_a_fence_nothing_is_granted(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("l", "held", "0")
    b.ask("e", "held", "")
    stage.mint.dry = True
    assert a.ask("l", "job", "0") == "error"
    assert a.ask("e", "job", "") == "error"
    assert a.ask("r", "held", token(1)) == "ok"
    assert b.ask("w", "held", "60") == ""
    stage.mint.dry = False
    stage.after(0.1)
    assert b.heard() == f"ok {token(2)} 33"
    assert a.ask("l", "job", "0") == f"ok {token(3)} 33"


# --- the service ---


def test_ping_says_ok_whatever_stands_behind_it(stage: LineStage) -> None:
    (a,) = some(stage, 1)
    a.send(b"ping\n\n\nping\nsome key\n1 2 3 4\n")
    assert a.heard() == "ok\nok"


def test_stats_tell_who_holds_and_who_waits(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("l", "job", "0 30")
    a.ask("sl", "pool", "0 3")
    a.ask("l", "old", "0")
    a.ask("r", "old", token(3))
    b.ask("e", "job", "")
    stage.after(10)
    found = json.loads(b.ask("stats").removeprefix("ok "))
    assert found == {
        "connections": 2,
        "locks": [{"key": "job", "owner_conn_id": 1, "lease_expires_in_s": 20.0, "waiters": 1}],
        "semaphores": [{"key": "pool", "limit": 3, "holders": 1, "waiters": 0}],
        "idle_locks": [{"key": "old", "idle_s": 10.0}],
        "idle_semaphores": [],
    }


# --- draining ---


def test_when_the_service_drains_the_blocked_hear_error_and_stay(stage: LineStage) -> None:
    a, b, c = some(stage, 3)
    a.ask("l", "job", "0 100")
    b.ask("l", "job", "60")
    c.ask("e", "job", "")
    c.ask("w", "job", "60")
    stage.drain()
    assert [(caller.heard(), caller.closed) for caller in (a, b, c)] == [
        ("", False),
        ("error", False),
        ("error", False),
    ]


@pytest.mark.parametrize(
    ("command", "arg"),
    [("l", "0"), ("r", token(1)), ("n", token(1)), ("e", ""), ("w", "0"), ("ping", ""), ("stats", "")],
)
def test_when_the_service_drains_the_next_request_is_the_last(stage: LineStage, command: str, arg: str) -> None:
    a, b = some(stage, 2)
    a.ask("l", "job", "0 100")
    stage.drain()
    assert a.ask(command, "job", arg) == "error_draining"
    assert (a.closed, a.lefts) == (True, 1)
    assert (b.heard(), b.closed) == ("", False)


def test_what_is_pipelined_behind_a_blocked_request_is_refused_when_the_service_drains(stage: LineStage) -> None:
    a, b = some(stage, 2)
    a.ask("l", "job", "0 100")
    b.send(b"l\njob\n60\nping\n_\n_\nping\n_\n_\n")
    stage.drain()
    assert (b.heard(), b.closed) == ("error\nerror_draining", True)
