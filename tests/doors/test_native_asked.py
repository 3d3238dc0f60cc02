"""What is kept of requests and of claims: no more than there is, and no longer than somebody asks for it.

What becomes of it is tested in test_native_session.py.
"""

import pytest

from holdfast.doors import native_asked
from holdfast.doors.native_asked import Asked, Batch, Belongings, members, named
from holdfast.doors.native_sight import Looking
from holdfast.testing.native_stage import NativeStage
from holdfast.words import EX, FOREVER, SECOND, UNLIMITED, Answer, Bond, Claim, Group


def claim(ticket: bytes, token: bytes = b"", lease_ns: int = SECOND) -> Claim:
    c = Claim(b"lock:job", EX, 1, UNLIMITED, lease_ns, FOREVER)
    c.ticket, c.token = ticket, token
    return c


def group(count: int) -> Group:
    claims = [claim(b"g#%d" % index, b"token-%d" % index) for index in range(count)]
    for index, c in enumerate(claims):
        c.bond = Bond(b"g", index, count, 1)
        c.fence = index + 1
    return Group(b"g", claims, FOREVER)


@pytest.fixture
def belongings() -> Belongings:
    return Belongings()


def test_a_claim_is_known_while_it_is_asked_for_and_while_it_stands(belongings: Belongings) -> None:
    asked = claim(b"a")
    belongings.ask(asked, nudge=True)
    belongings.ask(asked, nudge=True)
    belongings.answered(asked, gone=False)
    assert len(belongings) == 1
    belongings.queue(asked)
    belongings.answered(asked, gone=False)
    own = belongings.find(b"a")
    assert own is not None
    assert (own.key, own.nudge, own.asks, own.stands) == (b"lock:job", True, 0, True)
    belongings.settle(b"a", gone=True)
    assert (len(belongings), belongings.find(b"a")) == (0, None)


def test_a_claim_that_is_gone_is_known_until_the_last_who_asks_is_answered(belongings: Belongings) -> None:
    held = claim(b"a", b"token")
    belongings.hold(held)
    belongings.ask(held, nudge=False)
    belongings.settle(b"a", gone=True)
    own = belongings.find(b"a")
    assert own is not None
    assert (own.token, own.stands, belongings.holds_nothing) == (b"", False, True)
    belongings.answered(held, gone=False)
    assert belongings.find(b"a") is None
    belongings.settle(b"a", gone=True)  # twice does no harm


def test_what_is_held_is_found_by_its_token_and_has_the_lease_that_it_was_granted(belongings: Belongings) -> None:
    belongings.ask(claim(b"a", lease_ns=5), nudge=False)
    belongings.hold(claim(b"a", b"token", lease_ns=7))
    own = belongings.find(b"a")
    assert own is not None
    assert (own.lease_ns, belongings.ticket_of(b"token"), belongings.holds_nothing) == (7, b"a", False)
    belongings.hold(claim(b"a", b"another"))
    assert (belongings.ticket_of(b"token"), belongings.ticket_of(b"another")) == (None, b"a")


def test_a_group_that_is_dropped_by_its_own_name_is_dropped_whole(belongings: Belongings) -> None:
    for c in members(group(3)):
        belongings.hold(c)
    belongings.drop(b"g", group(3).claims[1])
    assert len(belongings) == 0


def test_of_a_group_that_is_held_one_is_dropped_alone(belongings: Belongings) -> None:
    held = group(3)
    for c in held.claims:
        belongings.hold(c)
    belongings.drop(b"g#1", held.claims[1])
    assert [belongings.find(b"g#%d" % index) is not None for index in range(3)] == [True, False, True]


def test_a_group_that_waits_is_gone_with_the_first_that_goes(belongings: Belongings) -> None:
    waiting = group(3)
    for c in waiting.claims:
        c.fence = 0
        belongings.queue(c)
    belongings.drop(b"g#1", waiting.claims[1])
    assert len(belongings) == 0


def test_there_is_room_for_so_many_and_always_for_what_is_there(
    belongings: Belongings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_asked, "CLAIMS_MAX", 3)
    for name in (b"a", b"b", b"g#0"):
        assert belongings.has_room([claim(name)])
        belongings.queue(claim(name))
    assert not belongings.has_room([claim(b"c")])
    assert belongings.has_room([claim(b"a")])
    assert not belongings.has_room(group(2).claims)


def test_members_and_names() -> None:
    one = claim(b"a")
    assert members(one) == [one]
    assert [named(c) for c in members(group(2))] == [b"g#0", b"g#1"]


def test_a_batch_knows_nothing_at_first() -> None:
    batch = Batch(2)
    assert (batch.renewed, batch.left) == ([None, None], 2)


# --- requests under way ---


def test_a_request_counts_until_it_is_answered() -> None:
    stage = NativeStage()
    caller = stage.client()
    (connection,) = stage.native.connections.values()
    asked, looking = Asked(connection, 7), Looking(connection, "x")
    asked.wait()
    asked.wait()
    assert (connection.in_flight, connection.waiting, connection.looking) == (2, 1, 1)
    asked.reply(b'{"id":7}\n')
    looking.refuse(Answer.DRAINING)
    assert (connection.in_flight, connection.waiting, connection.looking) == (0, 0, 0)
    assert [line["id"] for line in caller.lines()] == [7, "x"]


def test_nobody_hears_an_answer_when_the_connection_is_gone() -> None:
    stage = NativeStage()
    caller = stage.client()
    (connection,) = stage.native.connections.values()
    asked = Asked(connection, 7)
    assert asked.heard
    caller.vanish()
    assert not asked.heard
    asked.reply(b"nothing\n")
    assert caller.heard() == ""
