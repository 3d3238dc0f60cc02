"""What one client does in a lease trial: it asks, holds, renews, converts, hangs, gives back; in threads or in a loop.

What goes wrong around it is decided in `lease_trial.py`, and nothing is judged here.
"""

import asyncio
import inspect
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import HoldfastError
from holdfast.testing.history import Asked, GaveUp
from holdfast.testing.program import Killed, Program
from sim.lease_monitor import Monitor, Tracked
from sim.lease_plan import SECOND, Face, Want

if TYPE_CHECKING:
    from holdfast import aio, sync

    Client = aio.Client | sync.Client
    Held = aio.Held | sync.Held
    Lock = aio.Lock | sync.Lock

T = TypeVar("T")

SEATS = 2
MODES = {"lock": "EX", "write": "EX", "read": "PR", "semaphore": "CW"}


@dataclass(slots=True)
class Scene:
    """What all clients of a trial share."""

    monitor: Monitor
    dice: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    over: bool = False  # nobody begins anything new


class Grip:
    """Hears what the holder of one claim is told, also before the grant itself is in anybody's hand."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._tracked: Tracked | None = None
        self._early: list[Callable[[Tracked], None]] = []

    def danger(self, _held: object) -> None:
        self._hear(self._monitor.danger)

    def lost(self, _held: object) -> None:
        self._hear(self._monitor.lost)

    def take(self, tracked: Tracked) -> None:
        """From now on it is known what is held."""
        self._tracked = tracked
        for hear in self._early:
            hear(tracked)

    def _hear(self, hear: Callable[[Tracked], None]) -> None:
        if self._tracked is None:
            self._early.append(hear)
        else:
            hear(self._tracked)


class Holder:
    """One client. It is written once for both faces: what the blocking one answers need not be awaited."""

    def __init__(self, scene: Scene, program: Program, face: Face) -> None:
        self.hang_ns = 0  # how long it is to hang when it next does something
        self._scene = scene
        self._program = program
        self._face = face

    async def work(self, client: "Client", want: Want) -> None:
        """Go some rounds."""
        try:
            for _ in range(want.rounds):
                if self._scene.over:
                    return
                await self._go_round(client, want)
                await self._pause(want.rest_ns)
        except Killed:
            self._scene.counts["killed"] += 1
            raise

    async def _go_round(self, client: "Client", want: Want) -> None:
        """Ask once, and if it is granted, hold it for a while."""
        monitor, counts = self._scene.monitor, self._scene.counts
        claim = monitor.name(self._program.name)
        grip = Grip(monitor)
        limit = SEATS if want.kind == "semaphore" else None
        monitor.add(Asked, claim, key=want.key, mode=MODES[want.kind], limit=limit)
        held: Held | None = None
        try:
            held = await settle(lock_for(client, want, grip).acquire())
        except HoldfastError as error:
            counts[f"refused: {error.code}"] += 1
        finally:
            if held is None:
                monitor.add(GaveUp, claim)
        if held is None:
            return
        if not held.held:  # it hung, or stood still, between the answer and here
            counts["over at once"] += 1
            monitor.add(GaveUp, claim)
            await settle(held.release())
            return
        counts["grants"] += 1
        tracked = monitor.track(claim, held, self._program, want.lease_ns, beat_ns=want.beat_ns)
        grip.take(tracked)
        await self._use(want, held, tracked)
        monitor.released(tracked)
        await settle(held.release())

    async def _use(self, want: Want, held: "Held", tracked: Tracked) -> None:
        """Hold it until the work is done, or until it is lost; in pieces, so that something can be done meanwhile."""
        clock = self._program.clock
        end = clock() + want.work_ns
        piece = max(1, min(want.work_ns, want.lease_ns) // 3)
        while not self._scene.over and held.held and clock() < end:
            await self._pause(min(end - clock(), self._scene.dice.randint(1, piece)))
            if not want.manner:
                continue
            try:
                await self._do(want.manner, held, tracked)
            except HoldfastError as error:
                self._scene.counts[f"{want.manner}: {error.code}"] += 1

    async def _pause(self, span_ns: int) -> None:
        """Let time pass. Who hangs does so without looking, and an event loop hangs with whoever hangs in it."""
        program = self._program
        span_ns, hangs, self.hang_ns = span_ns + self.hang_ns, self.hang_ns > 0, 0
        if self._face == "loop" and not hangs:
            await asyncio.sleep(span_ns / SECOND)
            return
        start = program.timeline.now
        program.sleep(program.clock() + span_ns)
        if self._face == "loop":
            program.spells.append((start, program.timeline.now))

    async def _do(self, manner: str, held: "Held", tracked: Tracked) -> None:
        if manner == "looks":
            held.check()
            return
        with self._scene.monitor.beating(tracked):
            if manner == "renews":
                await settle(held.renew())
            elif manner == "beats":
                held.beat()
            elif manner == "converts" and held.kind == "lock":
                await self._convert(held, tracked)

    async def _convert(self, held: "Held", tracked: Tracked) -> None:
        """Change to the other mode; the weaker one counts from before the call, the stronger one from after it."""
        if held.mode == "EX":
            self._scene.monitor.convert(tracked, "PR")
            await settle(held.downgrade())
        else:
            await settle(held.upgrade(patience=tracked.lease_ns / SECOND))
            self._scene.monitor.convert(tracked, "EX")


def lock_for(client: "Client", want: Want, grip: Grip) -> "Lock":
    """Give what a want is about."""
    lease = want.lease_ns / SECOND
    patience = None if want.patience_ns is None else want.patience_ns / SECOND
    beat_timeout = None if want.beat_ns is None else want.beat_ns / SECOND
    if want.kind == "lock":
        return client.lock(
            want.key, lease, patience, beat_timeout=beat_timeout, on_danger=grip.danger, on_lost=grip.lost
        )
    if want.kind == "semaphore":
        return client.semaphore(
            want.key,
            SEATS,
            lease=lease,
            patience=patience,
            beat_timeout=beat_timeout,
            on_danger=grip.danger,
            on_lost=grip.lost,
        )
    both = client.rwlock(want.key, lease, patience, beat_timeout=beat_timeout, on_danger=grip.danger, on_lost=grip.lost)
    return both.read() if want.kind == "read" else both.write()


async def settle(result: T | Awaitable[T]) -> T:
    """Take what one face answers, and await it where it is the other one's."""
    if inspect.isawaitable(result):
        return await result
    return result


def drive(work: Coroutine[object, None, None]) -> None:
    """Run work of the blocking face, which waits in its calls and is never suspended."""
    try:
        work.send(None)
    except StopIteration:
        return
    except Killed:
        return
    raise AssertionError("what blocks has been suspended")
