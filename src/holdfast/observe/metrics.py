"""The page that Prometheus scrapes, made from the counters at the moment when somebody asks for it.

Nothing is counted here. Importing this file loads prometheus_client, so import it only where the page is wanted.
"""

from collections.abc import Callable, Iterator
from itertools import chain

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from holdfast.observe.counters import OPERATIONS, RESULTS, Counters, Histogram, HttpCounters, Snapshot
from holdfast.words import SECOND

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DOORS = ("line", "http")


class Metrics:
    """The metrics of one server, in a registry of its own: two servers in one process do not see each other's."""

    def __init__(self, counters: Counters, snapshot: Callable[[], Snapshot], *, version: str) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Reader(counters, snapshot, version))
        # Memory, CPU time and open files of this process; what the registry may not read is left out.
        ProcessCollector(registry=self._registry)

    def exposition(self) -> bytes:
        """Write the page, in the text format that `MEDIA_TYPE` names."""
        return generate_latest(self._registry)


class _Reader(Collector):
    """Reads everything once for each scrape, so that the numbers of one page belong together."""

    def __init__(self, counters: Counters, snapshot: Callable[[], Snapshot], version: str) -> None:
        self._counters = counters
        self._snapshot = snapshot
        self._version = version

    def describe(self) -> list[Metric]:
        """Name nothing beforehand: nobody else is in this registry, and looking needs a running server."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the counters and look around."""
        now = self._snapshot()
        build = GaugeMetricFamily("holdfast_build_info", "The release that runs; always 1.", labels=["version"])
        build.add_metric([self._version], 1)
        yield build
        yield from chain(
            _lockserver(self._counters, now), _ours(self._counters, now), _dflockd(self._counters.http, now)
        )


def _lockserver(counters: Counters, now: Snapshot) -> Iterator[Metric]:
    """The families of LockServer under their names, labels and buckets."""
    operations = counters.operations.operations
    for name in OPERATIONS:
        results = CounterMetricFamily(f"lock_{name}", f"Requests to {name} a lease, by result.", labels=["result"])
        for result in RESULTS:
            results.add_metric([result], operations[name].results[result])
        yield results
    latency = HistogramMetricFamily("lock_op_latency_ms", "Time of an operation in milliseconds.", labels=["op"])
    busy = CounterMetricFamily("lock_db_busy", "Operations refused because the store was busy.", labels=["op"])
    for name in OPERATIONS:
        _add(latency, operations[name].latency_ms, name)
        busy.add_metric([name], counters.operations.db_busy[name])
    yield latency
    yield busy
    yield _gauge("locks_held", "Locks that somebody holds now.", now.locks_held)
    yield _counter("lock_expired", "Leases that ran out.", counters.operations.expired)


def _ours(counters: Counters, now: Snapshot) -> Iterator[Metric]:
    """What both doors and every store have in common."""
    yield _gauge("holdfast_claims_held", "Claims of any mode that are held.", now.claims_held)
    yield _gauge("holdfast_claims_waiting", "Claims that wait in a queue.", now.claims_waiting)
    yield _gauge("holdfast_deadlocks", "Circles of claims that wait for each other.", now.deadlocks)
    yield _gauge("holdfast_keys", "Keys that are known, idle ones included.", now.keys)
    yield _gauge("holdfast_sessions", "Callers that are there, of every door.", now.sessions)
    connections = GaugeMetricFamily("holdfast_connections", "Open connections, by door.", labels=["door"])
    for door in (*DOORS, *sorted(set(now.connections) - set(DOORS))):
        connections.add_metric([door], now.connections.get(door, 0))
    yield connections
    desk, store = counters.desk, counters.store
    yield _counter("holdfast_grants", "Claims granted.", desk.grants)
    yield _counter("holdfast_fences", "Fences given out, one with each grant.", desk.grants)
    yield _counter("holdfast_deadlocks_found", "Deadlocks that have come about.", desk.deadlocks)
    yield _counter("holdfast_fences_refused", "Requests refused because no fence could be had.", desk.no_fences)
    yield _counter("holdfast_handoffs", "Claims granted to somebody who had waited.", desk.handoffs)
    yield _histogram("holdfast_handoff_seconds", "Time from the end of a claim to the next grant.", desk.handoff_s)
    yield _histogram("holdfast_commit_batch_size", "Commands made durable by one commit.", store.batch_size)
    yield _histogram("holdfast_commit_seconds", "Time of one transaction, commit included.", store.commit_s)
    yield _counter("holdfast_store_failures", "Commands that the store could not keep.", store.failures)
    yield _counter("holdfast_store_busy", "Commands refused because the store was busy.", store.busy)
    yield _gauge("holdfast_store_ready", "1 while the store takes commands.", int(now.store_ready))


def _dflockd(http: HttpCounters, now: Snapshot) -> Iterator[Metric]:
    """The families of dflockd under their names and labels."""
    yield _gauge("dflockd_ready", "1 while requests are taken, 0 while draining.", int(now.ready))
    yield _gauge("dflockd_uptime_seconds", "Time since the start.", now.uptime_ns / SECOND)
    yield _gauge("dflockd_connections", "Open connections of the line door.", now.connections.get("line", 0))
    yield _gauge("dflockd_http_sessions", "Open HTTP sessions.", now.http_sessions)
    yield _gauge("dflockd_locks_held", "Locks that somebody holds.", now.locks_held)
    yield _gauge("dflockd_lock_waiters", "Callers that wait for a lock.", now.lock_waiters)
    yield _gauge("dflockd_semaphore_holders", "Seats of semaphores that are taken.", now.semaphore_holders)
    yield _gauge("dflockd_semaphore_waiters", "Callers that wait for a semaphore.", now.semaphore_waiters)
    labels = ["method", "path", "status"]
    requests = CounterMetricFamily("dflockd_http_requests", "HTTP requests answered.", labels=labels)
    durations = SummaryMetricFamily("dflockd_http_request_duration_seconds", "Time of HTTP requests.", labels=labels)
    for (method, pattern, status), served in sorted(http.served.items()):
        series = [method, pattern, str(status)]
        requests.add_metric(series, served.count)
        durations.add_metric(series, count_value=served.count, sum_value=served.sum_ns / SECOND)
    yield requests
    yield durations


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _counter(name: str, about: str, value: int) -> Metric:
    """Make a counter; the format appends `_total` to its name."""
    return CounterMetricFamily(name, about, value=value)


def _histogram(name: str, about: str, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(name, about, labels=[])
    _add(family, histogram)
    return family


def _add(family: HistogramMetricFamily, histogram: Histogram, *labels: str) -> None:
    # Bounds are spelled as Go spells them, "1" and not "1.0": dashboards match on the text.
    bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
    family.add_metric(labels, list(zip(bounds, histogram.cumulative(), strict=True)), histogram.sum)
