"""The native protocol as a client hears it: what is believed, and what ends the connection."""

import pytest

from holdfast.client.asks import (
    Acquire,
    Convert,
    End,
    Ended,
    Enqueue,
    Granted,
    GrantedAll,
    News,
    Query,
    Queued,
    Refusal,
    Renew,
    Renewed,
    Seen,
    Wait,
)
from holdfast.client.dialects import native
from holdfast.client.dialects.native import granted_in
from holdfast.errors import BadPeer, Busy, Closed, LeaseLost, NotHeld, Refused
from tests.client.dialects.codecs import GROUP, SECOND, TICKET, TOKEN, WANT, answers, hear
from tests.client.dialects.lines import GRANT, RENEWAL, fresh, text


def answered(ask, **line):
    """Give what one request is answered by one line."""
    (answer,) = answers(fresh, [ask], text({"id": 1} | line))
    return answer


def distrusts(ask, said):
    """See that the connection is useless from here on, and that nobody is forgotten."""
    codec = fresh()
    codec.write(ask, "me")
    with pytest.raises(BadPeer):
        codec.read(said)
    assert codec.waiting == ["me"]
    assert codec.asked == [ask]


# --- what is believed ---


@pytest.mark.parametrize("ask", [Acquire(WANT, 0), Enqueue(WANT), Wait(WANT, 0)])
def test_a_grant_tells_the_fence_the_token_the_lease_and_what_is_left_of_it(ask):
    assert answered(ask, **GRANT | {"value": "AAE=", "value_valid": False}) == Granted(
        ticket=TICKET,
        key="job",
        kind="lock",
        mode="EX",
        fence=7,
        token=TOKEN,
        lease_ns=30 * SECOND,
        left_ns=29 * SECOND,
        value=b"\0\1",
        value_valid=False,
    )


def test_a_conversion_grants_the_mode_that_it_was_for():
    assert answered(Convert(WANT, "PR", None), **GRANT | {"mode": "PR"}).mode == "PR"
    distrusts(Convert(WANT, "PR", None), text({"id": 1} | GRANT))


@pytest.mark.parametrize(
    "changes",
    [
        {"ticket": "ticket-of-b-0001"},
        {"key": "another"},
        {"kind": "semaphore"},
        {"kind": "key"},
        {"mode": "PR"},
        {"mode": "XX"},
        {"fence": 0},
        {"fence": -1},
        {"fence": 7.5},
        {"fence": "7"},
        {"token": ""},
        {"token": "x" * 32},
        {"token": TOKEN + "0"},
        {"lease_ms": 0},
        {"lease_ms": 1 << 70},
        {"left_ms": -1},
        {"left_ms": None},
        {"value": "A"},
        {"value": "\u00e4"},
        {"value": 5},
    ],
)
def test_what_is_not_quite_a_grant_is_none(changes):
    distrusts(Acquire(WANT, 0), text({"id": 1} | GRANT | changes))


@pytest.mark.parametrize("name", ["ticket", "key", "kind", "mode", "fence", "token", "lease_ms", "left_ms"])
def test_a_grant_of_which_something_is_left_out_is_none(name):
    line = {"id": 1} | GRANT
    del line[name]
    distrusts(Acquire(WANT, 0), text(line))


def members(**changes):
    kinds = (("from", "EX", "lock"), ("to", "PR", "lock"), ("seats", "CW", "semaphore"))
    return [
        GRANT | {"ticket": f"{TICKET}#{at}", "key": key, "mode": mode, "kind": kind, "fence": 7 + at} | changes
        for at, (key, mode, kind) in enumerate(kinds)
    ]


def test_a_group_is_granted_as_a_whole():
    answer = answered(Acquire(GROUP, 0), answer="granted", ticket=TICKET, claims=members())
    assert isinstance(answer, GrantedAll)
    assert [(grant.ticket, grant.key, grant.fence) for grant in answer.grants] == [
        (f"{TICKET}#0", "from", 7),
        (f"{TICKET}#1", "to", 8),
        (f"{TICKET}#2", "seats", 9),
    ]


@pytest.mark.parametrize(
    "claims",
    [None, [], members()[:2], members()[::-1], [*members(), *members()[:1]], members(mode="PR"), members(key="from")],
)
def test_a_group_of_which_a_part_is_not_what_was_asked_for_is_not_granted(claims):
    distrusts(Acquire(GROUP, 0), text({"id": 1, "answer": "granted", "ticket": TICKET, "claims": claims}))


def test_a_place_in_the_queue_a_renewal_and_an_end_are_answers():
    assert answered(Enqueue(WANT), answer="queued", ticket=TICKET, key="job", kind="lock") == Queued()
    assert answered(Renew([RENEWAL] * 2), answer="renewed", renewed=[True, False]) == Renewed([True, False])
    assert answered(Renew([RENEWAL] * 2), answer="renewed", renewed=[True, None]) == Renewed([True, None])
    assert answered(End(WANT, None), answer="ended") == Ended(was_there=True)


@pytest.mark.parametrize("renewed", [None, [], [True], [True] * 3, [True, 1], [True, "yes"], True])
def test_renewals_are_answered_one_by_one_or_not_at_all(renewed):
    distrusts(Renew([RENEWAL] * 2), text({"id": 1, "answer": "renewed", "renewed": renewed}))


@pytest.mark.parametrize("code", ["not_held", "lease_lost"])
def test_what_is_gone_already_is_as_good_as_ended(code):
    assert answered(End(WANT, None), error=code, retry="never", detail="gone") == Ended(was_there=False)


@pytest.mark.parametrize(
    ("code", "error"),
    [("busy", Busy), ("lease_lost", LeaseLost), ("not_held", NotHeld), ("closed", Closed), ("out_of_tea", Refused)],
)
def test_a_refusal_becomes_the_error_that_it_names(code, error):
    answer = answered(Wait(WANT, 0), error=code, retry="never", detail="this is why")
    assert isinstance(answer, Refusal)
    assert type(answer.error) is error
    assert "this is why" in str(answer.error)


def test_a_query_is_answered_with_all_that_was_said():
    assert answered(Query("look"), answer="seen", keys=[], next=None).fields["keys"] == []
    assert answered(Query("ping"), answer="ok") == Seen({"id": 1, "answer": "ok"})
    assert answered(Query("break", {"key": "job", "reason": "it hangs"}), answer="ended", ended=2).fields["ended"] == 2


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (Acquire(WANT, 0), {"answer": "queued"}),
        (Acquire(WANT, 0), {"answer": "ended"}),
        (Acquire(WANT, 0), {"answer": "ok"}),
        (Acquire(WANT, 0), {}),
        (End(WANT, None), {"answer": "ok"}),
        (End(WANT, None), GRANT),
        (Query("ping"), GRANT),
        (Renew([RENEWAL]), {"answer": "ended"}),
    ],
)
def test_an_answer_to_something_else_is_none(ask, line):
    distrusts(ask, text({"id": 1} | line))


# --- what comes unasked, in any order, cut, and too much ---


def test_answers_may_come_in_any_order_with_events_between():
    codec = fresh()
    for handle in "abc":
        codec.write(Query("ping"), handle)
    said = b"".join(text(line) for line in ({"id": 3, "answer": "ok"}, {"event": "nudged"}, {"id": 1, "answer": "ok"}))
    assert [handle for handle, _ in hear(codec, said, by=1)] == ["c", "a"]
    assert codec.waiting == ["b"]
    assert codec.news == [News("nudged", {"event": "nudged"})]


def test_an_event_that_this_release_does_not_know_is_news_too():
    codec = fresh()
    codec.read(text({"event": "eclipse", "of": "the moon", "claims": []}))
    assert codec.news == [News("eclipse", {"event": "eclipse", "of": "the moon", "claims": []})]


def test_a_grant_that_comes_as_an_event_is_read_like_an_answer():
    told = {"event": "granted"} | GRANT
    assert granted_in(told) == answered(Acquire(WANT, 0), **GRANT)
    for broken in (told | {"fence": 0}, {"event": "granted"}, told | {"value": "A"}):
        with pytest.raises(BadPeer):
            granted_in(broken)


@pytest.mark.parametrize(
    "said",
    [
        b"\n",
        b"ok\n",
        b"[]\n",
        b"null\n",
        b"{}\n",
        b"\xff\n",
        b'{"id":1,"answer":"ok"}}\n',
        b'{"id":2,"answer":"ok"}\n',
        b'{"id":"1","answer":"ok"}\n',
        b'{"id":true,"answer":"ok"}\n',
        b'{"id":1.5,"answer":"ok"}\n',
        b'{"id":null,"error":"bad_request","detail":"not a line of JSON"}\n',
        b'{"id":1,"answer":"ok","x":"\xff"}\n',
        b'{"id":1,"answer":"ok","x":"\\ud800"}\n',
        b'{"id":1,"answer":"ok","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        b'{"event":"nudged","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        b'{"event":5}\n',
    ],
)
def test_nonsense_ends_the_connection(said):
    distrusts(Query("ping"), said)


def test_no_answer_counts_twice():
    codec = fresh()
    codec.write(Query("ping"), "me")
    with pytest.raises(BadPeer):
        codec.read(text({"id": 1, "answer": "ok"}) * 2)
    assert codec.waiting == ["me"]


def test_half_a_line_is_no_answer():
    whole = text({"id": 1} | GRANT)
    for at in range(len(whole)):
        codec = fresh()
        codec.write(Acquire(WANT, 0), "me")
        assert codec.read(whole[:at]) == []
        assert codec.end() == []
        assert codec.waiting == ["me"]


def test_a_line_without_an_end_is_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(native, "ANSWER_BYTES_MAX", 1000)
    codec = fresh()
    assert codec.read(b"x" * 1000) == []
    with pytest.raises(BadPeer, match="more than 1000"):
        codec.read(b"x")
