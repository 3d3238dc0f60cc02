"""What the client says in the line protocol, our own line door understands, and the other way round."""

from dataclasses import replace

import pytest

from holdfast.client.asks import Acquire, End, Ended, Enqueue, Granted, Queued, Refusal, Renew, Renewed, Wait
from holdfast.client.dialects.dflock import DflockCodec
from holdfast.errors import Busy, Forbidden, LimitMismatch, TimedOut
from holdfast.testing.line_stage import LineStage
from tests.client.dialects.codecs import SEATS, SECOND, WANT, hear, proof


class Peer:
    """A client of the real line door, by hand."""

    def __init__(self, stage, auth=None):
        self.codec = DflockCodec(auth)
        self.caller = stage.caller()
        if greeting := self.codec.greeting():
            self.caller.send(greeting)
            hear(self.codec, self.caller.transport.take(), by=1)

    def ask(self, ask):
        self.caller.send(self.codec.write(ask, "me"))
        return self.hear()

    def hear(self):
        heard = hear(self.codec, self.caller.transport.take(), by=1)
        return heard[0][1] if heard else None


def test_a_lock_is_taken_renewed_and_given_back_at_our_own_server():
    stage = LineStage(auth_token=b"open sesame")
    a, b = Peer(stage, "open sesame"), Peer(stage, "open sesame")
    grant = a.ask(Acquire(WANT, 0))
    assert (grant.key, grant.lease_ns) == ("job", 30 * SECOND)
    assert a.ask(Renew([(proof(token=grant.token), 31 * SECOND)])) == Renewed([True])
    assert type(b.ask(Acquire(WANT, 0)).error) is Busy
    assert b.ask(Enqueue(WANT)) == Queued()
    assert a.ask(End(WANT, proof(token=grant.token))) == Ended(was_there=True)
    later = b.ask(Wait(WANT, SECOND))
    assert later.fence > grant.fence
    assert a.ask(End(WANT, proof(token=grant.token))) == Ended(was_there=False)


def test_seats_are_taken_at_our_own_server():
    stage = LineStage()
    peers = [Peer(stage) for _ in range(4)]
    grants = [peer.ask(Acquire(SEATS, 0)) for peer in peers]
    assert [type(grant) for grant in grants] == [Granted] * 3 + [Refusal]
    assert type(peers[3].ask(Acquire(replace(SEATS, limit=4), 0)).error) is LimitMismatch
    assert peers[0].ask(End(SEATS, proof(SEATS, token=grants[0].token))) == Ended(was_there=True)


def test_a_lease_that_has_run_out_at_our_own_server_cannot_be_renewed():
    stage = LineStage()
    peer = Peer(stage)
    grant = peer.ask(Acquire(WANT, 0))
    stage.after(31)
    assert peer.ask(Renew([(proof(token=grant.token), SECOND)])) == Renewed([False])


def test_who_waits_too_long_at_our_own_server_is_told_so():
    stage = LineStage()
    Peer(stage).ask(Acquire(WANT, 0))
    waiting = Peer(stage)
    assert waiting.ask(Acquire(WANT, 2 * SECOND)) is None
    stage.after(3)
    assert type(waiting.hear().error) is TimedOut


def test_a_wrong_token_is_refused_by_our_own_server():
    stage = LineStage(auth_token=b"open sesame")
    caller, codec = stage.caller(), DflockCodec("open barley")
    caller.send(codec.greeting())
    stage.after(1)
    with pytest.raises(Forbidden):
        codec.read(caller.transport.take())
    assert caller.closed
