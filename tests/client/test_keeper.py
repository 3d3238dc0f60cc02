"""The keeper by hand: all stewards are looked after in time, it comes back at the earliest deadline, and not before."""

import logging

import pytest

from holdfast.client.asks import Ended
from holdfast.client.lease import Notice, State
from holdfast.client.link import FOREVER
from tests.client.keeping import Hands, PaperSteward


@pytest.fixture
def hands():
    return Hands()


def test_who_has_nothing_to_look_after_sleeps_for_ever(hands):
    PaperSteward(hands)
    assert hands.to(1) is None


def test_it_comes_back_for_the_earliest_of_all(hands):
    one, other = PaperSteward(hands), PaperSteward(hands)
    one.keep(hands.kept("slow", lease=300))
    other.keep(hands.kept("quick", lease=30))
    assert hands.to(0) == 10
    assert hands.keeper.due == other.due < one.due


def test_what_is_kept_while_it_sleeps_brings_the_alarm_forward(hands):
    steward = PaperSteward(hands)
    steward.keep(hands.kept("slow", lease=300))
    assert hands.to(1) == 100
    steward.keep(hands.kept("quick", lease=30))
    assert (hands.keeper.due - hands.now) / 1e9 == 10


def test_a_client_that_was_closed_is_let_go_of_once_all_is_ended(hands):
    steward = PaperSteward(hands)
    kept = hands.kept()
    steward.finish(kept.proof.want, kept.proof)
    hands.keeper.remove(steward)
    hands.to(1)
    assert not steward.hung_up
    steward.answer(Ended(was_there=True))
    hands.to(2)
    assert (hands.keeper.stewards, steward.hung_up) == ([], True)


def test_what_turns_up_later_is_ended_although_the_client_was_closed(hands):
    steward = PaperSteward(hands)
    hands.keeper.remove(steward)
    hands.to(1)
    assert hands.keeper.stewards == []
    kept = hands.kept()
    steward.finish(kept.proof.want, kept.proof)
    hands.to(1)
    assert hands.keeper.stewards == [steward]
    steward.answer(Ended(was_there=True))
    hands.to(2)
    assert hands.keeper.stewards == []


def test_holders_are_told_after_everything_and_not_in_the_middle(hands):
    steward = PaperSteward(hands)
    steward.keep(hands.kept())
    hands.sleep(20)
    hands.keeper.tick(hands.now)
    assert hands.heard == []
    notices = hands.keeper.take_notices()
    for notice in notices:
        notice()
    assert hands.heard == [Notice.DANGER]
    assert hands.keeper.take_notices() == []


def test_what_may_explain_a_loss_is_logged_outside_too(hands, caplog):
    with caplog.at_level(logging.WARNING, logger="holdfast.client"):
        hands.keeper.log("something went wrong")
        assert not caplog.records
        hands.to(0)
    assert caplog.messages == ["something went wrong"]


def test_when_nobody_can_drive_it_any_more_all_is_lost_and_everybody_hears_of_it(hands):
    steward = PaperSteward(hands)
    kept = [hands.kept("a"), hands.kept("b")]
    for one in kept:
        steward.keep(one)
    hands.keeper.fail()
    for notice in hands.keeper.take_notices():
        notice()
    assert [one.lease.state() for one in kept] == [State.LOST] * 2
    assert hands.heard == [Notice.LOST] * 2
    assert not steward.kept


def test_nothing_is_due_once_everything_was_given_back(hands):
    steward = PaperSteward(hands)
    kept = hands.kept()
    steward.keep(kept)
    kept.lease.release()
    steward.drop(kept)
    hands.to(100)
    assert hands.keeper.due == FOREVER
    assert (steward.calls, hands.heard) == ([], [])
