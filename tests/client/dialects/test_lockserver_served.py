"""What the client says in LockServer's words, our own side of them understands, and the other way round."""

from dataclasses import replace
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from holdfast.client.asks import Acquire, End, Ended, Granted, Refusal, Renew, Renewed
from holdfast.errors import Busy, StoreBusy, Unavailable, Unknown
from holdfast.secret import lease_id_of, token_of
from holdfast.testing.mint import secret_of
from holdfast.wire import lockserver as wire
from holdfast.wire import lockserver_answers as spelling
from holdfast.wire.http import HttpReply, spell
from holdfast.wire.problems import reply_to
from holdfast.words import SECOND, Answer
from tests.client.dialects.codecs import MILLISECOND, WANT, hear, proof
from tests.client.dialects.leases import RENEW, fresh

LEASE_ID = lease_id_of(secret_of(7)).decode()
PROOF = proof(lease_id=LEASE_ID, owner=fresh().owner_of(WANT))


def asked(codec, ask):
    """Read a request as our server does; give the verb, the lock's name, the query and the body."""
    head, _, body = codec.write(ask, "me").partition(b"\r\n\r\n")
    method, target, _ = head.decode().split("\r\n")[0].split(" ")
    parts = urlsplit(target)
    return *wire.route(method, unquote(parts.path)), dict(parse_qsl(parts.query)), body


def heard(codec, reply: HttpReply):
    """Let our server answer."""
    lines = [f"HTTP/1.1 {reply.status} X", f"Content-Length: {len(reply.body)}"]
    lines += [f"{name}: {value}" for name, value in reply.headers]
    ((_, answer),) = hear(codec, "\r\n".join([*lines, "", ""]).encode() + reply.body, by=1)
    return answer


def claimed(codec, ask):
    verb, name, query, body = asked(codec, ask)
    assert verb == wire.ACQUIRE
    return wire.acquire(name.encode(), body, wire.wait_of(query, 60 * SECOND))


@pytest.mark.parametrize("key", ["job", "a b", "%2F", "ä?#", "a:b"])
def test_our_server_reads_what_is_wanted(key):
    want = replace(WANT, key=key, lease_ns=1_500 * MILLISECOND)
    claim = claimed(fresh(), Acquire(want, 2 * SECOND))
    assert claim.key == b"lock:" + key.encode()
    assert (claim.lease_ns, claim.patience_ns) == (1_500 * MILLISECOND, 2 * SECOND)
    assert claim.owner == fresh().owner_of(want).encode()


def test_a_grant_of_our_server_is_believed():
    codec = fresh()
    claim = claimed(codec, Acquire(WANT, 0))
    claim.secret, claim.fence, claim.deadline = secret_of(7), 7, 30 * SECOND
    grant = heard(codec, HttpReply(status=200, body=spell(spelling.lease(claim))))
    assert isinstance(grant, Granted)
    assert (grant.fence, grant.lease_id, grant.owner) == (7, LEASE_ID, claim.owner.decode())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer.BUSY, StoreBusy),  # nobody is known to hold it
        (Answer.STORE_BUSY, StoreBusy),
        (Answer.DRAINING, Unavailable),
        (Answer.TOO_MANY_KEYS, Unavailable),
        (Answer.NO_FENCE, Unknown),
    ],
)
def test_a_refusal_of_our_server_means_what_it_says(answer, error):
    codec = fresh()
    claim = claimed(codec, Acquire(WANT, 0))
    refusal = heard(codec, reply_to(spelling.not_acquired(claim, answer, 0), "application/json"))
    assert isinstance(refusal, Refusal)
    assert type(refusal.error) is error


def test_who_is_refused_by_our_server_hears_who_holds_it():
    codec = fresh()
    claim = claimed(codec, Acquire(WANT, 0))
    claim.rival = claimed(fresh(), Acquire(WANT, 0))
    claim.rival.deadline = 2 * SECOND
    refusal = heard(codec, reply_to(spelling.not_acquired(claim, Answer.BUSY, 0), "application/json"))
    assert type(refusal.error) is Busy
    assert refusal.advice_ns == 500 * MILLISECOND
    assert refusal.ours  # the same claim, in this case


def test_our_server_reads_the_proof_of_a_renewal():
    codec = fresh()
    verb, name, _, body = asked(codec, Renew([(PROOF, 2 * SECOND)]))
    _, command = wire.renew(name.encode(), body)
    assert verb == wire.RENEW
    assert (command.token, command.lease_ns) == (token_of(7, LEASE_ID.encode()), 2 * SECOND)
    assert heard(codec, HttpReply(status=200, body=spell(spelling.Renewed(True, 1)))) == Renewed([True])


@pytest.mark.parametrize(("answer", "renewed"), [(Answer.NOT_HELD, False), (Answer.STORE_BUSY, None)])
def test_our_server_says_whether_it_is_known_that_a_renewal_came_too_late(answer, renewed):
    codec = fresh()
    asked(codec, RENEW)
    assert heard(codec, reply_to(spelling.not_renewed(answer), "application/json")) == Renewed([renewed])


def test_our_server_reads_the_proof_of_a_release():
    codec = fresh()
    verb, name, _, body = asked(codec, End(WANT, PROOF))
    _, command = wire.release(name.encode(), body)
    assert verb == wire.RELEASE
    assert command.token == token_of(7, LEASE_ID.encode())
    assert heard(codec, HttpReply(status=200, body=spell(spelling.Released(True)))) == Ended(was_there=True)


def test_a_release_that_our_server_could_not_try_is_not_over():
    for answer, told in ((Answer.NOT_HELD, Ended), (Answer.STORE_BUSY, Refusal)):
        codec = fresh()
        asked(codec, End(WANT, PROOF))
        assert type(heard(codec, HttpReply(status=200, body=spell(spelling.not_released(answer))))) is told
