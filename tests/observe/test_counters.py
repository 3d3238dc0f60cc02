"""What is counted, and where a value falls.

How the numbers are shown is tested with the page of metrics.
"""

import pytest

from holdfast.observe.counters import (
    HTTP_SERIES_MAX,
    LATENCY_MS_BOUNDS,
    OPERATIONS,
    RESULTS,
    Counters,
    DeskCounters,
    Histogram,
    HttpCounters,
    OperationCounters,
    StoreCounters,
)
from holdfast.words import SECOND


def test_a_value_on_a_bound_is_counted_at_that_bound_and_one_above_all_bounds_at_the_end():
    histogram = Histogram((1, 2, 4))
    for value in (0.0, 1.0, 1.1, 2.0, 4.0, 4.1, 1e9):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1, 2]
    assert histogram.cumulative() == [2, 4, 5, 7]
    assert histogram.total() == 7
    assert histogram.sum == pytest.approx(1e9 + 12.2)


def test_an_empty_histogram_is_all_zeros():
    assert Histogram((1, 2)).cumulative() == [0, 0, 0]


def test_every_operation_and_result_is_there_before_the_first_request():
    counters = OperationCounters()
    assert list(counters.operations) == list(OPERATIONS)
    for operation in counters.operations.values():
        assert operation.results == dict.fromkeys(RESULTS, 0)
        assert operation.latency_ms.bounds == LATENCY_MS_BOUNDS


def test_an_operation_is_counted_by_its_result_and_timed_in_parts_of_a_millisecond():
    counters = OperationCounters()
    counters.count("acquire", "success", 250_000)
    counters.count("acquire", "fail", 1_500_000)
    counters.count("renew", "busy", 3_000_000_000)
    acquire, renew, release = (counters.operations[name] for name in OPERATIONS)
    assert acquire.results == {"success": 1, "fail": 1, "busy": 0}
    assert acquire.latency_ms.sum == 1.75
    assert acquire.latency_ms.counts[:2] == [1, 1]
    assert renew.results["busy"] == 1
    assert renew.latency_ms.counts[-1] == 1
    assert release.latency_ms.total() == 0


@pytest.mark.parametrize(("operation", "result"), [("steal", "success"), ("acquire", "perhaps")])
def test_what_has_no_counter_is_a_mistake_of_ours(operation, result):
    with pytest.raises(KeyError):
        OperationCounters().count(operation, result, 1)


def test_a_commit_is_counted_once_with_all_its_commands():
    counters = StoreCounters()
    counters.committed(7, 2_000_000)
    counters.committed(1, 500_000)
    assert (counters.batch_size.total(), counters.batch_size.sum) == (2, 8)
    assert counters.commit_s.sum == pytest.approx(0.0025)
    assert (counters.failures, counters.busy) == (0, 0)


def test_a_hand_off_is_a_grant_too():
    counters = DeskCounters()
    counters.grants += 1
    counters.handed_off(SECOND // 1000)
    assert (counters.grants, counters.handoffs, counters.handoff_s.sum) == (2, 1, 0.001)


def test_requests_are_counted_by_method_pattern_and_status():
    counters = HttpCounters()
    counters.count("GET", "/v1/locks/{name}", 200, 10)
    counters.count("GET", "/v1/locks/{name}", 200, 20)
    counters.count("GET", "/v1/locks/{name}", 404, 30)
    found = {series: (served.count, served.sum_ns) for series, served in counters.served.items()}
    assert found == {("GET", "/v1/locks/{name}", 200): (2, 30), ("GET", "/v1/locks/{name}", 404): (1, 30)}


def test_verbs_that_callers_think_up_share_one_series():
    counters = HttpCounters()
    for verb in ("BREW", "get", "X" * 1000):
        counters.count(verb, "unmatched", 405, 1)
    assert list(counters.served) == [("OTHER", "unmatched", 405)]


def test_paths_in_the_place_of_patterns_are_noticed_before_they_fill_the_memory():
    counters = HttpCounters()
    for number in range(HTTP_SERIES_MAX):
        counters.count("GET", f"/v1/locks/{number}", 200, 1)
    with pytest.raises(AssertionError, match="in the place of its pattern"):
        counters.count("GET", "/v1/locks/one-more", 200, 1)


def test_two_servers_in_one_process_count_apart():
    one, other = Counters(), Counters()
    one.operations.count("acquire", "success", 1)
    one.store.failures += 1
    one.desk.grants += 1
    one.http.count("GET", "/", 200, 1)
    assert other.operations.operations["acquire"].results["success"] == 0
    assert (other.store.failures, other.desk.grants, other.http.served) == (0, 0, {})
