"""One request and its answer, between a connection and applications that do and do not what they should.

How requests follow each other is tested in test_http_protocol.py.
"""

import asyncio
from typing import Any

import pytest

from tests.doors.house import GET, House, Peer, play, until

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
BODY = {"type": "http.response.body", "body": b"ok"}


def test_head_and_body_leave_in_one_write() -> None:
    written: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        assert written == []
        await send(BODY)

    async def story(house: House, peer: Peer) -> None:
        transport = house.connection.transport

        class Ear:
            def __getattr__(self, name: str) -> Any:
                return getattr(transport, name)

            def write(self, data: bytes) -> None:
                written.append(data)
                transport.write(data)

        house.connection.transport = Ear()  # type: ignore[assignment]
        assert await peer.ask(GET % b"a") == 200
        assert len(written) == 1
        assert written[0].endswith(b"\r\n\r\nok")

    play(story, app)


def test_the_body_is_handed_over_once_and_then_the_leaving() -> None:
    heard: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.append(await receive())
        heard.append(await receive())

    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
        await until(lambda: heard)
        peer.writer.close()
        await until(lambda: len(heard) == 2)

    play(story, app)
    assert heard == [{"type": "http.request", "body": b"abc", "more_body": False}, {"type": "http.disconnect"}]


def test_after_its_answer_a_request_has_nothing_more_to_receive() -> None:
    heard: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(BODY)
        heard.append(await receive())

    async def story(house: House, peer: Peer) -> None:
        assert await peer.ask(GET % b"a") == 200
        await until(lambda: heard)

    play(story, app)
    assert heard == [{"type": "http.disconnect"}]


async def says_nothing(scope: Any, receive: Any, send: Any) -> None:
    await receive()


async def fails(scope: Any, receive: Any, send: Any) -> None:
    raise ZeroDivisionError


async def is_cancelled(scope: Any, receive: Any, send: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


@pytest.mark.parametrize(("app", "bugs"), [(says_nothing, 0), (fails, 1), (is_cancelled, 0)])
def test_an_answer_that_is_owed_is_made_up_for(app: Any, bugs: int) -> None:
    async def story(house: House, peer: Peer) -> None:
        status, body = await peer.ask_all(GET % b"a")
        assert (status, b'"error"' in body) == (500, True)
        assert await peer.is_closed()

    assert len(play(story, app).bugs) == bugs


def test_an_answer_that_has_only_begun_ends_the_connection() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)

    async def story(house: House, peer: Peer) -> None:
        peer.writer.write(GET % b"a")
        assert await peer.is_closed()

    play(story, app)


def test_a_header_cannot_smuggle_another_one_in() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START | {"headers": [(b"x", b"1\r\ny: 2")]})

    async def story(house: House, peer: Peer) -> None:
        assert await peer.ask(GET % b"a") == 500

    assert len(play(story, app).bugs) == 1
