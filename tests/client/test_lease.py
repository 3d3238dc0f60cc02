"""A lease under a clock in the hand: until when it may be relied on, whatever is asked, answered late or never."""

import os

import pytest

from holdfast.client.lease import Lease, Notice, State, default_margin_ns
from holdfast.errors import BadRequest

SECOND = 1_000_000_000


class Hands:
    """A clock, and leases that begin now."""

    def __init__(self):
        self.now = 0

    def at(self, seconds):
        self.now = int(seconds * SECOND)

    def lease(self, *, lease=30, margin=1, **more):
        margin_ns = None if margin is None else int(margin * SECOND)
        return Lease(lambda: self.now, sent_at=self.now, lease_ns=int(lease * SECOND), margin_ns=margin_ns, **more)


@pytest.fixture
def hands():
    return Hands()


def test_it_is_held_then_in_danger_then_lost_by_nothing_but_the_clock(hands):
    lease = hands.lease()
    states = []
    for seconds in (0, 18.9, 19, 28.9, 29, 30):
        hands.at(seconds)
        states.append(lease.state())
    assert states == [State.HELD, State.HELD, State.DANGER, State.DANGER, State.LOST, State.LOST]
    assert lease.reason == "its lease ran out"


def test_what_remains_is_never_more_than_until_the_deadline(hands):
    lease = hands.lease()
    assert lease.remaining_ns == 29 * SECOND
    hands.at(28)
    assert lease.remaining_ns == SECOND
    hands.at(29)
    assert (lease.remaining_ns, lease.held) == (0, False)


def test_what_the_server_says_is_left_counts_if_it_is_less(hands):
    assert hands.lease(left_ns=10 * SECOND).deadline == 9 * SECOND
    assert hands.lease(left_ns=90 * SECOND).deadline == 29 * SECOND


def test_the_margin_grows_with_the_lease_and_leaves_most_of_a_short_one():
    assert default_margin_ns(30 * SECOND) == 620_000_000
    assert default_margin_ns(600 * SECOND) == 12_020_000_000
    assert default_margin_ns(4_000_000) == 1_000_000


def test_a_clock_that_runs_two_percent_slow_still_ends_first(hands):
    """So does each of two that differ by as much: what counts is the length of one lease by both."""
    lease = hands.lease(lease=600, margin=None)
    server_ends_at = 600 * SECOND * 98 // 100  # as the slow clock shows it
    assert lease.deadline < server_ends_at


def test_a_margin_that_leaves_nothing_is_refused(hands):
    with pytest.raises(BadRequest, match="leaves nothing"):
        hands.lease(lease=1, margin=1)


def test_a_renewal_counts_from_when_it_was_sent_and_not_from_when_it_was_answered(hands):
    lease = hands.lease()
    hands.at(15)
    assert lease.confirm(sent_at=10 * SECOND)
    assert lease.deadline == 39 * SECOND


def test_answers_that_overtake_each_other_do_not_shorten_it(hands):
    lease = hands.lease()
    hands.at(20)
    assert lease.confirm(sent_at=15 * SECOND)
    assert lease.confirm(sent_at=10 * SECOND)
    assert (lease.deadline, lease.renew_at) == (44 * SECOND, 25 * SECOND)


def test_an_answer_that_comes_too_late_does_not_make_it_live_again(hands):
    lease = hands.lease()
    hands.at(29)
    assert not lease.confirm(sent_at=28 * SECOND)
    assert lease.state() is State.LOST
    hands.at(28)  # nor does a clock that steps back, once somebody has seen it
    assert lease.state() is State.LOST


def test_an_answer_is_too_late_that_another_thread_could_have_been_told_before(hands):
    """The clock goes on while an answer is taken in: whoever saw the lease end meanwhile is right."""
    ticks = iter([28 * SECOND, 29 * SECOND])

    def clock():
        now = next(ticks, 29 * SECOND)
        if now == 29 * SECOND:
            lease.lose("seen by another thread")
        return now

    lease = hands.lease()
    lease._clock = clock
    assert not lease.confirm(sent_at=20 * SECOND)
    assert not lease.held


def test_a_lease_that_is_asked_for_shorter_ends_earlier_whether_or_not_an_answer_comes(hands):
    lease = hands.lease(lease=60)
    hands.at(20)
    lease.asks(sent_at=hands.now, lease_ns=5 * SECOND)
    assert lease.deadline == 24 * SECOND
    hands.at(24)
    assert not lease.held


def test_a_lease_that_is_asked_for_longer_is_not_longer_before_the_answer(hands):
    lease = hands.lease()
    hands.at(10)
    lease.asks(sent_at=hands.now, lease_ns=90 * SECOND)
    assert lease.deadline == 29 * SECOND
    assert lease.confirm(sent_at=hands.now, lease_ns=90 * SECOND)
    assert lease.deadline == 99 * SECOND


def test_a_shorter_lease_that_is_confirmed_ends_earlier(hands):
    lease = hands.lease(lease=60)
    hands.at(10)
    assert lease.confirm(sent_at=10 * SECOND, lease_ns=20 * SECOND)
    assert (lease.deadline, lease.lease_ns) == (29 * SECOND, 20 * SECOND)


def test_an_old_answer_about_a_shorter_lease_may_only_take_something_away(hands):
    lease = hands.lease(lease=60)
    hands.at(20)
    assert lease.confirm(sent_at=20 * SECOND)
    assert lease.confirm(sent_at=10 * SECOND, lease_ns=20 * SECOND)
    assert lease.deadline == 29 * SECOND


def test_the_margin_follows_a_lease_that_gets_another_length(hands):
    lease = hands.lease(lease=1, margin=None)
    assert lease.confirm(sent_at=0, lease_ns=600 * SECOND)
    assert lease.deadline == 600 * SECOND - default_margin_ns(600 * SECOND)
    assert lease.confirm(sent_at=0, lease_ns=10 * SECOND)
    assert lease.deadline == 10 * SECOND - default_margin_ns(10 * SECOND)


def test_what_was_released_is_neither_held_nor_lost(hands):
    lease = hands.lease()
    assert lease.release()
    assert not lease.release()
    hands.at(100)
    assert (lease.state(), lease.notices(), lease.next_notice_at()) == (State.RELEASED, (), None)
    assert not lease.confirm(sent_at=hands.now)


def test_what_was_lost_cannot_be_released_any_more(hands):
    lease = hands.lease()
    lease.lose("the server ended it")
    assert not lease.release()
    assert (lease.state(), lease.reason) == (State.LOST, "the server ended it")
    lease.lose("and something else")
    assert lease.reason == "the server ended it"


def test_danger_and_loss_are_told_once_each_at_their_instants(hands):
    lease = hands.lease()
    assert lease.next_notice_at() == 19 * SECOND
    hands.at(19)
    assert (lease.notices(), lease.notices()) == ((Notice.DANGER,), ())
    assert lease.next_notice_at() == 29 * SECOND
    hands.at(29)
    assert (lease.notices(), lease.notices()) == ((Notice.LOST,), ())
    assert lease.next_notice_at() is None


def test_danger_that_passes_and_comes_back_is_told_again(hands):
    lease = hands.lease()
    hands.at(20)
    assert lease.notices() == (Notice.DANGER,)
    assert lease.confirm(sent_at=20 * SECOND)
    assert lease.next_notice_at() == 39 * SECOND
    hands.at(39)
    assert lease.notices() == (Notice.DANGER,)


def test_an_answer_that_leaves_it_in_danger_is_no_reason_to_tell_of_it_again(hands):
    lease = hands.lease()
    hands.at(25)
    assert lease.notices() == (Notice.DANGER,)
    assert lease.confirm(sent_at=5 * SECOND)
    assert (lease.state(), lease.notices()) == (State.DANGER, ())


def test_a_process_that_stood_still_past_the_end_hears_of_the_loss_and_of_no_danger(hands):
    lease = hands.lease()
    hands.at(1000)
    assert not lease.held
    assert lease.next_notice_at() == 0
    assert lease.notices() == (Notice.LOST,)


def test_work_without_a_sign_of_life_deserves_no_renewal(hands):
    lease = hands.lease(beat_ns=5 * SECOND)
    assert lease.beats(5 * SECOND)
    assert not lease.beats(5 * SECOND + 1)
    hands.at(6)
    lease.beat()
    assert lease.beats(11 * SECOND)
    assert hands.lease().beats(1000 * SECOND)  # it was not asked for any


def test_a_child_of_a_fork_does_not_hold_what_its_parent_holds(hands):
    lease = hands.lease()
    child = os.fork()
    if child == 0:
        as_it_should_be = not lease.held and lease.foreign and "forked" in lease.reason
        os._exit(0 if as_it_should_be else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert lease.held
    assert not lease.foreign
