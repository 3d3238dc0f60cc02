"""Saying hello, coming back, and being told to go: the native door and the sessions that it keeps.

What sessions ask for is tested in test_native_session.py, how lines travel in test_native_connection.py.
"""

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from holdfast import __version__
from holdfast.doors.native import PUBLIC_DIGITS
from holdfast.testing.native_stage import NativeCaller, NativeStage, ticket
from holdfast.wire.native import HELLO_BYTES_MAX
from holdfast.words import SECOND


@pytest.fixture
def stage() -> NativeStage:
    return NativeStage()


def greet(stage: NativeStage, text: str) -> Any:
    """Say hello as told, and give what the server says; an error without its first word."""
    word, _, told = stage.caller().ask("hello", "_", text).partition(" ")
    assert word in ("ok", "error"), word
    return json.loads(told)


# --- hello ---


def test_hello_tells_what_the_client_has_to_know(stage: NativeStage) -> None:
    told = greet(stage, '{"version":1}')
    session = told.pop("session")
    assert len(session) == 48
    assert told == {
        "version": 1,
        "server": f"holdfast {__version__}",
        "resumed": False,
        "grace_ms": 30_000,
        "lease_ms": 33_000,
        "line_bytes_max": 65_536,
        "in_flight_max": 4096,
    }


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ('{"version":2}', "version: 2 is not known here; this server speaks 1"),
        ("{}", "version: missing"),
        ("", "not a line of JSON"),
        ("_", "not a line of JSON"),
        ('{"version":1,"colour":"red"}', "colour: unknown field"),
        ('{"version":1,"client":"%s"}' % ("x" * 65), "client: at most 64 bytes"),
    ],
)
def test_a_bad_hello_is_refused_and_the_connection_goes_on(stage: NativeStage, text: str, detail: str) -> None:
    caller = stage.caller()
    word, _, told = caller.ask("hello", "_", text).partition(" ")
    assert (word, json.loads(told)) == ("error", {"error": "bad_request", "retry": "never", "detail": detail})
    assert caller.ask("ping") == "ok"
    assert stage.native.sessions == {}


def test_a_hello_that_is_too_long_ends_the_connection(stage: NativeStage) -> None:
    text = '{"version":1,"auth":"%s"}'
    assert "version" in greet(stage, text % ("x" * (HELLO_BYTES_MAX - len(text) + 2)))
    caller = stage.caller()
    assert caller.ask("hello", "_", text % ("x" * HELLO_BYTES_MAX)) == "error"
    assert caller.closed


def test_what_the_connection_had_by_the_line_protocol_is_given_back(stage: NativeStage) -> None:
    caller, waiter = stage.caller(), stage.caller()
    caller.ask("l", "job", "0 30")
    waiter.ask("l", "job", "30 30")
    caller.ask("hello", "_", '{"version":1}')
    assert waiter.heard().startswith("ok ")
    assert stage.door.connections == {waiter.connection}


def test_a_server_that_wants_a_token_wants_it_in_hello_too() -> None:
    stage = NativeStage(auth_token=b"open sesame")
    assert greet(stage, '{"version":1,"auth":"open sesame"}')["resumed"] is False
    for text in ('{"version":1}', '{"version":1,"auth":"open"}', "nonsense"):
        caller = stage.caller()
        assert caller.ask("hello", "_", text) == "error_auth"
        stage.after(0.1)
        assert caller.closed
    caller = stage.caller()
    assert caller.ask("auth", "_", "open sesame") == "ok"
    assert caller.ask("hello", "_", '{"version":1}').startswith("ok ")


def test_there_are_so_many_sessions_and_whoever_comes_back_takes_no_room() -> None:
    stage = NativeStage(native={"sessions_max": 1})
    first = stage.client()
    told = greet(stage, '{"version":1}')
    assert (told["error"], told["detail"]) == ("too_many", "1 sessions are open (connections_max)")
    assert greet(stage, json.dumps({"version": 1, "join": first.session}))["resumed"]
    first.post("bye")
    assert "session" in greet(stage, '{"version":1}')


# --- coming back ---


def hold_and_queue(stage: NativeStage, **hello: Any) -> tuple[NativeCaller, NativeCaller]:
    """Let a client hold one key and stand in line for another; give the client, and who is before it there."""
    other, caller = stage.client(), stage.client(**hello)
    other.call("acquire", key="full", ticket=ticket("o"))
    caller.call("acquire", key="job", ticket=ticket("a"), lease_ms=60_000)
    caller.call("enqueue", key="full", ticket=ticket("q"))
    caller.post("acquire", key="full", ticket=ticket("w"))
    return caller, other


def test_whoever_comes_back_in_time_finds_its_claims_and_its_places(stage: NativeStage) -> None:
    caller, other = hold_and_queue(stage)
    stage.client().call("enqueue", key="full", ticket=ticket("late"))
    caller.vanish()
    stage.after(29.9)
    again = NativeCaller(stage, type(caller.transport)())
    greeting = again.hello(join=caller.session)
    assert (greeting["resumed"], greeting["session"]) == (True, caller.session)
    granted = again.call("acquire", key="job", ticket=ticket("a"))
    assert (granted["answer"], granted["fence"], granted["left_ms"]) == ("granted", 2, 30_100)
    assert again.call("enqueue", key="full", ticket=ticket("q"))["answer"] == "queued"
    other.call("end", ticket=ticket("o"))
    assert [line["ticket"] for line in again.lines()] == [ticket("q")]
    stage.after(29)
    assert stage.native.sessions.keys() >= {caller.session[:PUBLIC_DIGITS]}


def test_when_nobody_comes_back_what_waits_goes_and_what_is_held_is_kept(stage: NativeStage) -> None:
    caller, other = hold_and_queue(stage)
    caller.vanish()
    stage.after(30)
    assert greet(stage, json.dumps({"version": 1, "join": caller.session}))["resumed"] is False
    shown = other.call("look", key="full")["keys"][0]
    assert (shown["held"], shown["queue"]) == (1, [])
    assert other.call("look", key="job")["keys"][0]["holders"][0]["kept"]
    assert other.call("acquire", key="job", ticket=ticket("x"), patience_ms=0)["error"] == "busy"
    stage.after(30)
    other.lines()
    assert other.call("acquire", key="job", ticket=ticket("x"), patience_ms=0)["answer"] == "granted"


def test_what_was_kept_belongs_to_whoever_shows_its_ticket_on_its_key(stage: NativeStage) -> None:
    caller, _ = hold_and_queue(stage)
    caller.vanish()
    stage.after(30)
    thief, owner = stage.client(), stage.client()
    assert thief.call("acquire", key="job", ticket=ticket("b"), patience_ms=0)["error"] == "busy"
    assert thief.call("end", ticket=ticket("a"))["error"] == "not_held"
    granted = owner.call("acquire", key="job", ticket=ticket("a"), lease_ms=5)
    assert (granted["fence"], granted["lease_ms"], granted["left_ms"]) == (2, 60_000, 30_000)
    assert owner.call("renew", ticket=ticket("a"))["lease_ms"] == 60_000
    assert owner.call("end", ticket=ticket("a")) == {"answer": "ended"}


def test_a_client_may_want_all_to_be_given_back_when_it_is_cut_off(stage: NativeStage) -> None:
    caller, other = hold_and_queue(stage, on_disconnect="release")
    caller.vanish()
    stage.after(29.9)
    assert other.call("acquire", key="job", ticket=ticket("x"), patience_ms=0)["error"] == "busy"
    stage.after(0.1)
    assert other.call("acquire", key="job", ticket=ticket("x"), patience_ms=0)["answer"] == "granted"


def test_a_client_that_comes_back_may_change_its_mind_about_that(stage: NativeStage) -> None:
    caller, other = hold_and_queue(stage, on_disconnect="release")
    for words in ({}, {"on_disconnect": "keep"}):
        caller.vanish()
        caller = stage.client(join=caller.session, **words)
    caller.vanish()
    stage.after(30)
    assert other.call("acquire", key="job", ticket=ticket("x"), patience_ms=0)["error"] == "busy"


def test_a_session_lasts_as_long_as_one_of_its_connections(stage: NativeStage) -> None:
    caller, _ = hold_and_queue(stage)
    second = stage.client(join=caller.session)
    caller.vanish()
    stage.after(50)
    second.lines()
    assert second.call("renew", ticket=ticket("a"))["answer"] == "renewed"
    second.vanish()
    stage.after(29)
    stage.client(join=caller.session).vanish()
    stage.after(29)
    assert greet(stage, json.dumps({"version": 1, "join": caller.session}))["resumed"]


@pytest.mark.parametrize("wrong", ["", "ä" * 48, "0" * 48])
def test_a_session_is_found_by_all_of_its_name(stage: NativeStage, wrong: str) -> None:
    name = stage.client().session
    for join in (wrong, name[:-1], name[:-1] + "f", name[:PUBLIC_DIGITS], name + "0"):
        assert not greet(stage, json.dumps({"version": 1, "join": join}))["resumed"]
    assert stage.native.find(None) is None
    assert greet(stage, json.dumps({"version": 1, "join": name}))["resumed"]


def test_without_grace_a_session_ends_with_its_last_connection() -> None:
    stage = NativeStage(native={"session_grace_ns": 0})
    caller, _ = hold_and_queue(stage)
    caller.vanish()
    stage.after(0)
    assert not greet(stage, json.dumps({"version": 1, "join": caller.session}))["resumed"]


# --- the service ---


def test_the_door_counts(stage: NativeStage) -> None:
    caller, other = hold_and_queue(stage)
    liner = stage.caller()
    liner.ask("sl", "pool", "0 2 30")
    liner.ask("sl", "pool", "0 2 30")
    stage.client(join=caller.session)
    assert other.call("stats")["stats"] == {
        "server": f"holdfast {__version__}",
        "sessions": 2,
        "connections": 4,
        "keys": 3,
        "held": 2,
        "waiting": 2,
        "seats_held": 2,
        "seats_waiting": 0,
        "grants": 4,
        "expired": 0,
        "deadlocks": 0,
        "deadlocks_found": 0,
        "draining": False,
    }


def test_a_deadlock_over_two_doors_is_found_a_moment_later(stage: NativeStage) -> None:
    native, liner = stage.client(client="a"), stage.caller()
    native.call("acquire", key="x", ticket=ticket("x"))
    liner.ask("l", "y", "99 99")
    native.post("acquire", key="y", ticket=ticket("y"))
    liner.ask("l", "x", "99 99")
    with capture_logs() as lines:
        stage.after(0.3)
    assert [line["event"] for line in lines] == ["deadlock"]
    assert (len(stage.native.deadlocks.cycles), stage.native.deadlocks.found) == (1, 1)
    liner.vanish()
    stage.after(1)
    stats = native.lines() and native.call("stats")["stats"]
    assert (stats["deadlocks"], stats["deadlocks_found"]) == (0, 1)


# --- the end of the server ---


def drain(stage: NativeStage) -> None:
    stage.native.drain(5 * SECOND)
    stage.drain()


DRAINING = {"event": "draining", "detail": "the server is about to stop", "left_ms": 5000}


def test_whoever_waits_is_sent_home_and_whoever_holds_something_may_come_to_an_end(stage: NativeStage) -> None:
    caller, other = hold_and_queue(stage)
    idle = stage.client()
    drain(stage)
    assert idle.lines() == [DRAINING]
    assert idle.closed
    told, refused = caller.lines()
    assert (told, refused["error"]) == (DRAINING, "closed")
    assert not caller.closed
    for op, fields in (("look", {}), ("explain", {"key": "a"}), ("deadlocks", {}), ("wait", {"ticket": ticket("a")})):
        assert caller.call(op, **fields)["error"] == "closed"
    assert caller.call("acquire", key="new", ticket=ticket("n"))["error"] == "closed"
    assert caller.call("ping") == {"answer": "ok"}
    assert caller.call("renew", ticket=ticket("a"))["answer"] == "renewed"
    assert caller.call("renew", claims=[{"key": "job", "token": "0" * 32}])["renewed"] == [False]
    assert caller.call("end", ticket=ticket("a")) == {"answer": "ended"}
    assert caller.closed
    assert not other.closed


def test_a_group_that_waits_is_sent_home_too(stage: NativeStage) -> None:
    _, other = hold_and_queue(stage)
    caller = stage.client()
    caller.post("acquire", keys=[{"key": "full"}, {"key": "free"}], ticket=ticket("g"))
    drain(stage)
    told, refused = caller.lines()
    assert (told, refused["error"]) == (DRAINING, "closed")
    assert caller.closed
    assert not other.closed


def test_whoever_loses_the_last_that_it_holds_meanwhile_need_not_stay(stage: NativeStage) -> None:
    caller = stage.client()
    caller.call("acquire", key="job", ticket=ticket("a"), lease_ms=1000)
    drain(stage)
    assert caller.lines() == [DRAINING]
    stage.after(1)
    assert [line["reason"] for line in caller.lines()] == ["expired"]
    assert caller.closed


def test_nobody_may_say_hello_any_more(stage: NativeStage) -> None:
    drain(stage)
    assert greet(stage, '{"version":1}') == {
        "error": "closed",
        "retry": "later",
        "detail": "the server is about to stop",
    }


def test_whoever_has_not_come_to_an_end_is_cut(stage: NativeStage) -> None:
    callers = [stage.client() for _ in range(3)]
    stage.native.close()
    stage.settle()
    assert [caller.lefts for caller in callers] == [1, 1, 1]
    assert stage.native.connections == {}
