"""What watchers of keys hear: each change once, in words, whichever door it came through and whichever store.

Who watches what is tested in test_native_watch.py.
"""

from typing import Any

import pytest

from holdfast.testing.native_stage import NativeCaller, NativeStage, ticket


def changes(watcher: NativeCaller) -> list[tuple[str, ...]]:
    """Take what was heard: key, what, and why."""
    lines = watcher.lines()
    assert all(line["event"] == "changed" for line in lines)
    return [(line["key"], line["what"], *filter(None, [line.get("reason")])) for line in lines]


def stage_and_watcher(**settings: Any) -> tuple[NativeStage, NativeCaller]:
    stage = NativeStage(**settings)
    watcher = stage.client()
    watcher.call("watch", prefix="")
    return stage, watcher


def test_the_life_of_a_claim_is_told_step_by_step() -> None:
    stage, watcher = stage_and_watcher()
    a, b = stage.client(), stage.client()
    a.call("acquire", key="job", ticket=ticket("a"), mode="PR")
    b.call("enqueue", key="job", ticket=ticket("b"))
    a.call("renew", ticket=ticket("a"))
    a.call("convert", ticket=ticket("a"), mode="CR")
    a.call("end", ticket=ticket("a"))
    assert changes(watcher) == [
        ("job", "granted"),
        ("job", "queued"),
        ("job", "renewed"),
        ("job", "converted"),
        ("job", "ended", "released"),
        ("job", "granted"),
    ]


def test_the_line_door_is_told_of_too_and_who_listens_there_is_nobody() -> None:
    stage, watcher = stage_and_watcher()
    holder, waiter = stage.caller(), stage.caller()
    token = holder.ask("l", "job", "0 30").split()[1]
    waiter.ask("l", "job", "5 30")
    holder.ask("n", "job", f"{token} 30")
    holder.ask("r", "job", token)
    waiter.vanish()
    assert changes(watcher) == [
        ("job", "granted"),
        ("job", "queued"),
        ("job", "renewed"),
        ("job", "ended", "released"),
        ("job", "granted"),
        ("job", "ended", "lapsed"),
    ]


def test_a_first_phase_and_its_second_are_told_apart_from_others() -> None:
    stage, watcher = stage_and_watcher()
    caller = stage.client()
    caller.call("enqueue", key="job", ticket=ticket("a"))
    caller.call("wait", ticket=ticket("a"))
    assert changes(watcher) == [("job", "granted"), ("job", "renewed")]


def test_whoever_gives_up_is_told_of() -> None:
    stage, watcher = stage_and_watcher()
    a, b = stage.client(), stage.client()
    a.call("acquire", key="job", ticket=ticket("a"))
    b.call("enqueue", key="job", ticket=ticket("b"))
    b.call("wait", ticket=ticket("b"), patience_ms=0)
    b.post("acquire", key="job", ticket=ticket("c"), patience_ms=1000)
    stage.after(1)
    b.lines()
    b.call("acquire", key="job", ticket=ticket("d"), patience_ms=0)
    b.post("acquire", key="job", ticket=ticket("e"))
    b.post("wait", ticket=ticket("e"))
    b.post("end", ticket=ticket("e"))
    assert changes(watcher) == [
        ("job", "granted"),
        ("job", "queued"),
        ("job", "ended", "timed_out"),
        ("job", "queued"),
        ("job", "ended", "timed_out"),
        ("job", "queued"),
        ("job", "ended", "cancelled"),
    ]


def test_leases_that_run_out_and_what_is_taken_away_are_told_of() -> None:
    stage, watcher = stage_and_watcher()
    holder = stage.client()
    holder.call("acquire", key="job", ticket=ticket("a"), lease_ms=1000)
    stage.after(1)
    holder.lines()
    holder.call("acquire", key="pool", ticket=ticket("b"), limit=2)
    watcher.post("break", key="pool", kind="semaphore", reason="a test")
    lines = [line for line in watcher.lines() if "event" in line]
    assert [(line["key"], line["kind"], line["what"], line.get("reason")) for line in lines] == [
        ("job", "lock", "granted", None),
        ("job", "lock", "ended", "expired"),
        ("pool", "semaphore", "granted", None),
        ("pool", "semaphore", "ended", "broken"),
    ]


def test_conversions_that_wait_are_told_of_when_they_begin_and_when_they_are_over() -> None:
    stage, watcher = stage_and_watcher()
    a, b = stage.client(), stage.client()
    for caller, name in ((a, "a"), (b, "b")):
        caller.call("acquire", key="job", ticket=ticket(name), mode="PR")
    a.post("convert", ticket=ticket("a"), mode="EX")
    b.call("convert", ticket=ticket("b"), mode="EX")
    b.call("end", ticket=ticket("b"))
    assert changes(watcher)[2:] == [("job", "queued"), ("job", "ended", "released"), ("job", "converted")]
    a.lines()
    b.call("enqueue", key="job", ticket=ticket("c"), mode="CR")
    a.call("convert", ticket=ticket("a"), mode="PR")
    a.post("convert", ticket=ticket("a"), mode="EX", patience_ms=1000)
    stage.after(1)
    assert changes(watcher) == [
        ("job", "queued"),
        ("job", "converted"),
        ("job", "granted"),
        ("job", "queued"),
        ("job", "stayed", "timed_out"),
    ]


def test_a_converting_holder_that_ends_is_told_of_once() -> None:
    stage, watcher = stage_and_watcher()
    a, b = stage.client(), stage.client()
    for caller, name in ((a, "a"), (b, "b")):
        caller.call("acquire", key="job", ticket=ticket(name), mode="PR")
    a.post("convert", ticket=ticket("a"), mode="EX")
    a.post("end", ticket=ticket("a"))
    assert changes(watcher)[3:] == [("job", "ended", "released")]


def test_nudges_and_refusals_change_nothing() -> None:
    stage, watcher = stage_and_watcher()
    a, b = stage.client(), stage.client()
    granted = a.call("acquire", key="job", ticket=ticket("a"), nudge=True)
    a.call("acquire", key="job", ticket=ticket("a"), nudge=True)
    b.call("end", key="job", token="0" * 32)
    b.call("renew", key="job", token="0" * 32)
    b.call("end", ticket=ticket("none"))
    a.call("convert", ticket=ticket("a"), mode="EX", queue=False)
    b.call("look", key="job")
    assert granted["answer"] == "granted"
    assert changes(watcher) == [("job", "granted"), ("job", "converted")]
    b.call("enqueue", key="job", ticket=ticket("b"))
    assert [line["event"] for line in a.lines()] == ["nudged"]
    assert changes(watcher) == [("job", "queued")]


@pytest.mark.parametrize("late", [False, True])
def test_a_grant_is_told_of_when_it_is_safe_and_not_before(late: bool) -> None:
    stage, watcher = stage_and_watcher(late=late)
    stage.client().post("acquire", key="job", ticket=ticket("a"))
    if late:
        assert changes(watcher) == []
        stage.commit()
    assert changes(watcher) == [("job", "granted")]
