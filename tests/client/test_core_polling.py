"""Where a server has nobody wait for long, an operation asks again in good time, and finds what was granted unheard."""

import pytest

from holdfast.client.asks import (
    Acquire,
    Query,
    Refusal,
    Seen,
)
from holdfast.client.core import proof_of
from holdfast.errors import (
    Busy,
    StoreBusy,
    TimedOut,
    Unknown,
)
from tests.client.operations import SECOND, SLICE, WANT, busy, http_grant, over_http


def test_one_request_waits_no_longer_than_a_slice_and_is_followed_by_the_next():
    carrier = over_http(patience=70)
    assert carrier.ask(at=0) == Acquire(WANT, SLICE)
    assert carrier.operation.patience_ns() == SLICE
    assert not carrier.hear(busy(advice=1), at=50)  # it had us wait as long as it was asked to
    assert carrier.ask(at=50) == Acquire(WANT, 20 * SECOND)
    with pytest.raises(TimedOut):
        carrier.hear(busy(), at=70)


def test_for_ever_is_asked_for_in_slices():
    carrier = over_http()
    assert carrier.ask() == Acquire(WANT, SLICE)


def test_a_server_that_refuses_at_once_is_polled_as_it_advises():
    carrier = over_http()
    carrier.ask(at=0)
    assert not carrier.hear(busy(advice=3), at=0)
    assert carrier.pause(at=2.9) == 3
    carrier.ask(at=3)
    assert not carrier.hear(busy(), at=3)
    assert carrier.pause(at=3) == 4.5  # without advice, a little longer each time


def test_the_last_poll_is_at_the_end_of_the_patience_and_not_behind_it():
    carrier = over_http(patience=2)
    carrier.ask(at=0)
    carrier.hear(busy(advice=1.5), at=0.25)
    carrier.ask(at=1.75)
    carrier.hear(busy(advice=4), at=1.75)
    assert carrier.pause(at=1.9) == 2
    assert carrier.ask(at=2) == Acquire(WANT, 0)
    with pytest.raises(TimedOut):
        carrier.hear(busy(), at=2)


def test_who_polls_for_hours_never_uses_up_its_tries():
    carrier = over_http()
    now = 0.0
    for _ in range(2000):
        carrier.ask(at=now)
        assert not carrier.hear(busy(advice=4), at=now)
        now = carrier.pause(at=now)
    assert now == 8000


def test_trouble_that_comes_and_goes_while_it_polls_does_not_add_up():
    carrier = over_http()
    now = 0.0
    for _ in range(20):
        carrier.ask(at=now)
        carrier.hear(Refusal(StoreBusy("busy")), at=now)
        now = carrier.pause(at=now)
        carrier.ask(at=now)
        carrier.hear(busy(advice=4), at=now)
        now = carrier.pause(at=now)
    assert now == 100


def test_a_lease_that_turns_out_to_be_ours_is_looked_up_and_taken():
    carrier = over_http()
    carrier.ask(at=0)
    carrier.miss(Unknown("it broke"), at=1)
    carrier.ask(at=2)
    assert not carrier.hear(Refusal(Busy("me/1 holds it"), ours=True), at=2)
    assert carrier.ask(at=2) == Query("recover", {"want": WANT})
    assert carrier.operation.patience_ns() == 0
    assert carrier.hear(http_grant(), at=2)
    assert carrier.operation.sent_at == 0
    assert proof_of(WANT, http_grant()).lease_id == "one-lease"


def test_a_look_at_a_lease_that_fails_is_followed_by_the_request_again():
    carrier = over_http()
    carrier.ask(at=0)
    carrier.hear(Refusal(Busy("me/1 holds it"), ours=True))
    carrier.ask(at=0)
    assert not carrier.hear(Refusal(StoreBusy("busy")))
    assert carrier.ask(at=1) == Acquire(WANT, SLICE)


def test_a_server_that_does_not_show_what_is_ours_is_not_asked_in_a_tight_loop():
    carrier = over_http(patience=10)
    now = 0.0
    for _ in range(3):
        carrier.ask(at=now)
        carrier.hear(Refusal(Busy("me/1 holds it"), ours=True), at=now)
        assert isinstance(carrier.ask(at=now), Query)
        assert not carrier.hear(Seen({"held": True}), at=now)
        now = carrier.pause(at=now)
    assert now == 4.75
    carrier.ask(at=10)
    carrier.hear(Refusal(Busy("me/1 holds it"), ours=True), at=10)
    carrier.ask(at=10)
    with pytest.raises(TimedOut):
        carrier.hear(Seen({}), at=10)
