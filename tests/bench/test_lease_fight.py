"""A short fight for one cluster lock on each database: never two holders, and fences that rise."""

import gc
import random

import pytest

from bench.lease_fight import TROUBLES, TROUBLES_OF_FILES, fight

SECONDS = 5.0
LEASE_S = 0.8


# A connection may be dropped as it is when its server is killed while it is being made.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["mariadb", "postgres", "sqlite"])
def test_nobody_believes_to_hold_what_somebody_else_has(kind: str) -> None:
    report = fight(kind, SECONDS, lease_s=LEASE_S, fighters=3, seed=random.randrange(1000))
    gc.collect()
    assert report.verdict.violations == [], report.summary()
    assert {turn.who for turn in report.verdict.turns} == {"fighter 0", "fighter 1", "fighter 2"}
    assert sum(report.tally.values()) >= 2
    assert set(report.tally) <= {*TROUBLES, *TROUBLES_OF_FILES}
