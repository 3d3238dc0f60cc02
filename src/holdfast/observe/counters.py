"""What the service counts while it works: plain integers, and histograms with fixed buckets.

Nothing is formatted or served here, and no lock's name ever gets in: counters cost the same for any number of keys.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final, final

from holdfast.words import SECOND

MILLISECOND: Final = 1_000_000

OPERATIONS: Final = ("acquire", "renew", "release")
SUCCESS: Final = "success"
FAIL: Final = "fail"
BUSY: Final = "busy"
RESULTS: Final = (SUCCESS, FAIL, BUSY)

LATENCY_MS_BOUNDS: Final[tuple[float, ...]] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
COMMIT_S_BOUNDS: Final[tuple[float, ...]] = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
)  # fmt: skip
BATCH_BOUNDS: Final[tuple[float, ...]] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
HANDOFF_S_BOUNDS: Final[tuple[float, ...]] = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
)  # fmt: skip

# Methods that have a counter of their own; any other verb that a caller thinks up is counted as one.
METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})
OTHER_METHOD: Final = "OTHER"
UNMATCHED: Final = "unmatched"
# More series than all routes, verbs and statuses together; beyond it a route was counted under a caller's own path.
HTTP_SERIES_MAX: Final = 4_096


@final
class Histogram:
    """How often values fell into each of a few fixed ranges, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last one is for what is above all bounds
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value; a value on a bound belongs below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def total(self) -> int:
        """Tell how many values there were."""
        return sum(self.counts)

    def cumulative(self) -> list[int]:
        """Tell for each bound, and then for no bound at all, how many values were at or below it."""
        sums, so_far = [], 0
        for count in self.counts:
            so_far += count
            sums.append(so_far)
        return sums


@final
class Operation:
    """One kind of operation: how it came out, and how long it took."""

    __slots__ = ("latency_ms", "results")

    def __init__(self) -> None:
        self.results = dict.fromkeys(RESULTS, 0)
        self.latency_ms = Histogram(LATENCY_MS_BOUNDS)


@final
class OperationCounters:
    """The operations on leases, and the leases that ran out."""

    __slots__ = ("db_busy", "expired", "operations")

    def __init__(self) -> None:
        self.operations = {name: Operation() for name in OPERATIONS}
        self.db_busy = dict.fromkeys(OPERATIONS, 0)  # refused because the store was busy, through any door
        self.expired = 0

    def count(self, operation: str, result: str, latency_ns: int) -> None:
        """Count one operation that is over; `busy` is when the store was, and not when the lock is held."""
        counted = self.operations[operation]
        counted.results[result] += 1
        counted.latency_ms.observe(latency_ns / MILLISECOND)


@final
class StoreCounters:
    """What the store did: transactions, the commands in them, and what went wrong."""

    __slots__ = ("batch_size", "busy", "commit_s", "failures")

    def __init__(self) -> None:
        self.batch_size = Histogram(BATCH_BOUNDS)
        self.commit_s = Histogram(COMMIT_S_BOUNDS)
        self.failures = 0  # commands refused because the store could not keep them
        self.busy = 0  # commands refused because another process kept the store to itself

    def committed(self, commands: int, took_ns: int) -> None:
        """Count one transaction that is safe on the disk, and the commands that it made durable."""
        self.batch_size.observe(commands)
        self.commit_s.observe(took_ns / SECOND)


@final
class DeskCounters:
    """What callers got."""

    __slots__ = ("deadlocks", "grants", "handoff_s", "handoffs", "no_fences")

    def __init__(self) -> None:
        self.deadlocks = 0  # cycles that were found
        self.grants = 0  # all of them, hand-offs included
        self.no_fences = 0  # refused because no fence could be had
        self.handoffs = 0  # grants to somebody who had been waiting
        self.handoff_s = Histogram(HANDOFF_S_BOUNDS)

    def handed_off(self, took_ns: int) -> None:
        """Count a grant to a waiter, with the time since what it waited for had gone."""
        self.grants += 1
        self.handoffs += 1
        self.handoff_s.observe(took_ns / SECOND)


@final
class Served:
    """How many HTTP requests were answered in one way, and how long that took together."""

    __slots__ = ("count", "sum_ns")

    def __init__(self) -> None:
        self.count = 0
        self.sum_ns = 0


@final
class HttpCounters:
    """The requests of the HTTP door by method, pattern of the path and status."""

    __slots__ = ("served",)

    def __init__(self) -> None:
        self.served: dict[tuple[str, str, int], Served] = {}

    def count(self, method: str, pattern: str, status: int, took_ns: int) -> None:
        """Count a request that was answered; `pattern` is the route as we spell it, never the path as it was asked."""
        series = (method if method in METHODS else OTHER_METHOD, pattern, status)
        served = self.served.get(series)
        if served is None:
            assert len(self.served) < HTTP_SERIES_MAX, "a path was counted in the place of its pattern"
            served = self.served[series] = Served()
        served.count += 1
        served.sum_ns += took_ns


@final
class Counters:
    """All counters of one server."""

    __slots__ = ("desk", "http", "operations", "store")

    def __init__(self) -> None:
        self.operations = OperationCounters()
        self.store = StoreCounters()
        self.desk = DeskCounters()
        self.http = HttpCounters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What can be looked at but not counted, as it is at one moment."""

    locks_held: int = 0  # keys with a single holder, in the sense of LockServer and dflockd
    lock_waiters: int = 0
    semaphore_holders: int = 0
    semaphore_waiters: int = 0
    claims_held: int = 0  # all modes, all doors
    claims_waiting: int = 0
    deadlocks: int = 0  # cycles that there are, through whichever doors
    keys: int = 0  # idle ones included
    sessions: int = 0  # of callers of every door
    http_sessions: int = 0  # of dflockd's session interface
    connections: dict[str, int] = field(default_factory=dict)  # by door
    ready: bool = False  # takes requests: not draining, and the store does
    store_ready: bool = False
    uptime_ns: int = 0
