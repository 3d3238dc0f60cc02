"""The line protocol of dflockd, byte for byte: what is sent, what is believed, and what ends the connection."""

from dataclasses import replace

import pytest

from holdfast.client.asks import (
    Acquire,
    Convert,
    End,
    Ended,
    Enqueue,
    Granted,
    Member,
    Query,
    Queued,
    Refusal,
    Renew,
    Renewed,
    Seen,
    Wait,
)
from holdfast.client.dialects.dflock import IN_FLIGHT_MAX, LINE_BYTES_MAX, SECONDS_MAX, DflockCodec
from holdfast.errors import (
    BadPeer,
    BadRequest,
    Busy,
    Closed,
    Forbidden,
    LeaseLost,
    LimitMismatch,
    NotHeld,
    TimedOut,
    TooMany,
    Unavailable,
)
from tests.client.dialects.codecs import MILLISECOND, SEATS, SECOND, TICKET, TOKEN, WANT, answers, hear, proof

GRANT = b"ok %b 30\n" % TOKEN.encode()


def plain():
    return DflockCodec(None)


def spelled(ask):
    return plain().write(ask, "me")


def answered(ask, line):
    """Give what one request is answered by one line."""
    (answer,) = answers(plain, [ask], line + b"\n")
    return answer


def granted(want=WANT, lease_s=30):
    return Granted(
        ticket=TICKET, key=want.key, kind=want.kind, mode=want.mode, fence=7, token=TOKEN, lease_ns=lease_s * SECOND
    )


# --- the greeting ---


def test_without_a_token_nothing_is_said_first():
    codec = plain()
    assert codec.greeting() == b""
    assert codec.ready


def test_a_token_is_shown_before_anything_else_is_asked():
    codec = DflockCodec("open sesame")
    assert codec.greeting() == b"auth\n_\nopen sesame\n"
    assert not codec.ready
    assert hear(codec, b"ok\n", by=1) == []
    assert codec.ready


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"error_auth", Forbidden),
        (b"error", Forbidden),  # a server that wants no token
        (b"error_draining", Closed),
        (b"ok 1", BadPeer),
        (b"HTTP/1.1 400 Bad Request", BadPeer),
        (b"", BadPeer),
    ],
)
def test_a_token_that_is_not_taken_ends_the_connection(line, error):
    codec = DflockCodec("open sesame")
    with pytest.raises(error) as raised:
        hear(codec, line + b"\n", by=1)
    assert "sesame" not in str(raised.value)
    assert not codec.ready


def test_the_greeting_may_be_answered_together_with_what_was_asked_behind_it():
    codec = DflockCodec("open sesame")
    codec.write(Query("ping"), "me")
    assert hear(codec, b"ok\nok\n") == [("me", Seen({"stats": b""}))]


@pytest.mark.parametrize("token", ["", "a\nb", "a\r"])
def test_a_token_that_would_smuggle_in_a_command_is_refused(token):
    with pytest.raises(BadRequest, match="one line of text"):
        DflockCodec(token)


# --- what is sent ---


@pytest.mark.parametrize(
    ("ask", "frame"),
    [
        (Acquire(WANT, 10 * SECOND), b"l\njob\n10 30\n"),
        (Acquire(WANT, 0), b"l\njob\n0 30\n"),
        (Acquire(WANT, 1), b"l\njob\n1 30\n"),  # never less than what was asked
        (Acquire(WANT, None), b"l\njob\n9223372036 30\n"),
        (Acquire(WANT, 1 << 80), b"l\njob\n9223372036 30\n"),
        (Acquire(replace(WANT, lease_ns=1 * MILLISECOND), 0), b"l\njob\n0 1\n"),
        (Acquire(replace(WANT, lease_ns=30 * SECOND + 1), 0), b"l\njob\n0 31\n"),
        (Acquire(replace(WANT, lease_ns=1 << 80), 0), b"l\njob\n0 9223372036\n"),
        (Acquire(replace(WANT, key="ä\u00a0ß"), 0), b"l\n\xc3\xa4\xc2\xa0\xc3\x9f\n0 30\n"),
        (Acquire(SEATS, 10 * SECOND), b"sl\npool\n10 3 30\n"),
        (Enqueue(WANT), b"e\njob\n30\n"),
        (Enqueue(SEATS), b"se\npool\n3 30\n"),
        (Wait(WANT, 2 * SECOND), b"w\njob\n2\n"),
        (Wait(SEATS, None), b"sw\npool\n9223372036\n"),
        (Renew([(proof(), 45 * SECOND)]), b"n\njob\n%b 45\n" % TOKEN.encode()),
        (Renew([(proof(SEATS), 45 * SECOND)]), b"sn\npool\n%b 45\n" % TOKEN.encode()),
        (End(WANT, proof()), b"r\njob\n%b\n" % TOKEN.encode()),
        (End(SEATS, proof(SEATS)), b"sr\npool\n%b\n" % TOKEN.encode()),
        (Query("ping"), b"ping\n_\n_\n"),
        (Query("stats"), b"stats\n_\n_\n"),
    ],
)
def test_a_request_is_three_lines(ask, frame):
    assert spelled(ask) == frame


@pytest.mark.parametrize("key", ["", "a b", "a\tb", "a\nb", "a\r", "x" * 257, "ä" * 129])
def test_a_key_that_the_protocol_has_no_words_for_is_refused(key):
    with pytest.raises(BadRequest, match="256 bytes and no white space"):
        spelled(Acquire(replace(WANT, key=key), 0))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"mode": "PR"}, "mode"),
        ({"limit": 3}, "mode"),  # whose only mode is CW
        ({"limit": 3, "mode": "CW", "units": 2}, "units"),
        ({"nudge": True}, "on_contended"),
        ({"refuse_deadlock": True}, "deadlock"),
        ({"members": (Member("a"), Member("b"))}, "several keys"),
    ],
)
def test_what_the_protocol_cannot_do_is_refused_rather_than_left_out(changes, what):
    with pytest.raises(BadRequest, match=what):
        spelled(Acquire(replace(WANT, **changes), 0))


@pytest.mark.parametrize(
    ("ask", "word"),
    [
        (Convert(WANT, "PR", None), "convert"),
        (Query("explain", {"key": "job"}), "explain"),
        (End(WANT, proof(), b"value"), "values"),
    ],
)
def test_verbs_that_it_does_not_have_are_refused_by_name(ask, word):
    codec = plain()
    with pytest.raises(BadRequest, match=word):
        codec.write(ask, "me")
    assert codec.waiting == []


def test_so_many_requests_are_sent_ahead_and_no_more():
    codec = plain()
    for number in range(IN_FLIGHT_MAX):
        assert codec.has_room()
        codec.write(Query("ping"), number)
    assert not codec.has_room()
    codec.read(b"ok\n")
    assert codec.has_room()


# --- what is believed ---


@pytest.mark.parametrize("ask", [Acquire(WANT, SECOND), Wait(WANT, SECOND)])
def test_a_grant_tells_the_fence_the_token_and_the_lease(ask):
    assert answered(ask, GRANT[:-1]) == granted()


def test_a_grant_of_a_seat_is_one_of_a_semaphore():
    assert answered(Acquire(SEATS, 0), GRANT[:-1]) == granted(SEATS)


def test_a_server_may_give_less_or_more_than_was_asked_for():
    assert answered(Acquire(WANT, 0), b"ok %b 5" % TOKEN.encode()) == granted(lease_s=5)
    assert answered(Acquire(WANT, 0), b"ok %b %d" % (TOKEN.encode(), SECONDS_MAX)) == granted(lease_s=SECONDS_MAX)


def test_how_much_of_a_lease_is_left_is_not_said():
    assert answered(Acquire(WANT, 0), GRANT[:-1]).left_ns is None


def test_who_enqueues_is_told_acquired_or_queued():
    assert answered(Enqueue(WANT), b"acquired %b 30" % TOKEN.encode()) == granted()
    assert answered(Enqueue(WANT), b"queued") == Queued()


@pytest.mark.parametrize(
    "line",
    [
        b"ok",
        b"ok " + TOKEN.encode(),
        b"ok " + TOKEN.encode() + b" 0",
        b"ok " + TOKEN.encode() + b" 9223372037",
        b"ok " + TOKEN.encode() + b" -1",
        b"ok " + TOKEN.encode() + b" 30 ",
        b"ok " + TOKEN.encode() + b" 30\r",
        b"ok  " + TOKEN.encode() + b" 30",
        b"ok " + TOKEN.upper().replace("7", "A").encode() + b" 30",
        b"ok " + TOKEN.encode()[1:] + b" 30",
        b"OK " + TOKEN.encode() + b" 30",
        b"acquired " + TOKEN.encode() + b" 30",
        b"queued",
        b"timeouts",
        b"",
        b"\xff\0",
    ],
)
def test_what_is_not_quite_a_grant_is_none(line):
    codec = plain()
    codec.write(Acquire(WANT, SECOND), "me")
    with pytest.raises(BadPeer, match="answered Acquire"):
        codec.read(line + b"\n")
    assert codec.waiting == ["me"]


@pytest.mark.parametrize("line", [b"ok %b 30" % TOKEN.encode(), b"timeout"])
def test_who_enqueued_is_not_answered_as_if_it_had_waited(line):
    codec = plain()
    codec.write(Enqueue(WANT), "me")
    with pytest.raises(BadPeer):
        codec.read(line + b"\n")


@pytest.mark.parametrize(
    ("ask", "line", "error"),
    [
        (Acquire(WANT, 0), b"timeout", Busy),
        (Acquire(WANT, 1), b"timeout", TimedOut),
        (Acquire(WANT, None), b"timeout", TimedOut),
        (Wait(WANT, 0), b"timeout", TimedOut),
        (Acquire(WANT, 0), b"error", Unavailable),
        (Acquire(WANT, 0), b"error_max_locks", TooMany),
        (Acquire(WANT, 0), b"error_max_waiters", TooMany),
        (Acquire(SEATS, 0), b"error_limit_mismatch", LimitMismatch),
        (Acquire(WANT, 0), b"error_lease_expired", LeaseLost),
        (Wait(WANT, 0), b"error_not_enqueued", NotHeld),
        (Enqueue(WANT), b"error_already_enqueued", BadRequest),
        (Enqueue(WANT), b"error_draining", Closed),
        (Renew([(proof(), SECOND)]), b"error_draining", Closed),
        (End(WANT, proof()), b"error_draining", Closed),
        (Query("ping"), b"error_draining", Closed),
        (Acquire(WANT, 0), b"error_auth", Forbidden),
    ],
)
def test_a_refusal_becomes_the_error_that_it_means(ask, line, error):
    answer = answered(ask, line)
    assert isinstance(answer, Refusal)
    assert type(answer.error) is error


@pytest.mark.parametrize("line", [b"ok", b"ok 30", b"ok 31"])
def test_a_renewal_that_is_long_enough_is_one(line):
    assert answered(Renew([(proof(), 30 * SECOND)]), line) == Renewed([True])


def test_a_renewal_of_what_is_gone_is_none():
    assert answered(Renew([(proof(), 30 * SECOND)]), b"error") == Renewed([False])


@pytest.mark.parametrize("line", [b"ok 29", b"ok 0", b"ok x", b"ok 30 1", b"renewed", b"timeout", b"queued"])
def test_a_renewal_for_less_than_would_be_believed_is_not_believed(line):
    codec = plain()
    codec.write(Renew([(proof(), 30 * SECOND)]), "me")
    with pytest.raises(BadPeer):
        codec.read(line + b"\n")


@pytest.mark.parametrize(("line", "was_there"), [(b"ok", True), (b"error", False)])
def test_an_end_tells_whether_there_was_anything_to_end(line, was_there):
    assert answered(End(WANT, proof()), line) == Ended(was_there=was_there)


@pytest.mark.parametrize("line", [b"ok 1", b"timeout", b"queued"])
def test_an_end_is_answered_plainly_or_not_at_all(line):
    codec = plain()
    codec.write(End(WANT, proof()), "me")
    with pytest.raises(BadPeer):
        codec.read(line + b"\n")


def test_statistics_are_handed_on_as_they_are():
    assert answered(Query("stats"), b'ok {"connections":1}') == Seen({"stats": b'{"connections":1}'})


# --- many, none, too much ---


def test_answers_come_in_the_order_of_the_requests():
    asks = [Acquire(WANT, 0), Query("ping"), Renew([(proof(), 30 * SECOND)]), End(WANT, proof())]
    assert answers(plain, asks, GRANT + b"ok\nok 30\nerror\n") == [
        granted(),
        Seen({"stats": b""}),
        Renewed([True]),
        Ended(was_there=False),
    ]


def test_half_an_answer_is_none():
    codec = plain()
    codec.write(Acquire(WANT, 0), "me")
    assert codec.read(GRANT[:-1]) == []
    assert codec.end() == []
    assert codec.waiting == ["me"]


def test_an_answer_that_nobody_asked_for_ends_the_connection():
    codec = plain()
    with pytest.raises(BadPeer, match="without being asked"):
        codec.read(b"error\n")


def test_a_grant_behind_which_the_server_talks_on_is_not_believed():
    codec = plain()
    codec.write(Acquire(WANT, 0), "me")
    with pytest.raises(BadPeer):
        codec.read(GRANT + GRANT)
    assert codec.waiting == ["me"]


def test_a_line_without_an_end_is_not_kept_for_ever():
    codec = plain()
    codec.write(Query("stats"), "me")
    assert codec.read(b"x" * LINE_BYTES_MAX) == []
    with pytest.raises(BadPeer, match="more than"):
        codec.read(b"x")
