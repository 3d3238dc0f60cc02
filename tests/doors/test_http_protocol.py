"""Connections as real sockets make them: hostile, half closed, pipelined. Time is in test_http_time.py.

What a request means is tested with the door and its interfaces.
"""

import asyncio
import ssl
from pathlib import Path

import pytest

from holdfast.doors.http_protocol import HEAD_BYTES_MAX, QUEUED_MAX
from holdfast.words import SECOND
from tests.certificates import Authority
from tests.doors.house import GET, House, Peer, opened, play, turn, until

# --- requests and answers ---


def test_a_connection_serves_many_requests() -> None:
    async def story(house: House, peer: Peer) -> None:
        for _ in range(3):
            assert await peer.ask(GET % b"a") == 200
        assert len(house.http.connections) == 1

    house = play(story)
    assert (house.left, house.bugs) == (1, [])


def test_an_answer_has_a_date_and_tells_nothing_of_the_server() -> None:
    async def story(house: House, peer: Peer) -> None:
        house.http.tick(1_700_000_000 * SECOND)
        peer.writer.write(GET % b"a")
        head = (await peer.head()).lower()
        assert b"\r\ndate: tue, 14 nov 2023 22:13:20 gmt\r\n" in head
        assert b"server:" not in head

    play(story)


def test_a_body_may_come_in_chunks_and_byte_by_byte() -> None:
    async def story(house: House, peer: Peer) -> None:
        request = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
        for byte in request:
            peer.writer.write(bytes([byte]))
            await peer.writer.drain()
            await turn()
        assert b'"body":7' in (await peer.answer())[1]

    play(story)


def test_a_path_is_decoded_but_not_as_text() -> None:
    async def story(house: House, peer: Peer) -> None:
        assert await peer.ask(b"GET /%C3%A9%ff?q=%41 HTTP/1.1\r\nHost: x\r\n\r\n") == 500  # JSON has no such text
        assert house.echo.asked == ["/é\udcff"]

    play(story)


def test_the_answer_to_head_has_no_body() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n" + GET % b"b")
        assert b"content-length: " in await peer.head()
        assert b'"path":"/b"' in (await peer.answer())[1]

    play(story)


@pytest.mark.parametrize("request_", [b"GET /a HTTP/1.0\r\n\r\n", b"GET /a HTTP/1.1\r\nConnection: close\r\n\r\n"])
def test_who_wants_no_more_is_left_after_the_answer(request_: bytes) -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(request_)
        assert b"\r\nconnection: close\r\n" in await peer.head()
        assert b'"path":"/a"' in await peer.reader.read()

    play(story)


def test_an_upgrade_is_not_taken_and_ends_the_connection() -> None:
    async def story(house: House, peer: Peer) -> None:
        assert await peer.ask(b"GET /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x00\x01") == 200
        assert await peer.is_closed()

    play(story)


def test_a_caller_that_expects_to_be_asked_for_the_body_is_asked() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(b"POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert await peer.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert await peer.ask(b"ab") == 200

    play(story)


def test_fields_behind_a_body_are_not_taken_for_headers() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"wait?bound=1")
        peer.writer.write(b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Request-ID: late\r\n\r\n")
        await until(lambda: house.connection.pipeline)
        house.echo.open.set()
        await peer.status()
        assert b"x-request-id: id\r\n" in await peer.head()

    play(story)


# --- pipelining ---


def test_requests_that_come_together_are_answered_in_their_order() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(b"".join(GET % (b"%d" % n) for n in range(100)))
        for n in range(100):
            assert b'"path":"/%d"' % n in (await peer.answer())[1]

    play(story)


def test_no_more_is_read_behind_many_requests_that_wait() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"wait?bound=1" + (GET % b"a") * QUEUED_MAX)
        await until(lambda: house.connection.flow.read_paused)
        peer.writer.write(GET % b"last")
        house.echo.open.set()
        for _ in range(QUEUED_MAX + 1):
            assert await peer.status() == 200
        assert b'"path":"/last"' in (await peer.answer())[1]

    play(story)


def test_who_leaves_with_requests_behind_the_one_that_waits_is_noticed() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"wait" + GET % b"a")
        await until(lambda: house.echo.asked)
        peer.writer.close()
        await until(lambda: house.echo.left)
        await until(lambda: house.left)
        assert house.echo.asked == ["/wait"]

    play(story)


# --- what is not HTTP, or too much ---


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"l\njob\n10 30\n",
        b"GET /a\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"BREW / HTTP/1.1\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -3\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ],
)
def test_what_is_not_http_is_refused(data: bytes) -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(data)
        status, body = await peer.answer()
        assert (status, body) == (400, b'{"error":"this is not HTTP"}\n')
        assert await peer.is_closed()

    assert play(story).bugs == []


def test_what_came_before_is_answered_first() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"wait?bound=1" + GET % b"a" + b"\x00 nonsense\r\n\r\n")
        await until(lambda: house.connection.pipeline)
        house.echo.open.set()
        assert [await peer.status() for _ in range(3)] == [200, 200, 400]
        assert await peer.is_closed()

    play(story)


def test_a_broken_body_behind_other_requests_is_refused_in_its_turn() -> None:
    async def story(house: House, peer: Peer) -> None:
        broken = b"POST /broken HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"
        peer.writer.write(GET % b"wait?bound=1" + GET % b"a" + broken)
        await until(lambda: house.connection.pipeline)
        house.echo.open.set()
        assert [await peer.status() for _ in range(3)] == [200, 200, 400]
        assert "/broken" not in house.echo.asked

    play(story)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /a HTTP/1.1\r\nX: " + b"x" * (3 * HEAD_BYTES_MAX) + b"\r\n\r\n",
        b"GET /" + b"x" * HEAD_BYTES_MAX + b" HTTP/1.1\r\n\r\n",
        b"GET /" + b"x" * (3 * HEAD_BYTES_MAX) + b" HTTP/1.1\r\n\r\n",
    ],
    ids=["a header", "a path", "a path without end"],
)
def test_a_head_has_a_limit(head: bytes) -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(head)
        assert await peer.status() == 431
        assert await peer.is_closed()

    play(story)


def test_a_head_below_the_limit_is_read_wherever_it_begins() -> None:
    async def story(house: House, peer: Peer) -> None:
        body = b"POST /a HTTP/1.1\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60_000
        head = b"GET /b HTTP/1.1\r\nX: " + b"x" * 60_000 + b"\r\n\r\n"
        peer.writer.write(body + head[:10])
        assert await peer.status() == 200
        assert await peer.ask(head[10:]) == 200

    play(story)


@pytest.mark.parametrize("chunked", [False, True])
def test_ten_megabytes_are_refused_and_the_peer_hears_it(chunked: bool) -> None:
    async def story(house: House, peer: Peer) -> None:
        size = 10_000_000
        framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % size
        peer.writer.write(b"POST /a HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n")
        if chunked:
            peer.writer.write(b"%x\r\n" % size)
        peer.writer.write(bytes(size))
        await peer.writer.drain()  # a caller who sends everything before it listens
        status, body = await peer.answer()
        assert (status, b"65536" in body) == (413, True)
        assert await peer.is_closed()
        assert house.echo.asked == []

    assert play(story).bugs == []


# --- leaving ---


def test_who_hangs_up_while_waiting_is_noticed() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"wait")
        await until(lambda: house.echo.asked)
        peer.writer.close()
        await until(lambda: house.echo.left and house.left)

    assert play(story).bugs == []


def test_who_says_no_more_while_waiting_has_left() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"wait")
        await until(lambda: house.echo.asked)
        peer.writer.write_eof()
        assert await peer.is_closed()
        assert house.echo.left

    assert play(story).bugs == []


def test_who_says_no_more_but_only_has_to_be_answered_is() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"wait?bound=1" + GET % b"a")
        await until(lambda: house.connection.pipeline)
        peer.writer.write_eof()
        await until(lambda: house.connection._deaf)
        house.echo.open.set()
        assert [await peer.status() for _ in range(2)] == [200, 200]
        assert await peer.is_closed()

    play(story)


@pytest.mark.parametrize("data", [b"", b"GET /a HT", b"POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nab"])
def test_who_ends_in_the_middle_of_a_request_gets_no_answer(data: bytes) -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(data)
        peer.writer.write_eof()
        assert await peer.is_closed()
        assert house.echo.asked == []

    assert play(story).bugs == []


# --- our own end ---


def test_a_bug_is_reported_and_answered() -> None:
    async def story(house: House, peer: Peer) -> None:
        assert await peer.ask(GET % b"bug") == 500
        assert await peer.is_closed()

    (bug,) = play(story).bugs
    assert isinstance(bug["exception"], ZeroDivisionError)


def test_when_the_server_closes_idle_connections_end_at_once() -> None:
    async def story(house: House, peer: Peer) -> None:
        assert await peer.ask(GET % b"a") == 200
        house.http.close()
        assert await peer.is_closed()

    play(story)


def test_when_the_server_closes_what_was_asked_is_answered() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"wait?bound=1" + GET % b"a")
        await until(lambda: house.connection.pipeline)
        house.http.close()
        house.echo.open.set()
        assert [await peer.status() for _ in range(2)] == [200, 200]
        assert await peer.is_closed()

    play(story)


def test_when_the_server_closes_a_request_that_has_begun_is_still_served() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(b"GET /a HT")
        await until(lambda: house.connection._arriving)
        house.http.close()
        assert await peer.ask(b"TP/1.1\r\n\r\n") == 200
        assert await peer.is_closed()

    play(story)


def test_abort_cuts_everybody() -> None:
    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"wait")
        await until(lambda: house.echo.asked)
        house.http.abort()
        await until(lambda: house.left)
        await until(lambda: house.echo.left)

    assert play(story).bugs == []


def test_many_quick_connections_leave_nothing_behind() -> None:
    async def whole() -> House:
        house = House()
        async with opened(house) as come:
            for _ in range(10):
                peers = [await come() for _ in range(20)]
                for number, peer in enumerate(peers):
                    if number % 2:
                        assert await peer.ask(GET % b"a") == 200
                    peer.writer.close()
            await until(lambda: house.left == 200)
        return house

    house = asyncio.run(asyncio.wait_for(whole(), 20))
    assert (house.http.connections, house.http.state.tasks, house.bugs) == (set(), set(), [])


# --- TLS ---


def test_behind_tls_the_last_answer_is_heard_too(tmp_path: Path) -> None:
    async def whole() -> House:
        authority = Authority(tmp_path / "authority")
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(*authority.sign("server"))
        house = House()
        async with opened(house, serving, authority.trust()) as come:
            peer = await come()
            assert await peer.ask(GET % b"a") == 200
            peer.writer.write(b"POST /a HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n" + bytes(1_000_000))
            assert await peer.status() == 413
            house.after(5)
            await until(lambda: house.left)
        return house

    assert asyncio.run(asyncio.wait_for(whole(), 20)).bugs == []
