"""What is asked and what comes of it, without either face; and how those who wait come back."""

import pytest

from holdfast.errors import BadRequest
from holdfast.leases.claim import ID_LENGTH, Patience, new_id, too_late, wish_for
from holdfast.leases.cluster_lock import ClusterLock
from holdfast.leases.errors import AlreadyHeld, DatabaseUnavailable
from holdfast.leases.words import Taken
from tests.leases.paper import Machine, PaperBackend


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def table(machine):
    return PaperBackend(machine.clock)


def claim_of(machine, table):
    return ClusterLock("cluster", backend=table, world=machine.world)._claim


def test_ids_are_never_the_same():
    made = {new_id() for _ in range(1000)}
    assert len(made) == 1000
    assert {len(one) for one in made} == {ID_LENGTH}


@pytest.mark.parametrize("options", [{"lease": 0}, {"lease": 86_401}, {"beat_timeout": 0}, {"beat_timeout": -1}])
def test_what_cannot_be_wished_for_is_refused(options):
    with pytest.raises(BadRequest):
        wish_for("a", None, None, place="p", op=None, line="", **{"lease": 60, "beat_timeout": None} | options)


def test_an_id_is_kept_after_a_lost_answer_and_not_after_any_other(machine, table):
    claim = claim_of(machine, table)
    claim.begin(table)
    first = claim.ask().lock_id
    claim.unanswered()
    assert claim.ask().lock_id == first
    assert claim.is_doubtful
    claim.give_up()
    assert claim.ask().lock_id != first
    claim.was_taken(Taken({}, 1))
    second = claim.lock_id
    assert claim.ask().lock_id != second


def test_an_id_that_is_given_back_by_and_by_is_never_asked_with_again(machine, table):
    claim = claim_of(machine, table)
    claim.begin(table)
    claim.ask()
    claim.give_up()
    left = {hold.lock_id for hold in machine.host.keeper.find(table, 60_000_000_000).take_all()}
    claim.unanswered()  # a late word about the same try changes nothing
    assert claim.ask().lock_id not in left


def test_while_it_asks_nobody_else_of_the_process_may(machine, table):
    first, second = claim_of(machine, table), claim_of(machine, table)
    first.begin(table)
    with pytest.raises(AlreadyHeld):
        second.begin(table)
    first.finish()
    second.begin(table)


def pauses(machine, timeout, taken=None):
    patience, found = Patience(machine.world, timeout), []
    while (pause := patience.pause_s(taken)) is not None:
        found.append(pause)
        machine.clock.advance(pause)
    return found


def test_patience_ends_when_it_was_said_and_not_a_moment_later(machine):
    began = machine.clock()
    assert len(pauses(machine, 10)) > 10
    assert (machine.clock() - began) / 1e9 == pytest.approx(10)
    assert pauses(machine, 0) == []


def test_a_lease_that_is_about_to_end_is_waited_for(machine):
    assert max(pauses(machine, 5, Taken({}, 200_000))) == pytest.approx(0.21)


def test_what_is_said_at_the_end_names_what_is_known(machine, table):
    claim = claim_of(machine, table)
    assert "somebody else" in str(too_late(claim, 5, None))
    claim.taken = Taken({"node": "sf-7", "pid": 26407, "operation": "Cluster maintenance"}, 1)
    assert "node sf-7, pid 26407, operation Cluster maintenance has it" in str(too_late(claim, 5, None))
    claim.taken = Taken({"who": "me"}, 1)
    assert "{'who': 'me'}" in str(too_late(claim, 5, None))
    assert "the network is down" in str(too_late(claim, 5, DatabaseUnavailable("the network is down")))
