"""Calls that are made together: which of them again, how soon, for how long, and what each status comes to.

Time is moved by hand.
"""

import random

import pytest

from holdfast.errors import BadPeer, BadRequest, Forbidden, HoldfastError
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.grpc_calls import Calls
from holdfast.leases.grpc_rounds import PAUSE_S_MOST, TRANSIENT, WINDOW, Round
from holdfast.wire import grpc_leases as wire
from holdfast.wire.protobuf import encode


class Clock:
    """Seconds, moved by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def going(count: int = 1, *, again: bool = True, within_s: float = 8.0) -> tuple[Round, Clock]:
    clock = Clock()
    requests = [wire.ClusterRefreshLockRequest("t", lock_id=str(number)) for number in range(count)]
    return Round(Calls(wire.REFRESH, requests, within_s, again), "grpc://h:1", clock), clock


def answer(fence: int) -> bytes:
    return encode(wire.StatusReply(True, fence=fence))


def test_all_is_answered_in_the_order_of_the_questions() -> None:
    round_, _ = going(WINDOW + 1)
    first = round_.next()
    assert len(first) == WINDOW
    for at, _ in reversed(first):
        round_.took(at, answer(at))
    assert round_.pause_s() == 0
    ((last, _),) = round_.next()
    round_.took(last, answer(last))
    assert round_.next() == []
    assert [reply.fence for reply in round_.replies()] == list(range(WINDOW + 1))


def test_only_what_failed_is_asked_again() -> None:
    round_, _ = going(3)
    round_.took(0, answer(0))
    round_.failed("UNAVAILABLE", "gone")
    round_.took(2, answer(2))
    assert 0 < round_.pause_s() <= 0.05
    assert [at for at, _ in round_.next()] == [1]
    round_.took(1, answer(1))
    assert round_.pause_s() == 0


@pytest.mark.parametrize("status", sorted(TRANSIENT))
def test_pauses_grow_and_end_with_the_time(status: str) -> None:
    random.seed(1)
    round_, clock = going()
    pauses: list[float] = []

    def go_on() -> None:
        while True:
            round_.failed(status, "gone")
            pauses.append(round_.pause_s())
            clock.now += pauses[-1]

    with pytest.raises(DatabaseUnavailable, match=rf"grpc://h:1: gone \({status}\)"):
        go_on()
    assert 7 <= sum(pauses) < 8
    assert max(pauses) <= PAUSE_S_MOST
    assert pauses[0] <= 0.05


def test_that_time_was_up_does_not_hide_what_went_wrong_before() -> None:
    round_, clock = going()
    round_.failed("UNAVAILABLE", "refused")
    clock.now += round_.pause_s()
    round_.failed("DEADLINE_EXCEEDED", "late")
    clock.now += 8
    with pytest.raises(DatabaseUnavailable, match="refused"):
        round_.pause_s()


def test_a_try_leaves_time_for_another_one_unless_there_is_none() -> None:
    round_, clock = going()
    assert round_.try_s() == 4
    clock.now += 6
    assert round_.try_s() == 1
    clock.now += 5
    assert round_.try_s() > 0
    assert going(again=False)[0].try_s() == 8


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("UNAUTHENTICATED", Forbidden),
        ("PERMISSION_DENIED", Forbidden),
        ("INVALID_ARGUMENT", BadRequest),
        ("UNIMPLEMENTED", BadPeer),
        ("INTERNAL", DatabaseUnavailable),
        ("UNKNOWN", DatabaseUnavailable),
        ("NOT_FOUND", DatabaseUnavailable),
    ],
)
def test_what_would_fail_again_is_told_at_once(status: str, error: type[HoldfastError]) -> None:
    round_, _ = going()
    with pytest.raises(error, match="grpc://h:1"):
        round_.failed(status, "")


def test_what_must_not_be_asked_twice_is_not() -> None:
    round_, _ = going(again=False)
    with pytest.raises(DatabaseUnavailable, match="UNAVAILABLE"):
        round_.failed("UNAVAILABLE", "gone")


def test_an_answer_that_cannot_be_read_is_no_answer() -> None:
    round_, _ = going()
    with pytest.raises(BadPeer, match="cannot be read"):
        round_.took(0, b"\xff")
