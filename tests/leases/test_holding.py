"""One acquisition: when it deserves a refresh, and what is said of its end."""

import threading

import pytest

from holdfast.client.lease import Lease
from holdfast.leases.beats import Beats
from holdfast.leases.holding import Holding
from holdfast.leases.words import Hold
from holdfast.testing.clock import HandClock

SECOND = 1_000_000_000


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def beats(clock):
    return Beats(clock)


def made(clock, beats, beat_ns=None):
    told = []
    lease = Lease(clock, sent_at=clock(), lease_ns=60 * SECOND, beat_ns=beat_ns)
    hold, event = Hold(b"cluster/", "id"), threading.Event()
    holding = Holding(
        hold, shown="cluster/", fence=7, lease=lease, beats=beats, event=event, told=lambda: told.append(1)
    )
    return holding, told


def test_without_a_limit_it_deserves_a_refresh_always(clock, beats):
    holding, _ = made(clock, beats)
    clock.advance(50)
    assert holding.deserves(clock())


def test_with_a_limit_the_work_or_the_process_has_to_beat(clock, beats):
    holding, _ = made(clock, beats, beat_ns=10 * SECOND)
    clock.advance(11)
    assert not holding.deserves(clock())
    beats.beat()
    assert holding.deserves(clock())
    clock.advance(11)
    holding.lease.beat()
    assert holding.deserves(clock())


def test_it_lives_by_the_clock(clock, beats):
    holding, _ = made(clock, beats)
    assert holding.live
    assert holding.reason == ""
    clock.advance(60)
    assert not holding.live
    assert holding.reason == "its lease ran out"
    holding.silent = True
    assert "no sign of life" in holding.reason


def test_who_waits_for_its_loss_is_told(clock, beats):
    holding, told = made(clock, beats)
    holding.lost()
    assert holding.event.is_set()
    assert told == [1]
