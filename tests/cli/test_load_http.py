"""The caller at the HTTP door: what it sends, and what it makes of each answer.

The server beside it is a small one of the tests, which speaks as LockServer does.
"""

import asyncio

import pytest

from holdfast.cli.load_caller import BadAnswer, Grant, Refusal
from holdfast.cli.load_http import HttpCaller, read_response
from tests.cli.small_server import raw, response, serving

TTL = 800_000_000


def with_server(story):
    async def main():
        async with serving() as server:
            caller = HttpCaller("127.0.0.1", server.port, "c-1")
            try:
                return await story(server, caller)
            finally:
                caller.close()

    return asyncio.run(main())


def test_a_lock_is_acquired_and_released_with_what_the_grant_said():
    async def story(server, caller):
        grant = await caller.acquire("job", TTL)
        released = [await caller.release("job", grant), await caller.release("job", grant)]
        return server, grant, released

    server, grant, released = with_server(story)
    assert grant == Grant(1, "lease-1")
    assert released == [True, False]
    assert server.requests[:2] == [
        ("/v1/locks/job/acquire", {"owner_id": "c-1", "ttl_ms": 800}),
        ("/v1/locks/job/release", {"owner_id": "c-1", "lease_id": "lease-1", "fencing_token": 1}),
    ]
    assert server.connections == 1
    assert f"Host: 127.0.0.1:{server.port}\r\n" in server.heads[0]


def test_a_lock_that_is_held_is_refused_with_the_servers_hint():
    async def story(_, caller):
        await caller.acquire("job", TTL)
        return await caller.acquire("job", TTL)

    assert with_server(story) == Refusal(2_000_000, store_busy=False)


def test_any_name_reaches_the_server_as_one_segment():
    async def story(server, caller):
        await caller.acquire("a b/ä?c", TTL)
        return server.requests[0][0]

    assert with_server(story) == "/v1/locks/a%20b%2F%C3%A4%3Fc/acquire"


def test_the_shortest_lease_that_can_be_asked_for_is_a_millisecond():
    async def story(server, caller):
        await caller.acquire("job", 1)
        return server.requests[0][1]["ttl_ms"]

    assert with_server(story) == 1


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        ({"acquired": False, "reason": "HELD"}, Refusal()),
        ({"acquired": False, "recommended_retry_ms": 0}, Refusal()),
        ({"acquired": False, "recommended_retry_ms": "soon"}, Refusal()),
        ({"acquired": False, "reason": "BUSY_RETRY", "recommended_retry_ms": 50}, Refusal(50_000_000, store_busy=True)),
    ],
)
def test_a_refusal_is_understood_with_or_without_a_hint(answer, refusal):
    async def story(server, caller):
        server.script.append(response(409, answer))
        return await caller.acquire("job", TTL)

    assert with_server(story) == refusal


@pytest.mark.parametrize(
    "answer",
    [
        response(200, {"acquired": False}),
        response(409, {"acquired": True}),
        response(503, {"error": "no"}),
        response(200, {"acquired": True, "fencing_token": 1.5, "lease_id": "x"}),
        response(200, {"acquired": True, "fencing_token": True, "lease_id": "x"}),
        response(200, {"acquired": True, "fencing_token": 1}),
        response(200, ["acquired"]),
        raw(200, b"acquired"),
        raw(200, b""),
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        b"HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n",
        b"220 smtp\r\n\r\n",
        b"x" * 70_000,
    ],
)
def test_an_answer_that_cannot_be_is_trouble_and_no_grant(answer):
    async def story(server, caller):
        server.script.append(answer)
        with pytest.raises(BadAnswer):
            await caller.acquire("job", TTL)

    with_server(story)


@pytest.mark.parametrize("answer", [response(409, {"released": True}), response(200, {"released": 1})])
def test_a_release_is_answered_with_200_and_a_truth_or_it_is_trouble(answer):
    async def story(server, caller):
        server.script.append(answer)
        with pytest.raises(BadAnswer):
            await caller.release("job", Grant(1, "x"))

    with_server(story)


def test_a_server_that_says_it_will_close_is_called_anew():
    async def story(server, caller):
        server.script.append(response(409, {"acquired": False}, headers="Connection: CLOSE\r\n"))
        await caller.acquire("job", TTL)
        await caller.acquire("job", TTL)
        return server.connections

    assert with_server(story) == 2


def test_an_answer_may_arrive_in_pieces():
    async def main():
        reader = asyncio.StreamReader()
        reading = asyncio.ensure_future(read_response(reader))
        for piece in (b"HTTP/1.1 409 Conf", b"lict\r\nX: y\r\nContent-Le", b"ngth: 4\r\n\r\nab", b"cd"):
            await asyncio.sleep(0)
            reader.feed_data(piece)
        return await reading

    assert asyncio.run(main()) == (409, {"x": "y", "content-length": "4"}, b"abcd")
