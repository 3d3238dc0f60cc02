"""A lease in the hands of its holder, and the block that it lasts for. Both faces.

Stories with real servers are in test_lock_client.py.
"""

import os
import threading

import pytest

from holdfast.errors import BadRequest, LeaseLost
from holdfast.sync.lock_client import LockClient
from tests.aio.go_server import silent
from tests.aio.lock_faces import wait_until


@pytest.fixture
def client(lock_client, go):
    return lock_client(go.url)


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


def test_a_child_of_a_fork_cannot_give_back_what_its_parent_holds(go):
    """Not even by leaving the block in which it was forked, as it does when it calls sys.exit."""
    with LockClient(go.url) as client:
        block = client.lock("job", ttl=30, interval=0.01)
        lease = block.__enter__()
        asked = len(go.asked)
        assert "released=False" in in_child(lease.release)
        assert "it belongs to the process that this one was forked from" in in_child(
            lambda: block.__exit__(None, None, None)
        )
        assert in_child(lambda: client.RenewOnce(lease, 30)) == "(0, False, 'NOT_OWNER_OR_EXPIRED')"
        # The parent goes on, and its heartbeat too.
        wait_until(lambda: len(go.asked) > asked)
        lease.check()
        assert {kind for kind, _, _ in go.asked} == {"acquire", "renew"}
        block.__exit__(None, None, None)
    assert go.locks["job"].owner == ""


def in_child(work):
    """Do something in a child of a fork; give what came of it, as text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                said = repr(work())
            except LeaseLost as error:
                said = str(error)
            os.write(write, said.encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def test_a_block_is_entered_once_at_a_time(client):
    block = client.lock("job", ttl=30)
    with block, pytest.raises(BadRequest, match="entered already"):
        block.__enter__()
