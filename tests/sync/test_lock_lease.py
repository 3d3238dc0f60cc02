"""A lease in the hands of its holder, and the block that it lasts for. Both faces.

Stories with real servers are in test_lock_client.py.
"""

import threading

import pytest

from holdfast.errors import BadRequest, LeaseLost
from tests.sync.faces import wait_until
from tests.sync.go_server import silent


@pytest.fixture
def client(connect, go):
    return connect(go.url)


def test_how_a_lease_is_shown(client):
    lease = client.try_acquire("job", ttl=30, owner="w1")
    assert repr(lease) == "<Lease 'job' fencing_token=1 held>"
    assert (lease.lock_name, lease.owner_id, lease.fencing_token, lease.ttl) == ("job", "w1", 1, 30)
    assert lease.lease_id == lease.grant.lease_id
    lease.release()
    assert repr(lease) == "<Lease 'job' fencing_token=1 released>"


def test_a_lease_is_a_number_where_one_is_wanted(client):
    lease = client.try_acquire("job", ttl=30)
    inner = getattr(lease, "_inner", lease)
    assert int(inner) == inner.__index__() == inner.FencingToken() == 1


def test_a_lease_is_lost_but_a_released_one_is_not(client, go):
    lost, released = client.try_acquire("a", ttl=30), client.try_acquire("b", ttl=30)
    released.release()
    go.locks["a"].owner = "somebody else"
    with pytest.raises(LeaseLost):
        lost.renew()
    assert (lost.lost, lost.held, released.lost, released.held) == (True, False, False, False)


def test_the_block_passes_everything_on(client, go):
    told = threading.Event()

    def work():
        with client.lock("job", ttl=30, owner="w1", interval=0.01, extend_by=60, on_lost=told.set) as lease:
            assert lease.owner_id == "w1"
            first = lease.lease_expiry_ms
            wait_until(lambda: lease.lease_expiry_ms > first + 20_000)
            go.locks["job"].lease = "of somebody else"
            assert told.wait(10)

    with pytest.raises(LeaseLost, match="NOT_OWNER_OR_EXPIRED"):
        work()
    assert go.locks["job"].owner == "w1"


def test_a_block_whose_heartbeat_cannot_be_gives_the_lock_back(client, go):
    with pytest.raises(BadRequest, match="interval"):
        client.lock("job", ttl=30, interval=40).__enter__()
    assert go.locks["job"].owner == ""


def test_a_block_may_be_entered_again_when_it_was_left(client):
    block = client.lock("job", ttl=30)
    tokens = []
    for _ in range(2):
        with block as lease:
            tokens.append(int(lease))
    assert tokens == [1, 2]


def test_a_block_during_which_the_lease_ran_out_says_so(client, go):
    def work():
        with client.lock("job", ttl=0.1, interval=0.05) as lease:
            go.tricks.append(silent)
            wait_until(lambda: not lease.held)

    with pytest.raises(LeaseLost, match="the lease of 'job' was lost: its lease ran out"):
        work()
