"""The door as an ASGI server sees it: what reaches which interface, which limits hold, what every reply carries.

The interfaces are stand-ins that tell what they were asked; sockets come in test_http_protocol.py.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.doors.http import HttpDoor, pattern_of
from holdfast.doors.http_limits import Cors, RateLimit
from holdfast.testing.clock import HandClock
from holdfast.wire.http import HttpReply, HttpRequest, reply

REQUEST = {"type": "http.request", "body": b"", "more_body": False}
GONE = {"type": "http.disconnect"}


class Echo:
    """Replies with its name; what it was asked is kept. A path that ends in /wait is never answered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[HttpRequest] = []
        self.left = 0

    async def handle(self, request: HttpRequest) -> HttpReply:
        self.asked.append(request)
        if request.path.endswith("/wait"):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.left += 1
                raise
        if request.path == "/nothing":
            return HttpReply(status=204, media_type="")
        if request.path == "/kept":
            return reply(200, {}, ("Cache-Control", "max-age=60"))
        return reply(200, {"by": self.name}, ("Retry-After", "1"))

    def waits(self, request: HttpRequest) -> bool:
        return "wait_ms" in request.query


class Stage:
    """The door between a paper server and two interfaces."""

    def __init__(self, *, sessions: bool = True, **more: Any) -> None:
        self.lockserver, self.sessions = Echo("lockserver"), Echo("sessions")
        self.clock = HandClock()
        self.ids = iter(range(100))
        self.door = HttpDoor(
            self.lockserver,
            self.sessions if sessions else None,
            self.clock,
            body_bytes_max=10,
            make_id=lambda: f"made-{next(self.ids)}",
            **more,
        )
        self.sent: list[Any] = []

    def ask(self, method: str, path: str, *messages: dict[str, Any], query: str = "", **headers: str) -> int:
        """Send one request and what arrives after its head; answer the status, or 0 where there was no reply."""
        arriving = list(messages)

        async def receive() -> Any:
            if not arriving:
                await asyncio.Event().wait()
            return arriving.pop(0)

        async def send(message: Any) -> None:
            self.sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()],
            "client": ("10.0.0.1", 5),
        }
        self.sent = []
        asyncio.run(asyncio.wait_for(self.door(scope, receive, send), 10))
        return self.sent[0]["status"] if self.sent else 0

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return self.sent[1]["body"]

    @property
    def by(self) -> str:
        return json.loads(self.body)["by"]


def chunk(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


# --- to whom ---


@pytest.mark.parametrize(
    ("path", "headers", "by"),
    [
        ("/v1/locks/a/acquire", {}, "lockserver"),
        ("/v1/locks/a", {"x_dflockd_session": "s"}, "sessions"),
        ("/v1/locks", {"x_dflockd_session": "s"}, "lockserver"),
        ("/v1/semaphores/a", {}, "sessions"),
        ("/v1/semaphores", {}, "sessions"),
        ("/v1/semaphoresque", {}, "lockserver"),
        ("/v1/sessions", {}, "sessions"),
        ("/v1/sessions/x/ping", {}, "sessions"),
        ("/v1/sessionsque", {}, "lockserver"),
        ("/v1/stats", {}, "sessions"),
        ("/health", {}, "sessions"),
        ("/ready", {}, "sessions"),
        ("/healthz", {}, "lockserver"),
        ("/openapi.json", {}, "lockserver"),
        ("/v1/openapi.json", {}, "sessions"),
        ("/", {}, "lockserver"),
    ],
)
def test_paths_and_the_session_header_decide_who_serves(path: str, headers: dict[str, str], by: str) -> None:
    stage = Stage()
    assert stage.ask("GET", path, **headers) == 200
    assert stage.by == by


def test_without_a_session_interface_its_paths_are_not_there() -> None:
    assert Stage(sessions=False).ask("GET", "/v1/stats") == 404


def test_a_door_for_sessions_only_gives_leases_to_nobody() -> None:
    stage = Stage(sessions_only=True)
    assert stage.ask("POST", "/v1/locks/a/acquire") == 200
    assert stage.by == "sessions"


def test_a_request_arrives_with_all_that_was_sent() -> None:
    stage = Stage()
    stage.ask("POST", "/v1/locks/a/acquire", chunk(b"12", more=False), query="a=b%20c&d=", content_length="2")
    (request,) = stage.lockserver.asked
    assert (request.method, request.path, request.body) == ("POST", "/v1/locks/a/acquire", b"12")
    assert (dict(request.query), request.peer) == ({"a": "b c", "d": ""}, "10.0.0.1")
    assert request.headers == {"content-length": "2"}


def test_an_escape_that_is_none_is_refused() -> None:
    stage = Stage()
    assert stage.ask("GET", "/v1/locks/%4") == 400
    assert stage.ask("GET", "/v1/locks/%zz") == 400
    assert stage.ask("GET", "/v1/locks/%41") == 200


# --- bodies ---


def test_a_body_is_read_to_its_end() -> None:
    stage = Stage()
    parts = [chunk(b"123", more=True), chunk(b"", more=True), chunk(b"4567", more=True), chunk(b"890", more=False)]
    assert stage.ask("POST", "/", *parts, transfer_encoding="chunked") == 200
    assert stage.lockserver.asked[0].body == b"1234567890"


@pytest.mark.parametrize("length", ["11", "99999999999999"])
def test_a_body_that_will_be_too_long_is_not_even_waited_for(length: str) -> None:
    stage = Stage()
    assert stage.ask("POST", "/", content_length=length) == 413
    assert b"http_body_bytes_max" in stage.body
    assert stage.headers[b"connection"] == b"close"


@pytest.mark.parametrize("more", [False, True])
def test_a_body_that_turns_out_too_long_is_refused(more: bool) -> None:
    stage = Stage()
    parts = [chunk(b"123456", more=True), chunk(b"123456", more=more)]
    assert stage.ask("POST", "/", *parts, transfer_encoding="chunked") == 413
    assert stage.lockserver.asked == []


def test_who_leaves_in_the_middle_of_a_body_gets_nothing() -> None:
    stage = Stage()
    assert stage.ask("POST", "/", chunk(b"1", more=True), GONE, content_length="5") == 0
    assert stage.lockserver.asked == []


# --- leaving ---


def test_who_leaves_while_waiting_is_no_longer_served() -> None:
    stage = Stage()
    assert stage.ask("POST", "/v1/locks/a/wait", REQUEST, GONE, query="wait_ms=5") == 0
    assert stage.lockserver.left == 1
    assert stage.ask("POST", "/v1/semaphores/a/wait", GONE) == 0
    assert stage.sessions.left == 1


def test_who_waits_and_stays_is_answered() -> None:
    stage = Stage()
    assert stage.ask("POST", "/v1/locks/a/acquire", query="wait_ms=5") == 200


# --- replies ---


def test_every_reply_has_the_same_few_headers() -> None:
    stage = Stage()
    stage.ask("GET", "/")
    assert stage.headers == {
        b"cache-control": b"no-store",
        b"x-request-id": b"made-0",
        b"content-type": b"application/json",
        b"content-length": b"%d" % len(stage.body),
        b"retry-after": b"1",
    }


def test_a_reply_without_content_says_nothing_of_one() -> None:
    stage = Stage()
    assert stage.ask("GET", "/nothing") == 204
    assert not {b"content-type", b"content-length"} & set(stage.headers)


@pytest.mark.parametrize("id_", ["a", "x" * 128, "two words"])
def test_the_id_of_a_request_comes_back(id_: str) -> None:
    stage = Stage()
    stage.ask("GET", "/", x_request_id=id_)
    assert stage.headers[b"x-request-id"] == id_.encode()
    assert stage.lockserver.asked[0].id == id_


@pytest.mark.parametrize("id_", ["", "x" * 129, "é", "a\tb"])
def test_an_id_that_is_no_good_is_replaced(id_: str) -> None:
    stage = Stage()
    stage.ask("GET", "/", x_request_id=id_)
    assert stage.headers[b"x-request-id"] == b"made-0"


def test_a_refusal_of_the_door_is_spelled_as_the_interface_does_that_was_called() -> None:
    stage = Stage(rate=RateLimit(1, 1, HandClock()))
    assert stage.ask("GET", "/v1/locks/a%zz", x_dflockd_session="s") == 400
    assert json.loads(stage.body)["error"] == "bad_request"
    assert stage.ask("GET", "/v1/stats") == 429
    assert json.loads(stage.body)["error"] == "rate_limited"
    assert stage.headers[b"retry-after"] == b"1"
    assert stage.ask("GET", "/v1/locks/a") == 429
    assert json.loads(stage.body) == {"error": "too many requests from this address"}
    # To dflockd's clients, a body that is too long is one that cannot be read.
    stage = Stage()
    assert stage.ask("POST", "/v1/sessions", content_length="11") == 400
    assert json.loads(stage.body)["error"] == "bad_request"
    assert stage.headers[b"connection"] == b"close"


def test_a_reply_that_may_be_kept_says_for_how_long() -> None:
    stage = Stage()
    assert stage.ask("GET", "/kept") == 200
    assert [value for name, value in stage.sent[0]["headers"] if name == b"cache-control"] == [b"max-age=60"]


def test_a_problem_is_told_as_it_was_asked_for() -> None:
    stage = Stage()
    stage.ask("POST", "/", content_length="11", accept="application/problem+json")
    assert stage.headers[b"content-type"] == b"application/problem+json"
    assert json.loads(stage.body)["code"] == "body_too_long"


# --- limits on who may call ---


def test_an_address_that_asks_too_often_is_told_so_but_may_still_ask_whether_we_live() -> None:
    clock = HandClock()
    stage = Stage(rate=RateLimit(1, 2, clock))
    assert [stage.ask("GET", "/") for _ in range(3)] == [200, 200, 429]
    assert stage.headers[b"retry-after"] == b"1"
    assert stage.ask("GET", "/healthz") == 200
    clock.advance(1)
    assert stage.ask("GET", "/") == 200


def test_pages_of_listed_origins_may_read_every_reply() -> None:
    stage = Stage(cors=Cors("https://a.example"))
    assert stage.ask("GET", "/", origin="https://a.example") == 200
    assert stage.headers[b"access-control-allow-origin"] == b"https://a.example"
    assert stage.ask("POST", "/", content_length="11", origin="https://a.example") == 413
    assert b"access-control-allow-origin" in stage.headers
    stage.ask("GET", "/", origin="https://b.example")
    assert b"access-control-allow-origin" not in stage.headers


def test_a_browser_that_asks_first_is_answered_here() -> None:
    stage = Stage(cors=Cors("*"))
    asking = {"origin": "https://a.example", "access_control_request_method": "POST"}
    assert stage.ask("OPTIONS", "/v1/locks/a/acquire", **asking) == 204
    assert stage.headers[b"access-control-allow-origin"] == b"*"
    assert stage.lockserver.asked == []


# --- counting ---


def test_every_reply_is_counted_by_its_pattern() -> None:
    counted: list[tuple[str, str, int, int]] = []
    count: Callable[..., None] = lambda *facts: counted.append(facts)  # noqa: E731
    stage = Stage(served=count)
    stage.ask("POST", "/v1/locks/mine/acquire")
    stage.ask("POST", "/", content_length="11")
    assert counted == [("POST", "/v1/locks/{name}/acquire", 200, 0), ("POST", "unmatched", 413, 0)]


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/healthz", "/healthz"),
        ("/v1/locks", "/v1/locks"),
        ("/v1/locks/a", "/v1/locks/{name}"),
        ("/v1/locks/a/renew/", "/v1/locks/{name}/renew"),
        ("/v1/locks/a/other", "unmatched"),
        ("/v1/locks/a/b/renew", "unmatched"),
        ("/v1/semaphores/a/wait", "/v1/semaphores/{name}/wait"),
        ("/v1/sessions/secret", "/v1/sessions/{id}"),
        ("/v1/sessions/secret/ping", "/v1/sessions/{id}/ping"),
        ("/else", "unmatched"),
    ],
)
def test_a_pattern_has_nothing_of_the_callers_in_it(path: str, pattern: str) -> None:
    assert pattern_of(HttpRequest(method="GET", path=path)) == pattern
