"""Looking inside by the native protocol: what is shown, what is kept back, and how an operator takes a claim away.

How explanations are spelled, and whether they are true, is tested in test_native_graph.py.
"""

import pytest
from structlog.testing import capture_logs

from holdfast.doors import native_sight
from holdfast.testing.line_stage import token
from holdfast.testing.native_stage import Line, NativeCaller, NativeStage, ticket
from tests.doors.natives import ask, heard, post


@pytest.fixture
def stage() -> NativeStage:
    return NativeStage()


@pytest.fixture
def a(stage: NativeStage) -> NativeCaller:
    return stage.client(client="a", host="web-1", pid=7)


@pytest.fixture
def b(stage: NativeStage) -> NativeCaller:
    return stage.client()


def look(caller: NativeCaller, **fields: object) -> list[str]:
    """Look over keys; tell their names, and where to go on."""
    seen = caller.call("look", **fields)
    names = [f"{'' if one['kind'] == 'lock' else 'sem '}{one['key']}" for one in seen["keys"]]
    return names if seen["next"] is None else [*names, f"> {seen['next']}"]


# --- looks ---


def test_a_look_at_one_key_shows_who_holds_and_who_waits(stage: NativeStage, a: NativeCaller, b: NativeCaller) -> None:
    about = {"thread": "main", "operation": "month end", "traceparent": "00-1-2-01"}
    a.call("acquire", key="job", ticket=ticket("a"), mode="PR", lease_ms=9000, meta=about)
    stage.after(2)
    post(b, "acquire", "b", key="job", patience_ms=5000)
    (seen,) = b.call("look", key="job")["keys"]
    assert seen == {
        "key": "job",
        "kind": "lock",
        "version": 1,
        "waiting": 1,
        "held": 1,
        "holders": [
            {
                "owner": "a@web-1:7/main",
                "host": "web-1",
                "pid": 7,
                "client": "a",
                "door": "native",
                "mode": "PR",
                "units": 1,
                "fence": 1,
                "since_ms": 2000,
                "left_ms": 7000,
                **about,
            }
        ],
        "queue": [{"door": "native", "want": "EX", "units": 1, "since_ms": 0, "left_ms": 5000}],
    }
    assert ticket("a") not in str(seen)
    assert token(1) not in str(seen)
    assert b.call("look", key="none") == {"answer": "seen", "keys": [], "next": None}


def test_a_look_over_many_keys_goes_on_where_the_last_one_stopped(a: NativeCaller) -> None:
    for name in ("b", "a", "ab"):
        ask(a, "acquire", name, key=name)
    ask(a, "acquire", "pool", key="a", limit=2)
    assert look(a) == ["a", "ab", "b", "sem a"]
    assert look(a, prefix="a") == ["a", "ab", "sem a"]
    assert look(a, kind="semaphore") == ["sem a"]
    assert look(a, count=2) == ["a", "ab", "> lock:ab"]
    assert look(a, count=2, after="lock:ab") == ["b", "sem a"]
    assert look(a, count=3) == ["a", "ab", "b", "> lock:b"]
    assert look(a, count=3, after="lock:b") == ["sem a"]
    ask(a, "end", "a")
    assert look(a, held=True) == ["ab", "b", "sem a"]
    assert look(a, held=False) == ["a"]


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"key": "a", "prefix": "b"}, "prefix: means nothing beside key"),
        ({"key": ""}, "key: has 0 bytes; a key has 1 to 1024"),
        ({"after": "x"}, "after: is not what next was"),
    ],
)
def test_a_look_that_means_nothing_is_refused(stage: NativeStage, a: NativeCaller, fields: Line, detail: str) -> None:
    assert a.call("look", **fields) == {"error": "bad_request", "retry": "never", "detail": detail}
    (connection,) = stage.native.connections.values()
    assert (connection.looking, connection.in_flight) == (0, 0)


def test_a_conversion_is_shown_with_the_fence_of_what_it_holds(a: NativeCaller, b: NativeCaller) -> None:
    for caller, name in ((a, "a"), (b, "b")):
        ask(caller, "acquire", name, key="job", mode="PR")
    post(a, "convert", "a", mode="EX")
    (seen,) = b.call("look", key="job")["keys"]
    assert [holder.get("converting_to") for holder in seen["holders"]] == ["EX", None]
    assert [(waiter["fence"], waiter["want"]) for waiter in seen["queue"]] == [(1, "EX")]


def test_there_are_only_so_many_looks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_sight, "LOOKING_MAX", 2)
    stage = NativeStage(late=True)
    a = stage.client()
    for op, fields in (("look", {}), ("explain", {"key": "a"}), ("deadlocks", {})):
        a.post(op, **fields)
    (refused,) = a.lines()
    assert (refused["id"], refused["error"]) == (3, "too_many")
    assert refused["detail"] == "at most 2 of look, explain, deadlocks and stats at a time"
    stage.commit()
    stage.commit()
    assert [line["id"] for line in a.lines()] == [2, 1]  # a look over both kinds of keys takes two steps
    a.post("stats")
    assert heard(a) == ["seen"]


def test_looks_under_way_when_the_service_drains_are_answered_all_the_same() -> None:
    stage = NativeStage(late=True)
    a = stage.client()
    a.post("acquire", key="job", ticket=ticket("a"))
    stage.commit()
    a.lines()
    a.post("look")
    a.post("explain", key="job")
    stage.drain()
    stage.commit()
    assert sorted(heard(a)) == ["closed", "seen"]  # the second step of a look comes too late
    (connection,) = stage.native.connections.values()
    assert (connection.looking, connection.in_flight) == (0, 0)


# --- taking away ---


def test_an_operator_takes_a_key_away_from_all_its_holders(a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", key="pool", limit=3)
    ask(b, "acquire", "b", key="pool", limit=3)
    post(b, "acquire", "c", key="pool", limit=3, units=3)
    with capture_logs() as lines:
        a.post("break", key="pool", kind="semaphore", reason="it hangs")
    told = a.lines()
    assert [line.get("ended") for line in told if "answer" in line] == [2]
    (event,) = [line for line in told if "event" in line]
    assert event == {
        "event": "ended",
        "ticket": ticket("a"),
        "key": "pool",
        "kind": "semaphore",
        "reason": "broken",
        "fence": 1,
        "detail": "broken by a@web-1:7: it hangs",
    }
    assert heard(b) == ["ended b broken", "granted c"]
    assert [(line["event"], line["key"], line["by"], line["reason"]) for line in lines] == [
        ("broken", "pool", "a@web-1:7", "it hangs")
    ] * 2


def test_an_operator_takes_one_claim_away_by_its_token(a: NativeCaller, b: NativeCaller) -> None:
    for name in ("a", "b"):
        ask(a, "acquire", name, key="job", mode="PR")
    assert b.call("break", key="job", token=token(2), reason="x") == {"answer": "ended", "ended": 1}
    assert heard(a) == ["ended b broken"]
    assert b.call("break", key="job", token=token(2), reason="x") == {"answer": "ended", "ended": 0}
    assert b.call("break", key="none", reason="x") == {"answer": "ended", "ended": 0}


def test_a_connection_of_the_line_protocol_loses_what_was_taken_away(stage: NativeStage, b: NativeCaller) -> None:
    liner = stage.caller()
    liner.ask("l", "job", "0 30")
    assert b.call("break", key="job", reason="x")["ended"] == 1
    assert liner.ask("r", "job", token(1)) == "error"


def test_reasons_are_not_kept_without_end(
    stage: NativeStage, a: NativeCaller, b: NativeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_sight, "MARKS_MAX", 3)
    liner = stage.caller()
    for _ in range(9):
        liner.ask("l", "job", "0 30")
        assert b.call("break", key="job", reason="nobody hears it")["ended"] == 1
    assert len(stage.native.marks) == 3
    ask(a, "acquire", "a", key="job")
    b.call("break", key="job", reason="heard")
    assert a.lines()[0]["detail"] == "broken by somebody: heard"
    assert len(stage.native.marks) == 2


@pytest.mark.parametrize("reason", ["x" * 257, "a\nb"])
def test_a_reason_has_to_look_well_in_a_log(b: NativeCaller, reason: str) -> None:
    assert b.call("break", key="job", reason=reason)["detail"].startswith("reason: ")


def test_a_store_that_fails_is_told() -> None:
    stage = NativeStage()
    a = stage.client()
    ask(a, "acquire", "a", key="job")
    stage.desk.draining = True
    assert a.call("break", key="job", reason="x")["error"] == "closed"
    assert a.call("break", key="job", token=token(1), reason="x")["error"] == "closed"
    assert stage.native.marks == {}
