"""A few lease trials with real processes find nothing, and nobody else's settings reach what is tried."""

import re
import time

from bench import lease_trials
from bench.lease_holder import search
from bench.lease_site import environment
from bench.lease_trials import FAULTS, KINDS, Kind, Report, try_all
from bench.lease_verdict import Story

# One of each sort: a process that stands still, a partition, a dead server, a loop and an interpreter that hang.
FEW = [
    Kind("threads", "stop"),
    Kind("run", "stop"),
    Kind("threads", "regex"),
    Kind("loop", "sleep and stall"),
    Kind("run", "stall"),
    Kind("threads", "server"),
]


def test_nobody_believes_to_hold_what_somebody_else_was_granted(monkeypatch):
    monkeypatch.setattr(lease_trials, "KINDS", FEW)
    monkeypatch.setattr(lease_trials, "LEASES_S", (2.0,))
    report = try_all(len(FEW), at_once=len(FEW), seed=1)
    assert report.violations == []
    assert report.tally["trials"] == len(FEW)
    assert all(report.tally[f"({kind})"] == 1 for kind in FEW)
    assert (
        report.tally["lost"] >= len(FEW) // 2
    )  # a server may come back in time, and a busy machine is late with faults


def test_every_fault_of_every_kind_is_known():
    assert {fault for kind in KINDS for fault in kind.fault.split(" and ")} == set(FAULTS)
    assert {kind.who for kind in KINDS} == {"threads", "loop", "run"}


def test_an_exit_code_that_says_nothing_of_the_loss_is_a_violation():
    report = Report()
    report.add(Kind("run", "stall"), Story("trial", 1, next_grant_ns=2, alive_ns=1, exit_code=1))
    assert report.violations == ["trial: the exit code of holdfast run was 1"]
    assert report.summary().endswith("1 violations")


def test_a_search_takes_as_long_as_it_was_told():
    began = time.monotonic()
    search(0.05)
    assert time.monotonic() - began >= 0.05


def test_settings_of_whoever_tries_are_left_out(monkeypatch):
    monkeypatch.setenv("HOLDFAST_SERVER", "holdfast://elsewhere")
    assert not any(re.match("HOLDFAST_", name) for name in environment())


def test_what_does_not_begin_is_a_violation_and_nothing_is_left_running(monkeypatch):
    monkeypatch.setattr(lease_trials, "KINDS", [Kind("threads", "stall")])
    monkeypatch.setattr(lease_trials, "LEASES_S", (-1.0,))
    report = try_all(1, at_once=1, seed=1)
    assert report.violations == ["trial 0 (threads, stall): the holder ended before it held anything: 1"]
