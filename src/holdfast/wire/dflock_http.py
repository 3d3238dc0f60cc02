"""The session API in JSON: which path asks for what, how a call is read, how answers and refusals are spelled.

Pure text work in both directions. No lock rule, no session, no connection and no clock may live here.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Final, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from holdfast.wire import problems
from holdfast.wire.http import HttpReply, HttpRequest, spell
from holdfast.wire.line import INT64_MAX, LINE_BYTES_MAX, LOCK, SECONDS_MAX, SEMAPHORE
from holdfast.words import (
    CW,
    EX,
    FOREVER,
    GRANTED,
    RENEWED,
    SECOND,
    UNLIMITED,
    Answer,
    Claim,
    End,
    Renew,
    WaitFor,
)

KEY_BYTES_MAX: Final = LINE_BYTES_MAX
TOKEN_BYTES_MAX: Final = LINE_BYTES_MAX
SESSION_HEADER: Final = "x-dflockd-session"

# When to ask again, in seconds, after a refusal that is about the moment and not about the call.
RETRY_AFTER: Final = ("Retry-After", "1")

NO_SNIFF: Final = ("X-Content-Type-Options", "nosniff")

_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_UNFIT_FOR_KEY: Final = re.compile(rb"[ \t\r\n]")
_SESSION_ID: Final = re.compile(rb"[0-9a-f]{32}")

Command = Claim | End | Renew | WaitFor


# --- refusals ---


class Refusal(Exception):
    """A call that ends here, and what to reply to it."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__(reply.status)
        self.reply = reply


def error(status: int, code: str, detail: str = "", *headers: tuple[str, str]) -> HttpReply:
    """Spell a refusal: a word for programs, and a sentence for people where it helps."""
    body = {"error": code, "detail": detail} if detail else {"error": code}
    return _json(status, body, *headers)


def bad_request(detail: str) -> Refusal:
    return Refusal(error(400, "bad_request", detail))


def unauthorized() -> HttpReply:
    return error(401, "unauthorized", "", ("WWW-Authenticate", "Bearer"))


def forbidden() -> HttpReply:
    return error(403, "forbidden", "the token does not give the right to this")


def session_gone() -> HttpReply:
    return error(410, "session_gone", "no such session, or not any more")


def draining() -> HttpReply:
    return error(503, "draining", "the server is about to stop")


def max_sessions() -> HttpReply:
    return error(503, "max_sessions", "there are as many sessions as may be")


def max_sessions_per_ip() -> HttpReply:
    return error(503, "max_sessions_per_ip", "this address has as many sessions as it may")


def refused(refusal: problems.Refusal) -> HttpReply:
    """Spell what the door refuses by itself; a body that is too long is one more that does not do."""
    if refusal.status == 413:
        return error(400, "bad_request", refusal.detail, *refusal.headers)
    return error(refusal.status, refusal.code, refusal.detail, *refusal.headers)


def _json(status: int, value: object, *headers: tuple[str, str]) -> HttpReply:
    return HttpReply(status=status, body=spell(value), headers=(NO_SNIFF, *headers))


# --- paths ---


class Verb(Enum):
    """What a call is about. The path of the API often says the same word."""

    OPEN = "open"
    CLOSE = "close"
    PING = "ping"
    STATS = "stats"
    HEALTH = "health"
    READY = "ready"
    DOCUMENT = "document"
    ACQUIRE = "acquire"
    RELEASE = "release"
    RENEW = "renew"
    ENQUEUE = "enqueue"
    WAIT = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a method and a path ask for, before anything of it has been judged."""

    verb: Verb
    namespace: bytes = b""  # of the key, where the call is about one
    name: bytes = b""  # the part of the path that is not fixed: a key or the id of a session


_GET: Final = ("GET", "HEAD")
_POST: Final = ("POST",)

# The paths without a part that callers choose.
_FIXED: Final[dict[tuple[bytes, ...], tuple[tuple[str, ...], Verb]]] = {
    (b"health",): (_GET, Verb.HEALTH),
    (b"ready",): (_GET, Verb.READY),
    (b"openapi.json",): (_GET, Verb.DOCUMENT),
    (b"v1", b"openapi.json"): (_GET, Verb.DOCUMENT),
    (b"v1", b"stats"): (_GET, Verb.STATS),
    (b"v1", b"sessions"): (_POST, Verb.OPEN),
}
_NAMESPACES: Final = {b"locks": LOCK, b"semaphores": SEMAPHORE}
_KEY_VERBS: Final = {
    b"release": Verb.RELEASE,
    b"renew": Verb.RENEW,
    b"enqueue": Verb.ENQUEUE,
    b"wait": Verb.WAIT,
}


def route(request: HttpRequest) -> Route:
    """Find what a request asks for; raises Refusal where the API has no such path or method."""
    segments = segments_of(request)
    fixed = _FIXED.get(segments)
    if fixed is not None:
        methods, verb = fixed
        _check_method(request.method, methods)
        return Route(verb=verb)
    match segments:
        case (b"v1", b"sessions", id_):
            _check_method(request.method, ("DELETE",))
            return Route(verb=Verb.CLOSE, name=id_)
        case (b"v1", b"sessions", id_, b"ping"):
            _check_method(request.method, _POST)
            return Route(verb=Verb.PING, name=id_)
        case (b"v1", b"locks" | b"semaphores" as kind, key):
            return _key_route(request.method, kind, key, Verb.ACQUIRE)
        case (b"v1", b"locks" | b"semaphores" as kind, key, word) if word in _KEY_VERBS:
            return _key_route(request.method, kind, key, _KEY_VERBS[word])
        case _:
            raise Refusal(error(404, "not_found", "no such path"))


def _key_route(method: str, kind: bytes, key: bytes, verb: Verb) -> Route:
    _check_method(method, _POST)
    return Route(verb=verb, namespace=_NAMESPACES[kind], name=key)


def _check_method(method: str, allowed: tuple[str, ...]) -> None:
    if method not in allowed:
        raise Refusal(error(405, "method_not_allowed", "", ("Allow", ", ".join(allowed))))


def segments_of(request: HttpRequest) -> tuple[bytes, ...]:
    """Cut a path at its slashes, then decode: a slash that was sent as %2F is part of its segment."""
    if not request.raw_path:
        return tuple(request.path.encode("utf-8", "surrogateescape").split(b"/")[1:])
    if _BAD_ESCAPE.search(request.raw_path):
        raise bad_request("a % in the path is not followed by two hexadecimal digits")
    return tuple(unquote_to_bytes(segment) for segment in request.raw_path.split("/")[1:])


def check_key(key: bytes) -> bytes:
    if not key or len(key) > KEY_BYTES_MAX or _UNFIT_FOR_KEY.search(key):
        raise bad_request(f"a key has 1 to {KEY_BYTES_MAX} bytes, and no space, tab, CR or LF")
    return key


def check_session_id(text: bytes) -> str:
    if not _SESSION_ID.fullmatch(text):
        raise bad_request("the id of a session has 32 lower-case hexadecimal digits")
    return text.decode()


def session_header(request: HttpRequest) -> str:
    """Read whose call it is; what is no id at all is found with nobody, like one that is gone."""
    id_ = request.headers.get(SESSION_HEADER, "")
    if not id_:
        raise bad_request("the header X-Dflockd-Session is missing")
    return id_


# --- bodies ---

# What their limits are is for readers of the description; judged they are below, in the words of this interface.
Seconds = Annotated[int | None, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": SECONDS_MAX})]
Limit = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": INT64_MAX})]
TokenText = Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": TOKEN_BYTES_MAX, "pattern": "^[!-~]+$"})]


class AcquireBody(msgspec.Struct, forbid_unknown_fields=True):
    """What takes a lock. Times that are missing or null are 0, as in all bodies here."""

    acquire_timeout_s: Seconds = None
    lease_ttl_s: Seconds = None


class SeatBody(msgspec.Struct, forbid_unknown_fields=True):
    """What takes a seat of a semaphore."""

    limit: Limit
    acquire_timeout_s: Seconds = None
    lease_ttl_s: Seconds = None


class EnqueueBody(msgspec.Struct, forbid_unknown_fields=True):
    """What takes a place in the queue of a lock."""

    lease_ttl_s: Seconds = None


class EnqueueSeatBody(msgspec.Struct, forbid_unknown_fields=True):
    """What takes a place in the queue of a semaphore."""

    limit: Limit
    lease_ttl_s: Seconds = None


class WaitBody(msgspec.Struct, forbid_unknown_fields=True):
    """What waits for a place that was taken earlier."""

    timeout_s: Seconds = None


class ReleaseBody(msgspec.Struct, forbid_unknown_fields=True):
    """What gives back."""

    token: TokenText


class RenewBody(msgspec.Struct, forbid_unknown_fields=True):
    """What starts a lease again."""

    token: TokenText
    lease_ttl_s: Seconds = None


T = TypeVar("T")


def decode(body: bytes, shape: type[T]) -> T:
    """Read one JSON object and nothing behind it; raises Refusal."""
    if not body.strip():
        raise bad_request("the body is missing")
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as bad:
        raise bad_request(f"the body does not do: {bad}") from bad


def seconds(value: int | None, name: str) -> int:
    """Check a number of seconds, and give it in nanoseconds."""
    if not 0 <= (value or 0) <= SECONDS_MAX:
        raise bad_request(f"{name} must be 0 to {SECONDS_MAX}")
    return (value or 0) * SECOND


def check_limit(value: int) -> int:
    if not 1 <= value <= INT64_MAX:
        raise bad_request("limit must be at least 1")
    return value


def check_token(token: str) -> bytes:
    proof = token.encode("utf-8")
    if not proof or len(proof) > TOKEN_BYTES_MAX or any(map(str.isspace, token)):
        raise bad_request(f"token must be 1 to {TOKEN_BYTES_MAX} bytes without white space")
    return proof


class Codec:
    """Turns calls about a key into what the desk understands."""

    def __init__(self, lease_default_ns: int) -> None:
        self._lease_default_ns = lease_default_ns
        self._decoders: dict[Verb, Callable[[bytes, bytes, bytes], Command]] = {
            Verb.ACQUIRE: self._acquire,
            Verb.ENQUEUE: self._enqueue,
            Verb.WAIT: self._wait,
            Verb.RELEASE: self._release,
            Verb.RENEW: self._renew,
        }

    def command(self, asked: Route, body: bytes) -> Command:
        """Read a call; raises Refusal. Its key has been checked before."""
        return self._decoders[asked.verb](asked.namespace, asked.namespace + asked.name, body)

    def _lease(self, value: int | None) -> int:
        return seconds(value, "lease_ttl_s") or self._lease_default_ns

    def _acquire(self, namespace: bytes, key: bytes, body: bytes) -> Claim:
        if namespace == LOCK:
            lock = decode(body, AcquireBody)
            patience_ns = seconds(lock.acquire_timeout_s, "acquire_timeout_s")
            return Claim(key, EX, 1, UNLIMITED, self._lease(lock.lease_ttl_s), patience_ns)
        seat = decode(body, SeatBody)
        patience_ns = seconds(seat.acquire_timeout_s, "acquire_timeout_s")
        return Claim(key, CW, 1, check_limit(seat.limit), self._lease(seat.lease_ttl_s), patience_ns)

    def _enqueue(self, namespace: bytes, key: bytes, body: bytes) -> Claim:
        body = body.strip() or b"{}"  # this one may be left out
        if namespace == LOCK:
            lock = decode(body, EnqueueBody)
            return Claim(key, EX, 1, UNLIMITED, self._lease(lock.lease_ttl_s), FOREVER, tracked=True)
        seat = decode(body, EnqueueSeatBody)
        return Claim(key, CW, 1, check_limit(seat.limit), self._lease(seat.lease_ttl_s), FOREVER, tracked=True)

    def _wait(self, namespace: bytes, key: bytes, body: bytes) -> WaitFor:
        return WaitFor(key, seconds(decode(body, WaitBody).timeout_s, "timeout_s"))

    def _release(self, namespace: bytes, key: bytes, body: bytes) -> End:
        return End(key, check_token(decode(body, ReleaseBody).token))

    def _renew(self, namespace: bytes, key: bytes, body: bytes) -> Renew:
        asked = decode(body, RenewBody)
        return Renew(key, check_token(asked.token), self._lease(asked.lease_ttl_s))


# --- replies ---

NO_CONTENT: Final = HttpReply(status=204, media_type="", headers=(NO_SNIFF,))
OK: Final = _json(200, {"status": "ok"})
NOT_READY: Final = _json(503, {"status": "draining"})
TIMEOUT: Final = _json(200, {"status": "timeout"})

# Everything but grants and renewals, which carry fields and are spelled below.
REPLIES: Final[dict[Answer, HttpReply]] = {
    Answer.QUEUED: _json(200, {"status": "queued"}),
    Answer.BUSY: TIMEOUT,
    Answer.TIMED_OUT: TIMEOUT,
    Answer.ENDED: NO_CONTENT,
    Answer.NOT_HELD: error(404, "not_held", "the token holds nothing here"),
    Answer.NOT_ENQUEUED: error(409, "not_enqueued", "this session has no place for this key"),
    Answer.ALREADY_ENQUEUED: error(409, "already_enqueued", "this session has a place for this key"),
    Answer.LEASE_EXPIRED: error(409, "lease_expired", "it was granted, and its lease has run out"),
    Answer.LIMIT_MISMATCH: error(409, "limit_mismatch", "the semaphore is known with another limit"),
    Answer.TOO_MANY_KEYS: error(503, "max_locks", "there are as many keys as may be"),
    Answer.TOO_MANY_WAITERS: error(503, "max_waiters", "as many wait for this key as may"),
    Answer.NO_FENCE: error(503, "fence_persistence", "no fence can be had that would stay in order"),
    Answer.DRAINING: draining(),
    Answer.CLOSED: draining(),  # unless its session is gone, of which the sessions know
    Answer.STORE_BUSY: error(503, "store_busy", "another process keeps the store to itself", RETRY_AFTER),
    Answer.STORE_FAILED: error(503, "store_failed", "the store could not keep it"),
}


def reply_to(command: Command, answer: Answer, claim: Claim | None) -> HttpReply:
    """Spell the answer to a command."""
    if answer is GRANTED:
        assert claim is not None
        # The first phase of two got the lock at once.
        word = "acquired" if isinstance(command, Claim) and command.tracked else "ok"
        return _json(200, {"status": word, "token": claim.token.decode(), "lease_ttl_s": claim.lease_ns // SECOND})
    if answer is RENEWED:
        assert isinstance(command, Renew)
        return _json(200, {"remaining_s": command.lease_ns // SECOND})
    return REPLIES[answer]


def opened(id_: str, idle_ns: int) -> HttpReply:
    return _json(200, {"session_id": id_, "idle_timeout_s": idle_ns // SECOND})


def stats(snapshot: bytes) -> HttpReply:
    """Wrap a snapshot, which is JSON already."""
    return HttpReply(status=200, body=snapshot + b"\n", headers=(NO_SNIFF,))
