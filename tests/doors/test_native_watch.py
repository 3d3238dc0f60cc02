"""Who watches what: keys, beginnings of keys and circles, for as long as the connection is there.

Which changes there are is tested in test_native_changes.py, how circles are found in tests/observe.
"""

import pytest

from holdfast.doors.native_watch import WATCHES_MAX
from holdfast.testing.native_stage import NativeCaller, NativeStage, ticket


@pytest.fixture
def stage() -> NativeStage:
    return NativeStage()


def touch(stage: NativeStage, *names: str) -> None:
    """Lock and unlock some keys."""
    caller = stage.caller()
    for name in names:
        caller.ask("l", name, "0 30")
    caller.vanish()


def heard(watcher: NativeCaller) -> list[str]:
    return [line["key"] for line in watcher.lines() if line["what"] == "granted"]


def test_a_key_is_watched_and_others_are_not(stage: NativeStage) -> None:
    watcher = stage.client()
    assert watcher.call("watch", key="job") == {"answer": "ok"}
    touch(stage, "job", "jobs", "other")
    assert heard(watcher) == ["job"]


def test_the_beginnings_of_keys_are_watched_in_one_kind_or_both(stage: NativeStage) -> None:
    locks, both, seats = stage.client(), stage.client(), stage.client()
    locks.call("watch", prefix="jo", kind="lock")
    both.call("watch", prefix="j")
    seats.call("watch", key="job", kind="semaphore")
    stage.client().call("acquire", key="job", ticket=ticket("a"), limit=2)
    touch(stage, "job", "jobs", "other")
    assert [heard(locks), heard(both), heard(seats)] == [["job", "jobs"], ["job", "job", "jobs"], ["job"]]


def test_watches_add_up_and_end_together(stage: NativeStage) -> None:
    watcher = stage.client()
    watcher.call("watch", key="job")
    watcher.call("watch", prefix="job")
    watcher.call("watch", key="other", deadlocks=True)
    touch(stage, "job", "other")
    assert heard(watcher) == ["job", "other"]
    assert watcher.call("unwatch") == {"answer": "ok"}
    assert watcher.call("unwatch") == {"answer": "ok"}
    touch(stage, "job", "other")
    assert heard(watcher) == []


def test_the_desk_is_listened_to_only_while_somebody_watches_keys(stage: NativeStage) -> None:
    one, other = stage.client(), stage.client()
    assert stage.desk.observer is None
    one.call("watch", deadlocks=True)
    assert stage.desk.observer is None
    one.call("watch", key="job")
    other.call("watch", key="job")
    observer = stage.desk.observer
    assert observer is not None
    one.call("unwatch")
    assert stage.desk.observer is observer
    other.vanish()
    assert stage.desk.observer is None


def test_watches_are_those_of_a_connection_and_end_with_it(stage: NativeStage) -> None:
    watcher = stage.client()
    watcher.call("watch", key="job")
    watcher.vanish()
    again = stage.client(join=watcher.session)
    touch(stage, "job")
    assert again.lines() == []


def test_watches_without_events_of_the_session_are_told_all_the_same(stage: NativeStage) -> None:
    watcher = stage.client(events=False)
    watcher.call("watch", key="job")
    touch(stage, "job")
    assert heard(watcher) == ["job"]


def test_there_is_a_limit_to_what_a_connection_watches(stage: NativeStage) -> None:
    watcher = stage.client()
    for number in range(WATCHES_MAX):
        assert watcher.call("watch", key=f"job{number}") == {"answer": "ok"}
    assert watcher.call("watch", key="job0") == {"answer": "ok"}
    refusal = watcher.call("watch", prefix="x")
    assert (refusal["error"], refusal["detail"]) == ("too_many", f"a connection watches at most {WATCHES_MAX} keys")
    assert watcher.call("watch", deadlocks=True) == {"answer": "ok"}


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({}, "key: missing; or a prefix, or deadlocks"),
        ({"key": "a", "prefix": "b"}, "prefix: means nothing beside key"),
        ({"key": ""}, "key: has 0 bytes; a key has 1 to 1024"),
    ],
)
def test_a_watch_of_nothing_is_refused(stage: NativeStage, fields: dict[str, str], detail: str) -> None:
    assert stage.client().call("watch", **fields)["detail"] == detail


# --- circles ---


def tie(stage: NativeStage) -> tuple[NativeCaller, NativeCaller]:
    """Let two wait for each other."""
    a, b = stage.client(client="a"), stage.client(client="b")
    a.call("acquire", key="x", ticket=ticket("x"))
    b.call("acquire", key="y", ticket=ticket("y"))
    a.post("acquire", key="y", ticket=ticket("y"))
    b.post("acquire", key="x", ticket=ticket("x"))
    return a, b


def test_a_circle_is_told_to_whoever_wants_to_hear_of_circles(stage: NativeStage) -> None:
    watcher, other = stage.client(), stage.client()
    watcher.call("watch", deadlocks=True)
    other.call("watch", key="none")
    tie(stage)
    stage.after(1)
    (event,) = watcher.lines()
    assert event["event"] == "deadlock"
    assert {(edge["client"], edge["key"], edge["behind"]["client"]) for edge in event["cycle"]} == {
        ("a", "y", "b"),
        ("b", "x", "a"),
    }
    stage.after(5)
    assert watcher.lines() == other.lines() == []


def test_a_circle_that_is_there_already_is_told_at_once_and_once(stage: NativeStage) -> None:
    a, _ = tie(stage)
    stage.after(1)
    watcher = stage.client()
    watcher.post("watch", deadlocks=True)
    answer, event = watcher.lines()
    assert (answer["answer"], event["event"]) == ("ok", "deadlock")
    assert watcher.call("watch", deadlocks=True) == {"answer": "ok"}
    a.post("bye")
    stage.after(2)
    later = stage.client()
    assert later.call("watch", deadlocks=True) == {"answer": "ok"}
