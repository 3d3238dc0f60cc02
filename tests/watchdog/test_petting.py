"""The sign of life: how often systemd hears of it, who may give it, and that leases hear of each one."""

import os
import threading

import pytest

from holdfast.leases.beats import Beats
from holdfast.watchdog import Watchdog
from holdfast.watchdog.petting import limit_of

SECOND = 1_000_000_000


class Hand:
    """A clock that a test turns, and a main loop under it."""

    def __init__(self):
        self.now = 5 * SECOND
        self.beats = Beats(self.clock)

    def clock(self):
        return self.now

    def watchdog(self, environ, **wishes):
        return Watchdog(environ=environ, clock=self.clock, beating=self.beats, **wishes)

    def pass_s(self, seconds):
        self.now += int(seconds * SECOND)


@pytest.fixture
def hand():
    return Hand()


def test_however_often_it_is_petted_systemd_hears_of_it_every_ten_seconds(systemd, hand):
    watchdog = hand.watchdog(systemd.environ(watchdog_s=60))
    told = 0
    for _ in range(301):
        told += watchdog.pet()
        hand.pass_s(0.1)
    assert told == 4
    assert systemd.heard() == ["WATCHDOG=1"] * 4


def test_an_impatient_watchdog_hears_three_times_within_its_limit(systemd, hand):
    watchdog = hand.watchdog(systemd.environ(watchdog_s=3, pid=os.getpid()))
    told = []
    for _ in range(6):
        told.append(watchdog.pet())
        hand.pass_s(0.5)
    assert told == [True, False] * 3


def test_what_did_not_leave_is_tried_again_by_the_next_call(systemd, hand):
    watchdog = hand.watchdog(systemd.environ(watchdog_s=60))
    systemd.fill()
    assert not watchdog.pet()
    systemd.heard()
    assert watchdog.pet()
    assert systemd.heard() == ["WATCHDOG=1"]


@pytest.mark.parametrize(
    ("variables", "limit_ns"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60 * SECOND),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60 * SECOND),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_limit_is_read_where_it_was_meant_for_this_process(variables, limit_ns):
    assert limit_of(variables) == limit_ns


def test_without_an_armed_watchdog_systemd_hears_nothing_and_leases_hear_all_the_same(systemd, hand):
    watchdog = hand.watchdog(systemd.environ(), beat_timeout=30)
    hand.pass_s(31)
    assert not hand.beats.lately(hand.now, None)
    assert not watchdog.pet()
    assert hand.beats.lately(hand.now, None)
    assert systemd.heard() == []


def test_leases_go_by_the_limit_of_systemd_unless_told_otherwise(systemd, hand):
    for wishes, limit_s in [({}, 60), ({"beat_timeout": 15}, 15)]:
        watchdog = hand.watchdog(systemd.environ(watchdog_s=60), **wishes)
        watchdog.pet()
        hand.pass_s(limit_s)
        assert hand.beats.lately(hand.now, None)
        hand.pass_s(0.001)
        assert not hand.beats.lately(hand.now, None)


def test_without_any_limit_leases_wait_for_no_sign_of_life(hand):
    hand.watchdog({})
    hand.pass_s(1_000_000)
    assert hand.beats.lately(hand.now, None)


def test_a_worker_cannot_hide_that_the_main_loop_hangs(systemd, hand):
    watchdog = hand.watchdog(systemd.environ(watchdog_s=60))
    hand.pass_s(61)
    told = []
    worker = threading.Thread(target=lambda: told.append(watchdog.pet()))
    worker.start()
    worker.join()
    assert told == [False]
    assert systemd.heard() == []
    assert not hand.beats.lately(hand.now, None)


def test_something_more_may_hear_of_each_sign_of_life(hand):
    heard = []
    watchdog = hand.watchdog({})
    watchdog.feeds(lambda: heard.append(hand.now))
    watchdog.pet()
    watchdog.pet()
    assert len(heard) == 2


def test_the_child_of_a_fork_does_not_pet_in_the_place_of_its_parent(systemd, hand):
    watchdog = hand.watchdog(systemd.environ(watchdog_s=60))
    child = os.fork()
    if child == 0:
        os._exit(watchdog.pet() or watchdog.limit_ns is not None)
    assert os.waitpid(child, 0)[1] == 0
    assert systemd.heard() == []
    assert watchdog.pet()


def test_ready_status_and_stopping_are_told_as_systemd_reads_them(systemd, hand):
    watchdog = hand.watchdog(systemd.environ())
    assert watchdog.ready("looking for work")
    assert not watchdog.status("looking for work")
    assert watchdog.status("elected\nWATCHDOG=trigger")
    assert watchdog.stopping("")
    assert systemd.heard() == [
        "READY=1\nSTATUS=looking for work",
        "STATUS=elected WATCHDOG=trigger",
        "STOPPING=1",
    ]
