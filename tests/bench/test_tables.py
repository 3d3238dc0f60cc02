"""The arithmetic and the layout of the measurements, on figures of our making.

Nothing is measured here.
"""

from bench.tables import medians, number, ratio, table


def test_a_median_is_taken_of_each_figure() -> None:
    assert medians([{"a": 1.0, "b": 9.0}, {"a": 5.0, "b": 7.0}, {"a": 3.0, "b": 8.0}]) == {"a": 3.0, "b": 8.0}


def test_a_ratio_compares_within_a_round_so_that_a_slow_round_does_not_count() -> None:
    ours = [{"cpu": 3.0}, {"cpu": 30.0}, {"cpu": 3.0}]
    theirs = [{"cpu": 2.0}, {"cpu": 20.0}, {"cpu": 2.0}]
    assert ratio("cpu", ours, theirs) == 1.5


def test_numbers_show_the_digits_that_mean_something() -> None:
    assert [number(value) for value in (0.0, 1.2345, 12.345, 123.45, 123456.7)] == [
        "0",
        "1.23",
        "12.3",
        "123",
        "123,457",
    ]


def test_a_table_is_markdown() -> None:
    assert table(["server", "ops/s"], [["floor", 1000.0], ["holdfast", 2.5]]) == (
        "| server | ops/s |\n| --- | ---: |\n| floor | 1,000 |\n| holdfast | 2.5 |"
    )
