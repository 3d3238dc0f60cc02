"""How the native protocol answers: exact lines, as a client gets them."""

import json
from typing import Any

import pytest

from holdfast.errors import SPELLINGS
from holdfast.testing.mint import secret_of
from holdfast.wire.native_answers import (
    HOLDERS_SHOWN_MAX,
    QUEUE_SHOWN_MAX,
    REFUSALS,
    RETRIES,
    answer,
    ended,
    event,
    grant_of,
    grants_of,
    greet,
    introduction,
    key_view,
    keys_seen,
    ms,
    name_of,
    nudged,
    place_of,
    refusal,
    refused,
    stayed,
    turn_away,
)
from holdfast.words import (
    CONVERTING,
    EX,
    FOREVER,
    HELD,
    PR,
    RESIDENT,
    SECOND,
    UNLIMITED,
    WAITING,
    Answer,
    Claim,
    Group,
    Holder,
    Reason,
    View,
    Waiter,
)

NOW = 1000 * SECOND
SAID_BY_OTHER_MEANS = {
    Answer.GRANTED,
    Answer.QUEUED,
    Answer.RENEWED,
    Answer.ENDED,
    Answer.ALREADY_ENQUEUED,
    Answer.CONVERTING,
}


def held(key: bytes = b"lock:job", number: int = 7) -> Claim:
    claim = Claim(key, EX, 1, UNLIMITED, 30 * SECOND, FOREVER)
    claim.ticket, claim.session = b"ticket-of-a-0001", 5
    claim.state, claim.mode, claim.fence, claim.secret = HELD, EX, number, secret_of(number)
    claim.since, claim.deadline = NOW - SECOND, NOW + 29 * SECOND + 999_999
    return claim


def waiting(deadline: int = FOREVER) -> Claim:
    claim = Claim(b"sem:pool", PR, 2, 4, 30 * SECOND, FOREVER)
    claim.ticket, claim.session, claim.state = b"ticket-of-b-0001", 6, WAITING
    claim.since, claim.deadline = NOW - 2 * SECOND, deadline
    return claim


def line(text: bytes) -> Any:
    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    return json.loads(text)


# --- words ---


def test_every_answer_that_says_no_is_spelled_and_known_elsewhere() -> None:
    assert set(Answer) - set(REFUSALS) == SAID_BY_OTHER_MEANS
    for code, detail in REFUSALS.values():
        assert code in SPELLINGS
        assert code in RETRIES
        assert detail


def test_hello_is_answered_with_what_a_client_has_to_know() -> None:
    text = greet("holdfast 0", "f" * 48, resumed=True, grace_ns=30 * SECOND, lease_ns=SECOND // 2)
    assert text.startswith(b"ok {")
    assert line(text[3:]) == {
        "version": 1,
        "server": "holdfast 0",
        "session": "f" * 48,
        "resumed": True,
        "grace_ms": 30_000,
        "lease_ms": 500,
        "line_bytes_max": 65_536,
        "in_flight_max": 4096,
    }


def test_a_hello_that_is_refused_is_told_why() -> None:
    assert turn_away("too_many", "full") == b'error {"error":"too_many","retry":"later","detail":"full"}\n'


@pytest.mark.parametrize(("id_", "spelled"), [(1, b"1"), ("a", b'"a"'), ('"', b'"\\""')])
def test_an_answer_has_the_id_of_its_request(id_: int | str, spelled: bytes) -> None:
    assert answer(id_, b"ok") == b'{"id":%b,"answer":"ok"}\n' % spelled
    assert answer(id_, b"seen", {"x": 1}) == b'{"id":%b,"answer":"seen","x":1}\n' % spelled


def test_a_refusal_says_whether_to_come_back() -> None:
    assert line(refusal(None, "bad_request", "no")) == {
        "id": None,
        "error": "bad_request",
        "retry": "never",
        "detail": "no",
    }
    assert line(refused(1, Answer.TIMED_OUT))["retry"] == "now"


def test_a_refusal_names_who_is_in_the_way_where_that_is_known() -> None:
    claim = waiting()
    said = "somebody else holds the key, or waits for it"
    assert line(refused(1, Answer.BUSY, claim))["detail"] == said
    claim.rival = held()
    assert line(refused(1, Answer.BUSY, claim))["detail"] == said
    claim.rival.owner = b"web-1\xff"
    assert line(refused(1, Answer.BUSY, claim))["detail"] == f"{said}; web-1\\xff holds it"


def test_bytes_that_are_not_text_are_escaped() -> None:
    assert name_of(b"lock:a:\xff") == "a:\\xff"


def test_times_are_rounded_down_and_never_below_nothing() -> None:
    assert [ms(1_999_999), ms(0), ms(-5)] == [1, 0, 0]


# --- grants and events ---


def test_a_grant_tells_all_that_its_holder_may_know() -> None:
    claim = held()
    facts = line(event(b"granted", grant_of(claim, NOW)))
    assert facts == {
        "event": "granted",
        "ticket": "ticket-of-a-0001",
        "key": "job",
        "kind": "lock",
        "mode": "EX",
        "units": 1,
        "fence": 7,
        "token": secret_of(7)[:32].decode(),
        "lease_ms": 30_000,
        "left_ms": 29_000,
        "value": None,
        "value_valid": True,
    }
    claim.seen = b"\0\1", False
    facts = line(event(b"granted", grant_of(claim, NOW)))
    assert (facts["value"], facts["value_valid"]) == ("AAE=", False)


def test_a_group_is_told_member_by_member() -> None:
    group = Group(b"ticket-of-a-0001", [held(), held(b"sem:pool", 8)], FOREVER)
    facts = line(answer(1, b"granted", grants_of(group, NOW)))
    assert facts["ticket"] == "ticket-of-a-0001"
    assert [(one["key"], one["kind"], one["fence"]) for one in facts["claims"]] == [
        ("job", "lock", 7),
        ("pool", "semaphore", 8),
    ]
    assert place_of(group) == {"ticket": "ticket-of-a-0001", "claims": [place_of(held()), place_of(held(b"sem:pool"))]}


def test_events_say_which_claim_they_are_about() -> None:
    place = {"ticket": "ticket-of-a-0001", "key": "job", "kind": "lock"}
    assert place_of(held()) == place
    end = {"event": "ended", **place, "reason": "expired", "fence": 7}
    assert line(ended(held(), Reason.EXPIRED, None)) == end
    assert line(ended(held(), Reason.EXPIRED, "so"))["detail"] == "so"
    stay = {"event": "stayed", **place, "mode": "EX", "reason": "timed_out"}
    assert line(stayed(held(), Reason.TIMED_OUT)) == stay
    assert line(nudged(held(), PR)) == {"event": "nudged", **place, "want": "PR"}


# --- what a look shows ---


def view(key: bytes = b"lock:job", limit: int = UNLIMITED, holders: int = 1, waiters: int = 0) -> View:
    queue = [Waiter(waiting()) for _ in range(waiters)]
    return View(key, limit, [Holder(held()) for _ in range(holders)], waiters, NOW, 3, queue)


def test_a_key_is_shown_with_who_holds_it_and_without_secrets() -> None:
    claim = held()
    claim.owner, claim.about = b"billing@web-1:47", b'{"client":"billing","pid":47,"door":"native","secret":1}'
    shown = key_view(View(b"lock:job", UNLIMITED, [Holder(claim)], 2, NOW, 3), NOW, deep=False)
    assert shown == {
        "key": "job",
        "kind": "lock",
        "version": 3,
        "waiting": 2,
        "held": 1,
        "holders": [
            {
                "owner": "billing@web-1:47",
                "pid": 47,
                "client": "billing",
                "door": "native",
                "mode": "EX",
                "units": 1,
                "fence": 7,
                "since_ms": 1000,
                "left_ms": 29_000,
            }
        ],
    }


def test_holders_that_convert_or_have_outlived_their_session_are_marked() -> None:
    claim = held()
    claim.state, claim.want, claim.kept = CONVERTING, PR, True
    (shown,) = key_view(View(b"lock:job", UNLIMITED, [Holder(claim)], 0, NOW, 3), NOW, deep=False)["holders"]  # type: ignore[misc]
    assert (shown["converting_to"], shown["kept"]) == ("PR", True)


def test_a_deep_look_shows_the_queue() -> None:
    patient, asking, converting = waiting(), waiting(NOW + SECOND), held()
    converting.state, converting.want, converting.asked = CONVERTING, PR, NOW - SECOND
    waiters = [Waiter(converting), Waiter(patient), Waiter(asking)]
    waiters[2].group = 9
    queue: Any = key_view(View(b"sem:pool", 4, [], 2, NOW, 3, waiters), NOW, deep=True)["queue"]
    assert queue == [
        {"want": "PR", "units": 1, "since_ms": 1000, "left_ms": None, "fence": 7},
        {"want": "PR", "units": 2, "since_ms": 2000, "left_ms": None},
        {"want": "PR", "units": 2, "since_ms": 2000, "left_ms": 1000, "group": 9},
    ]


def test_a_semaphore_is_shown_with_its_limit() -> None:
    assert key_view(view(b"sem:pool", 4), NOW, deep=False)["limit"] == 4


def test_not_everybody_is_shown_where_there_are_many() -> None:
    shown: Any = key_view(view(holders=HOLDERS_SHOWN_MAX + 1, waiters=QUEUE_SHOWN_MAX + 1), NOW, deep=True)
    assert (shown["held"], len(shown["holders"])) == (1001, 1000)
    assert (shown["waiting"], len(shown["queue"])) == (1001, 1000)


def test_so_many_keys_are_shown_and_where_to_go_on() -> None:
    views = [view(b"lock:a"), view(b"lock:b\xff"), view(b"sem:c", 2)]
    facts: Any = keys_seen(views, 2, NOW, deep=False)
    assert [shown["key"] for shown in facts["keys"]] == ["a", "b\\xff"]
    assert facts["next"] == "lock:b%FF"
    assert keys_seen(views, 3, NOW, deep=False)["next"] is None


@pytest.mark.parametrize(
    ("owner", "about", "session", "shown"),
    [
        (b"", b"", 4, {}),
        (b"worker-1", b"", RESIDENT, {"owner": "worker-1", "door": "http"}),
        (b"\xff", b"no json", 4, {"owner": "\\xff"}),
        (b"", b"[]", 4, {}),
        (b"", b'{"host":"\xff"}', 4, {}),
        (b"", b'{"host":"a","task":"t","traceparent":"p"}', 4, {"host": "a", "task": "t", "traceparent": "p"}),
        (b"x", b'{"door":"native"}', RESIDENT, {"owner": "x", "door": "native"}),
    ],
)
def test_whoever_asks_is_shown_as_far_as_it_is_known(
    owner: bytes, about: bytes, session: int, shown: dict[str, object]
) -> None:
    assert introduction(owner, about, session) == shown
