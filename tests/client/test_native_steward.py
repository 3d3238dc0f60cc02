"""The keeper's own connection to a native server, of paper: when there is one, what it asks, what it passes on."""

import json

import pytest

from holdfast.client.asks import End
from holdfast.client.dialects.native import Session
from holdfast.client.lease import Notice
from holdfast.client.link import Call
from holdfast.client.native_steward import NativeSteward
from tests.client.keeping import ADDRESS, SECOND, START, TOKEN, Hands, NativePeer

NAME = "s" * 32


class Stage:
    """A steward under a clock in the hand. `peer()` is the far end of its latest connection."""

    def __init__(self):
        self.hands = Hands()
        self.session = Session(client="tests", host="here", pid=1, auth=None)
        self.steward = NativeSteward(self.hands.keeper, ADDRESS, self.session)
        self.hands.keeper.add(self.steward)
        self.heard = []

    def keep(self, key="job", **options):
        kept = self.hands.kept(key, **options)
        self.steward.keep(kept)
        return kept

    def peer(self):
        return NativePeer(self.hands.pipes[-1])

    def connected(self, **greeting):
        peer = self.peer()
        peer.greet(**greeting)
        self.hands.to(self.hands.at)
        return peer

    def dialled(self):
        return len(self.hands.pipes)


@pytest.fixture
def stage():
    return Stage()


def renewed(peer, *answers):
    """Answer the one renewal that was asked for."""
    (ask,) = peer.asked()
    assert ask["op"] == "renew"
    peer.say(id=ask["id"], answer="renewed", renewed=list(answers) or [True] * len(ask["claims"]))
    return ask


# --- when there is a connection ---


def test_a_short_grip_on_a_lock_costs_no_second_connection(stage):
    kept = stage.keep()
    stage.hands.to(0.9)
    kept.lease.release()
    stage.steward.drop(kept)
    stage.hands.to(60)
    assert stage.dialled() == 0


def test_who_holds_something_for_a_second_has_a_connection_to_hear_news_on(stage):
    stage.keep()
    stage.hands.to(1)
    assert stage.dialled() == 1
    hello = stage.peer().greet()
    assert (hello.get("events", True), hello["client"]) == (True, "tests")


def test_who_wants_to_hear_when_others_wait_has_one_at_once(stage):
    stage.keep(listens=True)
    stage.hands.to(0)
    assert stage.dialled() == 1


def test_it_joins_the_session_that_the_client_has(stage):
    stage.session.name = NAME
    stage.keep(listens=True)
    stage.hands.to(0)
    assert stage.peer().greet(resumed=True)["join"] == NAME


def test_a_client_that_has_got_another_session_meanwhile_is_followed_there(stage):
    stage.keep(listens=True)
    stage.hands.to(0)
    peer = stage.connected()
    renewed(peer)
    stage.session.name = "t" * 32
    stage.hands.to(2)
    assert peer.pipe.closed
    assert stage.dialled() == 2
    assert stage.peer().greet("t" * 32, resumed=True)["join"] == "t" * 32


def test_a_connection_that_breaks_is_made_again_and_what_is_held_is_asked_for_at_once(stage):
    """What was told meanwhile was told to nobody: a renewal finds out."""
    kept = stage.keep(listens=True)
    stage.hands.to(0)
    renewed(stage.connected())
    stage.hands.to(5)
    stage.hands.pipes[-1].breaks()
    stage.hands.to(5.2)
    assert stage.dialled() == 2
    peer = stage.connected(resumed=True)
    renewed(peer, False)
    stage.hands.to(5.2)
    assert not kept.lease.held
    assert stage.hands.heard == [Notice.LOST]


def test_a_server_that_is_not_there_is_dialled_less_and_less_often(stage):
    stage.keep(listens=True)
    dialled_at = []
    while stage.hands.at < 28:
        count = stage.dialled()
        stage.hands.to(stage.hands.at + 0.01)
        if stage.dialled() > count:
            dialled_at.append(stage.hands.at)
            stage.hands.pipes[-1].breaks("refused")
    assert dialled_at[1] < 0.2
    assert dialled_at[-1] - dialled_at[-2] > 0.7


def test_a_server_that_greets_and_hangs_up_is_dialled_less_and_less_often_too(stage):
    stage.keep(listens=True)
    while stage.hands.at < 28:
        count = stage.dialled()
        stage.hands.to(stage.hands.at + 0.01)
        if stage.dialled() > count:
            stage.peer().greet()
            stage.hands.pipes[-1].breaks("closed")
    assert stage.dialled() < 50


def test_a_server_that_neither_greets_nor_hangs_up_does_not_cost_the_lease_of_another_try(stage):
    kept = stage.keep()
    stage.hands.to(7)
    assert stage.hands.pipes[0].closed
    assert stage.dialled() == 2
    renewed(stage.connected())
    assert kept.lease.deadline > START + 35 * SECOND


def test_a_silent_connection_is_tried_out_and_given_up_if_nothing_comes_back(stage):
    stage.steward.watch({"prefix": ""}, stage.heard.append)
    stage.hands.to(0)
    peer = stage.connected()
    (watch,) = peer.asked()
    peer.say(id=watch["id"], answer="ok")
    stage.hands.to(15)
    (ping,) = peer.asked()
    assert ping["op"] == "ping"
    stage.hands.to(20)
    assert peer.pipe.closed
    assert stage.heard == [None]


def test_while_an_answer_is_awaited_it_does_not_come_back_all_the_time(stage):
    stage.keep(listens=True)
    stage.hands.to(0)
    peer = stage.connected()
    renewed(peer)
    stage.hands.to(1)
    call = Call(End(stage.hands.kept().proof.want, None), stage.hands.now + 100 * SECOND, stage.heard.append)
    stage.steward.deliver(call, stage.hands.now)
    stage.hands.to(60)  # it asserts that there are not thousands of turns
    assert not peer.pipe.closed or stage.heard == [call]


def test_nobody_dials_for_a_client_that_is_closed(stage):
    stage.keep(listens=True)
    stage.hands.to(0)
    peer = stage.connected()
    stage.steward.retire(lambda: None)
    stage.hands.keeper.remove(stage.steward)
    stage.hands.to(0)
    (renewal, end) = peer.asked()
    assert (renewal["op"], end["op"], end["token"]) == ("renew", "end", TOKEN)
    peer.say(id=end["id"], answer="ended")
    stage.hands.to(30)
    assert peer.pipe.closed
    assert stage.dialled() == 1
    assert stage.hands.keeper.stewards == []


# --- renewals ---


def test_all_that_is_due_travels_in_one_line(stage):
    for number in range(50):
        stage.keep(f"job-{number}")
    stage.hands.to(1)
    ask = renewed(stage.connected())
    assert [claim["key"] for claim in ask["claims"]] == [f"job-{number}" for number in range(50)]
    assert {(claim["token"], claim["lease_ms"]) for claim in ask["claims"]} == {(TOKEN, 30_000)}


def test_no_line_is_longer_than_the_server_takes(stage):
    for number in range(200):
        stage.keep(f"{'é' * 300}-{number}")
    stage.hands.to(1)
    peer = stage.connected(line_bytes_max=10_000)
    lines = peer.pipe.take().splitlines()
    assert max(len(line) for line in lines) <= 10_000
    assert sum(len(json.loads(line)["claims"]) for line in lines) == 200


def test_lines_that_turn_out_too_long_for_the_server_are_put_together_anew(stage):
    """How much it takes is known when it has greeted."""
    for number in range(200):
        stage.keep(f"{'é' * 100}-{number}", lease=3)
    stage.hands.to(1)
    peer = stage.connected(line_bytes_max=10_000)
    stage.hands.to(1.5)
    claims = [claim["key"] for ask in peer.asked() for claim in ask["claims"]]
    assert len(claims) == len(set(claims)) == 200


def test_over_a_connection_that_breaks_again_and_again_a_lease_is_kept(stage):
    kept = stage.keep(lease=6)
    for _ in range(40):
        count = stage.dialled()
        while stage.dialled() == count:
            stage.hands.to(stage.hands.at + 0.05)
        peer = stage.connected(resumed=True)
        for ask in peer.asked():
            peer.say(id=ask["id"], answer="renewed", renewed=[True])
        stage.hands.pipes[-1].breaks()
    assert stage.hands.at > 12
    assert kept.lease.held
    assert Notice.LOST not in stage.hands.heard


# --- news ---


def listening(stage):
    stage.session.name = NAME
    kept = stage.keep(listens=True)
    stage.hands.to(0)
    peer = stage.connected(resumed=True)
    renewed(peer)
    return kept, peer


def test_a_lock_that_is_taken_away_is_lost_at_once(stage):
    kept, peer = listening(stage)
    peer.say(event="ended", ticket="ticket-of-job", key="job", fence=7, reason="broken", detail="by an operator")
    stage.hands.to(0)
    assert not kept.lease.held
    assert kept.lease.reason == "the server ended it: by an operator"
    assert stage.hands.heard == [Notice.LOST]


def test_news_of_an_older_grant_does_not_end_a_newer_one(stage):
    kept, peer = listening(stage)
    peer.say(event="ended", ticket="ticket-of-job", key="job", fence=6, reason="expired")
    stage.hands.to(0)
    assert kept.lease.held


def test_that_others_wait_is_passed_on(stage):
    _, peer = listening(stage)
    peer.say(event="nudged", ticket="ticket-of-job", key="job")
    peer.say(event="nudged", ticket="somebody-elses", key="job")
    stage.hands.to(0)
    assert stage.hands.heard == [Notice.CONTENDED]


def test_what_this_release_does_not_know_is_no_reason_to_hang_up(stage):
    kept, peer = listening(stage)
    peer.say(event="something-new", ticket="ticket-of-job")
    stage.hands.to(0)
    assert kept.lease.held
    assert not peer.pipe.closed


def test_that_the_server_is_about_to_stop_is_logged(stage, caplog):
    _, peer = listening(stage)
    peer.say(event="draining", detail="in ten seconds", left_ms=10_000)
    stage.hands.to(0)
    assert caplog.messages == ["server:6388 is about to stop: in ten seconds"]


# --- places in the queue ---


def expecting(stage):
    stage.session.name = NAME
    stage.steward.expect("ticket-of-job", lambda grant, why: stage.heard.append((grant and grant.fence, why)))
    stage.hands.to(0)
    return stage.connected(resumed=True)


def grant(**changes):
    fields = {
        "ticket": "ticket-of-job",
        "key": "job",
        "kind": "lock",
        "mode": "EX",
        "fence": 8,
        "token": TOKEN,
        "lease_ms": 30_000,
        "left_ms": 29_000,
    }
    return {"event": "granted", **fields, **changes}


def test_a_place_becomes_a_grant_once(stage):
    peer = expecting(stage)
    peer.say(**grant())
    peer.say(**grant())
    assert stage.heard == [(8, "")]


def test_a_place_is_gone(stage):
    peer = expecting(stage)
    peer.say(event="ended", ticket="ticket-of-job", key="job", reason="expired")
    assert stage.heard == [(None, "expired")]


def test_a_grant_that_cannot_be_read_ends_the_connection_and_somebody_still_waits(stage):
    peer = expecting(stage)
    peer.say(**grant(token="nonsense"))
    assert peer.pipe.closed
    assert stage.heard == []
    stage.hands.to(1)
    stage.connected(resumed=True).say(**grant())
    assert stage.heard == [(8, "")]


def test_a_server_that_has_forgotten_the_session_has_forgotten_the_places(stage):
    expecting(stage)
    stage.hands.pipes[-1].breaks()
    stage.hands.to(1)
    stage.connected(session="t" * 32, resumed=False)
    assert stage.heard == [(None, "the server has forgotten who stood in its queues")]


def test_who_has_left_the_queue_hears_nothing(stage):
    peer = expecting(stage)
    stage.steward.forget("ticket-of-job")
    peer.say(**grant())
    assert stage.heard == []


# --- watching ---


def test_each_watcher_hears_of_its_keys_and_that_it_may_have_missed_something(stage):
    everything, one, deadlocks = [], [], []
    stage.steward.watch({"prefix": ""}, everything.append)
    stage.steward.watch({"key": "job", "kind": "lock"}, one.append)
    watcher = stage.steward.watch({"deadlocks": True}, deadlocks.append)
    stage.hands.to(0)
    peer = stage.connected()
    assert [ask["op"] for ask in peer.asked()] == ["watch"] * 3
    peer.say(event="changed", key="job", kind="lock", what="granted")
    peer.say(event="changed", key="other", kind="lock", what="granted")
    peer.say(event="deadlock", keys=["job"])
    assert [fields["key"] for fields in everything] == ["job", "other"]
    assert [fields["key"] for fields in one] == ["job"]
    assert [fields["keys"] for fields in deadlocks] == [["job"]]
    stage.steward.unwatch(watcher)
    stage.hands.to(0)
    assert [ask["op"] for ask in peer.asked()] == ["unwatch", "watch", "watch"]
    peer.pipe.breaks()
    assert (everything[-1], one[-1], deadlocks[-1]["event"]) == (None, None, "deadlock")
