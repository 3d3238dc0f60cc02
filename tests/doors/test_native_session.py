"""The verbs of the native protocol on one claim: who is granted what, what is answered, and what is refused.

Modes and orders are told in stories. Groups, events and `bye` are tested in test_native_session_groups.py.
"""

import base64

import pytest

from holdfast.doors import native_asked
from holdfast.testing.line_stage import token
from holdfast.testing.native_stage import Line, NativeCaller, NativeStage, ticket
from holdfast.words import Answer, Renew
from tests.doors.natives import ask, heard, post
from tests.doors.refusing import RefusingStore


@pytest.fixture
def stage() -> NativeStage:
    return NativeStage()


@pytest.fixture
def a(stage: NativeStage) -> NativeCaller:
    return stage.client(client="a")


@pytest.fixture
def b(stage: NativeStage) -> NativeCaller:
    return stage.client(client="b")


# --- one claim ---


def test_a_grant_tells_everything(a: NativeCaller) -> None:
    assert a.call("acquire", key="pool", limit=3, units=2, ticket=ticket("a"), lease_ms=5000) == {
        "answer": "granted",
        "ticket": ticket("a"),
        "key": "pool",
        "kind": "semaphore",
        "mode": "CW",
        "units": 2,
        "fence": 1,
        "token": token(1),
        "lease_ms": 5000,
        "left_ms": 5000,
        "value": None,
        "value_valid": True,
    }


def test_modes_live_side_by_side_as_they_do(a: NativeCaller, b: NativeCaller) -> None:
    assert ask(a, "acquire", "a", key="job", mode="PR") == "granted a"
    assert ask(b, "acquire", "b", key="job", mode="PR", patience_ms=0) == "granted b"
    assert ask(b, "acquire", "c", key="job", mode="CW", patience_ms=0) == "busy"
    assert ask(b, "acquire", "d", key="job", mode="NL", patience_ms=0) == "granted d"


def test_seats_are_taken_by_units(a: NativeCaller, b: NativeCaller) -> None:
    assert ask(a, "acquire", "a", key="pool", limit=3, units=2) == "granted a"
    assert ask(b, "acquire", "b", key="pool", limit=3, units=2, patience_ms=0) == "busy"
    assert ask(b, "acquire", "c", key="pool", limit=3, patience_ms=0) == "granted c"
    assert ask(b, "acquire", "d", key="pool", limit=2) == "limit_mismatch"
    assert ask(b, "acquire", "e", key="pool", limit=3, units=4) == "limit_mismatch"
    assert ask(b, "acquire", "f", key="pool") == "granted f"  # the lock of that name


def test_a_ticket_that_is_seen_again_is_answered_with_the_same_claim(a: NativeCaller, b: NativeCaller) -> None:
    first = a.call("acquire", key="job", ticket=ticket("a"), lease_ms=5000)
    assert a.call("acquire", key="job", ticket=ticket("a"), lease_ms=9000, mode="PR") == first
    assert a.call("enqueue", key="job", ticket=ticket("a")) == first
    refused = a.call("acquire", key="other", ticket=ticket("a"))
    assert (refused["error"], refused["detail"]) == ("bad_request", "ticket: names a claim on another key")
    assert ask(b, "enqueue", "b", key="job") == "queued b"
    assert ask(b, "enqueue", "b", key="job") == "queued b"
    assert ask(a, "end", "a") == "ended"
    assert heard(b) == ["granted b"]
    assert ask(a, "acquire", "a", key="other") == "granted a"


def test_a_ticket_means_nothing_in_another_session(a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", key="job")
    for op in ("renew", "end", "wait"):
        assert ask(b, op, "a") == "not_held"
    assert ask(b, "convert", "a", mode="PR") == "not_held"
    assert post(b, "acquire", "a", key="job") == []
    assert ask(a, "end", "a") == "ended"
    assert heard(b) == ["granted a"]


def test_of_two_requests_for_one_claim_the_later_is_answered(a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", key="job")
    post(b, "acquire", "b", key="job")
    assert post(b, "acquire", "b", key="job") == ["refused"]
    assert post(b, "wait", "b", patience_ms=1000) == ["refused"]
    ask(a, "end", "a")
    assert heard(b) == ["granted b"]


def test_patience_runs_out_and_the_rival_is_named(stage: NativeStage, a: NativeCaller, b: NativeCaller) -> None:
    a.call("acquire", key="job", ticket=ticket("a"), meta={"thread": "main"})
    b.post("acquire", key="job", ticket=ticket("b"), patience_ms=1500)
    stage.after(1.5)
    (line,) = b.lines()
    assert (line["error"], line["retry"]) == ("timed_out", "now")
    assert line["detail"] == "the patience ran out; a@?:?/main holds it"
    assert ask(b, "end", "b") == "not_held"


def test_a_holder_who_says_nothing_of_itself_is_not_named(stage: NativeStage, b: NativeCaller) -> None:
    stage.client().call("acquire", key="job", ticket=ticket("a"))
    busy = b.call("acquire", key="job", ticket=ticket("b"), patience_ms=0)
    assert busy["detail"] == "somebody else holds the key, or waits for it"


def test_two_phases(stage: NativeStage, a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", key="job")
    assert ask(b, "enqueue", "b", key="job", lease_ms=2000) == "queued b"
    assert post(b, "wait", "b", patience_ms=500) == []
    stage.after(0.5)
    assert heard(b) == ["timed_out"]
    assert ask(b, "wait", "b") == "not_held"
    assert ask(b, "enqueue", "c", key="job", lease_ms=2000) == "queued c"
    ask(a, "end", "a")
    assert heard(b) == ["granted c"]
    stage.after(1)
    assert b.call("wait", ticket=ticket("c"))["left_ms"] == 2000
    stage.after(2)
    assert heard(b) == ["ended c expired"]


def test_a_lease_is_renewed_by_ticket_by_token_or_with_others(stage: NativeStage, a: NativeCaller) -> None:
    ask(a, "acquire", "a", key="job", lease_ms=2000)
    ask(a, "acquire", "b", key="pool", limit=1, lease_ms=2000)
    stage.after(1)
    assert a.call("renew", ticket=ticket("a")) == {"answer": "renewed", "lease_ms": 2000}
    stage.after(0.5)
    assert a.call("renew", key="job", token=token(1), lease_ms=7000) == {"answer": "renewed", "lease_ms": 7000}
    batch = [
        {"key": "job", "token": token(1), "lease_ms": 9000},
        {"key": "job", "token": token(2)},
        {"key": "pool", "kind": "semaphore", "token": token(2)},
    ]
    assert a.call("renew", claims=batch)["renewed"] == [True, False, True]
    left = {one["key"]: one["holders"][0]["left_ms"] for one in a.call("look")["keys"]}
    assert left == {"job": 9000, "pool": 33_000}


def test_a_renewal_that_the_store_could_not_make_is_neither_done_nor_refused(
    stage: NativeStage, a: NativeCaller
) -> None:
    ask(a, "acquire", "a", key="job")
    RefusingStore(
        stage.desk,
        Answer.STORE_BUSY,
        lambda command: isinstance(command, Renew) and command.key == b"lock:job",
    )
    batch = [{"key": "job", "token": token(1)}, {"key": "other", "token": token(1)}]
    assert a.call("renew", claims=batch)["renewed"] == [None, False]
    assert ask(a, "renew", "a") == "store_busy"


def test_what_is_gone_is_not_renewed_nor_ended(stage: NativeStage, a: NativeCaller) -> None:
    ask(a, "acquire", "a", key="job", lease_ms=1000)
    stage.after(1)
    assert heard(a) == ["ended a expired"]
    for fields in ({"ticket": ticket("a")}, {"key": "job", "token": token(1)}):
        for op in ("renew", "end"):
            assert a.call(op, **fields)["error"] == "not_held"


def test_a_claim_is_ended_by_its_token_from_anywhere_and_its_client_hears_of_it(
    a: NativeCaller, b: NativeCaller
) -> None:
    ask(a, "acquire", "a", key="job")
    assert ask(b, "end", key="job", token=token(1)) == "ended"
    assert heard(a) == ["ended a released"]
    ask(a, "acquire", "b", key="job")
    assert ask(a, "end", key="job", token=token(2)) == "ended"
    assert heard(a) == []  # it has been answered


def test_ending_what_waits_answers_whoever_waits(a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", key="job")
    post(b, "acquire", "b", key="job")
    assert post(b, "end", "b") == ["refused", "ended"]
    assert ask(b, "end", "b") == "not_held"
    ask(a, "end", "a")
    assert heard(b) == []


def test_a_value_travels_with_the_lock(stage: NativeStage, a: NativeCaller, b: NativeCaller) -> None:
    note = base64.b64encode(b"page 7").decode()
    ask(a, "acquire", "a", key="job", mode="PW")
    assert a.call("convert", ticket=ticket("a"), mode="CR", value=note)["value"] == note
    got = b.call("acquire", key="job", ticket=ticket("b"), mode="PW", lease_ms=1000)
    assert (got["value"], got["value_valid"]) == (note, True)
    stage.after(1)
    b.lines()
    got = b.call("acquire", key="job", ticket=ticket("c"), mode="PW")
    assert (got["value"], got["value_valid"]) == (note, False)
    assert ask(b, "end", "c", value="AA==") == "ended"
    got = b.call("acquire", key="job", ticket=ticket("d"), mode="PW")
    assert (got["value"], got["value_valid"]) == ("AA==", True)
    assert b.call("end", ticket=ticket("d"), value="A")["detail"] == "value: not base64"


def test_conversions(stage: NativeStage, a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", key="job", mode="PR")
    ask(b, "acquire", "b", key="job", mode="PR")
    assert ask(a, "convert", "a", mode="EX", queue=False) == "busy"
    assert post(a, "convert", "a", mode="EX", patience_ms=1000) == []
    assert ask(b, "convert", "b", mode="EX") == "would_deadlock"
    stage.after(1)
    assert heard(a) == ["timed_out", "stayed a timed_out"]
    assert post(a, "convert", "a", mode="EX") == []
    assert ask(b, "end", "b") == "ended"
    assert heard(a) == ["granted a"]
    assert a.call("convert", ticket=ticket("a"), mode="CR")["mode"] == "CR"


def test_a_conversion_that_is_asked_for_again_keeps_its_place(
    stage: NativeStage, a: NativeCaller, b: NativeCaller
) -> None:
    ask(a, "acquire", "a", key="job", mode="PR")
    ask(b, "acquire", "b", key="job", mode="PR")
    post(a, "convert", "a", mode="EX")
    ask(b, "enqueue", "c", key="job", mode="PR")
    a.vanish()
    again = stage.client(join=a.session)
    assert post(again, "convert", "a", mode="EX") == []
    assert post(again, "convert", "a", mode="EX") == ["refused"]
    assert ask(b, "end", "b") == "ended"
    assert heard(again) == ["granted a"]
    assert heard(b) == []


def test_whoever_thinks_better_of_a_conversion_holds_what_it_held(a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", key="job", mode="PR")
    ask(b, "acquire", "b", key="job", mode="PR")
    post(a, "convert", "a", mode="EX")
    assert post(a, "convert", "a", mode="PR", patience_ms=0) == ["refused", "stayed a cancelled", "granted a"]
    assert ask(b, "convert", "b", mode="EX", queue=False) == "busy"
    assert ask(b, "end", "b") == "ended"
    assert heard(a) == []


def test_a_conversion_is_withdrawn_also_while_the_store_has_not_answered_it() -> None:
    stage = NativeStage(late=True)
    a, b = stage.client(), stage.client()
    for caller, name in ((a, "a"), (b, "b")):
        caller.post("acquire", key="job", ticket=ticket(name), mode="PR")
    stage.commit()
    heard(a)
    post(a, "convert", "a", mode="EX")
    post(a, "convert", "a", mode="CR")
    stage.commit()
    assert heard(a) == ["refused", "stayed a cancelled", "granted a"]
    (r,) = stage.memory.table.resources.values()
    assert r.converting is None


def test_who_would_rather_be_refused_does_not_wait_in_a_circle(a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", key="job", mode="PR")
    ask(b, "acquire", "b", key="job", mode="PR")
    ask(b, "acquire", "c", key="other")
    post(b, "convert", "b", mode="EX")
    for op in ("acquire", "enqueue"):
        assert ask(a, op, "d", key="other", deadlock="refuse") == "would_deadlock"
        assert ask(a, op, "e", keys=[{"key": "free"}, {"key": "other"}], deadlock="refuse") == "would_deadlock"
    assert ask(a, "acquire", "d", key="free", deadlock="refuse") == "granted d"


def test_a_conversion_that_would_close_a_circle_over_other_keys_is_refused(a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", key="job", mode="CR")
    ask(b, "acquire", "b", key="job", mode="PR")
    ask(a, "acquire", "c", key="other")
    post(b, "acquire", "d", key="other")
    assert ask(a, "convert", "a", mode="EX", deadlock="refuse") == "would_deadlock"
    assert post(a, "convert", "a", mode="EX") == []


def test_nudges_come_to_those_who_want_them(a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", key="job", mode="PR", nudge=True)
    ask(a, "acquire", "b", key="job", mode="PR")
    ask(b, "enqueue", "c", key="job")
    (line,) = a.lines()
    assert line == {"event": "nudged", "ticket": ticket("a"), "key": "job", "kind": "lock", "want": "EX"}


def test_there_are_limits_below_and_they_are_named() -> None:
    stage = NativeStage(keys_max=1, waiters_max=1)
    a = stage.client()
    ask(a, "acquire", "a", key="job")
    assert a.call("acquire", key="two", ticket=ticket("b"))["detail"].endswith("(keys_max)")
    ask(a, "enqueue", "b", key="job")
    assert a.call("enqueue", key="job", ticket=ticket("c"))["detail"].endswith("(waiters_max)")
    stage.mint.dry = True
    ask(a, "end", "b")
    ask(a, "end", "a")
    assert a.call("acquire", key="job", ticket=ticket("d"))["error"] == "fence_unavailable"


def test_a_session_has_so_many_claims_and_may_ask_again_for_each(
    a: NativeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_asked, "CLAIMS_MAX", 2)
    for name in ("a", "b"):
        ask(a, "acquire", name, key=name)
    refused = a.call("acquire", key="c", ticket=ticket("c"))
    assert (refused["error"], refused["detail"]) == ("too_many", "a session has at most 65536 claims")
    assert ask(a, "acquire", "a", key="a") == "granted a"
    ask(a, "end", "a")
    assert ask(a, "acquire", "c", key="c") == "granted c"


TWICE = [{"key": "b"}] * 2


@pytest.mark.parametrize(
    ("op", "fields", "detail"),
    [
        ("acquire", {"ticket": ticket("a")}, "key: missing"),
        ("acquire", {"ticket": ticket("a"), "key": ""}, "key: has 0 bytes; a key has 1 to 1024"),
        ("acquire", {"ticket": ticket("a"), "key": "a", "units": 2}, "units: only where there is a limit"),
        (
            "acquire",
            {"ticket": ticket("a"), "key": "a", "keys": [{"key": "b"}] * 2},
            "key: belongs to the members of keys",
        ),
        ("acquire", {"ticket": ticket("a"), "keys": TWICE}, "keys: each may be named once"),
        ("acquire", {"ticket": ticket("a"), "key": "a", "meta": {"task": "\n"}}, "meta.task: no control characters"),
        ("renew", {}, "key: missing, as there is no ticket"),
        ("renew", {"key": "a"}, "token: missing, as there is no ticket"),
        ("renew", {"ticket": ticket("a"), "key": "a"}, "key: means nothing beside ticket"),
        ("end", {"ticket": ticket("a"), "token": "0" * 32}, "token: means nothing beside ticket"),
        ("end", {"ticket": ticket("a"), "value": "A" * 100}, "value: has 75 bytes; at most 64 are kept"),
    ],
)
def test_what_means_nothing_is_refused_and_leaves_nothing(
    stage: NativeStage, a: NativeCaller, op: str, fields: Line, detail: str
) -> None:
    assert a.call(op, **fields) == {"error": "bad_request", "retry": "never", "detail": detail}
    (connection,) = stage.native.connections.values()
    assert (connection.in_flight, connection.waiting) == (0, 0)
