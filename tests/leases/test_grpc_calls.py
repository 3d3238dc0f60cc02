"""What a backend over gRPC asks for, and what it makes of answers: ours, Shaken Fist's, and those that cannot be.

The answers come from the tests; nothing is sent.
"""

import json
from typing import Any, TypeVar

import pytest

from holdfast.errors import BadPeer, BadRequest
from holdfast.leases.errors import BadKey, DatabaseUnavailable
from holdfast.leases.grpc_calls import Calls, Operations, Steps, lease_ms_of, parts_of, within
from holdfast.leases.grpc_url import grpc_place_of
from holdfast.leases.words import Got, Hold, Taken, key_of
from holdfast.wire import grpc_leases as wire
from holdfast.wire.grpc_leases import Outcome
from tests.leases.asking import KEY, LEASE_US, ask

T = TypeVar("T")

OURS = Operations(grpc_place_of("grpc://h:1"))
THEIRS = Operations(grpc_place_of("grpc://h:1?service=shakenfist"))
HOLD = Hold(KEY, "one")


def play(steps: Steps[T], *answers: list[Any]) -> tuple[T, list[Calls]]:
    """Answer what an operation asks, in order; give what came of it, and all that it asked."""
    asked = []
    try:
        asked.append(next(steps))
        for answer in answers:
            asked.append(steps.send(answer))
    except StopIteration as done:
        return done.value, asked
    raise AssertionError(f"it asks for more: {asked[-1]}")


def test_an_acquire_tells_all_of_who_asks() -> None:
    asked = ask()
    granted = wire.ClusterLockReply(True, Outcome.DONE, 7, 60_000)
    got, (calls,) = play(OURS.acquire(asked), [granted])
    assert got == Got(7)
    (request,) = calls.requests
    assert isinstance(request, wire.ClusterLockRequest)
    assert (request.object_type, request.subtype, request.name) == ("cluster", "", "")
    assert json.loads(request.lock_data) == {**asked.holder, "node": "sf-7", "pid": asked.pid, "id": asked.lock_id}
    assert (request.lease_ms, request.process, request.wait_ms) == (60_000, asked.process, 0)
    assert calls.within_s == 10


def test_who_has_it_is_told_with_what_is_left() -> None:
    busy = wire.ClusterLockReply(outcome=Outcome.BUSY, left_ms=5, holder='{"node":"sf-8"}')
    assert play(OURS.acquire(ask()), [busy])[0] == Taken({"node": "sf-8"}, 5_000)
    busy.holder = "rubbish"
    assert play(OURS.acquire(ask()), [busy])[0] == Taken({}, 5_000)


@pytest.mark.parametrize(
    "reply",
    [
        wire.ClusterLockReply(),  # of a server that is not ours
        wire.ClusterLockReply(True),
        wire.ClusterLockReply(True, Outcome.BUSY, 1),
        wire.ClusterLockReply(True, Outcome.DONE, 0),
        wire.ClusterLockReply(False, Outcome.DONE, 1),
        wire.ClusterLockReply(False, Outcome.LOST),
    ],
)
def test_an_answer_that_contradicts_itself_is_neither_got_nor_busy(reply: wire.ClusterLockReply) -> None:
    with pytest.raises(BadPeer):
        play(OURS.acquire(ask()), [reply])


@pytest.mark.parametrize("reply", [wire.StatusReply(), wire.StatusReply(True), wire.StatusReply(False, "", 1)])
def test_only_an_answer_that_says_lost_means_lost(reply: wire.StatusReply) -> None:
    lost, done = wire.StatusReply(outcome=Outcome.LOST), wire.StatusReply(True, "", Outcome.DONE)
    assert play(OURS.refresh([HOLD, HOLD], LEASE_US), [lost, done])[0] == [False, True]
    assert play(OURS.release([HOLD, HOLD]), [lost, done])[0] == [False, True]
    for steps in (OURS.refresh([HOLD], LEASE_US), OURS.release([HOLD])):
        with pytest.raises(BadPeer):
            play(steps, [reply])


def test_a_refresh_leaves_time_for_another_one_within_the_lease() -> None:
    _, (calls,) = play(OURS.refresh([HOLD], LEASE_US), [wire.StatusReply(True, "", Outcome.DONE)])
    assert calls.within_s == 4
    assert within(12_000_000, 4) == 2
    assert within(1, 4) == 1
    assert lease_ms_of(1_500) == 2  # never less at the server than its holder counts on


def test_what_dead_processes_left_is_cleared_and_not_taken_for_a_release() -> None:
    done, lost = wire.StatusReply(True, "", Outcome.DONE), wire.StatusReply(outcome=Outcome.LOST)
    cleared, (calls,) = play(OURS.clear([HOLD, HOLD]), [done, lost])
    assert cleared == 1
    assert [getattr(request, "clears") for request in calls.requests] == [True, True]  # noqa: B009
    _, (calls,) = play(OURS.release([HOLD]), [done])
    assert calls.again
    assert not getattr(calls.requests[0], "clears")  # noqa: B009


def test_rows_are_made_of_whatever_is_told() -> None:
    entries = [
        wire.ClusterLockEntry("z/", '{"node":"n","pid":7,"id":"x"}', 3, 40, 20, "boot:7"),
        wire.ClusterLockEntry("a/", '{"node":null,"pid":"7","id":null}', 1, 1, 0),
        wire.ClusterLockEntry("b/", "[]"),
    ]
    rows, _ = play(OURS.list(), [wire.ClusterGetExistingLocksReply(entries)])
    assert [row.key for row in rows] == [b"a/", b"b/", b"z/"]
    assert [(row.node, row.pid, row.lock_id, row.lapsed) for row in rows] == [
        ("", 0, "", False),
        ("", 0, "", True),
        ("n", 7, "x", False),
    ]
    assert (rows[2].process, rows[2].fence, rows[2].age_us, rows[2].left_us) == ("boot:7", 3, 20_000, 40_000)


def test_one_lock_is_looked_at_without_the_list() -> None:
    reply = wire.ClusterLockHolderReply(True, '{"node":"n","pid":7,"id":"x"}', 3, 40, 20, "boot:7")
    row, (calls,) = play(OURS.look(b"a/b"), [reply])
    assert row is not None
    assert (row.key, row.node, row.pid, row.lock_id, row.process) == (b"a/b", "n", 7, "x", "boot:7")
    assert (row.fence, row.age_us, row.left_us, row.lapsed) == (3, 20_000, 40_000, False)
    assert calls.requests == [wire.ClusterGetLockHolderRequest("a", "", "b")]
    assert play(OURS.look(b"a/b"), [wire.ClusterLockHolderReply()])[0] is None


def test_the_clock_is_that_of_the_server() -> None:
    assert play(OURS.now(), [wire.TimeReply(5)])[0] == 5
    assert play(OURS.verify(), [wire.TimeReply(5)])[0] is None


@pytest.mark.parametrize("parts", [("cluster", None, None), ("a", "b", "c"), ("a", "b", None), ("/", None, "x/y")])
def test_a_key_is_put_together_again_as_it_was(parts: tuple[str, str | None, str | None]) -> None:
    key = key_of(*parts)
    assert wire.name_of(*parts_of(key)) == key


@pytest.mark.parametrize("key", [b"plain", b"\xff/", b"/"])
def test_a_key_that_cannot_be_put_together_is_refused(key: bytes) -> None:
    with pytest.raises(BadKey):
        parts_of(key)


# --- Shaken Fist's own server ---


def test_there_a_lock_has_no_fence_and_its_lease_begins_with_a_refresh() -> None:
    asked, done = ask(), wire.StatusReply(True)
    got, (first, second) = play(THEIRS.acquire(asked), [wire.ClusterLockReply(True)], [done])
    assert got == Got(0)
    assert (first.name, second.name) == (wire.ACQUIRE, wire.REFRESH)
    (request,) = first.requests
    assert isinstance(request, wire.ClusterLockRequest)
    assert (request.lease_ms, request.process) == (0, "")
    assert play(THEIRS.acquire(asked), [wire.ClusterLockReply()])[0] == Taken({}, 0)
    assert play(THEIRS.acquire(asked), [wire.ClusterLockReply(True)], [wire.StatusReply()])[0] == Taken({}, 0)


def test_there_a_failure_that_is_dressed_as_an_answer_is_not_taken_for_a_loss() -> None:
    with pytest.raises(DatabaseUnavailable, match="pool timeout"):
        play(THEIRS.refresh([HOLD], LEASE_US), [wire.StatusReply(False, "pool timeout")])
    assert play(THEIRS.refresh([HOLD], LEASE_US), [wire.StatusReply(False)])[0] == [False]


def test_there_nobody_gives_back_twice() -> None:
    _, (calls,) = play(THEIRS.release([HOLD]), [wire.StatusReply(True)])
    assert not calls.again
    assert play(THEIRS.clear([HOLD]), [wire.StatusReply(True)])[0] == 1


def test_there_a_lease_is_a_minute_and_no_row_looks_lapsed() -> None:
    for steps in (THEIRS.acquire(ask(lease_us=LEASE_US + 1)), THEIRS.refresh([HOLD], LEASE_US + 1)):
        with pytest.raises(BadRequest, match="60 s"):
            play(steps)
    reply = wire.ClusterGetExistingLocksReply([wire.ClusterLockEntry("a/", "{}")])
    ((row,), _) = play(THEIRS.list(), [reply])
    assert (row.lapsed, row.fence) == (False, 0)
    assert play(THEIRS.verify(), [reply])[0] is None
    with pytest.raises(BadRequest, match="time"):
        play(THEIRS.now())
