"""The heartbeat of a lease by a clock that is turned by hand: when it renews, and when it says that the lease is lost.

The worker that does so for real is tested in tests/aio.
"""

import pytest

from holdfast.client.lease import Lease as Term
from holdfast.client.lock_api import NotAcquired, Renewal
from holdfast.client.lock_beat import ERRORS_MAX, Beat, Next
from holdfast.client.retry import SECOND
from holdfast.errors import Closed, LeaseLost, Unknown

RENEWED = Renewal(lease_expiry_ms=1)


class Hands:
    """A clock, and a heartbeat of a lease of 30 seconds that was taken at 0."""

    def __init__(self):
        self.now = 0
        self.term = Term(lambda: self.now, sent_at=0, lease_ns=30 * SECOND, margin_ns=SECOND)
        self.beat = Beat(self.term, 0, interval_ns=10 * SECOND, extend_ns=30 * SECOND, chance=lambda: 0.5)

    def at(self, seconds):
        self.now = int(seconds * SECOND)
        return self.now

    def next(self):
        step, instant = self.beat.next(self.now)
        return step, instant / SECOND


@pytest.fixture
def hands():
    return Hands()


def test_the_first_renewal_comes_an_interval_after_the_start(hands):
    assert hands.next() == (Next.WAIT, 10)
    hands.at(10)
    assert hands.next() == (Next.RENEW, 10)


def test_a_renewal_counts_from_before_it_was_sent(hands):
    hands.at(12)
    hands.beat.answered(RENEWED, 10 * SECOND, hands.now)
    assert hands.term.deadline == 39 * SECOND
    assert hands.next() == (Next.WAIT, 20)


def test_a_renewal_that_took_longer_than_an_interval_is_followed_by_the_next_at_once(hands):
    hands.at(25)
    hands.beat.answered(RENEWED, 10 * SECOND, hands.now)
    assert hands.next() == (Next.RENEW, 25)


def test_a_failure_is_noted_and_tried_again_soon_and_then_less_soon(hands):
    hands.at(10)
    delays = []
    for _ in range(12):
        trouble = Unknown("no answer")
        hands.beat.failed(trouble, hands.now)
        assert hands.beat.error is trouble
        step, instant = hands.next()
        assert step is Next.WAIT
        delays.append(instant - hands.now / SECOND)
    assert delays[0] == pytest.approx(0.025)
    assert delays == sorted(delays)
    assert max(delays) < 5
    hands.beat.answered(RENEWED, hands.now, hands.now)
    assert hands.beat.error is None


def test_a_client_that_was_closed_is_not_asked_again(hands):
    hands.beat.failed(Closed("the client is closed"), hands.at(10))
    assert hands.next() == (Next.WAIT, 29)
    hands.at(29)
    assert hands.next()[0] is Next.END


def test_a_busy_store_is_a_failure_like_any_other(hands):
    hands.beat.answered(Renewal(reason="BUSY_RETRY"), 0, hands.at(10))
    assert isinstance(hands.beat.error, NotAcquired)
    assert not hands.beat.lost


def test_the_server_says_that_it_is_over(hands):
    hands.beat.answered(Renewal(reason="NOT_OWNER_OR_EXPIRED"), 0, hands.at(10))
    assert hands.beat.lost
    assert hands.next()[0] is Next.END
    assert str(hands.beat.loss()) == "the server says NOT_OWNER_OR_EXPIRED"


def test_the_deadline_passes_while_nobody_can_be_asked(hands):
    hands.beat.failed(Unknown("no answer"), hands.at(28.99))
    assert hands.next() == (Next.WAIT, pytest.approx(29, abs=0.1))
    assert not hands.beat.lost
    hands.at(29)
    assert hands.beat.lost
    assert hands.next()[0] is Next.END
    loss = hands.beat.loss()
    assert str(loss) == "its lease ran out; before that: no answer"
    assert (hands.beat.error, hands.beat.loss()) == (loss, loss)
    assert [type(error) for error in hands.beat.errors] == [Unknown, LeaseLost]


def test_a_wait_never_goes_beyond_the_deadline(hands):
    hands.beat = Beat(hands.term, hands.at(20), interval_ns=20 * SECOND, extend_ns=30 * SECOND, chance=lambda: 0.5)
    assert hands.next() == (Next.WAIT, 29)


def test_a_heartbeat_that_asks_for_less_than_is_left_ends_the_lease_earlier_even_if_no_answer_comes(hands):
    hands.beat = Beat(hands.term, hands.at(10), interval_ns=SECOND, extend_ns=5 * SECOND, chance=lambda: 0.5)
    hands.beat.asks(hands.now)
    hands.beat.failed(Unknown("no answer"), hands.now)
    hands.at(13.9)
    assert not hands.beat.lost
    hands.at(14)
    assert hands.beat.lost


def test_a_late_answer_does_not_bring_a_lost_lease_back(hands):
    hands.at(29)
    assert hands.beat.lost
    hands.beat.answered(RENEWED, 10 * SECOND, hands.now)
    assert hands.beat.lost


def test_a_lease_that_was_released_needs_no_heartbeat_and_is_not_lost(hands):
    hands.term.release()
    assert hands.next()[0] is Next.END
    hands.at(100)
    assert not hands.beat.lost


def test_a_heartbeat_that_was_stopped_does_nothing_more(hands):
    hands.beat.stopped = True
    hands.at(10)
    assert hands.next()[0] is Next.END


def test_only_the_latest_errors_are_kept(hands):
    for number in range(ERRORS_MAX + 5):
        hands.beat.failed(Unknown(str(number)), 0)
    assert hands.beat.errors[0].detail == "5"
    assert len(hands.beat.errors) == ERRORS_MAX
