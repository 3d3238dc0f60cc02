"""The heartbeat for real: it renews, says what goes wrong, and says in time that the lease is lost. Both faces.

What it decides, and when, is tested by a clock in the hand in tests/client.
"""

import threading
import time

import pytest

from holdfast.errors import LeaseLost, Unknown
from tests.aio.go_server import BUSY, halfway, silent, text
from tests.aio.lock_faces import wait_until


@pytest.fixture
def client(lock_client, go):
    return lock_client(go.url)


def test_it_renews_until_it_is_stopped(client, go):
    lease = client.try_acquire("job", ttl=30)
    heartbeat = lease.heartbeat(interval=0.01)
    wait_until(lambda: len(go.asked) >= 4)
    heartbeat.stop()
    count = len(go.asked)
    assert count >= 4
    assert (heartbeat.error, heartbeat.lost.is_set(), list(heartbeat.errors())) == (None, False, [])
    heartbeat.raise_if_lost()
    heartbeat.stop()
    assert lease.held
    assert len(go.asked) == count


def test_it_may_be_a_block(client, go):
    lease = client.try_acquire("job", ttl=30)
    with lease.heartbeat(interval=0.01) as heartbeat:
        wait_until(lambda: len(go.asked) >= 2)
        assert not heartbeat.lost.is_set()
    assert lease.held


def test_trouble_is_told_and_made_good(client, go):
    lease = client.try_acquire("job", ttl=30)
    go.tricks.extend([halfway, BUSY, text(500, b"oops"), None])
    heartbeat = lease.heartbeat(interval=0.01)
    errors = heartbeat.errors()
    assert isinstance(next(errors), Unknown)
    assert "BUSY_RETRY" in str(next(errors))
    assert "oops" in str(next(errors))
    wait_until(lambda: heartbeat.error is None)
    assert not heartbeat.lost.is_set()
    heartbeat.stop()
    assert list(errors) == []


def test_a_lease_that_the_server_denies_is_lost_and_everybody_is_told(client, go):
    told = threading.Event()
    lease = client.try_acquire("job", ttl=30)
    heartbeat = lease.heartbeat(interval=0.01, on_lost=told.set)
    go.locks["job"].owner = "somebody else"
    assert heartbeat.lost.wait(10)
    assert told.wait(10)
    with pytest.raises(LeaseLost, match="NOT_OWNER_OR_EXPIRED"):
        heartbeat.raise_if_lost()
    assert [type(error) for error in heartbeat.errors()] == [LeaseLost]
    assert isinstance(heartbeat.error, LeaseLost)
    count = len(go.asked)
    heartbeat.stop()
    assert len(go.asked) == count


def test_a_holder_that_is_cut_off_is_told_before_anybody_else_can_have_the_lock(client, go):
    """The server hears everything and says nothing more: the local clock alone says when it is over."""
    told = []
    lease = client.try_acquire("job", ttl=0.3)
    go.tricks.extend([silent] * 100)
    expiry = time.time() + 0.3
    heartbeat = lease.heartbeat(on_lost=lambda: told.append(time.time()))
    assert heartbeat.lost.wait(10)
    heartbeat.stop()
    assert told[0] < expiry + 0.3 * 2  # the renewal that was heard, but not answered
    assert not lease.held
    with pytest.raises(LeaseLost, match=r"its lease ran out; before that: .* has not answered in time"):
        heartbeat.raise_if_lost()


def test_the_clock_says_so_even_where_no_worker_has_its_turn(client):
    lease = client.try_acquire("job", ttl=0.05)
    heartbeat = client.heartbeat(lease, interval=0.04, extend_by=30)
    heartbeat.stop()
    wait_until(lambda: not lease.held)
    assert heartbeat.lost.is_set()
    assert heartbeat.lost.wait(0)
    assert isinstance(heartbeat.error, LeaseLost)
    with pytest.raises(LeaseLost):
        heartbeat.raise_if_lost()


def test_a_stop_does_not_wait_for_a_server_that_says_nothing(client, go):
    lease = client.try_acquire("job", ttl=30)
    go.tricks.append(silent)
    heartbeat = lease.heartbeat(interval=0.01)
    wait_until(lambda: len(go.asked) == 2)
    began = time.monotonic()
    heartbeat.stop()
    assert time.monotonic() - began < 5
    assert (heartbeat.error, lease.held) == (None, True)


def test_waiting_for_a_loss_has_an_end(client):
    heartbeat = client.try_acquire("job", ttl=30).heartbeat()
    assert not heartbeat.lost.wait(0.01)
    heartbeat.stop()
    assert not heartbeat.lost.wait(10)


def test_a_heartbeat_ends_with_a_release(client, go):
    lease = client.try_acquire("job", ttl=30)
    heartbeat = lease.heartbeat(interval=0.01)
    lease.release()
    assert list(heartbeat.errors()) == []
    assert not heartbeat.lost.is_set()


def test_whatever_on_lost_raises_does_not_hide_the_loss(client, go, caplog):
    lease = client.try_acquire("job", ttl=30)
    heartbeat = lease.heartbeat(interval=0.01, on_lost=lambda: 1 // 0)
    go.locks["job"].owner = "somebody else"
    assert [type(error) for error in heartbeat.errors()] == [LeaseLost]
    assert "ZeroDivisionError" in caplog.text
