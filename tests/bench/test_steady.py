"""What counts as flat; the run itself is a measurement."""

from bench.steady import report

QUIET = {"requests/s": 1000.0, "p99": 5000.0, "busy": 0.0, "errors": 0.0}


def samples(*sizes: int) -> list[tuple[float, int]]:
    return [(float(number), size) for number, size in enumerate(sizes)]


def test_memory_that_settles_after_the_start_is_flat() -> None:
    text, flat = report(samples(10, 60, 100, 104, 101, 103, 102, 104), [QUIET])
    assert flat
    assert "| flat | yes |" in text


def test_memory_that_goes_on_growing_is_not() -> None:
    assert not report(samples(10, 60, 100, 110, 120, 130, 140, 150), [QUIET])[1]


def test_a_run_with_errors_is_not_steady() -> None:
    assert not report(samples(*[100] * 8), [QUIET, QUIET | {"errors": 1.0}])[1]
