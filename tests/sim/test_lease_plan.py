"""Plans of lease trials: a seed is a plan, all that can go wrong does, and clocks stay within the margin."""

from holdfast.client.lease import default_margin_ns
from sim.lease_plan import FACES, FAULTS, PPM_MAX, SECOND, draw

PLANS = [draw(seed) for seed in range(400)]


def test_a_seed_is_a_plan() -> None:
    assert draw(5) == draw(5) != draw(6)


def test_everything_goes_wrong_somewhere_and_in_some_plans_nothing_does() -> None:
    assert {fault.kind for plan in PLANS for fault in plan.faults} == set(FAULTS)
    assert {face for plan in PLANS for face in plan.faces} == set(FACES)
    assert {plan.store for plan in PLANS} == {"memory", "durable"}
    assert any(plan.is_calm for plan in PLANS)


def test_calm_plans_are_not_slow_either() -> None:
    assert all(not plan.is_slow for plan in PLANS if plan.is_calm)
    assert any(plan.is_slow for plan in PLANS)


def test_every_client_has_what_it_needs() -> None:
    for plan in PLANS:
        assert len(plan.wants) == len(plan.faces) == len(plan.ppm)
        assert all(0 <= fault.who < len(plan.wants) for fault in plan.faults)
        assert list(plan.faults) == sorted(plan.faults, key=lambda fault: fault.after_ns)


def test_two_clocks_drift_apart_by_no_more_than_the_margin() -> None:
    for lease_ns in {want.lease_ns for plan in PLANS for wants in plan.wants for want in wants}:
        assert lease_ns * 2 * PPM_MAX // 1_000_000 < default_margin_ns(lease_ns)
    assert all(abs(ppm) <= PPM_MAX for plan in PLANS for ppm in (*plan.ppm, plan.server_ppm))


def test_leases_are_lost_and_leases_survive() -> None:
    shares = [fault.span_ns / plan.wants[0][0].lease_ns for plan in PLANS for fault in plan.faults]
    assert min(shares) < 0.25
    assert max(shares) > 1.5
    assert max(want.lease_ns for plan in PLANS for wants in plan.wants for want in wants) == 60 * SECOND
