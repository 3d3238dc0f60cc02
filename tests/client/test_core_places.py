"""A group is had as a whole or not at all, and a place in the queue is not given away."""

from dataclasses import replace

import pytest

from holdfast.client.asks import (
    Acquire,
    Enqueue,
    GrantedAll,
    Member,
    Queued,
    Refusal,
    Renewed,
    Wait,
)
from holdfast.client.core import Enqueueing, Waiting, proof_of
from holdfast.errors import (
    LeaseLost,
    NotHeld,
    Unknown,
)
from tests.client.operations import (
    SECOND,
    TICKET,
    WANT,
    Carrier,
    acquiring,
    grant,
    rules,
)

MEMBERS = (Member("from"), Member("to", "PR"), Member("seats", "CW", 5))
GROUP = replace(WANT, key="from + to + seats", members=MEMBERS)


def group_grants():
    kinds = {True: "lock", False: "semaphore"}
    return [
        grant(ticket=f"{TICKET}#{at}", key=member.key, mode=member.mode, kind=kinds[member.limit is None], fence=7 + at)
        for at, member in enumerate(MEMBERS)
    ]


# --- groups ---


def test_a_group_is_granted_as_a_whole_and_its_shortest_lease_counts():
    carrier = acquiring(want=GROUP)
    assert carrier.ask(at=0) == Acquire(GROUP, None)
    grants = group_grants()
    grants[1] = replace(grants[1], left_ns=25 * SECOND)
    assert carrier.hear(GrantedAll(grants), at=1)
    assert carrier.operation.grants == grants
    assert carrier.operation.left_ns == 25 * SECOND


def test_every_member_of_a_group_has_a_proof_of_its_own():
    first, _, seats = group_grants()
    proof = proof_of(GROUP, first)
    assert (proof.want.key, proof.want.ticket, proof.want.members) == ("from", f"{TICKET}#0", ())
    assert (proof.want.kind, proof_of(GROUP, seats).want.kind) == ("lock", "semaphore")
    assert proof.want.lease_ns == GROUP.lease_ns


def test_a_group_that_is_granted_late_is_renewed_in_one_request():
    carrier = acquiring(want=GROUP)
    carrier.ask()
    assert not carrier.hear(GrantedAll(group_grants()), at=15)
    renewal = carrier.ask(at=15)
    assert [proof.want.key for proof, _ in renewal.proofs] == ["from", "to", "seats"]
    assert carrier.hear(Renewed([True, True, True]), at=15)


def test_a_group_of_which_a_part_is_lost_is_lost_and_the_rest_is_ended():
    carrier = acquiring(want=GROUP)
    carrier.ask()
    carrier.hear(GrantedAll(group_grants()), at=15)
    carrier.ask(at=15)
    with pytest.raises(LeaseLost):
        carrier.hear(Renewed([True, False, True]), at=15)
    assert carrier.operation.leftover() == (GROUP, None)  # by the ticket of the group


def test_a_group_of_which_nothing_is_left_leaves_nothing_to_be_ended():
    carrier = acquiring(want=GROUP)
    carrier.ask()
    carrier.hear(GrantedAll(group_grants()), at=15)
    carrier.ask(at=15)
    with pytest.raises(LeaseLost):
        carrier.hear(Renewed([False, False, False]), at=15)
    assert carrier.operation.leftover() is None


# --- places in the queue ---


def test_a_place_in_the_queue_is_an_answer():
    carrier = Carrier(Enqueueing(rules(), WANT))
    assert carrier.ask() == Enqueue(WANT)
    assert carrier.operation.patience_ns() == 0
    assert carrier.hear(Queued())
    assert carrier.operation.queued
    assert carrier.operation.grants == []


def test_whoever_enqueues_for_what_nobody_has_holds_it():
    carrier = Carrier(Enqueueing(rules(), WANT))
    carrier.ask()
    assert carrier.hear(grant())
    assert not carrier.operation.queued


def test_a_place_whose_answer_was_lost_is_asked_for_again_under_the_same_ticket():
    carrier = Carrier(Enqueueing(rules(), WANT))
    carrier.ask()
    carrier.miss(Unknown("it broke"))
    assert carrier.operation.leftover() == (WANT, None)
    assert carrier.ask(at=1) == Enqueue(WANT)


def test_waiting_shows_the_ticket_and_counts_the_patience_from_its_own_beginning():
    carrier = Carrier(Waiting(rules(), WANT, 5 * SECOND))
    assert carrier.ask(at=60) == Wait(WANT, 5 * SECOND)
    carrier.miss(Unknown("it broke"), at=61)
    assert carrier.ask(at=62) == Wait(WANT, 3 * SECOND)
    assert carrier.hear(grant(), at=62)


def test_a_place_is_there_before_anybody_waits_for_it_and_is_given_up_if_nobody_does():
    waiting = Waiting(rules(), WANT, None)
    assert waiting.leftover() == (WANT, None)


def test_a_place_that_is_gone_is_not_held():
    carrier = Carrier(Waiting(rules(), WANT, None))
    carrier.ask()
    with pytest.raises(NotHeld):
        carrier.hear(Refusal(NotHeld("there is no such place")))
