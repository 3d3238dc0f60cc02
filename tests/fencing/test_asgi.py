"""The guard in front of an ASGI application: who gets through, who is answered what, and who waits for whom.

Requests are plain calls in one event loop; no server is needed.
"""

import asyncio
import json
import threading

import pytest

from holdfast.errors import BadRequest
from holdfast.fencing import FencingGuard, FencingMiddleware, FileGuard


class Shop:
    """An application that keeps a book; a request that says so waits until it is let go."""

    def __init__(self):
        self.book = []
        self.inside = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, scope, receive, send):
        if scope["path"] == "/slow":
            self.inside.set()
            await self.go_on.wait()
        if scope["path"] == "/broken":
            raise ZeroDivisionError
        self.book.append((scope["method"], scope["path"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def ask(app, *headers, method="POST", path="/", kind="http"):
    """Send one request; give status, headers and problem."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        raise AssertionError("nobody reads the body")

    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
    }
    await app(scope, receive, send)
    start, body = sent
    found = dict(start["headers"])
    return start["status"], found, json.loads(body["body"]) if body["body"] else None


def token(number):
    return ("X-Fencing-Token", str(number))


def test_a_late_write_of_a_paused_holder_is_answered_412():
    """A has token 33 and is paused; B has 34 and writes; A wakes up and sends what it wanted to send."""

    async def story():
        shop = Shop()
        app = FencingMiddleware(shop)
        assert (await ask(app, token(33), path="/a"))[0] == 200
        assert (await ask(app, token(34), path="/b"))[0] == 200
        status, headers, problem = await ask(app, token(33), path="/late")
        assert (status, headers[b"content-type"]) == (412, b"application/problem+json")
        assert headers[b"cache-control"] == b"no-store"
        assert problem == {
            "type": "about:blank",
            "title": "Precondition Failed",
            "status": 412,
            "detail": "the token 33 is stale: 34 has been seen",
            "code": "stale_token",
            "token": 33,
            "highest": 34,
        }
        assert [path for _, path in shop.book] == ["/a", "/b"]

    asyncio.run(story())


@pytest.mark.parametrize("text", ["", "x", "-1", "+1", "1.0", "0", "1 2", "1_0", "\u00b2", "9" * 20, "9" * 21])
def test_a_token_that_is_none_is_answered_400(text):
    async def story():
        shop = Shop()
        status, _, problem = await ask(FencingMiddleware(shop), ("X-Fencing-Token", text))
        assert (status, problem["title"], problem["code"]) == (400, "Bad Request", "bad_request")
        assert shop.book == []

    asyncio.run(story())


def test_two_tokens_are_none():
    async def story():
        assert (await ask(FencingMiddleware(Shop()), token(1), token(1)))[0] == 400

    asyncio.run(story())


def test_a_write_without_a_token_is_answered_428_unless_none_is_required():
    async def story():
        shop = Shop()
        status, _, problem = await ask(FencingMiddleware(shop))
        assert (status, problem["code"]) == (428, "token_required")
        lenient = FencingMiddleware(shop, required=False)
        assert (await ask(lenient))[0] == 200
        assert (await ask(lenient, token(2)))[0] == 200
        assert (await ask(lenient, token(1)))[0] == 412

    asyncio.run(story())


def test_who_only_reads_needs_no_token_and_other_protocols_pass():
    async def story():
        shop = Shop()
        app = FencingMiddleware(shop)
        assert (await ask(app, method="GET"))[0] == 200
        assert (await ask(app, kind="websocket"))[0] == 200
        strict = FencingMiddleware(shop, methods=["get"])
        assert (await ask(strict, method="GET"))[0] == 428
        assert (await ask(strict, method="POST"))[0] == 200

    asyncio.run(story())


def test_keys_come_from_a_header():
    async def story():
        app = FencingMiddleware(Shop(), header="Fence", key_header="Lock")
        assert (await ask(app, ("Fence", "9"), ("Lock", "a")))[0] == 200
        assert (await ask(app, ("Fence", "1"), ("Lock", "b")))[0] == 200
        status, _, problem = await ask(app, ("Fence", "8"), ("Lock", "a"))
        assert (status, problem["detail"]) == (412, "the token 8 is stale for 'a': 9 has been seen")
        assert (await ask(app, ("Fence", "9")))[0] == 400
        assert (await ask(app, ("Fence", "9"), ("Lock", "a"), ("Lock", "b")))[0] == 400
        assert (await ask(app, ("Fence", "9"), ("Lock", "x" * 2000)))[0] == 400

    asyncio.run(story())


def test_keys_come_from_a_function():
    async def story():
        app = FencingMiddleware(Shop(), key=lambda scope: scope["path"])
        assert (await ask(app, token(9), path="/a"))[0] == 200
        assert (await ask(app, token(1), path="/b"))[0] == 200
        assert (await ask(app, token(8), path="/a"))[0] == 412

    asyncio.run(story())
    with pytest.raises(BadRequest, match="not from both"):
        FencingMiddleware(Shop(), key=str, key_header="Lock")


def test_keys_beyond_the_limit_are_answered_503():
    async def story():
        app = FencingMiddleware(Shop(), guard=FencingGuard(keys_max=1), key_header="Lock")
        assert (await ask(app, token(1), ("Lock", "a")))[0] == 200
        status, headers, problem = await ask(app, token(1), ("Lock", "b"))
        assert (status, headers[b"retry-after"]) == (503, b"1")
        assert "keys_max" in problem["detail"]

    asyncio.run(story())


def test_a_guard_that_waits_for_a_disk_does_so_on_a_thread(tmp_path):
    threads = set()

    class Watched(FileGuard):
        def check(self, token, key=""):
            threads.add(threading.current_thread())
            return super().check(token, key)

    async def story():
        assert (await ask(FencingMiddleware(Shop(), guard=Watched(tmp_path)), token(34)))[0] == 200
        # As if the process had been started anew.
        assert (await ask(FencingMiddleware(Shop(), guard=Watched(tmp_path)), token(33)))[0] == 412

    asyncio.run(story())
    assert threading.main_thread() not in threads


def test_a_mark_that_another_process_does_not_let_go_of_is_answered_503(tmp_path):
    guard = FileGuard(tmp_path, patience=0)

    async def story():
        with FileGuard(tmp_path).admit(1):
            status, headers, problem = await ask(FencingMiddleware(Shop(), guard=guard), token(2))
        assert (status, headers[b"retry-after"], problem["code"]) == (503, b"1", "timed_out")
        assert (await ask(FencingMiddleware(Shop(), guard=guard), token(2)))[0] == 200

    asyncio.run(story())


# --- who waits for whom ---


def test_a_newer_token_waits_until_an_older_one_is_through_and_older_ones_get_no_further():
    async def story():
        shop = Shop()
        app = FencingMiddleware(shop)
        older = asyncio.create_task(ask(app, token(1), path="/slow"))
        await shop.inside.wait()
        newer = asyncio.create_task(ask(app, token(2), path="/new"))
        await asyncio.sleep(0)
        assert (await ask(app, token(1), path="/late"))[0] == 412
        assert not newer.done()
        shop.go_on.set()
        assert ((await older)[0], (await newer)[0]) == (200, 200)
        assert [path for _, path in shop.book] == ["/slow", "/new"]

    asyncio.run(story())


def test_requests_with_the_same_token_run_side_by_side():
    async def story():
        shop = Shop()
        app = FencingMiddleware(shop)
        first = asyncio.create_task(ask(app, token(1), path="/slow"))
        await shop.inside.wait()
        assert (await ask(app, token(1), path="/quick"))[0] == 200
        shop.go_on.set()
        assert (await first)[0] == 200

    asyncio.run(story())


def test_who_waited_while_somebody_newer_went_by_is_stale():
    async def story():
        shop = Shop()
        app = FencingMiddleware(shop)
        first = asyncio.create_task(ask(app, token(1), path="/slow"))
        await shop.inside.wait()
        waiting = [asyncio.create_task(ask(app, token(number), path=f"/{number}")) for number in (3, 2, 4)]
        await asyncio.sleep(0)
        shop.go_on.set()
        await first
        statuses = [(await task)[0] for task in waiting]
        # 2 is stale from the start, 3 when its turn comes: 4 has been seen.
        assert statuses == [412, 412, 200]
        assert [path for _, path in shop.book] == ["/slow", "/4"]

    asyncio.run(story())


def test_somebody_newer_is_being_served_when_an_older_one_comes_out_of_its_check(tmp_path):
    class Slow(FileGuard):
        def check(self, token, key=""):
            number = super().check(token, key)
            if number == 1:
                checked.set()
                assert go_on.wait(10)
            return number

    checked, go_on = threading.Event(), threading.Event()

    async def story():
        shop = Shop()
        app = FencingMiddleware(shop, guard=Slow(tmp_path))
        older = asyncio.create_task(ask(app, token(1), path="/old"))
        await asyncio.to_thread(checked.wait, 10)
        newer = asyncio.create_task(ask(app, token(2), path="/slow"))
        await shop.inside.wait()
        go_on.set()
        assert (await older)[0] == 412
        shop.go_on.set()
        assert (await newer)[0] == 200
        assert [path for _, path in shop.book] == ["/slow"]

    asyncio.run(story())


def test_who_waits_for_too_long_is_answered_503():
    async def story():
        shop = Shop()
        app = FencingMiddleware(shop, patience=0)
        older = asyncio.create_task(ask(app, token(1), path="/slow"))
        await shop.inside.wait()
        status, _, problem = await ask(app, token(2))
        assert (status, problem["code"]) == (503, "busy")
        assert "the older token 1 has not ended for 0 s" in problem["detail"]
        shop.go_on.set()
        await older
        assert (await ask(app, token(2)))[0] == 200

    asyncio.run(story())


def test_an_application_that_breaks_leaves_its_turn():
    async def story():
        app = FencingMiddleware(Shop())
        with pytest.raises(ZeroDivisionError):
            await ask(app, token(1), path="/broken")
        assert (await ask(app, token(2)))[0] == 200

    asyncio.run(story())
