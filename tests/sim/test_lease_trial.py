"""Lease trials: they are told by their seed alone, both faces take part, and the judge is not fooled by a late word."""

from dataclasses import replace

import pytest

from holdfast.testing.history import GaveUp, Granted, Lost
from holdfast.testing.world import World
from sim import lease_trial
from sim.lease_plan import SECOND, Fault, Plan, Want
from sim.lease_trial import FAULTS, Trial, run

WANT = Want(key="job", kind="lock", lease_ns=10 * SECOND, patience_ns=None, rounds=1, work_ns=100 * SECOND, rest_ns=0)
PLAN = Plan(
    seed=0,
    store="durable",
    wants=((WANT,), (replace(WANT, work_ns=SECOND),)),
    faces=("threads", "loop"),
    ppm=(0, 0),
    server_ppm=0,
    delay_ns=(0, 0),
    commit_ns=(0, 0),
    grace_ns=30 * SECOND,
    faults=(),
    run_ns=30 * SECOND,
)


def play(plan: Plan) -> lease_trial.Outcome:
    with World(plan.seed, store=plan.store) as world:
        return Trial(plan, world).run()


def fault(kind: str, seconds: float, who: int = 0) -> Fault:
    return Fault(kind, after_ns=5 * SECOND, span_ns=int(seconds * SECOND), who=who)


def test_a_trial_is_told_by_its_seed_alone() -> None:
    assert run(10).history == run(10).history != run(11).history


def test_where_nothing_goes_wrong_the_first_keeps_it_and_the_second_gets_it_afterwards() -> None:
    outcome = play(PLAN)
    assert outcome.findings == []
    granted = [record.claim for record in outcome.history if isinstance(record, Granted)]
    assert [str(claim).partition("/")[0] for claim in granted] == ["client-0", "client-1"]
    assert not any(isinstance(record, Lost) for record in outcome.history)


@pytest.mark.parametrize("face", ["threads", "loop"])
@pytest.mark.parametrize("kind", ["freeze", "partition", "partition up", "partition down", "server killed"])
def test_trouble_for_longer_than_the_lease_costs_it(kind: str, face: str) -> None:
    outcome = play(replace(PLAN, faces=(face, "loop"), faults=(fault(kind, 15),)))
    assert outcome.findings == []
    # Who can be told is told; who stood still finds out for itself.
    assert any(isinstance(record, Lost) for record in outcome.history) == (kind != "freeze")
    # The other one got it, or gave up on a server that was down for so long.
    refused = sum(count for what, count in outcome.counts.items() if what.startswith("refused: "))
    assert outcome.counts["grants"] + refused == 2


@pytest.mark.parametrize("kind", sorted(set(FAULTS) - {"client killed", "broken"}))
def test_brief_trouble_costs_nobody_anything(kind: str) -> None:
    outcome = play(replace(PLAN, faults=(fault(kind, 2),)))
    assert outcome.findings == []
    assert not any(isinstance(record, Lost) for record in outcome.history)


@pytest.mark.parametrize("face", ["threads", "loop"])
def test_who_hangs_without_a_sign_of_life_is_let_go(face: str) -> None:
    hung = replace(WANT, beat_ns=5 * SECOND, manner="beats")
    plan = replace(PLAN, wants=((hung,), PLAN.wants[1]), faces=(face, "loop"))
    assert not any(isinstance(record, Lost) for record in play(plan).history)
    outcome = play(replace(plan, faults=(fault("hang", 20),)))
    assert outcome.findings == []
    assert outcome.counts["grants"] == 2
    times = [record.at for record in outcome.history if isinstance(record, Granted)]
    assert times[1] - times[0] < 25 * SECOND


@pytest.mark.parametrize("face", ["threads", "loop"])
def test_a_dead_client_leaves_its_lock_to_the_next(face: str) -> None:
    outcome = play(replace(PLAN, faces=(face, "threads"), faults=(fault("client killed", 0),)))
    assert outcome.findings == []
    assert outcome.counts["grants"] == 2


def test_a_client_that_dies_while_it_waits_has_given_up() -> None:
    outcome = play(replace(PLAN, faults=(fault("client killed", 0, who=1),)))
    assert outcome.findings == []
    assert [type(record) for record in outcome.history if record.claim == "client-1/2"][-1] is GaveUp


def test_going_round_in_circles_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_trial, "STEPS_MAX", 1)
    outcome = play(PLAN)
    assert outcome.findings[0].checker == "everybody_ends"
    assert "at one instant" in outcome.report()
