"""Lines in and out of the native dialect: limits that name themselves, time, back-pressure, and how it ends.

What lines mean is tested in test_native_session.py.
"""

import json

import pytest

from holdfast.doors import native_connection
from holdfast.testing.line_stage import CountingTransport
from holdfast.testing.native_stage import NATIVE_SETTINGS, NativeCaller, NativeStage, ticket
from holdfast.wire import native as wire
from holdfast.words import SECOND

PING = b'{"id":1,"op":"ping"}\n'
HELLO = b'hello\n_\n{"version":1}\n'


@pytest.fixture
def stage() -> NativeStage:
    return NativeStage()


@pytest.fixture
def caller(stage: NativeStage) -> NativeCaller:
    return stage.client()


def refusal(caller: NativeCaller) -> tuple[object, str, str]:
    (line,) = caller.lines()
    return line["id"], line["error"], line["detail"]


# --- lines ---


def test_what_arrives_together_is_answered_in_one_write(caller: NativeCaller) -> None:
    writes = caller.transport.writes
    caller.send(PING * 3)
    assert [line["answer"] for line in caller.lines()] == ["ok"] * 3
    assert caller.transport.writes == writes + 1


def test_hello_and_what_follows_it_are_answered_in_one_write_however_they_are_cut(stage: NativeStage) -> None:
    said = HELLO + PING * 2
    whole = stage.caller()
    whole.send(said)
    assert len(whole.heard().splitlines()) == 3
    assert whole.transport.writes == 1
    cut = stage.caller()
    for at in range(len(said)):
        cut.send(said[at : at + 1])
    assert len(cut.heard().splitlines()) == 3


def test_a_long_answer_leaves_before_all_of_them_are_there(
    stage: NativeStage, caller: NativeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_connection, "WRITE_BYTES_MAX", 10)
    writes = caller.transport.writes
    caller.send(PING * 3)
    assert len(caller.lines()) == 3
    assert caller.transport.writes == writes + 3


def test_a_line_may_be_so_long_and_no_longer(caller: NativeCaller) -> None:
    space = b" " * (wire.LINE_BYTES_MAX - len(PING) + 1)
    caller.send(space + PING)
    assert caller.lines() == [{"id": 1, "answer": "ok"}]
    caller.send(b" " + space + PING)
    assert refusal(caller) == (None, "bad_request", "a line has at most 65536 bytes")
    assert caller.closed


def test_a_line_without_end_takes_no_room_and_is_refused_at_its_end(stage: NativeStage, caller: NativeCaller) -> None:
    (connection,) = stage.native.connections.values()
    for _ in range(100):
        caller.send(b"x" * wire.LINE_BYTES_MAX)
        assert len(connection._rest) <= wire.LINE_BYTES_MAX
    assert caller.heard() == ""
    caller.send(b"x\n" + PING)
    assert refusal(caller) == (None, "bad_request", "a line has at most 65536 bytes")
    assert caller.closed


@pytest.mark.parametrize("line", [b"\n", b"ping\n", b"[]\n", b"null\n", b"\xff\n", b"[" * 9999 + b"\n"])
def test_what_is_no_object_of_json_ends_the_connection_and_what_follows_is_not_heard(
    caller: NativeCaller, line: bytes
) -> None:
    caller.send(PING + line + PING)
    answer, refused = caller.lines()
    assert answer == {"id": 1, "answer": "ok"}
    assert (refused["id"], refused["error"]) == (None, "bad_request")
    assert caller.closed


@pytest.mark.parametrize("op", ["dance", "\n", "`$.x`", "", "ping - at `$.op`"])
def test_a_request_that_means_nothing_is_refused_and_the_connection_goes_on(caller: NativeCaller, op: str) -> None:
    caller.send(json.dumps({"id": 7, "op": op}).encode() + b"\n" + PING)
    refused, answer = caller.lines()
    assert (refused["id"], refused["error"], refused["detail"]) == (7, "bad_request", f"op: invalid value '{op}'")
    assert answer == {"id": 1, "answer": "ok"}


def test_so_many_requests_may_be_unanswered() -> None:
    stage = NativeStage(late=True)
    caller = stage.client()
    limit = wire.IN_FLIGHT_MAX
    caller.send(b"".join(b'{"id":%d,"op":"end","ticket":"%s"}\n' % (n, ticket("a").encode()) for n in range(limit)))
    assert caller.lines() == []
    caller.send(b'{"id":"x","op":"ping"}\n')
    assert refusal(caller) == ("x", "too_many", f"{limit} requests of this connection are unanswered (in_flight_max)")
    other = stage.client(join=caller.session)
    assert other.call("ping") == {"answer": "ok"}
    stage.commit()
    assert [line["id"] for line in caller.lines()] == list(range(limit))
    assert caller.call("ping") == {"answer": "ok"}


# --- time ---


def test_a_line_that_has_begun_has_to_arrive_in_time(stage: NativeStage, caller: NativeCaller) -> None:
    stage.after(3600)
    caller.send(PING[:5])
    stage.after(22)
    caller.send(PING[5:8])
    stage.after(0.9)
    assert not caller.closed
    stage.after(0.1)
    assert refusal(caller) == (None, "bad_request", "a request has to arrive within 23 s (line_read_timeout)")
    assert caller.closed


def test_each_line_has_its_own_time(stage: NativeStage, caller: NativeCaller) -> None:
    for _ in range(3):
        caller.send(PING[:5])
        stage.after(20)
        caller.send(PING[5:])
    stage.after(3600)
    assert len(caller.lines()) == 3
    assert not caller.closed


# --- peers that do not read ---


def shut(caller: NativeCaller) -> None:
    """Let the caller read nothing."""
    caller.transport.room = 0


def read(caller: NativeCaller) -> int:
    """Let the caller read all that there is; say how many lines that was."""
    caller.transport.room = None
    count = len(caller.lines())
    while lines := caller.lines():
        count += len(lines)
    return count


def test_whoever_reads_nothing_is_not_read_either_and_cut_after_a_while(
    stage: NativeStage, caller: NativeCaller
) -> None:
    shut(caller)
    caller.send(PING * 3)
    assert not caller.transport.is_reading()
    stage.after(4.9)
    assert not caller.closed
    stage.after(0.1)
    assert caller.closed
    assert stage.native.connections == {}


def test_whoever_reads_again_in_time_is_served_on(stage: NativeStage, caller: NativeCaller) -> None:
    shut(caller)
    caller.send(PING)
    caller.send(PING + PING[:5])
    stage.after(4.9)
    assert read(caller) == 2
    stage.after(22.9)
    caller.send(PING[5:])
    assert read(caller) == 1
    stage.after(3600)
    assert not caller.closed


def test_what_arrives_in_one_piece_is_not_served_further_while_answers_are_not_read(
    stage: NativeStage, caller: NativeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_connection, "WRITE_BYTES_MAX", 10)
    shut(caller)
    caller.send(PING * 5)
    assert caller.transport.get_write_buffer_size() == len('{"id":1,"answer":"ok"}\n')
    assert read(caller) == 5


def test_whoever_sends_without_end_and_reads_nothing_is_cut(stage: NativeStage, caller: NativeCaller) -> None:
    shut(caller)
    caller.send(PING)
    room = wire.LINE_BYTES_MAX + NATIVE_SETTINGS["pending_bytes_max"]
    caller.send(b"x" * room)
    assert not caller.closed
    caller.send(b"x")
    assert caller.closed


def test_events_do_not_pile_up_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_connection, "UNREAD_BYTES_MAX", 1000)
    stage = NativeStage(native={"write_timeout_ns": 0})
    watcher = stage.client()
    watcher.call("watch", key="job")
    shut(watcher)
    other = stage.client()
    for number in range(20):
        other.call("acquire", key="job", ticket=ticket(f"t{number}"))
        other.call("end", ticket=ticket(f"t{number}"))
    assert watcher.closed


def test_a_closed_connection_that_is_not_read_is_cut_in_time_too(stage: NativeStage, caller: NativeCaller) -> None:
    shut(caller)
    caller.send(b"nonsense\n")
    assert not caller.transport.ended
    stage.after(5)
    assert caller.transport.ended
    assert stage.native.connections == {}


# --- the end ---


def test_whoever_stops_talking_and_has_nothing_to_hear_is_gone(stage: NativeStage, caller: NativeCaller) -> None:
    caller.hang_up()
    assert (caller.closed, caller.lefts, stage.native.connections) == (True, 1, {})


def test_whoever_stops_talking_while_it_waits_for_others_is_gone_and_keeps_its_place_for_a_while(
    stage: NativeStage, caller: NativeCaller
) -> None:
    holder = stage.client()
    holder.call("acquire", key="job", ticket=ticket("h"))
    caller.post("acquire", key="job", ticket=ticket("a"))
    caller.hang_up()
    assert caller.closed
    again = stage.client(join=caller.session)
    again.post("acquire", key="job", ticket=ticket("a"))
    holder.call("end", ticket=ticket("h"))
    assert [line["answer"] for line in again.lines()] == ["granted"]


def test_whoever_stops_talking_hears_what_the_store_has_still_to_say() -> None:
    stage = NativeStage(late=True)
    caller = stage.client()
    caller.post("acquire", key="job", ticket=ticket("a"))
    caller.hang_up()
    assert not caller.closed
    stage.commit()
    assert [line["answer"] for line in caller.lines()] == ["granted"]
    assert caller.closed


def test_whoever_stops_talking_and_then_has_to_wait_for_others_is_gone() -> None:
    stage = NativeStage(late=True)
    holder, caller = stage.client(), stage.client()
    holder.post("acquire", key="job", ticket=ticket("h"))
    stage.commit()
    caller.post("acquire", key="job", ticket=ticket("a"))
    caller.hang_up()
    assert not caller.closed
    stage.commit()
    assert caller.closed


def test_whoever_had_stopped_talking_before_hello_was_read_is_answered_and_let_go() -> None:
    stage = NativeStage(late=True)
    caller = stage.caller()
    caller.send(b"l\njob\n0 30\n" + HELLO + PING)
    caller.hang_up()
    stage.commit()
    granted, hello, answer = caller.heard().splitlines()
    assert granted.startswith("ok ")
    assert hello.startswith('ok {"version":1')
    assert json.loads(answer) == {"id": 1, "answer": "ok"}
    assert (caller.closed, stage.native.connections) == (True, {})


def test_of_what_arrives_after_the_last_word_nothing_is_served(caller: NativeCaller) -> None:
    caller.send(b'{"id":1,"op":"bye"}\n' + PING)
    caller.transport.arrive(PING)
    assert caller.lines() == [{"id": 1, "answer": "ok"}]


def test_answers_that_come_one_after_the_other_leave_in_one_write() -> None:
    later: list[object] = []
    stage = NativeStage(late=True)
    stage.native._soon = later.append
    caller = stage.client()
    for name in "abc":
        caller.post("acquire", key=name, ticket=ticket(name))
    writes = caller.transport.writes
    stage.commit()
    assert (caller.lines(), caller.transport.writes) == ([], writes)
    (flush,) = later
    assert callable(flush)
    flush()
    assert [line["key"] for line in caller.lines()] == ["a", "b", "c"]
    assert caller.transport.writes == writes + 1
    caller.post("bye")
    caller.vanish()
    for call in later:
        assert callable(call)
        call()  # when nobody is there any more


def test_a_transport_may_break_at_any_time(stage: NativeStage) -> None:
    caller = stage.client(CountingTransport())
    caller.send(PING[:7])
    caller.vanish()
    stage.after(60)
    assert stage.native.connections == {}
    assert stage.native.sessions == {}


def test_times_are_those_of_the_settings() -> None:
    stage = NativeStage(native={"read_timeout_ns": SECOND // 2})
    caller = stage.client()
    caller.send(b"{")
    stage.after(0.5)
    assert refusal(caller) == (None, "bad_request", "a request has to arrive within 0.5 s (line_read_timeout)")
