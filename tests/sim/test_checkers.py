"""Each checker looks at histories made by hand: it stays silent at good ones, and names what is wrong with bad ones.

The ledger and the checker of frames have files of their own.
"""

import json

import pytest

from sim.checkers.answers import check_answers
from sim.checkers.exclusion import check_exclusion
from sim.checkers.fences import check_fences
from sim.checkers.leases import check_leases
from sim.checkers.leftovers import check_leftovers
from sim.checkers.order import check_order
from sim.checkers.patience import check_patience
from tests.sim.script import Script, token

ONE, TWO, THREE = token(1), token(2), token(3)


# --- exclusion ---


def test_one_after_the_other_is_no_clash() -> None:
    script = Script().grant(1, "job", "0 10", 1).ask(1, "r", "job", ONE).tell(1, "ok").grant(2, "job", "0 10", 2, 1)
    assert script.judged_by(check_exclusion) == []


def test_two_at_once_is_a_clash() -> None:
    script = Script().grant(1, "job", "0 10", 1).grant(2, "job", "0 10", 2, 1)
    assert script.judged_by(check_exclusion) == ["peers 1, 2 hold lock job at once"]


def test_a_lock_and_a_semaphore_of_the_same_name_do_not_clash() -> None:
    script = Script().grant(1, "job", "0 10", 1).ask(2, "sl", "job", "0 1 10").mint(0, 2).tell(2, f"ok {TWO} 10")
    assert script.judged_by(check_exclusion) == []


@pytest.mark.parametrize(("seconds", "clashes"), [(9.9, 1), (10, 0)])
def test_a_lease_excludes_until_its_last_instant(seconds: float, clashes: int) -> None:
    script = Script().grant(1, "job", "0 10", 1).wait(seconds).grant(2, "job", "0 10", 2, 1)
    assert len(script.judged_by(check_exclusion)) == clashes


def test_a_renewed_lease_excludes_for_longer() -> None:
    script = Script().grant(1, "job", "0 10", 1).wait(9).ask(1, "n", "job", f"{ONE} 10").tell(1, "ok 10")
    assert len(script.wait(9).grant(2, "job", "0 10", 2, 1).judged_by(check_exclusion)) == 1


@pytest.mark.parametrize(("release", "clashes"), [(True, 0), (False, 1)])
def test_what_a_connection_held_excludes_after_its_end_only_where_it_is_kept(release: bool, clashes: int) -> None:
    script = Script(release_on_disconnect=release).grant(1, "job", "0 10", 1).leave(1).grant(2, "job", "0 10", 2, 1)
    assert len(script.judged_by(check_exclusion)) == clashes


@pytest.mark.parametrize(("lease", "clashes"), [(2, 0), (3, 1), (90, 1)])
def test_a_renewal_that_could_not_be_answered_may_have_made_the_lease_shorter(lease: int, clashes: int) -> None:
    script = Script().grant(1, "job", "0 10", 1).tear(2).ask(2, "n", "job", f"{ONE} {lease}").wait(2)
    assert len(script.grant(3, "job", "0 10", 2, 1).judged_by(check_exclusion)) == clashes


@pytest.mark.parametrize(("holders", "clashes"), [(2, 0), (3, 1)])
def test_a_semaphore_has_as_many_seats_as_it_says(holders: int, clashes: int) -> None:
    script = Script()
    for peer in range(1, holders + 1):
        script.ask(peer, "sl", "pool", "0 2 10").mint(peer - 1, peer).tell(peer, f"ok {token(peer)} 10")
    assert len(script.judged_by(check_exclusion)) == clashes


def test_the_seats_of_a_second_phase_are_those_of_the_first() -> None:
    script = Script()
    for peer in (1, 2):
        script.ask(peer, "se", "pool", "2 10").mint(peer - 1, peer).tell(peer, f"acquired {token(peer)} 10")
        script.ask(peer, "sw", "pool", "0").tell(peer, f"ok {token(peer)} 10")
    assert script.judged_by(check_exclusion) == []


def test_a_restart_ends_all_that_was_held() -> None:
    script = Script().grant(1, "job", "0 10", 1).stop().start().connect(9).grant(9, "job", "0 10", 2)
    assert script.judged_by(check_exclusion) == []


# --- fences ---


def test_rising_fences_are_right() -> None:
    script = Script().grant(1, "job", "0 1", 1).wait(1).grant(2, "job", "0 1", 2, 1)
    assert script.judged_by(check_fences) == []


@pytest.mark.parametrize("fence", [1, 2])
def test_a_fence_that_does_not_rise_is_found(fence: int) -> None:
    script = Script().grant(1, "job", "0 1", 2).wait(1).grant(2, "job", "0 1", fence, 2)
    assert f"fence {fence} came after fence 2" in script.judged_by(check_fences)


@pytest.mark.parametrize(("fence_file", "findings"), [(False, 0), (True, 1)])
def test_over_a_restart_fences_rise_where_there_is_a_file(fence_file: bool, findings: int) -> None:
    script = Script(fence_file=fence_file).grant(1, "job", "0 1", 5).stop().start().connect(9).grant(9, "job", "0 1", 5)
    assert len(script.judged_by(check_fences)) == findings


def test_a_fence_from_nowhere_is_found() -> None:
    script = Script().ask(1, "l", "job", "0 1").tell(1, f"ok {ONE} 1")
    assert script.judged_by(check_fences) == ["peer 1's acquire of lock job in step 4 got a fence that was never made"]


def test_a_fence_of_somebody_else_is_found() -> None:
    script = Script().grant(1, "job", "0 1", 1).ask(2, "l", "other", "0 1").tell(2, f"ok {ONE} 1")
    assert "got the fence of another claim" in script.judged_by(check_fences)[0]


def test_a_later_grant_with_a_lower_fence_is_found() -> None:
    script = Script().ask(1, "l", "job", "9 1").mint(0, 1).ask(2, "l", "job", "9 1").mint(1, 2)
    script.tick().tell(2, f"ok {TWO} 1").tick().tell(1, f"ok {ONE} 1")
    assert "got a lower fence than was given before" in script.judged_by(check_fences)[0]


# --- order ---


def queue(script: Script) -> Script:
    """Let 1 hold, 2 wait and 3 wait behind 2."""
    return script.grant(1, "job", "0 10", 1).ask(2, "l", "job", "60 10").ask(3, "l", "job", "60 10")


def test_first_come_first_served_is_right() -> None:
    script = queue(Script()).ask(1, "r", "job", ONE).mint(1, 2).tell(2, f"ok {TWO} 10").tell(1, "ok")
    script.ask(2, "r", "job", TWO).mint(2, 3).tell(3, f"ok {THREE} 10").tell(2, "ok")
    assert script.judged_by(check_order) == []


def test_last_come_first_served_is_found() -> None:
    script = queue(Script()).ask(1, "r", "job", ONE).mint(1, 2).tell(3, f"ok {TWO} 10").tell(1, "ok")
    script.ask(3, "r", "job", TWO).mint(2, 3).tell(2, f"ok {THREE} 10").tell(3, "ok")
    assert "was granted before peer 2's acquire of lock job" in script.judged_by(check_order)[0]


def test_who_gives_up_loses_its_place() -> None:
    script = Script().grant(1, "job", "0 10", 1).ask(2, "l", "job", "1 10").ask(3, "l", "job", "60 10")
    script.wait(1).tick().tell(2, "timeout").ask(2, "l", "job", "60 10")
    script.ask(1, "r", "job", ONE).mint(1, 2).tell(3, f"ok {TWO} 10").tell(1, "ok")
    script.ask(3, "r", "job", TWO).mint(2, 3).tell(2, f"ok {THREE} 10").tell(3, "ok")
    assert script.judged_by(check_order) == []


@pytest.mark.parametrize(("first", "findings"), [(2, 0), (3, 1)])
def test_the_place_of_a_second_phase_is_that_of_the_first(first: int, findings: int) -> None:
    fences = {2: 2, 3: 3} if first == 2 else {2: 3, 3: 2}
    script = Script().grant(1, "job", "0 10", 1).ask(2, "e", "job", "10").tell(2, "queued").ask(3, "l", "job", "60 10")
    script.ask(2, "w", "job", "60").ask(1, "r", "job", ONE).mint(1, 2).mint(2, 3).tell(1, "ok")
    for peer, fence in fences.items():
        script.tick().tell(peer, f"ok {token(fence)} 10")
    assert len(script.judged_by(check_order)) == findings


# --- leases ---


def test_a_good_token_is_accepted_and_then_no_more() -> None:
    script = Script().grant(1, "job", "0 10", 1).ask(1, "n", "job", f"{ONE} 20").tell(1, "ok 20").wait(19.9)
    script.ask(2, "r", "job", ONE).tell(2, "ok").ask(1, "r", "job", ONE).tell(1, "error")
    assert script.judged_by(check_leases) == []


def test_a_good_token_that_is_refused_is_found() -> None:
    script = Script().grant(1, "job", "0 10", 1).wait(9.9).ask(1, "r", "job", ONE).tell(1, "error")
    assert script.judged_by(check_leases) == [
        "peer 1's release of lock job in step 5 was refused, and its token was good"
    ]


@pytest.mark.parametrize("verb", ["r", "n"])
def test_a_token_whose_lease_is_over_and_that_is_accepted_is_found(verb: str) -> None:
    script = (
        Script().grant(1, "job", "0 10", 1).wait(10).ask(1, verb, "job", ONE).tell(1, "ok" if verb == "r" else "ok 33")
    )
    assert "was accepted, and its token was not good" in script.judged_by(check_leases)[0]


def test_a_token_of_another_key_or_of_nobody_that_is_accepted_is_found() -> None:
    script = (
        Script()
        .grant(1, "job", "0 10", 1)
        .ask(2, "r", "other", ONE)
        .tell(2, "ok")
        .ask(2, "r", "job", TWO)
        .tell(2, "ok")
    )
    assert len(script.judged_by(check_leases)) == 2


@pytest.mark.parametrize(("release", "reply"), [(True, "error"), (False, "ok")])
def test_the_end_of_a_connection_ends_its_tokens_where_they_are_released(release: bool, reply: str) -> None:
    script = Script(release_on_disconnect=release).grant(1, "job", "0 10", 1).leave(1)
    assert script.ask(2, "r", "job", ONE).tell(2, reply).judged_by(check_leases) == []


def test_the_second_phase_starts_the_lease_again() -> None:
    script = Script().ask(1, "e", "job", "10").mint(0, 1).tell(1, f"acquired {ONE} 10")
    script.wait(9).ask(1, "w", "job", "0").tell(1, f"ok {ONE} 10").wait(9).ask(1, "r", "job", ONE).tell(1, "ok")
    assert script.judged_by(check_leases) == []


def test_a_release_that_could_not_be_answered_leaves_the_token_in_doubt() -> None:
    script = (
        Script().grant(1, "job", "0 10", 1).tear(2).ask(2, "r", "job", ONE).ask(1, "n", "job", ONE).tell(1, "error")
    )
    assert script.judged_by(check_leases) == []


def test_a_server_that_finishes_accepts_no_token() -> None:
    script = Script().grant(1, "job", "0 10", 1).drain().ask(1, "r", "job", ONE).tell(1, "error_draining")
    assert script.judged_by(check_leases) == []


# --- patience ---


def test_a_timeout_at_its_instant_is_right() -> None:
    script = Script().grant(1, "job", "0 99", 1).ask(2, "l", "job", "5 9").wait(5).tick().tell(2, "timeout")
    assert script.judged_by(check_patience) == []


@pytest.mark.parametrize(("seconds", "when"), [(4, "before"), (6, "after")])
def test_a_timeout_at_another_time_is_found(seconds: float, when: str) -> None:
    script = Script().grant(1, "job", "0 99", 1).ask(2, "l", "job", "5 9").wait(seconds).tick().tell(2, "timeout")
    assert script.judged_by(check_patience) == [
        f"peer 2's acquire of lock job in step 5 was answered {when} its patience was over"
    ]


def test_a_timeout_that_fell_into_a_sleep_may_come_late() -> None:
    script = Script().grant(1, "job", "0 99", 1).ask(2, "l", "job", "5 9").wait(4).sleep(3).sleep(2)
    assert script.tick().tell(2, "timeout").judged_by(check_patience) == []


def test_a_waiter_that_is_forgotten_is_found() -> None:
    script = Script().grant(1, "job", "0 99", 1).ask(2, "l", "job", "5 9").wait(6)
    assert "was not answered when its patience was over" in script.judged_by(check_patience)[0]


@pytest.mark.parametrize("end", ["leave", "tear", "cut"])
def test_a_waiter_that_has_gone_needs_no_answer(end: str) -> None:
    script = Script().grant(1, "job", "0 99", 1).ask(2, "l", "job", "5 9")
    getattr(script, end)(2)
    assert script.wait(6).judged_by(check_patience) == []


def test_a_waiter_of_a_server_that_is_gone_needs_no_answer() -> None:
    script = Script().grant(1, "job", "0 99", 1).ask(2, "l", "job", "5 9").stop().wait(6)
    assert script.judged_by(check_patience) == []


# --- answers ---


def test_one_fitting_answer_each_is_right() -> None:
    script = Script().ask(1, "ping").tell(1, "ok").ask(1, "stats").tell(1, "ok {}").ask(1, "x").tell(1, "error")
    assert script.judged_by(check_answers) == []


@pytest.mark.parametrize(
    ("command", "arg", "reply"),
    [
        ("ping", "_", "pong"),
        ("l", "0 9", f"acquired {ONE} 9"),
        ("l", "0 9", f"ok {ONE} 8"),
        ("e", "9", f"ok {ONE} 9"),
        ("r", ONE, "ok 9"),
        ("n", f"{ONE} 9", "ok 8"),
        ("w", "0", "queued"),
        ("x", "_", "ok"),
    ],
)
def test_an_answer_that_does_not_fit_is_found(command: str, arg: str, reply: str) -> None:
    assert len(Script().ask(1, command, "job", arg).tell(1, reply).judged_by(check_answers)) == 1


def test_half_a_line_is_found() -> None:
    assert "got half a line" in Script().ask(1, "ping").tell_raw(1, "ok\nerr").judged_by(check_answers)[0]


def test_a_second_answer_is_found() -> None:
    script = Script().ask(1, "ping").tell(1, "ok", "ok")
    assert script.judged_by(check_answers) == ["peer 1 got b'ok', which answers nothing"]


def test_a_request_without_an_answer_is_found() -> None:
    assert Script().ask(1, "ping").judged_by(check_answers) == ["peer 1's ping of  in step 4 was never answered"]


def test_an_answer_that_comes_late_without_need_is_found() -> None:
    assert "had to wait" in Script().ask(1, "ping").tick().tell(1, "ok").judged_by(check_answers)[0]


def test_a_farewell_comes_with_the_end_of_the_connection() -> None:
    assert Script().tick().tell(1, "error").cut(1).judged_by(check_answers) == []
    assert len(Script().tick().tell(1, "error").judged_by(check_answers)) == 1
    assert len(Script().tick().tell(1, "ok").cut(1).judged_by(check_answers)) == 1


def test_whoever_has_to_show_a_token_is_greeted_first() -> None:
    assert Script(auth_token=b"t").tell(1, "ok").ask(1, "ping").tell(1, "ok").judged_by(check_answers) == []
    assert "was greeted with b'hello'" in Script(auth_token=b"t").tell(1, "hello").judged_by(check_answers)[0]


# --- leftovers ---


def stats(connections: int, *locks: str) -> str:
    lists = {"locks": [{"key": key} for key in locks], "semaphores": []}
    return "ok " + json.dumps({"connections": connections, **lists})


def test_nothing_left_is_right() -> None:
    script = Script(peers=1).leave(1).connect(2).ask(2, "stats").tell(2, stats(1)).inspect(sessions=0)
    assert script.judged_by(check_leftovers) == []


def test_what_is_left_inside_is_named() -> None:
    assert Script().inspect(sessions=2, keys=0, books=1).judged_by(check_leftovers) == [
        "when everybody had left, there were 2 sessions, 1 books"
    ]


@pytest.mark.parametrize("reply", [stats(2), stats(1, "job")])
def test_what_the_last_caller_sees_of_others_is_named(reply: str) -> None:
    script = Script(peers=1).leave(1).connect(2).ask(2, "stats").tell(2, reply).inspect(sessions=0)
    assert len(script.judged_by(check_leftovers)) == 1


def test_whatever_the_server_raised_is_shown() -> None:
    assert Script().fail("AssertionError").judged_by(check_leftovers) == ["the server raised:\nAssertionError"]
