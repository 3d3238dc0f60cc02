"""The lock client against our server on both stores and against a stand-in for the original, in both faces.

What goes wrong on the way is in the tests of its parts.
"""

import json
import threading
import uuid
from datetime import timedelta

import pytest

from holdfast import LockClient, NotAcquired, RetryPolicy
from holdfast.client.clock import now_ns
from holdfast.client.lease import Lease as Term
from holdfast.client.retry import SECOND
from holdfast.errors import BadRequest, LeaseLost, TimedOut
from holdfast.fencing import FencingGuard, StaleToken
from holdfast.sync.lock_client import LockClient as Blocking
from tests.aio.go_server import FIELDS

NAMES = ["job", "a b", "j\u00f6b \u20ac", "50%", "a?b=c&d#e", "a:b.c", "...", '"', "<&>", "%2F", "\x01"]


@pytest.fixture
def name():
    """Give a lock that no other test has."""
    return f"lock {uuid.uuid4()}"


@pytest.fixture
def client(lock_client, lock_url):
    return lock_client(lock_url)


def test_the_client_is_found_where_everybody_looks():
    assert LockClient is Blocking


def test_take_renew_give_back(client, name):
    lease = client.try_acquire(name, ttl=30)
    assert (lease.lock_name, lease.owner_id, lease.ttl) == (name, client.owner, 30)
    assert lease.held
    assert 20 < lease.remaining < 30
    before = lease.lease_expiry_ms
    lease.renew(timedelta(minutes=1))
    assert lease.lease_expiry_ms > before
    assert lease.remaining > 30
    lease.check()
    assert client.release(lease).released
    assert not lease.held
    assert lease.remaining == 0
    again = lease.release()
    assert (again.released, again.reason, bool(again)) == (False, "NOT_OWNER", False)
    with pytest.raises(LeaseLost, match="has been released"):
        lease.check()


def test_every_lease_of_a_lock_has_a_higher_token(client, name):
    tokens = []
    for _ in range(3):
        lease = client.try_acquire(name, ttl=30)
        assert int(lease) == lease.fencing_token == lease.FencingTokenValue() == lease.FencingToken()
        tokens.append(lease.fencing_token)
        lease.release()
    assert tokens == sorted(set(tokens))


def test_a_lock_that_is_held_is_not_to_be_had(client, name):
    lease = client.try_acquire(name, ttl=60, owner="w1")
    with pytest.raises(NotAcquired) as refused:
        client.try_acquire(name, ttl=60)
    assert (refused.value.reason, refused.value.current_owner, refused.value.retry_after) == ("HELD", "w1", 1.0)
    assert refused.value.current_expiry == pytest.approx(lease.lease_expiry_ms / 1000)
    lease.release()
    client.try_acquire(name, ttl=60).release()


@pytest.mark.parametrize("special", NAMES)
def test_a_name_may_be_nearly_anything(client, special):
    with client.lock(special, ttl=30) as lease:
        assert lease.lock_name == special
        found = client.look(special)
        assert (found["lock_name"], found["held"], found["fencing_token"]) == (special, True, int(lease))
    assert client.look(special) == {"lock_name": special, "held": False}


@pytest.mark.parametrize("special", ["", "a/b", "/", ".", "..", "x" * 1025, "\ud800", None, 5])
def test_a_name_that_no_path_can_have_is_refused_at_once(lock_client, special):
    client = lock_client("http://127.0.0.1:1")
    for call in (lambda: client.acquire(special, ttl=1), lambda: client.look(special)):
        with pytest.raises(BadRequest, match="name"):
            call()


def test_whoever_waits_gets_the_lock_when_it_is_free(client, name):
    lease = client.try_acquire(name, ttl=30)
    threading.Timer(0.05, lease.release).start()
    taken = client.acquire(name, ttl=30, retry=RetryPolicy(max_delay=0.05))
    assert int(taken) > int(lease)
    taken.release()


def test_a_lease_that_is_not_renewed_ends_and_the_next_one_gets_the_lock(client, name):
    lease = client.try_acquire(name, ttl=0.1)
    taken = client.acquire(name, ttl=30)
    assert not lease.held
    assert lease.lost
    assert lease.release().reason == "NOT_OWNER"
    taken.check()
    taken.release()


def test_a_heartbeat_keeps_the_lock_for_longer_than_a_lease(client, name):
    with client.lock(name, ttl=0.3) as lease:
        first = lease.lease_expiry_ms
        with pytest.raises(NotAcquired):
            client.acquire(name, ttl=1, retry=RetryPolicy(max_total_wait=0.8))
        assert lease.lease_expiry_ms > first + 300
        lease.check()
    client.try_acquire(name, ttl=30).release()


def test_a_lock_taken_by_somebody_else_is_lost(client, name):
    lease = client.try_acquire(name, ttl=60)
    heartbeat = lease.heartbeat(interval=0.02)
    assert client.release(client_copy(lease)).released
    assert heartbeat.lost.wait(10)
    with pytest.raises(LeaseLost, match="NOT_OWNER_OR_EXPIRED"):
        heartbeat.raise_if_lost()
    assert isinstance(heartbeat.error, LeaseLost)
    assert not lease.held


def client_copy(lease):
    """Make a second lease with the same proof, as an operator with a copy of it might."""
    inner = getattr(lease, "_inner", lease)
    return type(inner)(inner._server, inner.grant, Term(now_ns, sent_at=now_ns(), lease_ns=60 * SECOND))


def test_the_end_of_a_block_raises_when_the_lock_was_lost(client, name):
    def work():
        with client.lock(name, ttl=60, interval=0.02) as lease:
            client.release(client_copy(lease))

    with pytest.raises(LeaseLost, match=r"was lost: the server says NOT_OWNER"):
        work()


def test_the_exception_of_a_block_is_never_hidden(client, name):
    def work():
        with client.lock(name, ttl=60) as lease:
            client.release(client_copy(lease))
            raise TimedOut("of the block")

    with pytest.raises(TimedOut, match="of the block"):
        work()
    client.try_acquire(name, ttl=1).release()


def test_a_block_may_be_left_after_a_release(client, name):
    with client.lock(name, ttl=60) as lease:
        assert lease.release().released
    assert not client.look(name)["held"]


def test_a_paused_holder_cannot_write_after_the_next_one(client, name):
    """A's lease ends while it is paused; B takes the lock and writes; A wakes up and writes."""
    guard, book = FencingGuard(), []
    a = client.try_acquire(name, ttl=0.05)
    with guard.admit(a.fencing_token):
        book.append("A, in time")
    b = client.acquire(name, ttl=30)
    with guard.admit(b.fencing_token):
        book.append("B")
    with pytest.raises(StaleToken) as refused, guard.admit(a.fencing_token):
        book.append("A, too late")
    assert (refused.value.token, refused.value.highest) == (int(a), int(b))
    assert book == ["A, in time", "B"]
    with pytest.raises(LeaseLost):
        a.check()
    b.release()


def test_the_names_of_the_go_client(client, name):
    lease = client.AcquireOnce(name, "worker-1", 30)
    assert lease.owner_id == "worker-1"
    expiry, renewed, reason = client.RenewOnce(lease, 60)
    assert (expiry == lease.lease_expiry_ms, renewed, reason) == (True, True, "")
    assert client.ReleaseOnce(lease).released
    assert client.Release(lease).reason == "NOT_OWNER"
    assert client.RenewOnce(lease, 60) == (0, False, "NOT_OWNER_OR_EXPIRED")
    lease = client.AcquireWithRetry(name, "worker-1", 30, RetryPolicy(max_retries=1))
    heartbeat = client.StartHeartbeat(lease, 0.02, 30)
    client.release(client_copy(lease))
    assert [type(error) for error in heartbeat.errors()] == [LeaseLost]


def test_many_callers_and_one_lock(lock_client, lock_url, name):
    """Forty hold it in turn; none sees another inside, and every token is new."""
    inside, tokens, faults = threading.Lock(), [], []
    client = lock_client(lock_url)

    def work(number):
        lease = client.acquire(name, ttl=30, owner=f"w{number}", retry=RetryPolicy(max_retries=2000, max_delay=0.05))
        if not inside.acquire(blocking=False):
            faults.append("two inside")
        tokens.append(int(lease))
        inside.release()
        lease.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert faults == []
    assert len(tokens) == 40
    assert tokens == sorted(set(tokens))


def test_nothing_is_sent_that_the_original_does_not_know(go, lock_client, name):
    client = lock_client(go.url, token="secret")
    with client.lock(name, ttl=30, wait=1) as lease:
        lease.renew()
    kinds = [kind for kind, _, _ in go.asked]
    assert kinds == ["acquire", "renew", "release"]
    for kind, headers, body in go.asked:
        assert set(json.loads(body)) == set(FIELDS[kind])
        assert headers["Authorization"] == "Bearer secret"
    assert len(go.connections) == 1
