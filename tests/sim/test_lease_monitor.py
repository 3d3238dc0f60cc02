"""The monitor of lease trials finds what is believed too long, told too late, or lost for nothing; and no more."""

from typing import Any

import pytest

from holdfast.testing.history import Asked
from holdfast.testing.world import World
from sim.lease_monitor import Monitor, Tracked
from sim.lease_plan import SECOND

LEASE_S = 10


class Scene:
    """One holder under watch."""

    def __init__(self, world: World, **wishes: Any) -> None:
        self.world = world
        self.monitor = Monitor(world)
        self.client = world.connect("worker")
        self.deaf = False
        lock = self.client.lock("job", LEASE_S, on_danger=self._danger, on_lost=self._lost, **wishes)
        self.monitor.add(Asked, "claim", key="job")
        self.held = lock.acquire()
        beat_ns = None if "beat_timeout" not in wishes else wishes["beat_timeout"] * SECOND
        self.tracked: Tracked = self.monitor.track(
            "claim", self.held, world.program("worker"), LEASE_S * SECOND, beat_ns=beat_ns
        )

    def _danger(self, _held: object) -> None:
        if not self.deaf:
            self.monitor.danger(self.tracked)

    def _lost(self, _held: object) -> None:
        if not self.deaf:
            self.monitor.lost(self.tracked)

    def found(self) -> set[str]:
        return {finding.checker for finding in self.monitor.close()}

    def partition(self, seconds: float) -> None:
        self.monitor.trouble(round(seconds * SECOND))
        self.world.net.partition()
        self.world.clock.step(seconds)
        self.world.net.heal()


@pytest.fixture
def world() -> Any:
    with World() as world:
        yield world


def test_a_lease_that_is_renewed_and_given_back_is_no_finding(world: World) -> None:
    scene = Scene(world)
    world.clock.step(60)
    scene.monitor.released(scene.tracked)
    scene.held.release()
    assert scene.found() == set()


def test_a_lease_that_is_lost_as_it_should_be_is_no_finding(world: World) -> None:
    scene = Scene(world)
    scene.partition(30)
    assert scene.tracked.danger_at < scene.tracked.lost_at < scene.tracked.grantable_at
    assert scene.found() == set()


def test_who_believes_when_the_server_could_grant_is_found(world: World) -> None:
    scene = Scene(world, margin=0)
    world.clock.drift("worker", -5)
    scene.partition(30)
    assert "held_in_time" in scene.found()


def test_who_is_not_told_is_found(world: World) -> None:
    scene = Scene(world)
    scene.deaf = True
    scene.partition(30)
    assert "notices" in scene.found()


def test_who_stands_still_cannot_be_told_and_must_not_believe(world: World) -> None:
    scene = Scene(world)
    scene.monitor.trouble(30 * SECOND)
    world.freeze("worker")
    world.clock.step(30)
    world.thaw("worker")
    world.clock.step(1)
    assert scene.tracked.lost_at >= scene.tracked.grantable_at
    assert scene.found() == set()


def test_a_loss_without_a_cause_is_found(world: World) -> None:
    scene = Scene(world)
    world.clock.step(2)
    world.lock("job").expire()
    world.clock.step(20)
    assert "lost_for_a_reason" in scene.found()


def test_what_is_broken_is_lost_for_that_reason_also_if_its_holder_has_not_heard_of_the_grant(world: World) -> None:
    scene = Scene(world)
    world.clock.step(2)
    (holding,) = world.lock("job").holders
    scene.monitor.broken(holding.claim.token)
    world.lock("job").lose()
    scene.monitor.add(Asked, "again", key="job")
    again = scene.monitor.track("again", scene.held, world.program("worker"), LEASE_S * SECOND)
    assert scene.tracked.broken
    assert again.broken
    assert scene.found() == set()


def test_a_lock_that_is_kept_for_who_gives_no_sign_of_life_is_found(world: World) -> None:
    scene = Scene(world, beat_timeout=5)
    for _ in range(10):
        world.clock.step(3)
        scene.held.beat()  # of which the monitor is not told
    assert "let_go" in scene.found()


def test_a_sign_of_life_counts_for_as_long_as_it_takes(world: World) -> None:
    scene = Scene(world, beat_timeout=5)
    for _ in range(10):
        with scene.monitor.beating(scene.tracked):
            world.clock.step(3)
            scene.held.beat()
    scene.monitor.released(scene.tracked)
    scene.held.release()
    assert scene.found() == set()


def test_what_is_told_twice_is_found(world: World) -> None:
    scene = Scene(world)
    scene.partition(30)
    scene.monitor.lost(scene.tracked)
    assert "notices" in scene.found()
