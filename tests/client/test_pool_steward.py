"""The connections to dflock:// and http:// servers, of paper: who gets which, when they are closed, what that means."""

import json

import pytest

from holdfast.client import pool_steward as module
from holdfast.client.asks import Acquire, Enqueue, Granted, Proof, Query, Queued, Refusal, Want
from holdfast.client.lease import Lease, Notice
from holdfast.client.link import Call
from holdfast.client.pool_steward import DflockSteward, LockServerSteward
from holdfast.client.steward import Kept
from holdfast.errors import TooMany, Unknown
from tests.client.keeping import ADDRESS, SECOND, START, Hands

TOKEN = f"{7:016x}{1:016x}"


class Stage:
    """A steward under a clock in the hand, over connections of paper."""

    def __init__(self, steward):
        self.hands = Hands()
        self.steward = steward(self.hands.keeper, ADDRESS)
        self.hands.keeper.add(self.steward)

    @property
    def pipes(self):
        return self.hands.pipes

    def want(self, key="job"):
        return Want(key=key, ticket=f"ticket-of-{key}", lease_ns=30 * SECOND)

    def ask(self, ask, within=60):
        return self.steward.call(ask, until=self.hands.now + within * SECOND, done=lambda call: None)

    def hold(self, key="job"):
        """Take a lock of a dflockd; answer what is kept and its connection."""
        call = self.ask(Acquire(self.want(key), None))
        pipe = self.pipes[-1]
        pipe.opens()
        pipe.take()
        pipe.says(f"ok {TOKEN} 30\n".encode())
        assert isinstance(call.answer, Granted)
        lease = Lease(lambda: self.hands.now, sent_at=call.sent_at, lease_ns=30 * SECOND, margin_ns=SECOND)
        kept = Kept(lease, Proof(self.want(key), TOKEN, 7), self.hands.heard.append)
        self.steward.keep(kept)
        return kept, pipe


@pytest.fixture
def dflock():
    return Stage(lambda keeper, address: DflockSteward(keeper, address, None))


@pytest.fixture
def http():
    return Stage(
        lambda keeper, address: LockServerSteward(keeper, address, host="server", auth=None, owner="tests@here:1")
    )


def answer(pipe, status, **body):
    """Answer the request on an HTTP connection."""
    data = json.dumps(body).encode()
    pipe.says(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(data), data))


# --- dflockd: a claim lives no longer than its connection ---


def test_each_claim_has_a_connection_of_its_own(dflock):
    dflock.hold("a")
    dflock.hold("b")
    assert len(dflock.pipes) == 2


def test_a_claim_is_renewed_and_given_back_where_it_was_taken(dflock):
    kept, pipe = dflock.hold("a")
    dflock.hold("b")
    dflock.hands.to(8)  # who says nothing for long may be cut off, claim and all
    assert pipe.take() == b"ping\n_\n_\n"
    pipe.says(b"ok\n")
    dflock.pipes[1].says(b"ok\n")
    dflock.hands.to(10)
    assert pipe.take() == f"n\na\n{TOKEN} 30\n".encode()
    pipe.says(b"ok 30\n")
    assert kept.lease.deadline == START + 39 * SECOND
    dflock.steward.finish(kept.proof.want, kept.proof)
    dflock.hands.to(10)
    assert pipe.take() == f"r\na\n{TOKEN}\n".encode()


def test_a_connection_without_a_claim_is_free_for_others(dflock):
    kept, pipe = dflock.hold("a")
    kept.lease.release()
    dflock.steward.drop(kept)
    dflock.steward.finish(kept.proof.want, kept.proof)
    dflock.hands.to(0)
    pipe.says(b"ok\n")
    call = dflock.ask(Acquire(dflock.want("b"), 0))
    assert len(dflock.pipes) == 1
    pipe.says(b"timeout\n")
    assert isinstance(call.answer, Refusal)
    dflock.ask(Acquire(dflock.want("c"), 0))
    assert len(dflock.pipes) == 1


def test_what_could_not_be_given_back_goes_with_its_connection(dflock):
    """A store that is busy is told of in the same word as a lock that is not held."""
    kept, pipe = dflock.hold("a")
    kept.lease.release()
    dflock.steward.drop(kept)
    dflock.steward.finish(kept.proof.want, kept.proof)
    dflock.hands.to(0)
    pipe.says(b"error\n")
    assert pipe.closed
    dflock.ask(Acquire(dflock.want("b"), 0))
    assert len(dflock.pipes) == 2


def test_who_stands_in_the_queue_keeps_the_connection_too(dflock):
    call = dflock.ask(Enqueue(dflock.want("a")))
    dflock.pipes[0].opens()
    dflock.pipes[0].says(b"queued\n")
    assert isinstance(call.answer, Queued)
    dflock.ask(Acquire(dflock.want("b"), 0))
    assert len(dflock.pipes) == 2


def test_the_end_of_a_connection_is_the_end_of_its_claim_and_of_no_other(dflock):
    kept, pipe = dflock.hold("a")
    other, _ = dflock.hold("b")
    pipe.breaks("reset by peer")
    dflock.hands.to(0)
    assert not kept.lease.held
    assert kept.lease.reason.endswith("reset by peer")
    assert dflock.hands.heard == [Notice.LOST]
    assert other.lease.held


def test_nobody_takes_a_claim_of_another_connection_for_one_of_this(dflock):
    """What breaks after a lock was given back took nothing with it."""
    kept, pipe = dflock.hold("a")
    kept.lease.release()
    dflock.steward.drop(kept)
    dflock.steward.finish(kept.proof.want, kept.proof)
    dflock.hands.to(0)
    pipe.says(b"ok\n")
    again = dflock.ask(Acquire(dflock.want("a"), None))
    pipe.breaks("reset")
    assert isinstance(again.error, Unknown)
    dflock.hands.to(1)
    assert dflock.hands.heard == []


def test_who_stops_waiting_hangs_up_and_so_leaves_the_queue(dflock):
    call = dflock.ask(Acquire(dflock.want("a"), None))
    dflock.pipes[0].opens()
    dflock.steward.cancel(call)
    assert dflock.pipes[0].closed
    dflock.steward.cancel(call)
    assert call.answer is None


def test_what_may_have_been_granted_is_ended_by_hanging_up(dflock):
    """There is no proof to show, but the claim lives no longer than its connection."""
    call = dflock.ask(Acquire(dflock.want("a"), None))
    pipe = dflock.pipes[0]
    pipe.opens()
    pipe.says(f"ok {TOKEN} 30\n".encode())
    assert isinstance(call.answer, Granted)
    dflock.steward.finish(dflock.want("a"), None)
    dflock.hands.to(0)
    assert pipe.closed
    assert len(dflock.steward.errands) == 0


def test_a_silent_server_is_found_out_by_a_ping(dflock):
    kept, pipe = dflock.hold("a")
    dflock.hands.to(8)
    assert pipe.take() == b"ping\n_\n_\n"
    dflock.hands.to(13)
    assert pipe.closed
    assert not kept.lease.held


def test_connections_that_nobody_needs_are_closed(dflock):
    calls = [dflock.ask(Query("ping")) for _ in range(20)]
    for pipe in dflock.pipes:
        pipe.opens()
        pipe.says(b"ok\n")
    assert all(call.answer is not None for call in calls)
    dflock.steward.wake(dflock.hands.now)
    dflock.hands.to(1)
    assert sum(not pipe.closed for pipe in dflock.pipes) == module.IDLE_MAX
    dflock.hands.to(6)
    assert all(pipe.closed for pipe in dflock.pipes)
    assert dflock.steward.links == []


def test_there_are_only_so_many_connections(dflock, monkeypatch):
    monkeypatch.setattr(module, "LINKS_MAX", 2)
    calls = [dflock.ask(Acquire(dflock.want(name), None)) for name in "abc"]
    assert [call.answer for call in calls[:2]] == [None, None]
    assert isinstance(calls[2].answer.error, TooMany)


def test_a_closed_client_leaves_no_connection_open(dflock):
    kept, pipe = dflock.hold("a")
    dflock.steward.retire(lambda: None)
    dflock.hands.keeper.remove(dflock.steward)
    dflock.hands.to(0)
    assert pipe.take().startswith(b"r\na\n")
    pipe.says(b"ok\n")
    dflock.hands.to(0)
    assert pipe.closed
    assert dflock.hands.keeper.stewards == []
    assert not kept.lease.held


def test_hanging_up_ends_what_was_asked(dflock):
    call = dflock.ask(Acquire(dflock.want("a"), None))
    dflock.pipes[0].opens()
    dflock.steward.hang_up()
    assert isinstance(call.error, Unknown)


# --- LockServer: any connection will do ---


def test_a_connection_carries_one_request_at_a_time(http):
    http.ask(Query("ping"))
    http.ask(Query("ping"))
    assert len(http.pipes) == 2
    for pipe in http.pipes:
        pipe.opens()
        answer(pipe, 200)
    http.ask(Query("ping"))
    assert len(http.pipes) == 2


def test_a_connection_that_the_server_will_not_keep_is_not_used_again(http):
    http.ask(Query("ping"))
    http.pipes[0].opens()
    http.pipes[0].says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    http.ask(Query("ping"))
    assert len(http.pipes) == 2
    http.steward.wake(http.hands.now)
    http.hands.to(0)
    assert http.pipes[0].closed


def test_renewals_take_no_more_connections_than_they_may(http):
    for number in range(50):
        http.steward.keep(http.hands.kept(f"job-{number}"))
    http.hands.to(10)
    assert len(http.pipes) == LockServerSteward.renewals_under_way_max
    for _ in range(3):
        for pipe in list(http.pipes):
            if not pipe.closed:
                pipe.opens()
                if pipe.take():
                    answer(pipe, 200, renewed=True)
        http.hands.to(10)
    assert all(kept.lease.deadline == START + 39 * SECOND for kept in http.steward.kept.values())
    assert len(http.pipes) == LockServerSteward.renewals_under_way_max


def test_what_may_have_been_granted_is_asked_for_once_more_and_given_back(http):
    http.steward.finish(http.want(), None)
    http.hands.to(0)
    (pipe,) = http.pipes
    pipe.opens()
    request = pipe.take()
    assert request.startswith(b"POST /v1/locks/job/acquire ")
    owner = json.loads(request.partition(b"\r\n\r\n")[2])["owner_id"]
    answer(pipe, 200, acquired=True, lock_name="job", owner_id=owner, lease_id="the one", fencing_token=9)
    http.hands.to(0)
    request = pipe.take()
    assert request.startswith(b"POST /v1/locks/job/release ")
    assert json.loads(request.partition(b"\r\n\r\n")[2])["lease_id"] == "the one"
    answer(pipe, 200, released=True)
    assert len(http.steward.errands) == 0


def test_what_is_held_by_this_very_claim_is_looked_up_and_given_back(http):
    http.steward.finish(http.want(), None)
    http.hands.to(0)
    (pipe,) = http.pipes
    pipe.opens()
    owner = json.loads(pipe.take().partition(b"\r\n\r\n")[2])["owner_id"]
    answer(pipe, 409, reason="HELD", current_owner_id=owner)
    http.hands.to(0)
    assert pipe.take().startswith(b"GET /v1/locks/job ")
    answer(pipe, 200, lock_name="job", owner_id=owner, lease_id="the one", fencing_token=9)
    http.hands.to(0)
    assert pipe.take().startswith(b"POST /v1/locks/job/release ")


def test_an_answer_that_somebody_gave_up_on_ends_its_connection(http):
    heard = []
    call = Call(Acquire(http.want(), None), http.hands.now + SECOND, heard.append)
    http.steward.deliver(call, http.hands.now)
    http.pipes[0].opens()
    http.steward.cancel(call)
    assert http.pipes[0].closed
    assert heard == []
    assert http.steward.links == []


def test_an_ended_claim_is_ended_for_who_asked(dflock):
    kept, pipe = dflock.hold("a")
    ended = []
    dflock.steward.finish(kept.proof.want, kept.proof, done=lambda: ended.append(True))
    dflock.hands.to(0)
    pipe.says(b"error\n")
    assert ended == [True]
