"""What went wrong in dflockd over the years, told again here, where it must not happen.

Each test is named after the fault and not after the cure; the stories come from its change logs.
"""

import json

import pytest

from holdfast.testing.line_stage import LineStage, token
from holdfast.words import SECOND


def holder_of(stage: LineStage, caller: int) -> bool:
    """Say whether the only lock belongs to this caller."""
    (lock,) = json.loads(stage.caller().ask("stats").removeprefix("ok "))["locks"]
    return bool(lock["owner_conn_id"] == caller)


# --- locks that were lost ---


def test_a_token_was_given_to_a_caller_whose_time_was_up() -> None:
    stage = LineStage()
    a, b, c = stage.caller(), stage.caller(), stage.caller()
    a.ask("l", "job", "0 5")
    b.ask("l", "job", "5")
    c.ask("l", "job", "60")
    stage.after(5)
    assert b.heard() == f"ok {token(2)} 33"
    assert holder_of(stage, 2)


@pytest.mark.parametrize("release_on_disconnect", [False, True])
@pytest.mark.parametrize("leave", ["hang_up", "vanish"])
def test_a_token_was_given_to_a_caller_that_had_left(leave: str, release_on_disconnect: bool) -> None:
    stage = LineStage(release_on_disconnect=release_on_disconnect)
    a, b, c = stage.caller(), stage.caller(), stage.caller()
    a.ask("l", "job", "0 100")
    b.ask("l", "job", "60")
    c.ask("l", "job", "60")
    getattr(b, leave)()
    a.ask("r", "job", token(1))
    assert c.heard() == f"ok {token(2)} 33"
    assert holder_of(stage, 3)


def test_a_grant_that_nobody_waited_for_stayed_for_ever() -> None:
    stage = LineStage()
    a, b, c = stage.caller(), stage.caller(), stage.caller()
    a.ask("l", "job", "0 100")
    b.ask("e", "job", "10")
    c.ask("l", "job", "60")
    a.ask("r", "job", token(1))
    stage.after(10)
    assert c.heard() == f"ok {token(3)} 33"


def test_a_grant_to_a_first_phase_outlived_its_connection() -> None:
    stage = LineStage()
    a, b, c = stage.caller(), stage.caller(), stage.caller()
    a.ask("l", "job", "0 100")
    b.ask("e", "job", "10")
    c.ask("l", "job", "60")
    a.ask("r", "job", token(1))
    b.vanish()
    assert c.heard() == f"ok {token(3)} 33"


def test_a_blocked_caller_kept_its_place_after_it_had_left() -> None:
    stage = LineStage(waiters_max=1)
    a, b, c = stage.caller(), stage.caller(), stage.caller()
    a.ask("l", "job", "0 100")
    b.ask("l", "job", "60")
    b.hang_up()
    assert c.ask("l", "job", "60") == ""


def test_waiters_of_dead_connections_stayed_in_the_queue_where_holders_may_stay() -> None:
    stage = LineStage(release_on_disconnect=False, waiters_max=2)
    a, b, c = stage.caller(), stage.caller(), stage.caller()
    a.ask("l", "job", "0 100")
    b.ask("e", "job", "")
    b.ask("l", "job", "60")
    b.vanish()
    assert c.ask("l", "job", "60") == ""
    a.ask("r", "job", token(1))
    assert c.heard() == f"ok {token(2)} 33"


def test_a_stale_token_was_accepted_after_the_lease_had_run_out() -> None:
    stage = LineStage()
    a, b = stage.caller(), stage.caller()
    a.ask("l", "job", "0 5")
    stage.clock.advance(5)  # and nobody has looked since
    assert a.ask("n", "job", f"{token(1)} 30") == "error"
    a.ask("l", "job", "0 5")
    stage.clock.advance(5)
    assert a.ask("r", "job", token(2)) == "error"
    assert b.ask("l", "job", "0") == f"ok {token(3)} 33"


def test_an_acquire_waited_for_the_sweep_of_a_lease_that_had_run_out() -> None:
    stage = LineStage()
    a, b = stage.caller(), stage.caller()
    a.ask("l", "job", "0 5")
    stage.clock.advance(5)
    assert b.ask("l", "job", "0") == f"ok {token(2)} 33"


# --- first phases that were left behind ---


@pytest.mark.parametrize("how", ["release", "expiry", "timeout", "use"])
def test_a_first_phase_was_left_behind_and_every_later_one_refused(how: str) -> None:
    stage = LineStage()
    a, b = stage.caller(), stage.caller()
    if how == "timeout":
        b.ask("l", "job", "0 100")
    a.ask("e", "job", "5")
    match how:
        case "release":
            b.ask("r", "job", token(1))
        case "expiry":
            stage.after(5)
        case "timeout":
            a.ask("w", "job", "3")
            stage.after(3)
            assert a.heard() == "timeout"
        case "use":
            assert a.ask("w", "job", "0") == f"ok {token(1)} 5"
    assert a.ask("e", "job", "") in (f"acquired {token(2)} 33", "queued")


def test_a_stale_token_took_a_newer_first_phase_away() -> None:
    stage = LineStage()
    a, b = stage.caller(), stage.caller()
    a.ask("se", "pool", "2 50")
    a.ask("sw", "pool", "0")
    a.ask("se", "pool", "2 50")
    assert b.ask("sr", "pool", token(1)) == "ok"
    assert a.ask("sw", "pool", "0") == f"ok {token(2)} 50"


# --- limits that did not hold, or held too much ---


def test_the_cap_on_keys_was_passed_or_stuck() -> None:
    stage = LineStage(keys_max=10, idle_max_ns=0)
    a = stage.caller()
    a.send(b"".join(b"l\nkey%d\n0 5\n" % number for number in range(20)))
    assert a.heard().split("\n").count("error_max_locks") == 10
    stage.after(6)
    stage.sweep()
    a.send(b"".join(b"l\nnew%d\n0 5\n" % number for number in range(10)))
    assert "error" not in a.heard()


@pytest.mark.parametrize("command", ["r", "n"])
def test_a_release_or_renewal_with_a_wrong_token_kept_an_idle_key_alive(command: str) -> None:
    stage = LineStage(idle_max_ns=10 * SECOND)
    a = stage.caller()
    a.ask("l", "job", "0")
    a.ask("r", "job", token(1))
    for _ in range(11):
        stage.after(1)
        assert a.ask(command, "job", token(1)) == "error"
    stage.sweep()
    assert stage.memory.table.resources == {}


# --- the protocol ---


def test_a_mistake_closed_the_connection_and_a_broken_frame_did_not() -> None:
    stage = LineStage(read_timeout_ns=SECOND)
    a, b, c = stage.caller(), stage.caller(), stage.caller()
    assert (a.ask("l", "job", "ten"), a.closed) == ("error", False)
    b.send(b"x" * 257 + b"\n")
    assert (b.heard(), b.closed) == ("error", True)
    c.send(b"l\n")
    stage.after(1)
    assert (c.heard(), c.closed) == ("error", True)


@pytest.mark.parametrize("arg", ["9223372037", "18446744073", "9223372036854775807", "0 9223372037"])
def test_a_time_that_was_too_long_wrapped_around(arg: str) -> None:
    a = LineStage().caller()
    assert a.ask("l", "job", arg) == "error"
    assert a.ask("l", "job", "9223372036 9223372036") == f"ok {token(1)} 9223372036"


def test_what_was_too_much_behind_enqueue_was_ignored() -> None:
    a = LineStage().caller()
    assert a.ask("e", "job", "10 20") == "error"
    assert a.ask("w", "job", "0") == "error_not_enqueued"


def test_a_lock_and_a_semaphore_of_one_name_got_in_each_others_way() -> None:
    a = LineStage().caller()
    assert a.ask("sl", "job", "0 5") == f"ok {token(1)} 33"
    assert a.ask("l", "job", "0") == f"ok {token(2)} 33"
    assert a.ask("se", "job", "5") == f"acquired {token(3)} 33"
    assert a.ask("e", "job", "") == "queued"


def test_a_frame_that_was_bad_was_refused_sooner_than_a_token_that_was_wrong() -> None:
    stage = LineStage(auth_token=b"open sesame")
    for frame in (b"auth\n_\nwrong\n", b"ping\n_\n_\n", b"x" * 257 + b"\n"):
        caller = stage.caller()
        caller.send(frame)
        assert (caller.heard(), caller.closed) == ("error_auth", False)
        stage.after(0.1)
        assert caller.closed


def test_a_fault_in_serving_one_caller_ended_the_service_for_all() -> None:
    stage = LineStage()
    a, b = stage.caller(), stage.caller()
    stage.mint.next = 0  # no such fence may ever be given out
    with pytest.raises(AssertionError):
        a.ask("l", "job", "0")
    a.vanish()
    stage.mint.next = 1
    assert b.ask("l", "job", "0") == f"ok {token(1)} 33"


def test_two_hundred_blocked_callers_were_served_at_a_snails_pace() -> None:
    # The watch for callers that leave cost a wait for each answer. Here a whole chain needs no time, and no deep stack.
    stage = LineStage()
    holder = stage.caller()
    holder.ask("l", "job", "0")
    callers = [stage.caller() for _ in range(1200)]
    for number, caller in enumerate(callers, start=2):
        caller.transport.arrive(b"l\njob\n60\nr\njob\n" + token(number).encode() + b"\n")
    started = stage.clock.now
    holder.ask("r", "job", token(1))
    for number, caller in enumerate(callers, start=2):
        assert caller.transport.take().decode() == f"ok {token(number)} 33\nok\n"
    assert stage.clock.now == started
