"""The checker of frames cuts the same bytes once more, and knows why a server may end a connection.

Histories by hand; what the requests come to is no concern of this checker.
"""

import pytest

from sim.checkers.framing import check_framing
from tests.sim.script import Script, token

PING = "ping\n_\n_\n"


def verdict(script: Script) -> str:
    return "; ".join(script.judged_by(check_framing))


# --- cutting ---


def test_a_request_is_the_same_however_it_arrives() -> None:
    assert verdict(Script().send(1, PING).take(1, "ping").tell(1, "ok")) == ""
    assert verdict(Script().send(1, "pi").send(1, "ng\r\n_\n_\r").send(1, "\n").take(1, "ping").tell(1, "ok")) == ""


def test_several_requests_in_one_piece_are_taken_one_after_the_other() -> None:
    assert verdict(Script().send(1, PING * 2).take(1, "ping").take(1, "ping").tell(1, "ok", "ok")) == ""


def test_a_request_that_was_never_sent_is_found() -> None:
    assert "instead of nothing" in verdict(Script().send(1, "ping\n_\n").take(1, "ping").tell(1, "ok"))
    assert "instead of (b'ping'" in verdict(Script().send(1, PING).take(1, "stats").tell(1, "ok"))


def test_a_request_that_nobody_takes_up_is_found() -> None:
    assert verdict(Script().send(1, PING)) == "peer 1 has sent 1 requests that nobody took up"


def test_behind_a_blocked_request_others_wait() -> None:
    blocked = Script().send(1, "l\njob\n9\n" + PING).take(1, "l", "job", "9")
    assert verdict(blocked) == ""
    blocked = Script().send(1, "l\njob\n9\n" + PING).take(1, "l", "job", "9")
    assert "nobody took up" in verdict(blocked.wait(9).tick().tell(1, "timeout"))


def test_for_a_peer_that_does_not_read_others_wait_too() -> None:
    stalled = Script().send(1, PING).take(1, "ping").tell(1, "ok").stall(1).send(1, PING)
    assert verdict(stalled) == ""
    stalled = Script().send(1, PING).take(1, "ping").tell(1, "ok").stall(1).send(1, PING)
    assert "nobody took up" in verdict(stalled.flow(1))


def test_the_token_of_a_connection_is_no_request() -> None:
    greeted = Script(auth_token=b"t").send(1, "auth\n_\nt\n" + PING).take(1, "ping").tell(1, "ok", "ok")
    assert verdict(greeted) == ""
    assert verdict(Script(auth_token=b"t").send(1, "auth\n_\nx\n" + PING).tell(1, "error_auth").wait(0.1)) == ""


# --- ends ---


def test_a_line_that_is_too_long_ends_the_connection() -> None:
    for line in ("x" * 257 + "\n", "l\n" + "k" * 256 + "\r\n", "l\njob\n" + "1" * 257 + "\n"):
        assert verdict(Script().send(1, line).tell(1, "error").cut(1)) == ""
        assert "nobody minded" in verdict(Script().send(1, line))


def test_a_line_that_takes_too_long_ends_the_connection() -> None:
    assert verdict(Script().send(1, "pi").wait(23).tick().tell(1, "error").cut(1)) == ""
    assert "for no reason" in verdict(Script().send(1, "pi").wait(22).tick().tell(1, "error").cut(1))
    assert "took too long" in verdict(Script().send(1, "pi").wait(24).send(1, "ng"))


@pytest.mark.parametrize("idle_timeout", [True, False])
def test_time_between_requests_counts_only_where_it_was_set_so(idle_timeout: bool) -> None:
    script = Script(idle_timeout=idle_timeout).wait(23).tick().tell(1, "error").cut(1)
    assert (verdict(script) == "") is idle_timeout


def test_no_time_for_reading_runs_while_a_request_is_blocked() -> None:
    blocked = Script().send(1, "l\njob\n60\npi").take(1, "l", "job", "60").wait(30).tick()
    assert "for no reason" in verdict(blocked.cut(1))


def test_a_peer_that_does_not_read_is_cut_off_in_time() -> None:
    stalled = Script().send(1, PING).take(1, "ping").tell(1, "ok").stall(1)
    assert verdict(stalled.wait(5).tick().cut(1, "abort")) == ""
    stalled = Script().send(1, PING).take(1, "ping").tell(1, "ok").stall(1)
    assert "read nothing for too long" in verdict(stalled.wait(6).flow(1))


def test_whoever_goes_while_blocked_or_sends_too_much_is_cut_off() -> None:
    blocked = Script().send(1, "l\njob\n9\n").take(1, "l", "job", "9")
    assert verdict(blocked.finish(1).give_up(1).cut(1, "abort")) == ""
    crowded = Script(pending_bytes_max=8).send(1, "l\njob\n9\n" + PING).take(1, "l", "job", "9").send(1, PING)
    assert verdict(crowded.give_up(1).cut(1, "abort")) == ""


def test_whoever_has_finished_or_comes_too_late_is_closed() -> None:
    assert verdict(Script().finish(1).cut(1)) == ""
    assert verdict(Script().drain().send(1, PING).take(1, "ping").tell(1, "error_draining").cut(1)) == ""
    assert verdict(Script().drain().clear().cut(1, "abort").cut(2, "abort")) == ""


@pytest.mark.parametrize("how", ["close", "abort"])
def test_an_end_for_no_reason_is_found(how: str) -> None:
    assert verdict(Script().tick().cut(1, how)) == f"the server cut off peer 1 ({how}) for no reason"


def test_a_session_that_ends_without_its_connection_is_found() -> None:
    assert "was given up" in verdict(Script().grant(1, "job", "0 9", 1).tick().give_up(1))
    assert verdict(Script().grant(1, "job", "0 9", 1).ask(1, "r", "job", token(1)).tell(1, "ok").leave(1)) == ""
