"""A load while it runs: callers that acquire, hold, write and release until the time is up, and what they count.

No protocol is known here, and whether the service did well is for `load_verdicts.py` to say.
"""

import asyncio
import random
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic_ns

from holdfast.cli.load_caller import TROUBLES, Caller, Grant, Refusal
from holdfast.cli.load_verdicts import Hold, Resource, believed_until

MILLISECOND = 1_000_000
SECOND = 1_000_000_000

RETRY_NS = 20 * MILLISECOND  # where the server gives no hint
STALL_NS = 50 * MILLISECOND  # how much longer than its lease a caller holds on that is meant to lose it
PAUSE_NS = 5 * MILLISECOND  # of a caller between two turns
TROUBLE_NS = 100 * MILLISECOND  # so that a server that is gone is not called as often as the machine can
GRANTS_MAX = 500_000  # each is remembered until the verdicts
SAMPLES_MAX = 2_000_000  # of each latency
LATE_S = 60.0  # how long callers may take to finish what they are about when the time is up
TELL_S = 1.0

OPERATIONS = ("acquire", "refused", "release")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done."""

    lock: str
    clients: int
    duration_ns: int
    ttl_ns: int
    hold_ns: int
    jitter_ns: int
    failrate: float
    own_locks: bool = False

    def lock_of(self, client: int) -> str:
        """Name the lock that a client goes for."""
        return f"{self.lock}-{client}" if self.own_locks else self.lock


@dataclass(slots=True)
class Tally:
    """What was done."""

    acquire_success: int = 0
    acquire_fail: int = 0
    store_busy: int = 0  # of the failed
    release_success: int = 0
    release_fail: int = 0
    errors: int = 0
    first_error: str = ""
    holds: list[Hold] = field(default_factory=list)
    resource: Resource = field(default_factory=Resource)
    latencies: dict[str, "array[int]"] = field(default_factory=lambda: {name: array("q") for name in OPERATIONS})
    took_ns: int = 0
    unfinished: bool = False  # callers had to be cut off
    full: bool = False  # the run ended because of GRANTS_MAX

    def timed(self, operation: str, ns: int) -> None:
        """Keep a latency, as long as there is room."""
        samples = self.latencies[operation]
        if len(samples) < SAMPLES_MAX:
            samples.append(ns)


class Run:
    """One load, from its first request to its last answer."""

    def __init__(self, plan: Plan, make_caller: Callable[[str], Caller], dice: random.Random) -> None:
        self.plan = plan
        self.tally = Tally()
        self._make_caller = make_caller
        self._dice = dice
        self._stop_at = 0

    async def go(self, tell: Callable[[Tally], None] | None) -> Tally:
        """Run; `tell` is called every second."""
        started = monotonic_ns()
        self._stop_at = started + self.plan.duration_ns
        teller = asyncio.ensure_future(self._tell(tell)) if tell is not None else None
        try:
            async with asyncio.timeout(
                (self.plan.duration_ns + self.plan.ttl_ns + self.plan.hold_ns) / SECOND + LATE_S
            ):
                async with asyncio.TaskGroup() as group:
                    for client in range(self.plan.clients):
                        group.create_task(self._client(client))
        except TimeoutError:
            self.tally.unfinished = True
        finally:
            if teller is not None:
                teller.cancel()
        self.tally.took_ns = monotonic_ns() - started
        return self.tally

    async def _tell(self, tell: Callable[[Tally], None]) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            tell(self.tally)

    def _goes_on(self) -> bool:
        self.tally.full = len(self.tally.holds) >= GRANTS_MAX
        return monotonic_ns() < self._stop_at and not self.tally.full

    async def _client(self, client: int) -> None:
        caller = self._make_caller(f"c-{client}")
        lock = self.plan.lock_of(client)
        try:
            while self._goes_on():
                try:
                    pause_ns = await self._turn(caller, lock)
                except TROUBLES as error:
                    self.tally.errors += 1
                    self.tally.first_error = self.tally.first_error or f"{type(error).__name__}: {error}"
                    pause_ns = TROUBLE_NS
                await asyncio.sleep(max(0, min(pause_ns, self._stop_at - monotonic_ns())) / SECOND)
        finally:
            caller.close()

    async def _turn(self, caller: Caller, lock: str) -> int:
        """Try to get the lock once, and use it; answer how long to wait before the next turn."""
        asked = monotonic_ns()
        answer = await caller.acquire(lock, self.plan.ttl_ns)
        seen = monotonic_ns()
        if isinstance(answer, Refusal):
            self.tally.timed("refused", seen - asked)
            self.tally.acquire_fail += 1
            self.tally.store_busy += answer.store_busy
            return RETRY_NS if answer.wait_ns is None else answer.wait_ns
        self.tally.timed("acquire", seen - asked)
        self.tally.acquire_success += 1
        await asyncio.sleep(self._hold_ns() / SECOND)
        written = self.tally.resource.write(lock, answer.token)
        token = answer.token
        hold = Hold(lock=lock, token=token, asked=asked, seen=seen, until=seen, written=written, released=False)
        await self._leave(caller, answer, hold)
        return PAUSE_NS

    def _hold_ns(self) -> int:
        if self._dice.random() < self.plan.failrate:
            return self.plan.ttl_ns + STALL_NS
        return self.plan.hold_ns + int(self._dice.uniform(0, self.plan.jitter_ns))

    async def _leave(self, caller: Caller, grant: Grant, hold: Hold) -> None:
        """Release, and remember the hold whatever becomes of that."""
        left = monotonic_ns()
        try:
            hold.released = await caller.release(hold.lock, grant)
            self.tally.timed("release", monotonic_ns() - left)
            if hold.released:
                self.tally.release_success += 1
            else:
                self.tally.release_fail += 1
        finally:
            hold.until = believed_until(asked=hold.asked, ttl_ns=self.plan.ttl_ns, left=left, released=hold.released)
            self.tally.holds.append(hold)


def percentile(samples: "list[int]", share: float) -> int:
    """Tell which value that share of the sorted samples does not exceed."""
    return samples[min(len(samples) - 1, int(len(samples) * share))]
