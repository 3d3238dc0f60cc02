"""Requests are written so that nothing can be smuggled in; answers are read in pieces of any size, within limits."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.http import (
    BODY_BYTES_MAX,
    CHUNK_LINE_BYTES_MAX,
    HEAD_BYTES_MAX,
    Answer,
    AnswerReader,
    request,
)
from holdfast.errors import BadPeer, BadRequest, Unknown

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5;x=y\r\nhello\r\n1 \r\n!\r\n0\r\nX: y\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + PLAIN
WHOLE = [(PLAIN, b"{}"), (CHUNKED, b"hello!"), (INTERIM, b"{}")]


def head(*lines, status="200 OK"):
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1")


def read(data, **options):
    return AnswerReader(**options).feed(data)


# --- requests ---


def test_a_request_without_a_body():
    assert request("GET", "/v1/locks/a%20b", {"Host": "x:1"}) == b"GET /v1/locks/a%20b HTTP/1.1\r\nHost: x:1\r\n\r\n"


def test_a_request_with_a_body_says_how_long_it_is():
    assert request("POST", "/", {}, b"{}") == b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
    assert request("POST", "/", {}, b"") == b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET /x", "/", {}),
        ("", "/", {}),
        ("GET", "", {}),
        ("GET", "x", {}),
        ("GET", "/a b", {}),
        ("GET", "/a\r\nX: y", {}),
        ("GET", "/é", {}),
        ("GET", "/", {"a b": "c"}),
        ("GET", "/", {"a": "b\r\nc: d"}),
        ("GET", "/", {"a": "b\0"}),
        ("GET", "/", {"a": "\u20ac"}),
        ("GET", "/", {"": "x"}),
    ],
)
def test_what_could_smuggle_something_in_is_refused(method, target, headers):
    with pytest.raises(BadRequest):
        request(method, target, headers)


def test_the_value_of_a_header_that_is_refused_is_not_shown():
    with pytest.raises(BadRequest) as refused:
        request("GET", "/", {"Authorization": "Bearer secret\n"})
    assert "secret" not in str(refused.value)


def test_a_head_that_no_server_would_read_is_refused():
    with pytest.raises(BadRequest, match="more than 65536"):
        request("GET", "/" + "x" * HEAD_BYTES_MAX, {})


# --- answers ---


def test_an_answer_with_a_length():
    assert read(PLAIN) == Answer(200, {"content-type": "application/json", "content-length": "2"}, b"{}", keeps=True)


def test_an_answer_in_chunks():
    answer = read(CHUNKED)
    assert (answer.body, answer.keeps) == (b"hello!", True)


def test_words_in_between_are_passed_over():
    answer = read(INTERIM)
    assert (answer.status, answer.body) == (200, b"{}")
    assert "link" not in answer.headers


@pytest.mark.parametrize(("data", "body"), WHOLE)
def test_an_answer_may_come_byte_by_byte(data, body):
    reader = AnswerReader()
    assert not reader.begun
    answers = [reader.feed(data[at : at + 1]) for at in range(len(data))]
    assert reader.begun
    assert [answer for answer in answers if answer is not None] == [answers[-1]]
    assert answers[-1].body == body


@pytest.mark.parametrize(("data", "_body"), WHOLE)
def test_an_answer_that_is_cut_at_any_byte_is_unknown(data, _body):
    for end in range(len(data)):
        reader = AnswerReader()
        assert reader.feed(data[:end]) is None
        with pytest.raises(Unknown):
            reader.end()


def test_an_answer_without_a_length_ends_with_the_connection():
    reader = AnswerReader()
    assert reader.feed(head() + b"he") is None
    assert reader.feed(b"llo") is None
    answer = reader.end()
    assert (answer.body, answer.keeps) == (b"hello", False)


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_some_answers_have_no_body_whatever_they_say(status):
    answer = read(head("Content-Length: 5", status=status))
    assert (answer.body, answer.keeps) == (b"", True)


def test_an_answer_to_head_has_no_body():
    answer = read(head("Content-Length: 5"), method="HEAD")
    assert (answer.body, answer.keeps) == (b"", True)


@pytest.mark.parametrize(
    ("version", "lines", "keeps"),
    [
        ("1.1", [], True),
        ("1.1", ["Connection: Close"], False),
        ("1.1", ["Connection: x", "Connection: close"], False),
        ("1.0", [], False),
        ("1.0", ["Connection: keep-alive"], True),
    ],
)
def test_whether_the_connection_can_be_used_again(version, lines, keeps):
    data = "\r\n".join([f"HTTP/{version} 200", *lines, "Content-Length: 0", "", ""]).encode()
    assert read(data).keeps is keeps


def test_bytes_behind_an_answer_spoil_the_connection():
    answer = read(PLAIN + b"HTTP/1.1")
    assert (answer.body, answer.keeps) == (b"{}", False)


def test_a_header_that_came_twice_is_joined():
    assert read(head("A: 1", "a:  2\t", "Content-Length: 0")).headers["a"] == "1, 2"


def test_the_same_length_twice_is_one_length():
    assert read(head("Content-Length: 2", "Content-Length: 2") + b"{}").body == b"{}"


@pytest.mark.parametrize(
    "data",
    [
        b"ok token 30\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 999 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b" HTTP/1.1 200 OK\r\n\r\n",
        head("no colon"),
        head("space before : colon"),
        head(" folded: line"),
        head(": no name"),
        head("a: \x00"),
        head("a: x\ny: z"),
        head("Content-Length: -1"),
        head("Content-Length: +1"),
        head("Content-Length: 1_0"),
        head("Content-Length: "),
        head("Content-Length: 1", "Content-Length: 2"),
        head("Content-Length: " + "9" * 19),
        head("Transfer-Encoding: gzip, chunked"),
        head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        head("Transfer-Encoding: chunked", "Content-Length: 1"),
        head("Upgrade: x", status="101 Switching Protocols"),
        head("Transfer-Encoding: chunked") + b"\r\n",
        head("Transfer-Encoding: chunked") + b"-1\r\n",
        head("Transfer-Encoding: chunked") + b"0x1\r\n",
        head("Transfer-Encoding: chunked") + b"1\r\nabc\r\n",
    ],
)
def test_what_is_no_answer_is_refused(data):
    with pytest.raises(BadPeer):
        read(data)


@pytest.mark.parametrize("data", [b"e", b"error\n", b"H!", b"HTTP:"])
def test_what_does_not_begin_like_an_answer_is_refused_before_it_ends(data):
    """The line protocol, asked in HTTP, says error and waits: the end of a head would never come."""
    with pytest.raises(BadPeer, match="no answer of HTTP"):
        AnswerReader().feed(data)


# --- limits ---


def test_a_head_that_does_not_end_is_refused():
    reader = AnswerReader(head_bytes_max=100)
    with pytest.raises(BadPeer, match="more than 100 bytes"):
        reader.feed(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20)


def test_a_head_that_ends_too_late_is_refused():
    with pytest.raises(BadPeer, match="more than 10 bytes"):
        read(PLAIN, head_bytes_max=10)


def test_a_body_that_is_said_to_be_too_long_is_refused_before_it_comes():
    with pytest.raises(BadPeer, match=str(BODY_BYTES_MAX)):
        read(head(f"Content-Length: {BODY_BYTES_MAX + 1}"))


def test_a_body_of_the_longest_length_is_read():
    assert len(read(head(f"Content-Length: {BODY_BYTES_MAX}") + b"x" * BODY_BYTES_MAX).body) == BODY_BYTES_MAX


def test_chunks_that_are_too_much_together_are_refused():
    with pytest.raises(BadPeer, match="more than 5 bytes"):
        read(head("Transfer-Encoding: chunked") + b"3\r\nabc\r\n3\r\n", body_bytes_max=5)


def test_a_body_without_a_length_that_is_too_long_is_refused():
    with pytest.raises(BadPeer, match="more than 5 bytes"):
        read(head() + b"123456", body_bytes_max=5)


def test_a_line_before_a_chunk_that_is_too_long_is_refused():
    with pytest.raises(BadPeer, match=str(CHUNK_LINE_BYTES_MAX)):
        read(head("Transfer-Encoding: chunked") + b"1;" + b"x" * CHUNK_LINE_BYTES_MAX)


def test_trailers_that_do_not_end_are_refused():
    with pytest.raises(BadPeer, match="behind the last chunk"):
        read(head("Transfer-Encoding: chunked") + b"0\r\n" + b"A: b\r\n" * 20, head_bytes_max=100)


# --- anything ---


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_bytes_of_any_kind_are_an_answer_or_one_of_our_errors(pieces):
    reader, answer = AnswerReader(head_bytes_max=64, body_bytes_max=64), None
    with suppress(BadPeer, Unknown):
        while answer is None:
            answer = reader.feed(pieces.pop(0)) if pieces else reader.end()
    assert answer is None or 100 <= answer.status <= 599


@given(st.binary(max_size=300), st.lists(st.integers(1, 50), min_size=1), st.booleans(), st.integers(1, 40))
def test_a_body_comes_through_whatever_the_pieces(body, cuts, chunked, size):
    if chunked:
        chunks = [body[at : at + size] for at in range(0, len(body), size)]
        data = head("Transfer-Encoding: chunked")
        data += b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    else:
        data = head(f"Content-Length: {len(body)}") + body
    reader, answer, at, turn = AnswerReader(), None, 0, 0
    while at < len(data):
        assert answer is None
        answer = reader.feed(data[at : at + cuts[turn % len(cuts)]])
        at, turn = at + cuts[turn % len(cuts)], turn + 1
    assert (answer.body, answer.keeps) == (body, True)
