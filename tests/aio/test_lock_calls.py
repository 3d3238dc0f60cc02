"""What the lock client does when something goes wrong: lost answers, busy stores, servers that say nothing or nonsense.

Both faces; the server is a stand-in for the original that can be told to misbehave, or ours where it knows more.
"""

import time
import uuid
from datetime import timedelta

import pytest

from holdfast import NotAcquired, RetryPolicy, UnexpectedStatus
from holdfast.errors import BadRequest, Closed, LeaseLost, Unavailable, Unknown
from tests.aio.go_server import BEFORE, BUSY, after, halfway, silent, text
from tests.aio.lock_faces import wait_until

QUICK = RetryPolicy(max_retries=3, max_delay=0.05)


@pytest.fixture
def client(lock_client, go):
    return lock_client(go.url)


def kinds(go):
    return [kind for kind, _, _ in go.asked]


# --- what is refused at once ---


@pytest.mark.parametrize(
    "named", [{"timeout": 0}, {"timeout": -1}, {"timeout": 3601}, {"timeout": "1"}, {"owner": ""}, {"token": "a\nb"}]
)
def test_settings_that_cannot_be(lock_client, go, named):
    with pytest.raises(BadRequest):
        lock_client(go.url, **named).look("job")
    assert go.asked == []


def test_tls_settings_for_a_connection_without_tls(lock_face):
    with pytest.raises(BadRequest, match="begins with http://"):
        lock_face.client("http://127.0.0.1:1", tls=object())


@pytest.mark.parametrize(
    "named", [{"ttl": 0}, {"ttl": 601}, {"ttl": 1, "wait": -1}, {"ttl": 1, "wait": 61}, {"ttl": 1, "owner": ""}]
)
def test_an_acquire_that_cannot_be(client, go, named):
    with pytest.raises(BadRequest):
        client.acquire("job", **named)
    assert go.asked == []


def test_a_client_that_is_closed(client):
    client.close()
    with pytest.raises(Closed):
        client.look("job")


def test_every_client_has_an_owner_of_its_own(lock_client, go):
    owners = {lock_client(go.url).owner for _ in range(5)}
    assert len(owners) == 5
    assert lock_client(go.url, owner="w1").owner == "w1"


# --- acquire ---


def test_two_refusals_and_a_grant_are_three_calls(client, go):
    go.tricks.extend([BUSY, BUSY])
    lease = client.acquire("job", ttl=timedelta(seconds=30), retry=QUICK)
    assert kinds(go) == ["acquire"] * 3
    assert (lease.lock_name, lease.owner_id, lease.fencing_token, lease.ttl) == ("job", client.owner, 1, 30)


def test_retries_have_an_end(client, go):
    client.try_acquire("job", ttl=30)
    with pytest.raises(NotAcquired):
        client.acquire("job", ttl=30, retry=QUICK)
    assert kinds(go) == ["acquire"] * 5


def test_the_total_wait_is_a_hard_bound(client, go):
    client.try_acquire("job", ttl=600)
    began = time.monotonic()
    with pytest.raises(NotAcquired):
        client.acquire("job", ttl=1, retry=RetryPolicy(max_total_wait=0.3))
    assert time.monotonic() - began <= 0.3
    # It holds, too, where the server does not answer.
    go.tricks.append(silent)
    began = time.monotonic()
    with pytest.raises(Unknown, match="not answered in time"):
        client.acquire("other", ttl=1, retry=RetryPolicy(max_total_wait=0.3))
    assert 0.3 <= time.monotonic() - began < 5


def test_a_server_that_is_not_there_is_tried_again_and_then_reported(lock_client):
    client = lock_client("http://127.0.0.1:1")
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1 cannot be reached"):
        client.acquire("job", ttl=1, retry=QUICK)
    with pytest.raises(Unavailable):
        client.try_acquire("job", ttl=1)


def test_a_name_that_is_no_host(lock_client):
    client = lock_client(f"http://{'x' * 64}.invalid:1")
    with pytest.raises(Unavailable, match="cannot be reached"):
        client.try_acquire("job", ttl=1)


def test_a_request_that_was_cut_off_before_it_was_served_is_sent_again(client, go):
    go.tricks.append(BEFORE)
    assert client.acquire("job", ttl=30, retry=QUICK).fencing_token == 1


@pytest.mark.parametrize("trick", [after, halfway])
def test_a_lost_grant_of_the_original_stands_in_the_way_until_it_ends(client, go, trick):
    go.tricks.append(trick)
    lease = client.acquire("job", ttl=0.1, retry=RetryPolicy(max_delay=0.05))
    assert lease.fencing_token == 2
    assert lease.held


def test_a_lost_answer_is_reported_where_it_is_not_to_be_asked_again(client, go):
    go.tricks.append(halfway)
    with pytest.raises(Unknown, match="closed before the answer was whole"):
        client.acquire("job", ttl=30, retry=RetryPolicy(retry_transport=False))


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_a_server_in_trouble_is_asked_again(client, go, status):
    go.tricks.append(text(status, b"<html>wait</html>"))
    client.acquire("job", ttl=0.1, retry=RetryPolicy(max_delay=0.05))
    go.tricks.append(text(status, b"<html>wait</html>"))
    with pytest.raises(UnexpectedStatus, match="wait"):
        client.acquire("other", ttl=0.1, retry=RetryPolicy(retry_transport=False))


@pytest.mark.parametrize(
    ("status", "body"), [(400, b"no"), (404, b"404 page not found\n"), (200, b"<html>"), (409, b"")]
)
def test_what_would_be_answered_the_same_again_is_raised(client, go, status, body):
    go.tricks.append(text(status, body))
    with pytest.raises(UnexpectedStatus) as raised:
        client.acquire("job", ttl=30, retry=QUICK)
    assert (raised.value.status, raised.value.body) == (status, body.decode())
    assert kinds(go) == ["acquire"]


OVER = text(409, b'{"renewed":false,"reason":"NOT_OWNER_OR_EXPIRED"}')


def test_a_lease_that_may_be_old_and_is_over_is_asked_for_anew_under_another_key(client, go):
    """Nobody knows when the lease of a lost request began, so it is renewed first; what the server denies is none."""
    go.tricks.extend([BEFORE, None, OVER])
    lease = client.acquire("job", ttl=0.1, retry=RetryPolicy(max_delay=0.05))
    keys = [headers["Idempotency-Key"] for kind, headers, _ in go.asked if kind == "acquire"]
    assert lease.held
    assert lease.fencing_token == 2
    assert (keys[0] == keys[1], keys[1] == keys[2]) == (True, False)


@pytest.mark.parametrize("trouble", [BUSY, text(500, b"oops")])
def test_a_lease_that_may_be_old_and_cannot_be_renewed_is_used_for_what_is_left_of_it(client, go, trouble):
    go.tricks.extend([BEFORE, None, trouble])
    lease = client.acquire("job", ttl=30, retry=QUICK)
    assert kinds(go) == ["acquire", "acquire", "renew"]
    assert (lease.held, lease.fencing_token) == (True, 1)


@pytest.mark.parametrize("trouble", [BUSY, text(500, b"oops")])
def test_of_a_lease_that_may_be_old_and_cannot_be_renewed_nothing_may_be_left(client, go, trouble):
    """The first request was lost for longer than a lease lasts: what comes then is not relied on unless renewed."""
    go.tricks.extend([BEFORE, None, trouble])
    lease = client.acquire("job", ttl=0.04, retry=RetryPolicy(min_delay=0.05, max_delay=0.05, jitter=0))
    assert kinds(go).count("renew") == 2
    assert (lease.held, lease.fencing_token) == (True, 2)


# --- ours knows the key of a request, and keeps a queue ---


@pytest.fixture(params=["memory", "sqlite"])
def our_url(request, lock_servers):
    return lock_servers[request.param]


class Cut:
    """Loses the answers to the next requests of a client, after the server has given them."""

    def __init__(self, client, monkeypatch):
        inner = getattr(client, "_inner", client)
        self.left = 0
        self.asked = []
        exchange = inner._pool.exchange
        if hasattr(client, "_inner"):

            async def cut(ask, until, **named):
                answer = await exchange(ask, until, **named)
                return self.pass_on(ask, answer)
        else:

            def cut(ask, until, **named):
                return self.pass_on(ask, exchange(ask, until, **named))

        monkeypatch.setattr(inner._pool, "exchange", cut)

    def pass_on(self, ask, answer):
        self.asked.append(ask.path.rpartition("/")[2])
        if self.left:
            self.left -= 1
            raise Unknown("the answer was lost")
        return answer


def test_a_lost_grant_is_found_again_by_its_key(lock_client, our_url, monkeypatch):
    client, name = lock_client(our_url), str(uuid.uuid4())
    cut = Cut(client, monkeypatch)
    cut.left = 2
    lease = client.acquire(name, ttl=30, retry=QUICK)
    # It was renewed at once: nobody can know for how long a lease has been running whose grant was lost.
    assert cut.asked == ["acquire", "acquire", "acquire", "renew"]
    assert lease.remaining > 25
    assert client.look(name)["fencing_token"] == int(lease)
    assert lease.release().released


def test_a_lost_grant_that_cannot_be_renewed_is_used_for_what_is_left_of_it(lock_client, our_url, monkeypatch):
    client, name = lock_client(our_url), str(uuid.uuid4())
    cut = Cut(client, monkeypatch)
    passed = cut.pass_on

    def lose_renewals(ask, answer):
        if ask.path.endswith("renew"):
            raise Unknown("the answer was lost")
        return passed(ask, answer)

    cut.pass_on, cut.left = lose_renewals, 1
    lease = client.acquire(name, ttl=30, retry=QUICK)
    assert lease.held
    assert lease.remaining < 29.4


def test_whoever_waits_in_the_queue_gets_a_whole_lease(lock_client, our_url, monkeypatch):
    client, name = lock_client(our_url), str(uuid.uuid4())
    client.try_acquire(name, ttl=0.3)
    cut = Cut(client, monkeypatch)
    lease = client.acquire(name, ttl=1, wait=30)
    # It had waited for a good part of the length of its own lease, and it was renewed when it came.
    assert cut.asked == ["acquire?wait_ms=30000", "renew"]
    assert lease.held
    lease.release()


def test_a_wait_in_the_queue_ends_with_the_total_wait(lock_client, our_url):
    client, name = lock_client(our_url), str(uuid.uuid4())
    client.try_acquire(name, ttl=30)
    began = time.monotonic()
    with pytest.raises(NotAcquired):
        client.acquire(name, ttl=1, wait=30, retry=RetryPolicy(max_total_wait=0.3))
    assert time.monotonic() - began < 5


# --- renew ---


def test_a_renewal_that_is_refused_loses_the_lease(client, go):
    lease = client.try_acquire("job", ttl=30)
    go.locks["job"].owner = "somebody else"
    with pytest.raises(LeaseLost, match="NOT_OWNER_OR_EXPIRED"):
        lease.renew()
    assert lease.lost
    with pytest.raises(LeaseLost):
        lease.renew()
    assert kinds(go) == ["acquire", "renew"]


def test_a_renewal_that_a_busy_store_did_not_do_is_no_loss(client, go):
    lease = client.try_acquire("job", ttl=30)
    go.tricks.append(BUSY)
    with pytest.raises(Unavailable, match="busy"):
        lease.renew()
    assert lease.held
    go.tricks.append(BUSY)
    assert client.RenewOnce(lease, 30) == (0, False, "BUSY_RETRY")
    lease.renew(30)


def test_what_is_over_by_the_clock_of_this_side_is_not_renewed_any_more(client, go):
    """The server might still do it, for nobody: this side said that it is over, and does not take that back."""
    lease = client.try_acquire("job", ttl=0.05)
    wait_until(lambda: not lease.held)
    assert client.RenewOnce(lease, 30) == (0, False, "NOT_OWNER_OR_EXPIRED")
    assert kinds(go) == ["acquire"]


def test_a_renewal_whose_answer_comes_too_late_is_none(client, go):
    def late(handler, status, fields):
        wait_until(lambda: not lease.held)
        handler.answer(status, fields)
        return True

    lease = client.try_acquire("job", ttl=0.1)
    go.tricks.append(late)
    assert client.RenewOnce(lease, 30) == (0, False, "NOT_OWNER_OR_EXPIRED")
    assert lease.lost


def test_a_renewal_for_too_long_is_refused(client):
    lease = client.try_acquire("job", ttl=30)
    with pytest.raises(BadRequest, match="extend_by"):
        lease.renew(601)
    for interval in (30, 0, 0.0001):
        with pytest.raises(BadRequest, match="interval"):
            lease.heartbeat(interval=interval)


# --- release ---


def test_a_release_is_tried_again_while_the_store_is_busy(client, go):
    lease = client.try_acquire("job", ttl=30)
    go.tricks.extend([BUSY, BUSY])
    assert client.release(lease).released
    assert kinds(go) == ["acquire", "release", "release", "release"]


def test_a_store_that_stays_busy_is_a_result(lock_client, go):
    client = lock_client(go.url, timeout=0.2)
    lease = client.try_acquire("job", ttl=30)
    go.tricks.extend([BUSY] * 100)
    result = client.release(lease)
    assert (result.released, result.reason) == (False, "BUSY_RETRY")
    assert not lease.held


def test_a_release_whose_answer_was_lost_is_sent_again_and_is_no_loss(client, go):
    with client.lock("job", ttl=30):
        go.tricks.append(after)
    assert kinds(go) == ["acquire", "release", "release"]
    assert go.locks["job"].owner == ""


def test_a_release_that_cannot_be_sent_is_raised_but_not_at_the_end_of_a_block(lock_client, caplog):
    from tests.aio.go_server import GoServer

    server = GoServer().__enter__()
    client = lock_client(server.url, timeout=0.2)
    lease = client.try_acquire("job", ttl=30)
    with client.lock("other", ttl=30):
        server.__exit__()
    assert "'other' could not be released" in caplog.text
    with pytest.raises(Unavailable):
        client.release(lease)
    assert not lease.held


def test_a_release_that_the_server_does_not_understand_is_raised(client, go):
    lease = client.try_acquire("job", ttl=30)
    go.tricks.append(text(400, b"no"))
    with pytest.raises(UnexpectedStatus):
        client.release(lease)
