"""What the client says in the native protocol, our own native door understands, and the other way round."""

from dataclasses import replace

import pytest

from holdfast.client.asks import (
    Acquire,
    Convert,
    End,
    Ended,
    Enqueue,
    GrantedAll,
    Member,
    Query,
    Queued,
    Refusal,
    Renew,
    Renewed,
    Wait,
)
from holdfast.client.dialects.native import NativeCodec, Session, granted_in
from holdfast.errors import Busy, Forbidden, NotHeld, TimedOut
from holdfast.testing.native_stage import NativeStage
from tests.client.dialects.codecs import GROUP, SEATS, SECOND, WANT, hear, proof

OTHER = replace(WANT, ticket="ticket-of-b-0001")


class Peer:
    """A client of the real native door, by hand."""

    def __init__(self, stage, session=None, auth=None):
        self.stage = stage
        self.session = session or Session(client="billing", host="web-1", pid=4711, auth=auth)
        self.caller = stage.caller()
        self.codec = NativeCodec(self.session, events=True)
        self.caller.send(self.codec.greeting())
        self.hear()

    def ask(self, ask, handle="me"):
        self.caller.send(self.codec.write(ask, handle))
        heard = self.hear()
        return heard[0][1] if heard else None

    def hear(self):
        return hear(self.codec, self.caller.transport.take(), by=1)


def test_a_lock_is_taken_renewed_and_given_back():
    stage = NativeStage()
    a, b = Peer(stage), Peer(stage)
    grant = a.ask(Acquire(WANT, 0))
    assert (grant.key, grant.mode, grant.lease_ns, grant.left_ns) == ("job", "EX", 30 * SECOND, 30 * SECOND)
    assert type(b.ask(Acquire(OTHER, 0)).error) is Busy
    stage.after(20)
    shown = proof(token=grant.token)
    assert a.ask(Renew([(shown, 30 * SECOND), (proof(SEATS), SECOND)])) == Renewed([True, False])
    assert a.ask(End(WANT, shown)) == Ended(was_there=True)
    assert a.ask(End(WANT, shown)) == Ended(was_there=False)
    assert b.ask(Acquire(OTHER, 0)).fence > grant.fence


def test_a_ticket_that_is_shown_again_on_another_connection_finds_its_claim_and_what_is_left_of_it():
    stage = NativeStage()
    a = Peer(stage)
    first = a.ask(Acquire(WANT, 0))
    a.caller.vanish()
    stage.after(10)
    again = Peer(stage, a.session)
    assert again.codec.resumed
    second = again.ask(Acquire(WANT, 0))
    assert (second.fence, second.token) == (first.fence, first.token)
    assert second.left_ns <= 20 * SECOND


def test_a_session_that_is_over_is_not_resumed():
    stage = NativeStage()
    a = Peer(stage)
    name = a.session.name
    a.ask(Query("bye"))
    again = Peer(stage, a.session)
    assert not again.codec.resumed
    assert again.session.name != name
    assert again.codec.joined == again.session.name


def test_whoever_waits_is_granted_by_an_event_or_by_an_answer():
    stage = NativeStage()
    a, b = Peer(stage), Peer(stage)
    a.ask(Acquire(replace(WANT, nudge=True), 0))
    assert b.ask(Enqueue(OTHER)) == Queued()
    a.hear()
    assert [news.event for news in a.codec.news] == ["nudged"]
    a.ask(End(WANT, None))
    b.hear()
    (news,) = b.codec.news
    grant = granted_in(news.fields)
    assert (news.event, grant.ticket) == ("granted", OTHER.ticket)
    assert b.ask(Wait(OTHER, 0)).fence == grant.fence


def test_whoever_waits_too_long_or_for_nothing_is_refused():
    stage = NativeStage()
    a, b = Peer(stage), Peer(stage)
    a.ask(Acquire(WANT, 0))
    assert b.ask(Acquire(OTHER, SECOND)) is None
    stage.after(2)
    ((_, refusal),) = b.hear()
    assert type(refusal.error) is TimedOut
    assert type(b.ask(Wait(replace(WANT, ticket="ticket-of-c-0001"), 0)).error) is NotHeld


@pytest.mark.parametrize("mode", ["PR", "CR", "EX"])
def test_a_mode_is_converted(mode):
    a = Peer(NativeStage())
    a.ask(Acquire(WANT, 0))
    assert a.ask(Convert(WANT, mode, None, b"left behind")).mode == mode


def test_what_is_left_behind_is_found_by_the_next_one():
    stage = NativeStage()
    a, b = Peer(stage), Peer(stage)
    a.ask(Acquire(WANT, 0))
    a.ask(End(WANT, None, b"left behind"))
    grant = b.ask(Acquire(OTHER, 0))
    assert (grant.value, grant.value_valid) == (b"left behind", True)


def test_seats_are_taken():
    a = Peer(NativeStage())
    grant = a.ask(Acquire(replace(SEATS, units=2), 0))
    assert (grant.kind, grant.mode) == ("semaphore", "CW")
    assert type(a.ask(Acquire(replace(SEATS, units=2, ticket="ticket-of-a-0002"), 0)).error) is Busy


def test_a_group_is_taken_and_given_back_as_a_whole():
    stage = NativeStage()
    a, b = Peer(stage), Peer(stage)
    answer = a.ask(Acquire(GROUP, 0))
    assert isinstance(answer, GrantedAll)
    assert [(grant.key, grant.mode, grant.kind) for grant in answer.grants] == [
        ("from", "EX", "lock"),
        ("to", "PR", "lock"),
        ("seats", "CW", "semaphore"),
    ]
    rest = replace(GROUP, ticket="ticket-of-b-0001", members=(Member("other"), Member("from")))
    assert isinstance(b.ask(Acquire(rest, 0)), Refusal)
    assert a.ask(End(GROUP, None)) == Ended(was_there=True)
    assert isinstance(b.ask(Acquire(rest, 0)), GrantedAll)


@pytest.mark.parametrize(
    "query",
    [
        Query("look", {"key": "job"}),
        Query("look", {"prefix": "", "held": True, "count": 5}),
        Query("explain", {"key": "job"}),
        Query("deadlocks"),
        Query("watch", {"prefix": "j"}),
        Query("unwatch"),
        Query("break", {"key": "job", "reason": "it hangs", "kind": "lock", "token": None}),
        Query("stats"),
        Query("ping"),
    ],
)
def test_every_query_is_understood_and_its_answer_too(query):
    a = Peer(NativeStage())
    a.ask(Acquire(WANT, 0))
    assert a.ask(query).fields["answer"] in ("seen", "ok", "ended")


def test_whoever_is_introduced_with_the_wrong_token_is_refused():
    stage = NativeStage(auth_token=b"open sesame")
    assert Peer(stage, auth="open sesame").codec.ready
    caller, codec = stage.caller(), NativeCodec(Session(client="c", host="h", pid=1, auth="open barley"), events=True)
    caller.send(codec.greeting())
    stage.after(1)
    with pytest.raises(Forbidden):
        codec.read(caller.transport.take())
