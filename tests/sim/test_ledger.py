"""The ledger knows what every request must come to: histories by hand, right ones and wrong ones.

That it agrees with the real server in thousands of worlds is shown by running the simulator.
"""

import json

import pytest

from sim.checkers.ledger import check_ledger
from tests.sim.script import SECOND, Script, token

ONE, TWO, THREE = token(1), token(2), token(3)


def verdict(script: Script) -> str:
    """Say what the ledger found, or nothing."""
    return "".join(script.judged_by(check_ledger))


def queue(**rules: object) -> Script:
    """Let 1 hold, 2 wait and 3 wait behind 2."""
    return Script(**rules).grant(1, "job", "0 10", 1).ask(2, "l", "job", "60 10").ask(3, "l", "job", "60 10")


# --- grants ---


def test_a_release_hands_over_to_the_first_in_the_queue() -> None:
    assert verdict(queue().ask(1, "r", "job", ONE).mint(1, 2).tell(2, f"ok {TWO} 10").tell(1, "ok")) == ""


def test_a_grant_out_of_turn_is_found() -> None:
    script = queue().ask(1, "r", "job", ONE).mint(1, 2).tell(3, f"ok {TWO} 10").tell(1, "ok")
    assert "was answered b'ok " in verdict(script)


def test_a_free_key_that_nobody_gets_is_found() -> None:
    assert verdict(queue().ask(1, "r", "job", ONE).tell(1, "ok")) == "lock job is free, and nobody was granted it"


def test_a_newcomer_who_is_not_let_in_is_found() -> None:
    assert "lock job is free, and peer 1's acquire" in verdict(Script().ask(1, "l", "job", "5 9"))


def test_a_grant_while_somebody_holds_is_found() -> None:
    script = Script().grant(1, "job", "0 10", 1).grant(2, "job", "0 10", 2, last=1)
    assert "nobody can have been granted anything" in verdict(script)


def test_a_grant_that_is_not_told_is_found() -> None:
    script = queue().ask(1, "r", "job", ONE).mint(1, 2).tell(1, "ok")
    assert verdict(script) == "peer 2's acquire of lock job in step 5 was not answered a grant"


def test_a_grant_to_somebody_who_has_gone_need_not_be_told() -> None:
    assert verdict(queue().tear(2).ask(1, "r", "job", ONE).mint(1, 2).tell(1, "ok")) == ""


# --- time ---


def test_a_lease_that_runs_out_hands_over() -> None:
    assert verdict(queue().wait(10).tick().mint(1, 2).tell(2, f"ok {TWO} 10")) == ""


def test_a_server_that_sleeps_through_a_lease_without_an_excuse_is_found() -> None:
    assert "slept through" in verdict(queue().wait(11))
    assert verdict(queue().wait(9).sleep(2).tick().mint(1, 2).tell(2, f"ok {TWO} 10")) == ""


def test_what_fell_due_unseen_happens_in_the_order_of_time() -> None:
    script = Script().grant(1, "job", "0 10", 1).ask(2, "l", "job", "9 10").ask(3, "l", "job", "60 10")
    script.sleep(11).ask(1, "r", "job", ONE).mint(1, 2).tell(1, "error").tell(2, "timeout").tell(3, f"ok {TWO} 10")
    assert verdict(script) == ""


def test_a_timeout_before_its_time_is_found() -> None:
    assert "was answered b'timeout' for no reason" in verdict(queue().wait(1).tick().tell(2, "timeout"))


def test_patience_of_nothing_is_over_at_once() -> None:
    assert verdict(Script().grant(1, "job", "0 10", 1).ask(2, "l", "job", "0").tell(2, "timeout")) == ""
    assert "instead of b'timeout'" in verdict(
        Script().grant(1, "job", "0 9", 1).ask(2, "l", "job", "0").tell(2, "error")
    )


# --- fences that cannot be had ---


def test_a_newcomer_without_a_fence_gets_an_error() -> None:
    assert verdict(Script().ask(1, "l", "job", "5 9").refuse(0).tell(1, "error")) == ""


def test_a_waiter_without_a_fence_waits_on_for_a_moment_and_then_is_tried_again() -> None:
    stuck = queue().ask(1, "r", "job", ONE).refuse(1).tell(1, "ok").wait(0.1)
    assert verdict(stuck.tick().mint(1, 2).tell(2, f"ok {TWO} 10")) == ""


def test_a_waiter_that_is_not_tried_again_is_found() -> None:
    assert "slept through" in verdict(queue().ask(1, "r", "job", ONE).refuse(1).tell(1, "ok").wait(0.2))


def test_behind_whoever_got_no_fence_a_newcomer_queues() -> None:
    stuck = queue().ask(1, "r", "job", ONE).refuse(1).tell(1, "ok")
    assert verdict(stuck.connect(4).ask(4, "l", "job", "0").refuse(1).tell(4, "timeout")) == ""


# --- limits ---


def test_limits_are_kept_to_the_last_one() -> None:
    full = queue(waiters_max=2).connect(4).ask(4, "l", "job", "5")
    assert verdict(full.tell(4, "error_max_waiters")) == ""
    keys = Script(keys_max=1).grant(1, "job", "0 10", 1).ask(2, "l", "other", "5")
    assert verdict(keys.tell(2, "error_max_locks")) == ""
    seats = Script().ask(1, "sl", "pool", "0 2 9").mint(0, 1).tell(1, f"ok {ONE} 9").ask(2, "sl", "pool", "0 3")
    assert verdict(seats.tell(2, "error_limit_mismatch")) == ""


@pytest.mark.parametrize(("seconds", "reply"), [(60, "error_max_locks"), (60.1, None)])
def test_an_idle_key_counts_until_it_is_swept_up(seconds: float, reply: str | None) -> None:
    script = Script(keys_max=1).grant(1, "job", "0 10", 1).ask(1, "r", "job", ONE).tell(1, "ok")
    script.wait(seconds).sweep("keys").ask(2, "l", "other", "5 9")
    told = script.tell(2, reply) if reply else script.mint(0, 2).tell(2, f"ok {TWO} 9")
    assert verdict(told) == ""


# --- two phases ---


def test_both_phases_of_a_free_key() -> None:
    script = Script().ask(1, "e", "job", "10").mint(0, 1).tell(1, f"acquired {ONE} 10")
    script.ask(1, "e", "job", "10").tell(1, "error_already_enqueued").ask(1, "w", "job", "5").tell(1, f"ok {ONE} 10")
    assert verdict(script.ask(1, "w", "job", "5").tell(1, "error_not_enqueued")) == ""


def test_a_token_that_changes_between_the_phases_is_found() -> None:
    script = Script().ask(1, "e", "job", "10").mint(0, 1).tell(1, f"acquired {ONE} 10")
    assert "instead of b'ok " in verdict(script.ask(1, "w", "job", "5").tell(1, f"ok {TWO} 10"))


def enqueued() -> Script:
    """Let 1 hold and 2 be queued."""
    return Script().grant(1, "job", "0 10", 1).ask(2, "e", "job", "10").tell(2, "queued")


def test_a_queued_caller_waits_for_its_turn_or_gives_up() -> None:
    assert verdict(enqueued().ask(2, "w", "job", "0").tell(2, "timeout")) == ""
    blocked = enqueued().ask(2, "w", "job", "60")
    assert verdict(blocked.ask(1, "r", "job", ONE).mint(1, 2).tell(2, f"ok {TWO} 10").tell(1, "ok")) == ""


def test_a_queued_caller_may_be_granted_unseen_and_lose_it_unseen() -> None:
    unseen = enqueued().ask(1, "r", "job", ONE).mint(1, 2).tell(1, "ok")
    assert verdict(unseen.wait(10).tick().ask(2, "w", "job", "0").tell(2, "error_lease_expired")) == ""
    swept = enqueued().ask(1, "r", "job", ONE).mint(1, 2).tell(1, "ok").wait(10).tick().sweep("phases")
    assert verdict(swept.ask(2, "w", "job", "0").tell(2, "error_not_enqueued")) == ""


def test_a_release_ends_the_phase_of_the_same_claim_only() -> None:
    script = Script().ask(1, "e", "job", "10").mint(0, 1).tell(1, f"acquired {ONE} 10").ask(1, "w", "job", "0")
    script.tell(1, f"ok {ONE} 10").ask(1, "e", "job", "10").tell(1, "queued").ask(1, "r", "job", ONE).mint(1, 2)
    assert verdict(script.tell(1, "ok").ask(1, "w", "job", "0").tell(1, f"ok {TWO} 10")) == ""


# --- ends ---


@pytest.mark.parametrize("release", [True, False])
def test_what_a_connection_held_goes_on_or_stays(release: bool) -> None:
    script = queue(release_on_disconnect=release).leave(1)
    assert (verdict(script) == "") is not release
    handed = queue(release_on_disconnect=True).leave(1).mint(1, 2).tell(2, f"ok {TWO} 10")
    assert verdict(handed) == ""


def test_nothing_is_handed_to_the_waiters_of_the_connection_that_ends() -> None:
    script = Script().grant(1, "job", "0 10", 1).ask(1, "l", "job", "60 10").ask(2, "l", "job", "60 10")
    assert verdict(script.leave(1).mint(1, 2).tell(2, f"ok {TWO} 10")) == ""


def test_a_server_that_finishes_sends_away_who_is_blocked_and_who_comes() -> None:
    script = queue().drain().tell(2, "error").tell(3, "error").ask(1, "r", "job", ONE).tell(1, "error_draining")
    assert verdict(script) == ""
    assert verdict(queue().drain().tell(2, "error")) == (
        "peer 3's acquire of lock job in step 6 was not answered b'error'"
    )


def test_a_restart_begins_with_an_empty_book() -> None:
    assert verdict(queue().stop().start().connect(9).grant(9, "job", "0 10", 5)) == ""


# --- what anybody may ask ---


def stats(**lists: object) -> str:
    empty = {"locks": [], "semaphores": [], "idle_locks": [], "idle_semaphores": []}
    return "ok " + json.dumps({"connections": 3} | empty | lists)


def test_stats_show_what_the_book_has() -> None:
    lock = {"key": "job", "owner_conn_id": 1, "lease_expires_in_s": 8.0, "waiters": 2}
    asked = queue().wait(2).connect(4).ask(4, "stats")
    assert verdict(asked.tell(4, stats(locks=[lock], connections=4))) == ""


@pytest.mark.parametrize(
    "reply", [stats(locks=[{"key": "job"}]), stats(connections=7), 'ok {"connections":3}', "ok pong", "error"]
)
def test_stats_that_show_anything_else_are_found(reply: str) -> None:
    assert verdict(Script().ask(1, "stats").tell(1, reply)) != ""


def test_seats_and_idle_keys_are_shown_as_such() -> None:
    script = Script().ask(1, "sl", "pool", "0 2 9").mint(0, 1).tell(1, f"ok {ONE} 9").grant(2, "job", "0 9", 2)
    script.ask(2, "r", "job", TWO).tell(2, "ok").wait(3).ask(2, "stats")
    seats = {"key": "pool", "limit": 2, "holders": 1, "waiters": 0}
    assert verdict(script.tell(2, stats(semaphores=[seats], idle_locks=[{"key": "job", "idle_s": 3.0}]))) == ""
    assert script.history.now == 3 * SECOND
