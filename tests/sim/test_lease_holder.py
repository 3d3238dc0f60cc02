"""The clients of lease trials: one text for both faces, notices before the grant, and work that is never suspended."""

import asyncio
import random

import pytest

from holdfast.testing.program import Killed
from holdfast.testing.world import World
from sim.lease_holder import SEATS, Grip, Holder, Scene, drive, lock_for, settle
from sim.lease_monitor import Monitor, Tracked
from sim.lease_plan import SECOND, Want


class Hearing(Monitor):
    """Notes what it is told."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.heard: list[tuple[str, object]] = []

    def danger(self, tracked: Tracked) -> None:
        self.heard.append(("danger", tracked))

    def lost(self, tracked: Tracked) -> None:
        self.heard.append(("lost", tracked))


def want(kind: str = "lock", manner: str = "", work_s: int = 10) -> Want:
    return Want(
        key="job",
        kind=kind,
        lease_ns=10 * SECOND,
        patience_ns=SECOND,
        rounds=1,
        work_ns=work_s * SECOND,
        rest_ns=0,
        manner=manner,
    )


def test_a_notice_that_comes_before_the_grant_is_kept_until_there_is_one() -> None:
    with World() as world:
        monitor = Hearing(world)
        grip = Grip(monitor)
        tracked = object()
        grip.danger(None)
        assert monitor.heard == []
        grip.take(tracked)  # type: ignore[arg-type]
        grip.lost(None)
        assert monitor.heard == [("danger", tracked), ("lost", tracked)]


@pytest.mark.parametrize("kind", ["lock", "read", "write", "semaphore"])
def test_each_kind_is_asked_for_as_a_caller_does(kind: str) -> None:
    with World() as world:
        client = world.connect("worker")
        lock = lock_for(client, want(kind), Grip(Monitor(world)))
        held = lock.acquire()
        assert held.mode == {"read": "PR", "semaphore": "CW"}.get(kind, "EX")
        if kind == "semaphore":
            assert world.semaphore("job").holders[0].limit == SEATS


@pytest.mark.parametrize("manner", ["", "renews", "beats", "looks", "converts"])
def test_a_round_in_threads_leaves_nothing_behind(manner: str) -> None:
    with World() as world:
        scene = Scene(Monitor(world), random.Random(1))
        holder = Holder(scene, world.program("worker"), "threads")
        drive(holder.work(world.connect("worker"), want("write", manner)))
        assert scene.counts == {"grants": 1}
        assert not world.lock("job").held
        assert scene.monitor.close() == []
        assert world.clock.now == 10.0


def test_a_round_in_a_loop_does_the_same_and_hangs_with_it() -> None:
    with World() as world:
        scene = Scene(Monitor(world), random.Random(1))
        program = world.program("worker")
        holder = Holder(scene, program, "loop")
        holder.hang_ns = 3 * SECOND
        world.run(lambda client: holder.work(client, want()), "worker")
        assert scene.counts == {"grants": 1}
        assert [end - start for start, end in program.spells] == [pytest.approx(4.5 * SECOND, abs=2 * SECOND)]
        assert scene.monitor.close() == []


def test_who_is_refused_has_given_up() -> None:
    with World() as world:
        world.connect("other").lock("job", 60).acquire()
        scene = Scene(Monitor(world), random.Random(1))
        drive(Holder(scene, world.program("worker"), "threads").work(world.connect("worker"), want()))
        assert scene.counts == {"refused: timed_out": 1}


def test_what_one_face_answers_need_not_be_awaited() -> None:
    async def answer() -> int:
        return 2

    async def both() -> list[int]:
        return [await settle(1), await settle(answer())]

    assert asyncio.run(both()) == [1, 2]


def test_work_that_blocks_is_never_suspended() -> None:
    async def suspended() -> None:
        await asyncio.sleep(0)

    async def dies() -> None:
        raise Killed

    drive(dies())
    with pytest.raises(AssertionError, match="suspended"):
        drive(suspended())
