"""What a session has together: groups of claims, events for all its connections, and its end by `bye`.

The verbs on one claim are tested in test_native_session.py.
"""

import pytest

from holdfast.testing.line_stage import token
from holdfast.testing.native_stage import NativeCaller, NativeStage, ticket
from tests.doors.natives import ask, heard, named, post


@pytest.fixture
def stage() -> NativeStage:
    return NativeStage()


@pytest.fixture
def a(stage: NativeStage) -> NativeCaller:
    return stage.client(client="a")


@pytest.fixture
def b(stage: NativeStage) -> NativeCaller:
    return stage.client(client="b")


# --- groups ---

TWO = [{"key": "x"}, {"key": "y"}]
NEXT = [{"key": "y"}, {"key": "z"}]


def test_a_group_is_granted_whole_or_not_at_all(a: NativeCaller, b: NativeCaller) -> None:
    assert ask(a, "acquire", "a", keys=TWO) == "granted a#0 a#1"
    assert ask(b, "acquire", "b", keys=NEXT, patience_ms=0) == "busy"
    assert ask(b, "acquire", "c", key="z", patience_ms=0) == "granted c"
    ask(b, "end", "c")
    assert post(b, "acquire", "b", keys=NEXT) == []
    assert ask(a, "acquire", "d", key="z", patience_ms=0) == "busy"  # whoever waits is not overtaken
    assert ask(a, "end", "a") == "ended"
    assert heard(b) == ["granted b#0 b#1"]


def test_a_group_that_is_enqueued_is_granted_in_one_event(a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", keys=TWO)
    assert ask(b, "enqueue", "b", keys=NEXT) == "queued b#0 b#1"
    assert ask(b, "enqueue", "b", keys=NEXT) == "queued b#0 b#1"
    ask(a, "end", "a#1")
    assert heard(b) == ["granted b#0 b#1"]
    assert ask(b, "wait", "b") == "granted b#0 b#1"
    assert ask(b, "acquire", "b", keys=NEXT) == "granted b#0 b#1"


def test_the_patience_of_a_group_is_one(stage: NativeStage, a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", keys=TWO)
    post(b, "acquire", "b", keys=NEXT, patience_ms=1000)
    stage.after(1)
    assert heard(b) == ["timed_out"]
    ask(b, "enqueue", "c", keys=NEXT)
    post(b, "wait", "c", patience_ms=1000)
    stage.after(1)
    assert heard(b) == ["timed_out"]
    for name in ("b", "b#0", "c", "c#1"):
        assert ask(b, "end", name) == "not_held"
    assert ask(b, "acquire", "d", key="z") == "granted d"


@pytest.mark.parametrize("name", ["b", "b#0", "b#1"])
def test_a_group_that_waits_is_withdrawn_whole(a: NativeCaller, b: NativeCaller, name: str) -> None:
    ask(a, "acquire", "a", keys=TWO)
    post(b, "acquire", "b", keys=NEXT)
    assert post(b, "end", name) == ["refused", "ended"]
    assert ask(b, "end", name) == "not_held"
    assert ask(b, "acquire", "b", key="z") == "granted b"


def test_what_is_left_of_a_group_is_not_the_group(stage: NativeStage, a: NativeCaller) -> None:
    a.call("acquire", ticket=ticket("a"), keys=TWO, lease_ms=5000)
    a.call("renew", ticket=named("a#0"), lease_ms=9000)
    stage.after(5)
    assert heard(a) == ["ended a#1 expired"]
    assert a.call("acquire", ticket=ticket("a"), keys=TWO)["error"] == "lease_lost"
    assert a.call("wait", ticket=ticket("a"))["error"] == "lease_lost"
    assert a.call("renew", ticket=ticket("a"))["error"] == "not_held"
    assert a.call("end", ticket=ticket("a")) == {"answer": "ended"}
    assert a.call("acquire", ticket=ticket("a"), keys=TWO)["answer"] == "granted"


def test_a_member_is_a_claim_of_its_own_once_it_is_held(a: NativeCaller, b: NativeCaller) -> None:
    a.call("acquire", ticket=ticket("a"), keys=[{"key": "x", "mode": "PR"}, {"key": "pool", "limit": 2, "units": 2}])
    assert a.call("convert", ticket=named("a#0"), mode="EX")["mode"] == "EX"
    assert a.call("renew", ticket=named("a#1"), lease_ms=7000)["lease_ms"] == 7000
    post(b, "acquire", "b", key="pool", limit=2)
    assert a.call("end", ticket=named("a#1")) == {"answer": "ended"}
    assert heard(b) == ["granted b"]


def test_a_group_comes_back_with_its_session(stage: NativeStage, a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", keys=TWO)
    post(b, "acquire", "b", keys=NEXT)
    b.vanish()
    again = stage.client(join=b.session)
    assert post(again, "acquire", "b", keys=NEXT) == []
    ask(a, "end", "a")
    assert heard(again) == ["granted b#0 b#1"]
    again.vanish()
    stage.after(30)
    third = stage.client()
    assert third.call("acquire", ticket=ticket("b"), keys=NEXT)["answer"] == "granted"
    assert third.call("end", ticket=ticket("b")) == {"answer": "ended"}


# --- events ---


def test_events_go_to_all_connections_that_want_them_and_answers_to_whoever_asked(
    stage: NativeStage, a: NativeCaller
) -> None:
    second, third = stage.client(join=a.session), stage.client(join=a.session, events=False)
    ask(third, "acquire", "a", key="job", lease_ms=1000)
    stage.after(1)
    assert [heard(a), heard(second), heard(third)] == [["ended a expired"], ["ended a expired"], []]


def test_a_grant_whose_asker_is_gone_is_told_to_the_others(
    stage: NativeStage, a: NativeCaller, b: NativeCaller
) -> None:
    ask(a, "acquire", "a", key="job")
    second = stage.client(join=b.session)
    post(b, "acquire", "b", key="job")
    b.vanish()
    ask(a, "end", "a")
    assert heard(second) == ["granted b"]


def test_whoever_stays_away_too_long_misses_its_turn(stage: NativeStage, a: NativeCaller, b: NativeCaller) -> None:
    ask(a, "acquire", "a", key="job", lease_ms=60_000)
    post(b, "acquire", "b", key="job")
    b.vanish()
    stage.after(30)
    assert ask(a, "end", "a") == "ended"
    assert ask(a, "acquire", "c", key="job", patience_ms=0) == "granted c"


# --- bye ---


def test_bye_gives_everything_back_and_closes_all_connections(
    stage: NativeStage, a: NativeCaller, b: NativeCaller
) -> None:
    ask(a, "acquire", "a", key="job")
    post(b, "acquire", "b", key="job")
    second = stage.client(join=a.session)
    post(second, "acquire", "c", key="job")
    assert post(a, "bye", "x")[0] == "bad_request"
    a.post("bye")
    assert heard(a) == ["ok"]
    assert heard(second) == ["closed"]
    assert (a.closed, second.closed) == (True, True)
    assert heard(b) == ["granted b"]
    assert a.session[:16] not in stage.native.sessions


def test_bye_leaves_nothing_of_what_the_store_has_not_answered_yet() -> None:
    stage = NativeStage(late=True)
    a = stage.client()
    a.post("acquire", key="job", ticket=ticket("a"))
    a.post("renew", claims=[{"key": "job", "token": "0" * 32}] * 3)
    a.post("bye")
    assert heard(a) == ["closed", "closed", "ok"]
    stage.commit()
    stage.commit()
    assert stage.memory.table.sessions.get(1, {}) == {}
    assert not [r for r in stage.memory.table.resources.values() if r.sole is not None]


def test_a_token_is_good_at_every_door(stage: NativeStage, a: NativeCaller) -> None:
    liner = stage.caller()
    ask(a, "acquire", "a", key="job")
    assert liner.ask("n", "job", f"{token(1)} 60").startswith("ok")
    assert liner.ask("r", "job", token(1)) == "ok"
    assert heard(a) == ["ended a released"]
