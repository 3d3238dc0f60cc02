"""The command line of the lease trials: a share of them passes, a bad one is told so that it can be replayed."""

import logging

import pytest

from sim import leases
from sim.__main__ import main
from sim.lease_bugs import BUGS

SHARE = 100


def test_a_share_of_the_trials_has_no_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leases", "--trials", str(SHARE)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{SHARE} lease trials in ")
    assert out.endswith(f"{SHARE} passed, 0 failed\n")
    for fault in ("freeze", "hang", "partition", "server killed", "server paused", "wall clock", "grants"):
        assert f" {fault}" in out


def test_one_trial_is_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    assert leases.main(["7"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("lease trial 7: ")
    assert last == "  no findings"


def test_a_bad_trial_is_told_with_the_end_of_its_history(capsys: pytest.CaptureFixture[str]) -> None:
    assert leases.main(["6", "--bug", "counted_from_the_answer"]) == 1
    out = capsys.readouterr().out
    assert "Granted(at=" in out
    assert "held_in_time at " in out


def test_many_bad_trials_are_counted_and_some_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert leases.main(["--trials", "20", "--bug", "a_lease_ends_early"]) == 1
    out = capsys.readouterr().out
    assert 1 <= out.count(" store, ") <= leases.REPORTS_MAX
    assert " 0 failed" not in out


def test_bugs_are_planted_in_turn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(BUGS) - {"a_lease_ends_early", "found_again_as_new"}:
        monkeypatch.delitem(BUGS, name)
    assert leases.main(["--bugs", "--trials", "3"]) == 1
    out = capsys.readouterr().out
    assert "trial 2: held_in_time" in out
    assert "MISSED" in out
    assert out.endswith("1 passed, 1 failed\n")


def test_the_clients_are_as_loud_afterwards_as_they_were_before() -> None:
    logger = logging.getLogger("holdfast.client")
    before = logger.level
    with leases.quiet():
        assert not logger.isEnabledFor(logging.ERROR)
    assert logger.level == before
