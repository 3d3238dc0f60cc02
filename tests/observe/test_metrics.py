"""The page of metrics as Prometheus reads it: names, types, labels, buckets and values.

What is counted when is tested where it happens.
"""

import dataclasses
import subprocess
import sys

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from holdfast.observe.counters import Counters, Snapshot
from holdfast.observe.metrics import MEDIA_TYPE, Metrics
from holdfast.words import SECOND

RESULTS = ("success", "fail", "busy")
OPS = ("acquire", "renew", "release")
BUCKETS = ["1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "+Inf"]

# Name, type and label names of what every server shows from its first moment on.
FAMILIES = [
    ("lock_acquire", "counter", {"result"}),
    ("lock_renew", "counter", {"result"}),
    ("lock_release", "counter", {"result"}),
    ("lock_op_latency_ms", "histogram", {"op"}),
    ("lock_db_busy", "counter", {"op"}),
    ("locks_held", "gauge", set()),
    ("lock_expired", "counter", set()),
    ("holdfast_build_info", "gauge", {"version"}),
    ("holdfast_claims_held", "gauge", set()),
    ("holdfast_claims_waiting", "gauge", set()),
    ("holdfast_deadlocks", "gauge", set()),
    ("holdfast_deadlocks_found", "counter", set()),
    ("holdfast_keys", "gauge", set()),
    ("holdfast_sessions", "gauge", set()),
    ("holdfast_connections", "gauge", {"door"}),
    ("holdfast_grants", "counter", set()),
    ("holdfast_fences", "counter", set()),
    ("holdfast_fences_refused", "counter", set()),
    ("holdfast_handoffs", "counter", set()),
    ("holdfast_handoff_seconds", "histogram", set()),
    ("holdfast_commit_batch_size", "histogram", set()),
    ("holdfast_commit_seconds", "histogram", set()),
    ("holdfast_store_failures", "counter", set()),
    ("holdfast_store_busy", "counter", set()),
    ("holdfast_store_ready", "gauge", set()),
    ("dflockd_ready", "gauge", set()),
    ("dflockd_uptime_seconds", "gauge", set()),
    ("dflockd_connections", "gauge", set()),
    ("dflockd_http_sessions", "gauge", set()),
    ("dflockd_locks_held", "gauge", set()),
    ("dflockd_lock_waiters", "gauge", set()),
    ("dflockd_semaphore_holders", "gauge", set()),
    ("dflockd_semaphore_waiters", "gauge", set()),
    ("process_resident_memory_bytes", "gauge", set()),
    ("process_cpu_seconds", "counter", set()),
]


def page(counters=None, **snapshot):
    return Metrics(counters or Counters(), lambda: Snapshot(**snapshot), version="1.2.3").exposition().decode()


def values(text):
    """Read the page with the parser of Prometheus's own library: every sample by its name and labels."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name, *sorted(sample.labels.items())] = sample.value
    return found


@pytest.mark.parametrize(("name", "kind", "labels"), FAMILIES)
def test_every_family_is_there_from_the_start_with_its_type_and_labels(name, kind, labels):
    families = {family.name: family for family in text_string_to_metric_families(page())}
    assert families[name].type == kind
    assert families[name].documentation
    assert {label for sample in families[name].samples for label in sample.labels} - {"le"} == labels


def test_every_label_value_is_there_before_the_first_request():
    found = values(page())
    for op in OPS:
        for result in RESULTS:
            assert found[f"lock_{op}_total", ("result", result)] == 0
        assert found["lock_db_busy_total", ("op", op)] == 0
        assert found["lock_op_latency_ms_count", ("op", op)] == 0
    assert [found["holdfast_connections", ("door", door)] for door in ("line", "http")] == [0, 0]


@pytest.mark.parametrize("op", OPS)
def test_the_buckets_of_latency_are_spelled_as_dashboards_know_them(op):
    lines = [line for line in page().splitlines() if line.startswith("lock_op_latency_ms_bucket") and f'"{op}"' in line]
    assert [line.partition('le="')[2].partition('"')[0] for line in lines] == BUCKETS


def test_operations_are_shown_by_result_with_their_times():
    counters = Counters()
    counters.operations.count("acquire", "success", 250_000)
    counters.operations.count("acquire", "busy", 3_500_000)
    counters.operations.count("release", "fail", 9_000_000_000)
    counters.operations.expired += 12
    counters.operations.db_busy["acquire"] = 1
    found = values(page(counters))
    assert found["lock_acquire_total", ("result", "success")] == 1
    assert found["lock_acquire_total", ("result", "busy")] == 1
    assert found["lock_db_busy_total", ("op", "acquire")] == 1
    assert found["lock_release_total", ("result", "fail")] == 1
    assert found["lock_op_latency_ms_bucket", ("le", "1"), ("op", "acquire")] == 1
    assert found["lock_op_latency_ms_bucket", ("le", "4"), ("op", "acquire")] == 2
    assert found["lock_op_latency_ms_bucket", ("le", "2048"), ("op", "release")] == 0
    assert found["lock_op_latency_ms_bucket", ("le", "+Inf"), ("op", "release")] == 1
    assert found["lock_op_latency_ms_sum", ("op", "acquire")] == 3.75
    assert found[("lock_expired_total",)] == 12


def test_the_store_and_the_hand_offs_are_shown():
    counters = Counters()
    counters.store.committed(5, 2_000_000)
    counters.store.failures += 2
    counters.store.busy += 3
    counters.desk.grants += 1
    counters.desk.deadlocks += 4
    counters.desk.handed_off(300_000)
    found = values(page(counters))
    assert found[("holdfast_commit_batch_size_sum",)] == 5
    assert found["holdfast_commit_batch_size_bucket", ("le", "4")] == 0
    assert found["holdfast_commit_batch_size_bucket", ("le", "8")] == 1
    assert found["holdfast_commit_seconds_bucket", ("le", "0.0025")] == 1
    assert found[("holdfast_store_failures_total",)] == 2
    assert found[("holdfast_store_busy_total",)] == 3
    assert found[("holdfast_grants_total",)] == 2
    assert found[("holdfast_deadlocks_found_total",)] == 4
    assert found[("holdfast_handoffs_total",)] == 1
    assert found["holdfast_handoff_seconds_bucket", ("le", "0.0005")] == 1


@pytest.mark.parametrize(
    ("field", "value", "sample", "shown"),
    [
        ("locks_held", 3, ("locks_held",), 3),
        ("locks_held", 3, ("dflockd_locks_held",), 3),
        ("lock_waiters", 3, ("dflockd_lock_waiters",), 3),
        ("semaphore_holders", 3, ("dflockd_semaphore_holders",), 3),
        ("semaphore_waiters", 3, ("dflockd_semaphore_waiters",), 3),
        ("claims_held", 3, ("holdfast_claims_held",), 3),
        ("claims_waiting", 3, ("holdfast_claims_waiting",), 3),
        ("deadlocks", 3, ("holdfast_deadlocks",), 3),
        ("keys", 3, ("holdfast_keys",), 3),
        ("sessions", 3, ("holdfast_sessions",), 3),
        ("http_sessions", 3, ("dflockd_http_sessions",), 3),
        ("connections", {"line": 3}, ("dflockd_connections",), 3),
        ("connections", {"line": 3}, ("holdfast_connections", ("door", "line")), 3),
        ("connections", {"grpc": 3}, ("holdfast_connections", ("door", "grpc")), 3),
        ("ready", True, ("dflockd_ready",), 1),
        ("store_ready", True, ("holdfast_store_ready",), 1),
        ("uptime_ns", 3 * SECOND // 2, ("dflockd_uptime_seconds",), 1.5),
    ],
)
def test_each_thing_seen_in_the_snapshot_has_its_gauge(field, value, sample, shown):
    assert values(page(**{field: value}))[sample] == shown
    assert field in {known.name for known in dataclasses.fields(Snapshot)}


def test_http_requests_are_shown_by_method_pattern_and_status():
    counters = Counters()
    counters.http.count("GET", "/v1/stats", 200, SECOND // 2)
    counters.http.count("GET", "/v1/stats", 200, SECOND)
    labels = (("method", "GET"), ("path", "/v1/stats"), ("status", "200"))
    found = values(page(counters))
    assert found["dflockd_http_requests_total", *labels] == 2
    assert found["dflockd_http_request_duration_seconds_count", *labels] == 2
    assert found["dflockd_http_request_duration_seconds_sum", *labels] == 1.5


def test_the_release_is_a_label():
    assert 'holdfast_build_info{version="1.2.3"} 1.0\n' in page()


def test_the_page_is_text_in_the_old_format_which_every_scraper_reads():
    assert MEDIA_TYPE == "text/plain; version=0.0.4; charset=utf-8"
    text = page()
    assert "# EOF" not in text
    assert "_created" not in text
    assert text.endswith("\n")


def test_one_scrape_looks_around_once():
    looks = []

    def snapshot():
        looks.append(len(looks))
        return Snapshot(keys=len(looks))

    metrics = Metrics(Counters(), snapshot, version="1")
    assert looks == []
    metrics.exposition()
    assert values(metrics.exposition().decode())[("holdfast_keys",)] == 2


def test_the_registry_of_the_process_stays_untouched():
    before = {family.name for family in REGISTRY.collect()}
    page()
    page()
    assert {family.name for family in REGISTRY.collect()} == before


def test_counting_does_not_load_the_library_that_shows():
    code = "import sys, holdfast.observe.counters, holdfast.observe.operations; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "holdfast.observe.counters" in loaded
    assert "prometheus_client" not in loaded
