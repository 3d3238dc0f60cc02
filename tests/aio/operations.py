"""What a program may be in the middle of when it is cut off: each operation of the client, others in the way.

Shared by the tests that cut off at every await, at every call that may block, and at every byte. No expectation here.
"""

from contextlib import suppress
from typing import Any

from holdfast.errors import TimedOut
from tests.aio.client_faces import VirtualStage


class Scene:
    """A world in which another client comes and goes, and one operation of ours."""

    def __init__(self, stage: VirtualStage) -> None:
        self.stage = stage
        self.world = stage.world

    async def other(self, key: str, *, mode: str = "EX", limit: int | None = None, seconds: float = 1) -> None:
        """Have somebody else hold it for a while."""
        hf = self.stage.connect("other")
        lock = hf.lock(key, mode=mode) if limit is None else hf.semaphore(key, limit)
        held = await lock.acquire()
        self.world.clock.after(seconds, lambda: self._give_back(held))

    def _give_back(self, held: Any) -> None:
        getattr(held, "inner", held).abandon()


async def taken(hf: Any, scene: Scene) -> None:
    await hf.lock("job").acquire()


async def waited(hf: Any, scene: Scene) -> None:
    await scene.other("job")
    await hf.lock("job").acquire()


async def timed_out(hf: Any, scene: Scene) -> None:
    await scene.other("job")
    assert await hf.try_lock("job") is None


async def block(hf: Any, scene: Scene) -> None:
    async with hf.lock("job") as held:
        await scene.stage.sleep(2)
        held.check()


async def given_back(hf: Any, scene: Scene) -> None:
    held = await hf.lock("job").acquire()
    await scene.stage.sleep(2)
    await held.release()


async def renewed(hf: Any, scene: Scene) -> None:
    async with hf.lock("job", lease=5) as held:
        await held.renew()
        await scene.stage.sleep(12)
        await held.renew()


async def enqueued(hf: Any, scene: Scene) -> None:
    await scene.other("job")
    async with await hf.enqueue("job") as place:
        await scene.stage.sleep(0.5)
        held = await place.wait()
        held.check()


async def seats(hf: Any, scene: Scene) -> None:
    await scene.other("seats", limit=1)
    async with hf.semaphore("seats", 1):
        pass


async def group(hf: Any, scene: Scene) -> None:
    await scene.other("b")
    async with hf.all("a", "b", "c") as held:
        held.check()


async def upgraded(hf: Any, scene: Scene) -> None:
    await scene.other("job", mode="PR")
    async with hf.rwlock("job").read() as held:
        await held.upgrade()
        await held.downgrade()


async def upgrading(hf: Any, scene: Scene) -> None:
    """Another reader stays for longer than is waited for."""
    await scene.other("job", mode="PR", seconds=18.5)
    held = await hf.rwlock("job").read().acquire()
    with suppress(TimedOut):
        await held.upgrade(patience=10)


async def elected(hf: Any, scene: Scene) -> None:
    await scene.other("job")
    async with hf.election("job") as election:
        await scene.stage.sleep(3)
        assert election.leading
        await scene.stage.sleep(1)


async def once(hf: Any, scene: Scene) -> None:
    async def work() -> None:
        await scene.stage.sleep(1)

    called = hf.once("job", at_least=2, lease=3)(scene.stage.made(work))()
    if scene.stage.face == "tasks":
        await called


async def closed(hf: Any, scene: Scene) -> None:
    await hf.lock("job").acquire()
    await hf.all("a", "b").acquire()
    await scene.stage.sleep(2)
    await hf.close()


BOTH = [taken, waited, timed_out, block, given_back, renewed, enqueued, seats, group, elected, closed]
OPERATIONS = [
    *(("holdfast", operation) for operation in [*BOTH, upgraded, upgrading, once]),
    *(("dflock", operation) for operation in BOTH),
]
NAMES = [f"{scheme}-{operation.__name__}" for scheme, operation in OPERATIONS]
