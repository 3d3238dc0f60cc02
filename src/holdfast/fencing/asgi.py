"""A guard in front of an ASGI application: a request with a stale token gets no further than here.

It works in any framework and knows none; how tokens are compared is the business of the guard that it is given.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from holdfast.errors import BadRequest, HoldfastError, TimedOut, TooMany
from holdfast.fencing.guard import FencingGuard, Guard, StaleToken, as_key, as_token

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER = "X-Fencing-Token"
WRITING = ("POST", "PUT", "PATCH", "DELETE")
PATIENCE_S = 10.0
RETRY_AFTER_S = 1

_NUMBER = re.compile(r"[0-9]{1,20}")
_TITLES = {
    400: "Bad Request",
    412: "Precondition Failed",
    428: "Precondition Required",
    503: "Service Unavailable",
}


class _Turn:
    """The token whose requests are being served for a key, and how many of them."""

    __slots__ = ("count", "over", "token")

    def __init__(self, token: int, over: asyncio.Event) -> None:
        self.token = token
        self.count = 0
        self.over = over


class FencingMiddleware:
    """Refuses stale tokens with 412, tokens that are none with 400, and a writing request without one with 428.

    Requests with the same token run side by side. One with a newer token waits until those with older ones are through,
    for at most `patience` seconds, so that what it writes stands last; after that it is answered 503.
    The key is the content of the header `key_header`, or what `key` says of the scope; without either there is one key.
    """

    def __init__(
        self,
        app: App,
        *,
        guard: Guard | None = None,
        header: str = HEADER,
        key: Callable[[Scope], str] | None = None,
        key_header: str | None = None,
        methods: Iterable[str] = WRITING,
        required: bool = True,
        patience: float = PATIENCE_S,
    ) -> None:
        if key is not None and key_header is not None:
            raise BadRequest("the key comes from a function or from a header, not from both")
        self._app = app
        self._guard = guard if guard is not None else FencingGuard()
        self._header = header
        self._key = key
        self._key_header = key_header
        self._methods = frozenset(method.upper() for method in methods)
        self._required = required
        self._patience = patience
        self._turns: dict[str, _Turn] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in self._methods:
            await self._app(scope, receive, send)
            return
        try:
            told = self._read(scope)
            if told is None:
                await self._app(scope, receive, send)
                return
            token, key = told
            # Checked twice: at first so that nobody older gets in from now on, then because while this one waited for
            # its turn somebody newer may have come and gone.
            await self._check(token, key)
            turn = await self._enter(token, key)
            try:
                await self._check(token, key)
                await self._app(scope, receive, send)
            finally:
                self._leave(turn, key)
        except _Refusal as refusal:
            await _answer(send, refusal)

    def _read(self, scope: Scope) -> tuple[int, str] | None:
        """Read token and key; nothing if there is no token and none is required."""
        texts = _values(scope, self._header)
        if not texts:
            if self._required:
                raise _Refusal(428, "token_required", f"a {scope['method']} here needs the header {self._header}")
            return None
        if len(texts) > 1 or _NUMBER.fullmatch(texts[0]) is None:
            raise _Refusal(400, "bad_request", f"{self._header} has to be one whole number")
        try:
            return as_token(int(texts[0])), as_key(self._key_of(scope))
        except BadRequest as error:
            raise _Refusal(400, error.code, error.detail) from error

    def _key_of(self, scope: Scope) -> str:
        if self._key is not None:
            return self._key(scope)
        if self._key_header is None:
            return ""
        keys = _values(scope, self._key_header)
        if len(keys) != 1:
            raise BadRequest(f"there has to be one header {self._key_header}")
        return keys[0]

    async def _check(self, token: int, key: str) -> None:
        try:
            if isinstance(self._guard, FencingGuard):
                self._guard.check(token, key)
            else:
                # Such a guard may wait for a disk or a database, which must not hold up everybody.
                await asyncio.to_thread(self._guard.check, token, key)
        except StaleToken as error:
            raise _stale(error) from error
        except (TooMany, TimedOut) as error:
            raise _Refusal(503, error.code, error.detail) from error

    async def _enter(self, token: int, key: str) -> _Turn:
        """Wait until no request with an older token is being served for the key, and join those with this one."""
        limit = asyncio.get_running_loop().time() + self._patience
        while (turn := self._turns.get(key)) is not None and turn.token != token:
            if turn.token > token:
                raise _stale(StaleToken(token, turn.token, key))  # somebody newer went by
            try:
                async with asyncio.timeout_at(limit):
                    await turn.over.wait()
            except TimeoutError as error:
                detail = f"a request with the older token {turn.token} has not ended for {self._patience:g} s"
                raise _Refusal(503, "busy", detail) from error
        if turn is None:
            turn = self._turns[key] = _Turn(token, asyncio.Event())
        turn.count += 1
        return turn

    def _leave(self, turn: _Turn, key: str) -> None:
        turn.count -= 1
        if turn.count == 0:
            del self._turns[key]
            turn.over.set()


class _Refusal(HoldfastError):
    """How a request is answered that gets no further. Raised above the application only, never through it."""

    def __init__(self, status: int, code: str, detail: str, more: dict[str, int] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.more = more or {}


def _stale(error: StaleToken) -> _Refusal:
    return _Refusal(412, "stale_token", error.detail, {"token": error.token, "highest": error.highest})


def _values(scope: Scope, name: str) -> list[str]:
    wanted = name.lower().encode("latin-1")
    return [value.decode("latin-1").strip(" \t") for given, value in scope["headers"] if given.lower() == wanted]


async def _answer(send: Send, refusal: _Refusal) -> None:
    """Answer with a problem as RFC 9457 has it."""
    status = refusal.status
    problem = {"type": "about:blank", "title": _TITLES[status], "status": status, "detail": refusal.detail}
    body = json.dumps(problem | {"code": refusal.code} | refusal.more).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if status == 503:
        headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
