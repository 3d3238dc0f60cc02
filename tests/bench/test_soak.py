"""A short share of the soak: a real server under many callers, some of whom vanish or outstay their leases.

How long the soak takes is the business of `make soak`; the rules it applies are tried in `test_history.py`.
"""

from bench.soak import soak


def test_many_callers_on_few_keys_of_a_real_server_see_no_rule_broken() -> None:
    report = soak(seconds=3)
    assert report.violations == []
    assert report.tally["grants"] > 0
