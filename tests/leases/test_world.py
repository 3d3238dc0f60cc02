"""The world of a lock: what there is once in a process, and once in a loop."""

import asyncio

from holdfast.leases.aio.cluster_lock import loop_world
from holdfast.leases.aio.refresher import LoopRefresher
from holdfast.leases.beats import process_beats
from holdfast.leases.refresher import Refresher
from holdfast.leases.registry import process_registry
from holdfast.leases.world import real_world


def test_both_faces_share_what_there_is_once_in_a_process():
    for world in (real_world(), loop_world()):
        assert world.registry is process_registry
        assert world.beats is process_beats
        assert world.clock() <= world.clock()
        assert 0 <= world.chance() < 1


def test_each_face_has_a_refresher_of_its_own_kind():
    async def main():
        return loop_world().host()

    assert isinstance(real_world().host(), Refresher)
    assert isinstance(asyncio.run(main()), LoopRefresher)
