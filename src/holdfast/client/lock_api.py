"""LockServer's API over HTTP as a client speaks it: requests as bytes, answers as values or errors.

Nothing here is sent, repeated or timed; no field goes into a body that the original server would not know.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from holdfast.client.http import Answer, request
from holdfast.errors import BadPeer, BadRequest, Busy, Forbidden, HoldfastError, TooMany, Unavailable, Unknown

TTL_MS_MAX: Final = 600_000
NAME_BYTES_MAX: Final = 1024
OWNER_BYTES_MAX: Final = 4096
SHOWN_BYTES_MAX: Final = 500
RETRY_AFTER_S_MAX: Final = 3600.0

# The reasons that the server gives.
HELD: Final = "HELD"
BUSY_RETRY: Final = "BUSY_RETRY"
NOT_OWNER: Final = "NOT_OWNER"
NOT_OWNER_OR_EXPIRED: Final = "NOT_OWNER_OR_EXPIRED"

Seconds = float | timedelta


class NotAcquired(Busy):
    """The lock was not to be had. Times are seconds; `current_expiry` counts since 1970, by the clock of the server."""

    def __init__(
        self,
        name: str,
        reason: str,
        *,
        retry_after: float = 0.0,
        current_owner: str | None = None,
        current_expiry: float | None = None,
    ) -> None:
        holder = f", by {current_owner!r}" if current_owner is not None else ""
        super().__init__(f"the lock {name!r} was not acquired: {reason}{holder}")
        self.name = name
        self.reason = reason
        self.retry_after = retry_after
        self.current_owner = current_owner
        self.current_expiry = current_expiry


class UnexpectedStatus(HoldfastError):
    """The server answered with something that is no answer to such a request."""

    code = "bad_peer"

    def __init__(self, method: str, path: str, status: int, body: bytes, retry_after: float = 0.0) -> None:
        text = body[:SHOWN_BYTES_MAX].decode(errors="replace")
        super().__init__(f"{method} {path} was answered {status}: {_sentence(body) or text or 'nothing'}")
        self.method = method
        self.path = path
        self.status = status
        self.body = text
        self.retry_after = retry_after


class BadRequestStatus(UnexpectedStatus, BadRequest):
    """400, 404, 405, 413, 422 or 431: this request will never be answered otherwise."""

    code = BadRequest.code


class ForbiddenStatus(UnexpectedStatus, Forbidden):
    """401 or 403: the token is missing, or has no right to this lock."""

    code = Forbidden.code


class TooManyStatus(UnexpectedStatus, TooMany):
    """429: too many requests came from here."""

    code = TooMany.code
    retry = TooMany.retry


class UnavailableStatus(UnexpectedStatus, Unavailable):
    """503: the server cannot serve it now, and has not."""

    code = Unavailable.code
    retry = Unavailable.retry


class UnknownStatus(UnexpectedStatus, Unknown):
    """408, 500, 502 or 504: nobody can say whether it has happened."""

    code = Unknown.code
    retry = Unknown.retry


_KINDS: dict[int, type[UnexpectedStatus]] = {
    **dict.fromkeys((400, 404, 405, 413, 422, 431), BadRequestStatus),
    **dict.fromkeys((401, 403), ForbiddenStatus),
    429: TooManyStatus,
    503: UnavailableStatus,
    **dict.fromkeys((408, 500, 502, 504), UnknownStatus),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """What the server says about a lease that it gave."""

    lock_name: str
    owner_id: str
    lease_id: str
    fencing_token: int
    lease_expiry_ms: int
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Renewal:
    """How a renewal came out: the new end of the lease, or the reason why there is none."""

    lease_expiry_ms: int = 0
    reason: str = ""

    @property
    def renewed(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    """Whether a release ended the lease; if not, it was over before, or the store was busy all the time."""

    released: bool
    reason: str | None = None

    def __bool__(self) -> bool:
        return self.released


@dataclass(frozen=True, slots=True)
class Ask:
    """A request, ready to be sent, and what is needed to read its answer."""

    method: str
    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Base:
    """Where a server is, taken from its URL."""

    tls: bool
    host: str
    port: int
    prefix: str
    token: str | None


def base_of(url: str) -> Base:
    """Read the URL of a server; a token may stand in it as the password, as in https://:token@host."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadRequest(f"this is no URL of a server: {error}") from error
    if parts.username:
        raise BadRequest("a token stands behind a colon, as in https://:TOKEN@host; there are no user names")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or port == 0:
        raise BadRequest("the URL of a server is http://host:port or https://host:port, perhaps with a path")
    tls = parts.scheme == "https"
    token = unquote(parts.password) if parts.password else None
    return Base(tls, parts.hostname, port or (443 if tls else 80), parts.path.rstrip("/"), token)


class LockApi:
    """Writes the requests for one server."""

    def __init__(self, base: Base, token: str | None = None) -> None:
        host = f"[{base.host}]" if ":" in base.host else base.host
        self._prefix = base.prefix
        self._headers = {"Host": f"{host}:{base.port}", "Accept": "application/json", "User-Agent": "holdfast"}
        token = token if token is not None else base.token
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def acquire(self, name: str, owner: str, ttl_ms: int, key: str, wait_ms: int = 0) -> Ask:
        # What the original does not know stands in a header and in the query, where it does not look.
        query = f"?wait_ms={wait_ms}" if wait_ms else ""
        body = {"owner_id": owner, "ttl_ms": ttl_ms}
        return self._ask("POST", f"{path_of(name)}/acquire{query}", body, {"Idempotency-Key": key})

    def renew(self, grant: Grant, extend_ms: int) -> Ask:
        return self._ask("POST", f"{path_of(grant.lock_name)}/renew", _proof(grant) | {"extend_by_ms": extend_ms})

    def release(self, grant: Grant) -> Ask:
        return self._ask("POST", f"{path_of(grant.lock_name)}/release", _proof(grant))

    def look(self, name: str) -> Ask:
        return self._ask("GET", path_of(name))

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Ask:
        path = self._prefix + path
        all_headers = {**self._headers, **(headers or {})}
        data = None
        if body is not None:
            all_headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        return Ask(method, path, request(method, path, all_headers, data))


# --- what comes back ---


def read_acquire(ask: Ask, answer: Answer, name: str, owner: str, ttl_ms: int) -> Grant:
    """Read a grant, or raise NotAcquired."""
    fields = _fields(ask, answer, (200, 409))
    if answer.status == 200 and fields.get("acquired") is True:
        return Grant(
            name,
            owner,
            _text(ask, fields, "lease_id"),
            _number(ask, fields, "fencing_token", 1),
            _number(ask, fields, "lease_expiry_ms", 1),
            ttl_ms,
        )
    if answer.status == 409 and fields.get("acquired") is False:
        holder, expiry, wait = (
            fields.get(f) for f in ("current_owner_id", "current_expiry_ms", "recommended_retry_ms")
        )
        raise NotAcquired(
            name,
            str(fields.get("reason") or HELD),
            retry_after=max(0, wait) / 1000 if type(wait) is int else 0.0,
            current_owner=holder if isinstance(holder, str) else None,
            # The original says nonsense before 1970 when it does not know.
            current_expiry=expiry / 1000 if type(expiry) is int and expiry > 0 else None,
        )
    raise _unexpected(ask, answer)


def read_renew(ask: Ask, answer: Answer) -> Renewal:
    fields = _fields(ask, answer, (200, 409))
    if answer.status == 200 and fields.get("renewed") is True:
        return Renewal(lease_expiry_ms=_number(ask, fields, "lease_expiry_ms", 1))
    if answer.status == 409 and fields.get("renewed") is False:
        return Renewal(reason=str(fields.get("reason") or NOT_OWNER_OR_EXPIRED))
    raise _unexpected(ask, answer)


def read_release(ask: Ask, answer: Answer) -> ReleaseResult:
    fields = _fields(ask, answer, (200,))
    if fields.get("released") is True:
        return ReleaseResult(released=True)
    if fields.get("released") is False:
        return ReleaseResult(released=False, reason=str(fields.get("reason") or NOT_OWNER))
    raise _unexpected(ask, answer)


def read_look(ask: Ask, answer: Answer) -> dict[str, Any]:
    fields = _fields(ask, answer, (200,))
    if not isinstance(fields.get("held"), bool):
        raise _unexpected(ask, answer)
    return fields


def _fields(ask: Ask, answer: Answer, statuses: tuple[int, ...]) -> dict[str, Any]:
    """Read the object that an answer with one of these statuses has to have."""
    if answer.status not in statuses:
        raise _unexpected(ask, answer)
    fields = _object(answer.body)
    if fields is None:
        raise _unexpected(ask, answer)
    return fields


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):  # text of whatever proxy stands between, or worse
        return None
    return found if isinstance(found, dict) else None


def _text(ask: Ask, fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise BadPeer(f"{ask.method} {ask.path} was answered without a {name}")
    return value


def _number(ask: Ask, fields: Mapping[str, Any], name: str, least: int) -> int:
    value = fields.get(name)
    if type(value) is not int or value < least:
        raise BadPeer(f"{ask.method} {ask.path} was answered without a whole number {name} of at least {least}")
    return value


def _unexpected(ask: Ask, answer: Answer) -> UnexpectedStatus:
    kind = _KINDS.get(answer.status, UnexpectedStatus)
    after = answer.headers.get("retry-after", "")
    seconds = min(float(after), RETRY_AFTER_S_MAX) if after.isascii() and after.isdigit() and len(after) < 10 else 0.0
    return kind(ask.method, ask.path, answer.status, answer.body, seconds)


def _sentence(body: bytes) -> str:
    fields = _object(body) or {}
    sentence = fields.get("error") or fields.get("detail")
    return sentence[:SHOWN_BYTES_MAX] if isinstance(sentence, str) else ""


# --- what callers give ---


def path_of(name: str) -> str:
    """Give the path of a lock, or refuse a name that no path can have."""
    if not isinstance(name, str) or not name:
        raise BadRequest(f"the name of a lock is text, and not empty; this is {name!r}")
    try:
        data = name.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(f"the name {name!r} is no Unicode text") from error
    if len(data) > NAME_BYTES_MAX:
        raise BadRequest(f"the name of a lock has at most {NAME_BYTES_MAX} bytes, not {len(data)}")
    if "/" in name or name in {".", ".."}:
        # A server takes paths apart after it has decoded them, so that no encoding can help.
        raise BadRequest(f"the name of a lock over HTTP can have no slash, and not be . or ..; this is {name!r}")
    return "/v1/locks/" + quote(data, safe="")


def owner_of(owner: str) -> str:
    if not isinstance(owner, str) or not owner:
        raise BadRequest(f"an owner is text, and not empty; this is {owner!r}")
    if len(owner.encode(errors="surrogatepass")) > OWNER_BYTES_MAX:
        raise BadRequest(f"an owner has at most {OWNER_BYTES_MAX} bytes")
    return owner


def seconds_of(what: str, value: Seconds) -> float:
    """Read a length of time: seconds, or a timedelta."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest(f"{what} is a number of seconds or a timedelta, not {value!r}")
    return float(value)


def ms_of(what: str, value: Seconds) -> int:
    """Read the length of a lease, in whole milliseconds."""
    seconds = seconds_of(what, value)
    if not 0.001 <= seconds <= TTL_MS_MAX / 1000:
        raise BadRequest(f"{what} is from 0.001 to {TTL_MS_MAX // 1000} seconds, not {seconds:g}")
    return round(seconds * 1000)


def _proof(grant: Grant) -> dict[str, Any]:
    return {"owner_id": grant.owner_id, "lease_id": grant.lease_id, "fencing_token": grant.fencing_token}
