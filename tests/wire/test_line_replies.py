"""What callers get to read, byte for byte: grants, renewals, refusals, and the snapshot as JSON.

How requests are read is tested in test_line.py.
"""

import json
from typing import Any

import pytest

from holdfast.wire.line import CACHE_MAX, LineCodec, reply_to, stats_json, stats_line
from holdfast.words import EX, FOREVER, SECOND, UNLIMITED, Answer, Claim, End, Holder, Look, Renew, View, WaitFor

NOW = 5000 * SECOND
TOKEN = b"0001a3f217b3c4d87f3c1f2b3e9a8d6e"


def granted(command: bytes, arg: bytes = b"1 30") -> Claim:
    claim = LineCodec(33 * SECOND).decode(command, b"job", arg)
    assert isinstance(claim, Claim)
    claim.token = TOKEN
    return claim


@pytest.mark.parametrize(
    ("command", "arg", "reply"),
    [
        (b"l", b"1 30", b"ok %b 30\n"),
        (b"l", b"1", b"ok %b 33\n"),
        (b"sl", b"1 5 30", b"ok %b 30\n"),
        (b"e", b"30", b"acquired %b 30\n"),
        (b"se", b"5 9223372036", b"acquired %b 9223372036\n"),
    ],
)
def test_a_grant_shows_the_token_and_the_lease(command: bytes, arg: bytes, reply: bytes) -> None:
    claim = granted(command, arg)
    for _ in range(2):
        assert reply_to(claim, Answer.GRANTED, claim) == reply % TOKEN


def test_a_second_phase_says_ok_where_the_first_says_acquired() -> None:
    claim = granted(b"e", b"30")
    assert reply_to(WaitFor(b"lock:job", SECOND), Answer.GRANTED, claim) == b"ok %b 30\n" % TOKEN


def test_leases_are_spelled_right_also_when_there_have_been_many() -> None:
    for seconds in range(1, CACHE_MAX + 10):
        claim = granted(b"l", b"1 %d" % seconds)
        assert reply_to(claim, Answer.GRANTED, claim) == b"ok %b %d\n" % (TOKEN, seconds)


def test_a_renewal_shows_the_whole_new_lease() -> None:
    assert reply_to(Renew(b"lock:job", TOKEN, 33 * SECOND), Answer.RENEWED, None) == b"ok 33\n"


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (Answer.QUEUED, b"queued\n"),
        (Answer.BUSY, b"timeout\n"),
        (Answer.TIMED_OUT, b"timeout\n"),
        (Answer.ENDED, b"ok\n"),
        (Answer.NOT_HELD, b"error\n"),
        (Answer.NOT_ENQUEUED, b"error_not_enqueued\n"),
        (Answer.ALREADY_ENQUEUED, b"error_already_enqueued\n"),
        (Answer.LEASE_EXPIRED, b"error_lease_expired\n"),
        (Answer.LIMIT_MISMATCH, b"error_limit_mismatch\n"),
        (Answer.TOO_MANY_KEYS, b"error_max_locks\n"),
        (Answer.TOO_MANY_WAITERS, b"error_max_waiters\n"),
        (Answer.NO_FENCE, b"error\n"),
        (Answer.DRAINING, b"error_draining\n"),
        (Answer.CLOSED, b"error\n"),
    ],
)
def test_every_other_answer_is_one_word(answer: Answer, reply: bytes) -> None:
    assert reply_to(End(b"lock:job", TOKEN), answer, None) == reply


# --- the snapshot ---


def holder(session: int, left_s: float) -> Holder:
    claim = Claim(b"", EX, 1, UNLIMITED, FOREVER, FOREVER)
    claim.session = session
    claim.deadline = NOW + round(left_s * SECOND)
    return Holder(claim)


def view(
    key: bytes, limit: int = UNLIMITED, holders: tuple[Holder, ...] = (), waiters: int = 0, idle_s: float = 0
) -> View:
    return View(key, limit, list(holders), waiters, NOW - round(idle_s * SECOND), 1)


def snapshot(*views: View) -> dict[str, Any]:
    text = stats_json(list(views), 1, NOW)
    assert b"\n" not in text
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_an_empty_snapshot_has_empty_lists_and_its_fields_in_order() -> None:
    assert stats_line([], 14, NOW) == (
        b'ok {"connections":14,"locks":[],"semaphores":[],"idle_locks":[],"idle_semaphores":[]}\n'
    )


def test_a_snapshot_is_one_compact_line() -> None:
    views = [
        view(b"lock:job", holders=(holder(42, 18.5),), waiters=2),
        view(b"sem:pool", 3, (holder(1, 9), holder(2, 9)), 4),
        view(b"lock:old", idle_s=2.5),
        view(b"sem:dry", 2, idle_s=61),
    ]
    assert stats_line(views, 3, NOW) == (
        b'ok {"connections":3,'
        b'"locks":[{"key":"job","owner_conn_id":42,"lease_expires_in_s":18.5,"waiters":2}],'
        b'"semaphores":[{"key":"pool","limit":3,"holders":2,"waiters":4}],'
        b'"idle_locks":[{"key":"old","idle_s":2.5}],'
        b'"idle_semaphores":[{"key":"dry","idle_s":61.0}]}\n'
    )


def test_what_nobody_holds_and_somebody_waits_for_has_no_owner() -> None:
    (row,) = snapshot(view(b"lock:job", waiters=1))["locks"]
    assert row == {"key": "job", "owner_conn_id": 0, "lease_expires_in_s": 0, "waiters": 1}
    (row,) = snapshot(view(b"sem:job", 2, waiters=1))["semaphores"]
    assert row == {"key": "job", "limit": 2, "holders": 0, "waiters": 1}


def test_the_limit_decides_what_is_listed_as_a_lock() -> None:
    found = snapshot(view(b"sem:one", 1, (holder(7, 5),)), view(b"sem:idle", 1), view(b"sem:two", 2, (holder(7, 5),)))
    assert [row["key"] for row in found["locks"]] == ["one"]
    assert [row["key"] for row in found["idle_locks"]] == ["idle"]
    assert [row["key"] for row in found["semaphores"]] == ["two"]
    assert found["idle_semaphores"] == []


def test_a_lock_and_a_semaphore_of_one_name_are_two_entries() -> None:
    found = snapshot(view(b"lock:x", holders=(holder(1, 5),)), view(b"sem:x", 1, (holder(2, 5),)))
    assert [(row["key"], row["owner_conn_id"]) for row in found["locks"]] == [("x", 1), ("x", 2)]


def test_time_never_shows_as_negative() -> None:
    found = snapshot(view(b"lock:late", holders=(holder(1, -3),)), view(b"lock:new", idle_s=-3))
    assert found["locks"][0]["lease_expires_in_s"] == 0
    assert found["idle_locks"][0]["idle_s"] == 0


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (b"a:b", "a:b"),
        (b'say"\\', 'say"\\'),
        (b"\x00\x1f\x7f", "\x00\x1f\x7f"),
        ("schlüssel\u2028".encode(), "schlüssel\u2028"),
        (b"\xff", "\ufffd"),
        (b"a\xe2\x80", "a\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    ],
)
def test_a_key_of_any_bytes_is_shown_as_text(key: bytes, shown: str) -> None:
    assert [row["key"] for row in snapshot(view(b"lock:" + key))["idle_locks"]] == [shown]


def test_holders_of_a_shared_mode_are_shown_as_their_first() -> None:
    (row,) = snapshot(view(b"lock:job", holders=(holder(5, 3), holder(6, 4))))["locks"]
    assert row["owner_conn_id"] == 5


def test_a_look_has_no_other_answer() -> None:
    # The desk refuses it when the service drains, and that is spelled like every refusal.
    assert reply_to(Look(), Answer.DRAINING, None) == b"error_draining\n"
