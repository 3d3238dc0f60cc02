"""What takes too long on the line door: lines that do not come, answers that nobody reads.

All time here is in the hand of the test; how fast anything is, nobody asks.
"""

import pytest

from holdfast.testing.line_stage import CountingTransport, LineCaller, LineStage, token
from holdfast.words import FOREVER, SECOND

PING = b"ping\n_\n_\n"


def stage_with(**settings: object) -> LineStage:
    return LineStage(**({"read_timeout_ns": 10 * SECOND, "write_timeout_ns": 5 * SECOND} | settings))


def closed_with(caller: LineCaller, answer: str) -> bool:
    return (caller.heard(), caller.closed) == (answer, True)


def is_open(caller: LineCaller) -> bool:
    return (caller.heard(), caller.closed) == ("", False)


# --- between requests ---


def test_an_idle_connection_is_closed_where_the_read_timeout_runs_between_requests() -> None:
    stage = stage_with(idle_timeout=True)
    caller = stage.caller()
    stage.after(9.999)
    assert is_open(caller)
    stage.after(0.001)
    assert closed_with(caller, "error")
    assert caller.lefts == 1


def test_every_request_starts_the_idle_time_again() -> None:
    stage = stage_with(idle_timeout=True)
    caller = stage.caller()
    for _ in range(5):
        stage.after(9)
        assert caller.ask("ping") == "ok"
    stage.after(10)
    assert closed_with(caller, "error")


def test_a_silent_holder_loses_its_lock_with_its_connection_however_long_the_lease() -> None:
    stage = stage_with(idle_timeout=True)
    holder, rival = stage.caller(), stage.caller()
    holder.ask("l", "job", "0 60")
    rival.ask("l", "job", "60 60")
    stage.after(10)
    assert closed_with(holder, "error")
    assert rival.heard() == f"ok {token(2)} 60"


def test_an_idle_connection_is_kept_where_the_read_timeout_runs_inside_requests_only() -> None:
    stage = stage_with(idle_timeout=False)
    caller = stage.caller()
    assert stage.next_deadline() == FOREVER
    stage.after(100_000)
    assert caller.ask("ping") == "ok"
    assert stage.next_deadline() == FOREVER


# --- inside a request ---


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("start", [b"l", b"l\n", b"l\njob\n", b"l\njob\n0 3"])
def test_an_unfinished_request_is_given_up_after_the_read_timeout(start: bytes, idle: bool) -> None:
    stage = stage_with(idle_timeout=idle)
    caller = stage.caller()
    caller.send(start)
    stage.after(9)
    assert is_open(caller)
    stage.after(1)
    assert closed_with(caller, "error")


@pytest.mark.parametrize("idle", [False, True])
def test_each_line_has_the_whole_time(idle: bool) -> None:
    stage = stage_with(idle_timeout=idle)
    caller = stage.caller()
    for line in (b"l\n", b"job\n"):
        stage.after(9)
        caller.send(line)
    stage.after(9)
    caller.send(b"0 30\n")
    assert caller.heard() == f"ok {token(1)} 30"


@pytest.mark.parametrize("idle", [False, True])
def test_dripping_bytes_into_a_line_gains_no_time(idle: bool) -> None:
    stage = stage_with(idle_timeout=idle)
    caller = stage.caller()
    for _ in range(5):
        caller.send(b"x")
        stage.after(2)
    assert closed_with(caller, "error")


def test_the_time_of_a_line_starts_when_the_request_before_it_is_read() -> None:
    stage = stage_with()
    caller = stage.caller()
    caller.send(b"pi")
    stage.after(9)
    caller.send(b"ng\n_\n_\npi")
    stage.after(9)
    assert (caller.heard(), caller.closed) == ("ok", False)
    stage.after(1)
    assert closed_with(caller, "error")


def test_a_line_that_is_too_long_has_no_more_time_than_another() -> None:
    stage = stage_with()
    caller = stage.caller()
    caller.send(b"x" * 100)
    for _ in range(4):
        stage.after(2)
        caller.send(b"x" * 100)
    assert is_open(caller)
    stage.after(2)
    assert closed_with(caller, "error")


# --- behind a blocked request ---


def blocked(stage: LineStage, arg: str) -> LineCaller:
    holder, waiter = stage.caller(), stage.caller()
    holder.ask("l", "job", "0 100000")
    assert waiter.ask("l", "job", arg) == ""
    return waiter


def kept_alive(stage: LineStage, caller: LineCaller, seconds: int) -> None:
    """Let time pass while this caller pings, so that it is not closed where idle connections are."""
    for _ in range(seconds):
        stage.after(1)
        caller.ask("ping")


@pytest.mark.parametrize("idle", [False, True])
def test_the_read_timeout_does_not_run_while_a_request_is_blocked(idle: bool) -> None:
    stage = stage_with(idle_timeout=idle)
    waiter = blocked(stage, "40")
    kept_alive(stage, stage.callers[0], 39)
    assert is_open(waiter)
    kept_alive(stage, stage.callers[0], 1)
    assert waiter.heard() == "timeout"
    stage.after(9)
    assert waiter.ask("ping") == "ok"


@pytest.mark.parametrize("patience", [3, 40])
@pytest.mark.parametrize("before", [b"", b"l\n"])
def test_half_a_request_behind_a_blocked_one_has_the_whole_time_from_then_on(patience: int, before: bytes) -> None:
    # The line behind a blocked request was given the time that was left of an earlier line, or none, or for ever.
    stage = stage_with()
    holder, waiter = stage.caller(), stage.caller()
    holder.ask("l", "job", "0 100000")
    waiter.send(before)
    stage.after(5)
    waiter.send(b"l\njob\n%d\n"[len(before) :] % patience + b"l\n")
    stage.after(patience)
    assert waiter.heard() == "timeout"
    stage.after(9)
    assert is_open(waiter)
    stage.after(1)
    assert closed_with(waiter, "error")


def test_nothing_times_out_that_has_left() -> None:
    stage = stage_with(idle_timeout=True)
    caller = stage.caller()
    caller.vanish()
    stage.after(100)
    assert (caller.heard(), caller.lefts) == ("", 1)


def test_many_short_connections_do_not_add_up() -> None:
    stage = stage_with(idle_timeout=True, read_timeout_ns=10**6 * SECOND)
    stay = stage.caller()
    for _ in range(3000):
        stage.caller().vanish()
        stage.callers.pop()
    assert len(stage.door._wakes) < 1010
    stage.after(10**6)
    assert closed_with(stay, "error")


# --- peers that do not read ---


def test_a_peer_that_does_not_read_is_not_read_either() -> None:
    stage = stage_with()
    caller = stage.caller()
    caller.transport.room = 0
    caller.send(PING)
    assert not caller.transport.is_reading()
    caller.transport.room = None
    assert caller.heard() == ""
    assert caller.transport.is_reading()
    assert caller.heard() == "ok"


def test_what_is_not_read_in_time_costs_the_connection_and_its_locks() -> None:
    stage = stage_with()
    caller, rival = stage.caller(), stage.caller()
    caller.transport.room = 0
    caller.send(b"l\njob\n0 60\n")
    rival.ask("l", "job", "60")
    stage.after(4.999)
    assert not caller.closed
    stage.after(0.001)
    assert caller.closed
    assert caller.lefts == 1
    assert rival.heard() == f"ok {token(2)} 33"


def test_a_peer_that_reads_in_time_has_the_whole_time_again() -> None:
    stage = stage_with()
    caller = stage.caller()
    caller.transport.room = 3
    for _ in range(4):
        caller.send(PING * 2)
        stage.after(4)
        assert caller.transport.take() == b"ok\n"
        assert caller.transport.take() == b"ok\n"
    stage.after(100)
    assert not caller.closed


def test_without_a_write_timeout_a_peer_may_take_its_time() -> None:
    stage = stage_with(write_timeout_ns=0)
    caller = stage.caller()
    caller.transport.room = 0
    caller.send(PING)
    stage.after(100_000)
    assert not caller.closed
    caller.transport.room = None
    caller.heard()
    assert caller.heard() == "ok"


def test_a_peer_that_does_not_read_cannot_be_late_with_a_line() -> None:
    stage = stage_with(write_timeout_ns=0, idle_timeout=True)
    caller = stage.caller()
    caller.transport.room = 0
    caller.send(PING + b"pi")
    stage.after(100)
    assert not caller.closed
    caller.transport.room = None
    caller.heard()
    stage.after(9)
    caller.send(b"ng\n_\n_\n")
    assert caller.heard() == "ok\nok"


def test_requests_behind_unread_answers_wait_until_they_are_read() -> None:
    stage = stage_with()
    caller = stage.caller()
    caller.transport.room = 0
    caller.send(PING)
    caller.send(PING)  # what a loop had already read when it was told to stop
    caller.transport.room = None
    assert caller.heard() == ""
    assert caller.heard() == "ok\nok"


def test_bytes_behind_unread_answers_are_kept_up_to_the_limit() -> None:
    stage = stage_with(pending_bytes_max=100)
    caller = stage.caller()
    caller.transport.room = 0
    caller.send(PING)
    caller.send(b"x" * 101)
    assert caller.closed


def test_a_grant_for_a_peer_that_does_not_read_is_written_once_it_reads() -> None:
    stage = stage_with(write_timeout_ns=60 * SECOND)
    holder, waiter = stage.caller(), stage.caller()
    holder.ask("l", "job", "0 60")
    waiter.transport.room = 0
    waiter.send(PING + b"l\njob\n30\n" + PING)
    holder.ask("r", "job", token(1))
    waiter.transport.room = None
    assert waiter.heard() == ""
    assert waiter.heard() == f"ok\nok {token(2)} 33\nok"


def test_a_last_answer_that_is_not_read_in_time_is_cut_off() -> None:
    stage = stage_with()
    caller = stage.caller()
    caller.transport.room = 0
    caller.send(b"x" * 300 + b"\n")
    assert caller.closed
    assert caller.lefts == 0
    stage.after(5)
    assert caller.lefts == 1


def test_a_line_that_is_too_long_behind_unread_answers_keeps_its_time() -> None:
    # The rest of such a line is thrown away, and so nothing of it was left to be timed.
    stage = stage_with()
    caller = stage.caller()
    caller.transport.room = 0
    caller.send(PING + b"x" * 300)
    stage.after(4)
    caller.transport.room = None
    caller.heard()
    assert caller.heard() == "ok"
    stage.after(9)
    assert is_open(caller)
    stage.after(1)
    assert closed_with(caller, "error")


class EagerTransport(CountingTransport):
    """Is full and empty again within one write, as a transport under TLS may be."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self.pause()
        self.resume()


def test_a_transport_that_pauses_and_resumes_within_a_write_repeats_nothing() -> None:
    stage = stage_with()
    caller = stage.caller(EagerTransport())
    stage.drain()
    caller.send(b"nope\n_\n_\n" + PING)
    assert closed_with(caller, "error\nerror_draining")
