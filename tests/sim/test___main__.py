"""The command line of the simulator: what it prints, and its exit codes.

What it runs is tested elsewhere.
"""

import pytest

from sim.__main__ import main
from sim.bugs import BUGS


def test_a_good_seed_has_little_to_tell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["3"]) == 0
    assert capsys.readouterr().out.startswith("seed 3: no findings in ")


def test_a_bad_seed_is_told_with_its_commit_and_the_last_events(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["0", "--bug", "answered_twice"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("seed 0, commit ")
    assert any("was told" in line for line in lines)
    assert "ledger: step" in "".join(lines)


def test_many_seeds_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "5", "--from", "10"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("5 seeds, 0 findings, ")
    assert last == "5 passed, 0 failed"


def test_many_bad_seeds_are_counted_and_some_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "8", "--bug", "answered_twice"]) == 1
    out = capsys.readouterr().out
    assert out.count(", commit ") == 3
    assert out.endswith("0 passed, 8 failed\n")


def test_bugs_are_planted_in_turn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(BUGS) - {"answered_twice", "the_good_slot_is_overwritten"}:
        monkeypatch.delitem(BUGS, name)
    assert main(["--bugs", "--seeds", "1"]) == 1
    out = capsys.readouterr().out
    assert "seed 0: " in out
    assert "MISSED" in out
    assert out.endswith("1 passed, 1 failed\n")
