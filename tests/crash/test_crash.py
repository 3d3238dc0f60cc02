"""A short share of the crash rounds: a real server over a SQLite file, killed under load and started again.

How many rounds it takes is the business of `make crash`; the rules are tried in `tests/bench/test_diary.py`.
"""

from pathlib import Path

from bench.crash import crash, read_tables

ROUNDS = 5


def test_nothing_that_was_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    diary = crash(ROUNDS, seed=7, folder=tmp_path)
    assert diary.violations == []
    assert diary.tally["rounds"] == ROUNDS
    assert diary.tally["holds checked"] > 0
    assert diary.tally["releases checked"] > 0


def test_the_tables_are_read_and_left_alone(tmp_path: Path) -> None:
    crash(1, seed=7, folder=tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    tokens, held = read_tables(tmp_path / "locks.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert tokens
    assert all(fence <= tokens[key] for key, fence in held.items())
