"""One connection of the line protocol, driven by hand: frames in, one answer each, in order, until either side ends it.

Time limits, authentication and the answers of the commands have files of their own beside this one.
"""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.doors.line import SHOWN_BYTES_MAX
from holdfast.testing.line_stage import LineCaller, LineStage, token

PING = b"ping\n_\n_\n"


@pytest.fixture
def stage() -> LineStage:
    return LineStage()


@pytest.fixture
def caller(stage: LineStage) -> LineCaller:
    return stage.caller()


def blocked(stage: LineStage, arg: str = "60") -> LineCaller:
    """Make a caller that waits for a lock which somebody else holds; the holder's token is the first one."""
    holder, waiter = stage.caller(), stage.caller()
    assert holder.ask("l", "job", "0 1000") == f"ok {token(1)} 1000"
    assert waiter.ask("l", "job", arg) == ""
    return waiter


# --- frames ---


def test_three_lines_ask_and_one_line_answers(caller: LineCaller) -> None:
    caller.send(b"l\njob\n10 30\n")
    assert caller.transport.take() == b"ok " + token(1).encode() + b" 30\n"


def test_nothing_is_said_to_an_unfinished_request(caller: LineCaller) -> None:
    for part in (b"l", b"\n", b"jo", b"b\n1", b"0 30"):
        caller.send(part)
        assert caller.heard() == ""
    caller.send(b"\n")
    assert caller.heard() == f"ok {token(1)} 30"


def test_three_lines_are_read_even_if_the_first_is_nonsense(caller: LineCaller) -> None:
    caller.send(b"nonsense\nping\n_\nping\n_\n_\n")
    assert caller.heard() == "error\nok"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r\r\r\n"])
def test_carriage_returns_at_the_end_of_a_line_are_dropped(caller: LineCaller, end: bytes) -> None:
    caller.send(b"l" + end + b"job" + end + b"0 30" + end)
    assert caller.heard() == f"ok {token(1)} 30"
    assert caller.ask("r", "job", token(1)) == "ok"


def test_a_carriage_return_inside_a_key_is_a_mistake(caller: LineCaller) -> None:
    caller.send(b"l\na\rb\n0\n")
    assert caller.heard() == "error"


def test_mistakes_leave_the_connection_open(caller: LineCaller) -> None:
    for command, key, arg in (("x", "k", ""), ("l", "", "1"), ("l", "k", "x"), ("r", "k", ""), ("n", "k", "t 0")):
        assert caller.ask(command, key, arg) == "error"
    assert caller.ask("ping") == "ok"
    assert not caller.closed


def test_a_key_of_odd_bytes_is_a_key(caller: LineCaller) -> None:
    caller.send(b"l\n\x00\xff\xa0:\x0b\n0 30\n")
    assert caller.heard() == f"ok {token(1)} 30"
    caller.send(b"r\n\x00\xff\xa0:\x0b\n" + token(1).encode() + b"\n")
    assert caller.heard() == "ok"


STREAM = (
    b"l\njob\n0 30\r\nping\n\n\nnope\n_\n_\nl\njob\n0\nsl\npool\n0 2 5\n"
    b"e\nother\n9\ne\nother\n9\nw\nother\n0\nn\njob\nbad 1\nl\n"
    + b"k" * 256
    + b"\n0 7\nauth\n_\n"
    + b"t" * 3000
    + b"\n"
)


def said_in(parts: list[bytes]) -> bytes:
    caller = LineStage().caller()
    for part in parts:
        caller.send(part)
    return caller.transport.take()


@given(st.sets(st.integers(1, len(STREAM) - 1), max_size=20))
def test_it_does_not_matter_how_the_bytes_are_cut(places: set[int]) -> None:
    cuts = [0, *sorted(places), len(STREAM)]
    parts = [STREAM[start:end] for start, end in pairwise(cuts)]
    assert said_in(parts) == said_in([STREAM])


def test_bytes_may_come_one_by_one() -> None:
    assert said_in([STREAM[at : at + 1] for at in range(len(STREAM))]) == said_in([STREAM])
    assert said_in([STREAM]).count(b"\n") == 11


# --- pipelining ---


def test_what_came_in_one_segment_is_answered_in_one_segment(caller: LineCaller) -> None:
    caller.send(PING * 50)
    assert caller.heard() == "\n".join(["ok"] * 50)
    assert caller.transport.writes == 1


def test_answers_keep_the_order_of_the_requests(caller: LineCaller) -> None:
    caller.send(b"l\na\n0\nnope\n_\n_\nl\na\n0\nping\n_\n_\nr\na\n" + token(1).encode() + b"\nstats\n_\n_\n")
    *lines, stats = caller.heard().split("\n")
    assert lines == [f"ok {token(1)} 33", "error", "timeout", "ok", "ok"]
    assert stats.startswith('ok {"connections":1,')


def test_a_blocked_request_holds_up_those_behind_it(stage: LineStage) -> None:
    waiter, other = blocked(stage), stage.caller()
    waiter.send(PING + b"l\nfree\n0 5\n")
    assert waiter.heard() == ""
    other.ask("r", "job", token(1))
    assert waiter.heard() == f"ok {token(2)} 33\nok\nok {token(3)} 5"
    assert waiter.transport.writes == 1


def test_requests_before_a_blocked_one_are_answered_at_once(stage: LineStage, caller: LineCaller) -> None:
    blocked(stage)
    caller.send(PING + b"l\njob\n60\n" + PING)
    assert caller.heard() == "ok"


def test_a_blocked_request_behind_a_blocked_one(stage: LineStage) -> None:
    waiter = blocked(stage, "5")
    waiter.send(b"l\njob\n5\n" + PING)
    stage.after(5)
    assert waiter.heard() == "timeout"
    stage.after(5)
    assert waiter.heard() == "timeout\nok"


def test_half_a_request_behind_a_blocked_one_is_kept(stage: LineStage) -> None:
    waiter = blocked(stage, "5")
    waiter.send(b"pi")
    waiter.send(b"ng\n_")
    stage.after(5)
    assert waiter.heard() == "timeout"
    waiter.send(b"\n_\n")
    assert waiter.heard() == "ok"


def test_bytes_behind_a_blocked_request_are_kept_up_to_a_limit_and_then_the_connection_is_cut() -> None:
    stage = LineStage(pending_bytes_max=100)
    waiter = blocked(stage)
    waiter.send(b"x" * 100)
    assert not waiter.closed
    waiter.send(b"y")
    assert waiter.closed
    assert waiter.heard() == ""
    assert waiter.lefts == 1


def test_whoever_is_cut_gives_up_its_place_in_the_queue() -> None:
    stage = LineStage(pending_bytes_max=100)
    waiter, third = blocked(stage), stage.caller()
    third.ask("l", "job", "60")
    waiter.send(b"x" * 101)
    stage.callers[0].ask("r", "job", token(1))
    assert third.heard() == f"ok {token(2)} 33"


# --- lines that are too long ---


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_line_of_256_bytes_is_read(caller: LineCaller, place: int) -> None:
    frame = [b"l", b"k", b"0"]
    frame[place] = b"0" * 256
    caller.send(b"\n".join(frame) + b"\n" + PING)
    assert caller.heard().endswith("\nok")
    assert not caller.closed


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("cut", [False, True])
def test_a_longer_line_is_read_to_its_end_and_then_the_connection_closes(
    caller: LineCaller, place: int, cut: bool
) -> None:
    frame = [b"l", b"k", b"0"]
    frame[place] = b"0" * 257
    start = b"\n".join(frame[: place + 1])
    if cut:
        caller.send(start)
        caller.send(b"0" * 10_000)
        assert (caller.heard(), caller.closed) == ("", False)
        start = b""
    caller.send(start + b"\n")
    assert (caller.heard(), caller.closed) == ("error", True)


def test_what_was_asked_before_a_line_that_is_too_long_is_answered(caller: LineCaller) -> None:
    caller.send(PING * 2 + b"l\n" + b"k" * 300 + b"\n0\n" + PING)
    assert (caller.heard(), caller.closed) == ("ok\nok\nerror", True)


def test_what_comes_behind_a_line_that_is_too_long_is_ignored(caller: LineCaller) -> None:
    caller.send(b"k" * 300)
    caller.send(b"\n" + PING)
    caller.send(PING)
    assert caller.heard() == "error"


def test_a_carriage_return_makes_a_line_too_long(caller: LineCaller) -> None:
    caller.send(b"l\n" + b"k" * 256 + b"\r\n")
    assert (caller.heard(), caller.closed) == ("error", True)


def test_a_line_that_is_too_long_takes_no_room(caller: LineCaller) -> None:
    for _ in range(100):
        caller.send(b"x" * 65_536)
    assert (caller.heard(), caller.closed) == ("", False)


# --- the end ---


def test_a_caller_that_hangs_up_gets_nothing_for_half_a_request(caller: LineCaller) -> None:
    caller.send(b"ping\n_\n")
    caller.hang_up()
    assert (caller.heard(), caller.closed, caller.lefts) == ("", True, 1)


def test_a_caller_that_stops_talking_still_gets_its_answers(caller: LineCaller) -> None:
    caller.send(b"l\njob\n0 30\n")
    caller.hang_up()
    assert (caller.heard(), caller.closed) == (f"ok {token(1)} 30", True)


def test_a_blocked_caller_that_stops_talking_is_gone(stage: LineStage) -> None:
    waiter, third = blocked(stage), stage.caller()
    third.ask("l", "job", "60")
    waiter.hang_up()
    assert (waiter.heard(), waiter.closed, waiter.lefts) == ("", True, 1)
    stage.callers[0].ask("r", "job", token(1))
    assert third.heard() == f"ok {token(2)} 33"


def test_a_grant_between_the_end_of_a_caller_and_its_farewell_goes_to_the_next(stage: LineStage) -> None:
    stage = LineStage(release_on_disconnect=False)
    waiter, third = blocked(stage), stage.caller()
    third.ask("l", "job", "60")
    waiter.transport.arrive_end()
    stage.callers[0].ask("r", "job", token(1))
    assert third.heard() == f"ok {token(2)} 33"
    assert waiter.heard() == ""


def test_what_a_caller_held_goes_to_the_next_when_it_vanishes(stage: LineStage) -> None:
    waiter = blocked(stage)
    stage.callers[0].vanish()
    assert waiter.heard() == f"ok {token(2)} 33"


def test_what_a_caller_held_can_stay_held() -> None:
    stage = LineStage(release_on_disconnect=False)
    waiter = blocked(stage)
    stage.callers[0].vanish()
    assert waiter.heard() == ""
    assert stage.caller().ask("r", "job", token(1)) == "ok"
    assert waiter.heard() == f"ok {token(2)} 33"


def test_answers_for_a_caller_that_has_vanished_go_nowhere(stage: LineStage) -> None:
    waiter = blocked(stage)
    waiter.send(PING)
    waiter.vanish()
    stage.callers[0].ask("r", "job", token(1))
    assert waiter.heard() == ""
    assert waiter.lefts == 1


def test_closing_the_door_cuts_everybody(stage: LineStage) -> None:
    waiter = blocked(stage)
    stage.door.close()
    stage.settle()
    assert [caller.lefts for caller in stage.callers] == [1, 1]
    assert waiter.closed
    assert stage.door.connections == set()


# --- a store that answers late ---


def test_requests_wait_for_a_late_answer_and_keep_their_order() -> None:
    stage = LineStage(late=True)
    caller = stage.caller()
    caller.send(PING + b"l\njob\n0 30\nstats\n_\n_\n" + PING)
    assert caller.heard() == "ok"
    stage.commit()
    assert caller.heard() == f"ok {token(1)} 30"
    stage.commit()
    stats, ping = caller.heard().split("\n")
    assert stats.startswith("ok {")
    assert ping == "ok"


def test_a_late_answer_reaches_a_peer_that_reads_late() -> None:
    for request, start in ((b"l\njob\n0 30\n", "ok 0"), (b"stats\n_\n_\n", "ok {")):
        stage = LineStage(late=True)
        caller = stage.caller()
        caller.transport.room = 0
        caller.send(PING + request + PING)
        stage.commit()
        caller.transport.room = None
        assert caller.heard() == ""
        ping, answer, last = caller.heard().split("\n")
        assert (ping, answer[:4], last) == ("ok", start, "ok")


# --- a peer that does not read ---


def test_whoever_asks_for_much_and_reads_none_of_it_is_waited_for_before_more_is_made(stage: LineStage) -> None:
    holder, asker = stage.caller(), stage.caller()
    holder.ask("l", "job", "0 30")
    asker.transport.room = 0
    behind = "ping\n_\n_\nauth\n_\n" + "x" * 300 + "\n"  # the argument of auth may be long, wherever it is cut
    asker.send(("stats\n_\n_\n" * 1000 + behind).encode() + b"ping\n")
    one = len(asker.transport.buffer)
    assert SHOWN_BYTES_MAX <= one < 2 * SHOWN_BYTES_MAX
    assert not asker.transport.reading
    stage.after(4)
    heard = []
    asker.transport.room = one
    while asker.transport.buffer:
        heard.append(asker.heard())
    heard.append(asker.heard())
    answers = "\n".join(part for part in heard if part).split("\n")
    assert [answer[:5] for answer in answers] == ['ok {"'] * 1000 + ["ok", "error"]
    assert asker.ask("_", "_") == "ok"  # the ping that had begun


# --- others have their turn ---


def turns() -> tuple[LineStage, list[Callable[[], None]]]:
    """Make a stage whose loop is in the hand."""
    waiting: list[Callable[[], None]] = []
    return LineStage(soon=waiting.append), waiting


def test_whoever_asks_for_much_at_once_gets_it_a_turn_at_a_time() -> None:
    stage, waiting = turns()
    asker, other = stage.caller(), stage.caller()
    asker.send(b"stats\n_\n_\n" * 3000 + b"ping\n_\n_\npi")
    heard = []
    while waiting:
        assert not asker.transport.reading
        heard.append(asker.heard())
        assert SHOWN_BYTES_MAX <= len(heard[-1]) < 2 * SHOWN_BYTES_MAX
        assert other.ask("ping") == "ok"
        waiting.pop()()
    assert len(heard) > 1
    assert asker.transport.reading
    asker.send(b"ng\n_\n_\n")
    answers = "\n".join([*heard, asker.heard()]).split("\n")
    assert [answer[:5] for answer in answers] == ['ok {"'] * 3000 + ["ok", "ok"]


def test_a_caller_that_stops_talking_while_others_have_their_turn_gets_its_answers() -> None:
    stage, waiting = turns()
    asker = stage.caller()
    asker.send(b"stats\n_\n_\n" * 2000 + PING)
    asker.transport.arrive_end()
    assert waiting
    while waiting:
        assert not asker.closed
        waiting.pop()()
    assert [answer[:5] for answer in asker.heard().split("\n")] == ['ok {"'] * 2000 + ["ok"]
    assert asker.closed


def test_a_caller_that_is_gone_when_its_turn_comes_is_not_served() -> None:
    stage, waiting = turns()
    asker = stage.caller()
    asker.send(b"stats\n_\n_\n" * 2000 + b"l\njob\n0 30\n")
    asker.vanish()
    waiting.pop()()
    assert (asker.lefts, waiting) == (1, [])
    assert stage.caller().ask("l", "job", "0 30") == f"ok {token(1)} 30"
