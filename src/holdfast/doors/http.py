"""The HTTP door: from what an ASGI server delivers to whole requests, to the interface that serves them, and back.

Limits on bodies and the headers of every reply live here; what a path means is for the interfaces to say.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

from holdfast.doors.http_limits import Cors, RateLimit
from holdfast.ports import Clock
from holdfast.wire import dflock_http
from holdfast.wire.http import HttpReply, HttpRequest
from holdfast.wire.lockserver import ACTIONS, LOCKS
from holdfast.wire.problems import Refusal, bad_request, reply_to

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]

# Takes the method, the pattern of the path, the status and the time; such as HttpCounters.count.
Served = Callable[[str, str, int, int], None]

REQUEST_ID_MAX: Final = 128
SESSION_HEADER: Final = "x-dflockd-session"
SEMAPHORES: Final = "/v1/semaphores"
SESSIONS: Final = "/v1/sessions"
# These are answered however many requests an address sends: whoever asks wants to know whether we live.
EXEMPT: Final = frozenset({"/health", "/healthz", "/livez", "/ready", "/readyz"})
# What both interfaces have in common.
ABOUT_US: Final = frozenset({"/metrics", "/healthz", "/livez", "/readyz", "/version"})
OF_SESSIONS: Final = frozenset({"/v1/stats", "/v1/openapi.json", "/health", "/ready"})

CACHE_CONTROL: Final = "Cache-Control"
NO_STORE: Final = (b"cache-control", b"no-store")

_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")


class Api(Protocol):
    """One of the interfaces that share the door."""

    async def handle(self, request: HttpRequest) -> HttpReply: ...


class WaitingApi(Api, Protocol):
    """An interface most of whose requests are answered at once."""

    def waits(self, request: HttpRequest) -> bool: ...


class HttpDoor:
    """A bare ASGI callable."""

    def __init__(
        self,
        lockserver: WaitingApi,
        sessions: Api | None,
        clock: Clock,
        *,
        body_bytes_max: int,
        make_id: Callable[[], str],
        cors: Cors | None = None,
        rate: RateLimit | None = None,
        served: Served | None = None,
        sessions_only: bool = False,
    ) -> None:
        self._lockserver = lockserver
        self._sessions = sessions
        self._clock = clock
        self._body_bytes_max = body_bytes_max
        self._make_id = make_id
        self._cors = cors
        self._rate = rate
        self._served = served
        self._sessions_only = sessions_only
        self._media_types: dict[str, bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = self._clock()
        request = self._request_of(scope)
        try:
            self._check(request)
            if "content-length" in request.headers or "transfer-encoding" in request.headers:
                body = await self._body_of(request, receive)
                if body is None:
                    return
                request.body = body
            reply = await self._reply_to(request, receive)
        except Refusal as refusal:
            reply = self._refused(request, refusal)
        if reply is None:
            return
        if self._served is not None:
            self._served(request.method, pattern_of(request), reply.status, self._clock() - started)
        start = {"type": "http.response.start", "status": reply.status, "headers": self._headers_of(request, reply)}
        await send(start)
        await send({"type": "http.response.body", "body": reply.body})

    # --- in ---

    def _request_of(self, scope: Scope) -> HttpRequest:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        id_ = headers.get("x-request-id", "")
        if not (0 < len(id_) <= REQUEST_ID_MAX and id_.isascii() and id_.isprintable()):
            id_ = self._make_id()
        client = scope.get("client")
        query = scope["query_string"]
        return HttpRequest(
            method=scope["method"],
            path=scope["path"],
            raw_path=scope["raw_path"].decode("latin-1"),
            query=_query_of(query) if query else NO_QUERY,
            headers=headers,
            peer=client[0] if client else "",
            id=id_,
        )

    def _check(self, request: HttpRequest) -> None:
        """Refuse what need not be looked at."""
        if self._rate is not None and request.path not in EXEMPT and not self._rate.allows(request.peer):
            raise Refusal(429, "rate_limited", "too many requests from this address", ("Retry-After", "1"))
        if "%" in request.raw_path and _BAD_ESCAPE.search(request.raw_path):
            raise bad_request("a percent sign in the path has no two hexadecimal digits behind it")

    async def _body_of(self, request: HttpRequest, receive: Receive) -> bytes | None:
        """Read the whole body; None when the caller leaves before that."""
        if int(request.headers.get("content-length", 0)) > self._body_bytes_max:
            raise self._too_long()
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body", False):
            if len(body) > self._body_bytes_max:
                break
            message = await receive()
            body += message.get("body", b"")
        if len(body) > self._body_bytes_max:
            raise self._too_long()
        return None if message["type"] == "http.disconnect" else bytes(body)

    def _too_long(self) -> Refusal:
        detail = f"a body has at most {self._body_bytes_max} bytes (http_body_bytes_max)"
        return Refusal(413, "body_too_long", detail, ("Connection", "close"))

    # --- to whom ---

    async def _reply_to(self, request: HttpRequest, receive: Receive) -> HttpReply | None:
        """Have a request served; None when its caller leaves before that."""
        if self._cors is not None and (reply := self._cors.preflight(request)) is not None:
            return reply
        if self._is_for_sessions(request):
            if self._sessions is None:
                raise Refusal(404, "not_found", "no session interface is offered here")
            if request.method == "POST":
                return await _unless_left(self._sessions.handle(request), receive)
            return await self._sessions.handle(request)
        if self._lockserver.waits(request):
            return await _unless_left(self._lockserver.handle(request), receive)
        return await self._lockserver.handle(request)

    def _is_for_sessions(self, request: HttpRequest) -> bool:
        if self._sessions_only:
            return request.path not in ABOUT_US
        return is_for_sessions(request)

    # --- out ---

    def _refused(self, request: HttpRequest, refusal: Refusal) -> HttpReply:
        """Spell a refusal of the door itself as the interface does that was called."""
        if self._sessions is not None and self._is_for_sessions(request):
            return dflock_http.refused(refusal)
        return reply_to(refusal, request.headers.get("accept"))

    def _headers_of(self, request: HttpRequest, reply: HttpReply) -> RawHeaders:
        headers = [NO_STORE, (b"x-request-id", request.id.encode("latin-1"))]
        if reply.media_type:
            headers.append((b"content-type", self._media_type(reply.media_type)))
        if reply.status != 204:
            headers.append((b"content-length", b"%d" % len(reply.body)))
        for name, value in reply.headers:
            if name == CACHE_CONTROL:
                headers.remove(NO_STORE)
            headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))
        if self._cors is not None and "origin" in request.headers and request.method != "OPTIONS":
            headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in self._cors.headers(request)]
        return headers

    def _media_type(self, name: str) -> bytes:
        known = self._media_types.get(name)
        if known is None:
            known = self._media_types[name] = name.encode("latin-1")
        return known


NO_QUERY: Final[dict[str, str]] = {}


def _query_of(raw: bytes) -> dict[str, str]:
    return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True, errors="surrogateescape"))


def is_for_sessions(request: HttpRequest) -> bool:
    """Say which of the two interfaces a path means; on those that both have, the session header decides."""
    path = request.path
    if SESSION_HEADER in request.headers and path.startswith(LOCKS + "/"):
        return True
    if path.startswith((SEMAPHORES, SESSIONS)):
        return path in (SEMAPHORES, SESSIONS) or path.startswith((SEMAPHORES + "/", SESSIONS + "/"))
    return path in OF_SESSIONS


async def _unless_left(handling: Any, receive: Receive) -> HttpReply | None:
    """Serve a request that may take long, for as long as its caller is there."""
    task: asyncio.Task[HttpReply] = asyncio.ensure_future(handling)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        leaving.cancel()
        task.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # what else may come is an empty body


# --- for counting ---


def pattern_of(request: HttpRequest) -> str:
    """Spell the route of a request without what is a caller's own in it."""
    path = request.path
    if path in PLAIN:
        return path
    for collection, pattern in COLLECTIONS:
        if path.startswith(collection + "/"):
            action = path[len(collection) + 1 :].strip("/").partition("/")[2]
            return f"{pattern}/{action}" if action in DEEDS else UNMATCHED if action else pattern
    return UNMATCHED


UNMATCHED: Final = "unmatched"
DEEDS: Final = ACTIONS | {"enqueue", "wait", "ping"}
COLLECTIONS: Final = (
    (LOCKS, "/v1/locks/{name}"),
    (SEMAPHORES, "/v1/semaphores/{name}"),
    (SESSIONS, "/v1/sessions/{id}"),
)
PLAIN: Final = EXEMPT | OF_SESSIONS | {LOCKS, SEMAPHORES, SESSIONS, "/metrics", "/version", "/openapi.json"}
