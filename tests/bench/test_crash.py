"""The command line of the crash rounds, and what they tell.

A share of the rounds themselves runs in `tests/crash`.
"""

import sys

import pytest

from bench import crash
from bench.diary import Diary


def test_a_run_tells_its_seed_and_what_it_saw(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["crash", "--rounds", "1", "--seed", "11"])
    assert crash.main() == 0
    told = capsys.readouterr().out
    assert told.startswith("seed 11, ")
    assert told.endswith("no violation\n")


def test_a_broken_promise_is_told_with_its_evidence() -> None:
    diary = Diary()
    diary.object("job: something that must not be")
    told = crash.summary(diary, 5, 1.0).splitlines()
    assert told[1:] == ["job: something that must not be", "a promise was broken"]


def test_owners_are_alone_on_their_keys_and_rivals_are_not() -> None:
    keys = [key for _, mine in crash.casting() for key in mine]
    assert all(keys.count(key) == (crash.RIVALS if key.startswith("shared") else 1) for key in keys)
