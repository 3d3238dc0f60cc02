"""LockServer's API in JSON, as callers speak it: which path asks for what, and how bodies and queries are read.

Pure text work; how answers are spelled is in lockserver_answers.py, and no lock rule, connection or clock is here.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Meta

from holdfast.secret import token_of
from holdfast.wire.http import HttpReply
from holdfast.wire.line import INT64_MAX, INT64_MIN, LOCK
from holdfast.wire.problems import Refusal, bad_request
from holdfast.words import EX, UNLIMITED, Claim, End, Look, Proof, Renew

MILLISECOND: Final = 1_000_000

LEASE_MS_MAX: Final = 600_000
WAIT_MS_MAX: Final = (1 << 31) - 1
LIST_DEFAULT: Final = 100
LIST_MAX: Final = 1000
IDEMPOTENCY_KEY_MAX: Final = 255

# --- what callers send ---

Text = Annotated[str, Meta(min_length=1)]
LeaseMs = Annotated[int, Meta(ge=1, le=LEASE_MS_MAX)]
Fence = Annotated[int, Meta(ge=1, le=INT64_MAX)]


class AcquireRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Who asks, and for how long."""

    owner_id: Text
    ttl_ms: LeaseMs


class RenewRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Proof of a lease, and how much longer it is to last from now."""

    owner_id: Text
    lease_id: Text
    fencing_token: Fence
    extend_by_ms: LeaseMs


class ReleaseRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Proof of a lease."""

    owner_id: Text
    lease_id: Text
    fencing_token: Fence


# --- paths ---

LOCKS: Final = "/v1/locks"
ACQUIRE: Final = "acquire"
RENEW: Final = "renew"
RELEASE: Final = "release"
GET: Final = "get"
LIST: Final = "list"
ACTIONS: Final = frozenset({ACQUIRE, RENEW, RELEASE})


def route(method: str, path: str) -> tuple[str, str]:
    """Tell what a path below /v1/locks asks for, and of which lock; raises Refusal in the original's order."""
    if path == LOCKS:
        if method != "GET":
            raise method_not_allowed("GET")
        return LIST, ""
    name, *rest = path.removeprefix(LOCKS).strip("/").split("/")
    if not name:
        raise bad_request("the path names no lock")
    if len(rest) > 1:
        raise not_found("no such path below a lock")
    if method == "POST":
        if not rest or rest[0] not in ACTIONS:
            raise not_found("a lock can be told to acquire, renew or release")
        return rest[0], name
    if method != "GET":
        raise method_not_allowed("POST" if rest else "GET")
    if rest:
        raise not_found("a lock is read without an action")
    return GET, name


def not_found(detail: str) -> Refusal:
    return Refusal(404, "not_found", detail)


def method_not_allowed(allowed: str) -> Refusal:
    return Refusal(405, "method_not_allowed", f"this path takes {allowed}", ("Allow", allowed))


def moved(path: str, query: Mapping[str, str]) -> HttpReply | None:
    """Send a caller with a crooked path to the straight one; None where the path is straight."""
    straight = path
    if "//" in path or "/." in path:
        straight = _straighten(path)
    if straight == path:
        return None
    target = quote(straight, safe="/:@!$&'()*+,;=~", errors="surrogateescape")
    if query:
        target += "?" + urlencode(query, errors="surrogateescape")
    body = f"moved to {target}\n".encode()
    return HttpReply(status=301, body=body, media_type="text/plain; charset=utf-8", headers=(("Location", target),))


def _straighten(path: str) -> str:
    """Take empty segments and dots out of a path; what ends in a slash still does."""
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    straight = "/" + "/".join(kept)
    return straight + "/" if path.endswith("/") and kept else straight


# --- reading ---

Body = TypeVar("Body", AcquireRequest, RenewRequest, ReleaseRequest)

_acquires: Final = msgspec.json.Decoder(AcquireRequest)
_renewals: Final = msgspec.json.Decoder(RenewRequest)
_releases: Final = msgspec.json.Decoder(ReleaseRequest)

# An object becomes a tuple of pairs and thereby differs from a list of them.
_lenient: Final = json.JSONDecoder(object_pairs_hook=tuple)

TEXTS: Final = frozenset({"owner_id", "lease_id"})
# The least of all numbers is 1, the most is this.
MOST: Final = {"fencing_token": INT64_MAX, "ttl_ms": LEASE_MS_MAX, "extend_by_ms": LEASE_MS_MAX}

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _read(body: bytes, decoder: "msgspec.json.Decoder[Body]") -> Body:
    """Read a body as JSON should be written, or else with all the lenience of the original."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read_leniently(body, decoder.type)


def _read_leniently(body: bytes, kind: type[Body]) -> Body:
    # Bytes that are no UTF-8 come out as halves of surrogate pairs, which become unknown characters further down.
    text = body.decode("utf-8", "surrogateescape").lstrip(" \t\r\n")
    try:
        found, _ = _lenient.raw_decode(text)
    except (ValueError, RecursionError):
        raise bad_request("the body does not begin with a JSON object") from None
    if found is None:
        found = ()
    if not isinstance(found, tuple):
        raise bad_request("the body is no JSON object")
    values: dict[str, Any] = {}
    for spelled, value in found:
        name = spelled.casefold()
        if name not in kind.__struct_fields__:
            raise bad_request(f"the body has a field that is not known here: {_cleaned(spelled)[:64]}")
        if value is not None:
            values[name] = _typed(name, value)
    for name in kind.__struct_fields__:
        if name not in values or not _is_in_range(name, values[name]):
            raise _bad_field(name)
    return kind(**values)


def _typed(name: str, value: object) -> object:
    """Check the type of one field: a wrong one is not made good by another of its name behind it."""
    if name in TEXTS and isinstance(value, str):
        return _cleaned(value)
    if name in MOST and type(value) is int and INT64_MIN <= value <= INT64_MAX:
        return value
    raise _bad_field(name)


def _is_in_range(name: str, value: Any) -> bool:
    return bool(value) if name in TEXTS else 1 <= int(value) <= MOST[name]


def _bad_field(name: str) -> Refusal:
    rule = "a text that is not empty" if name in TEXTS else f"a whole number from 1 to {MOST[name]}"
    return bad_request(f"{name} must be {rule}")


def _cleaned(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text)


def acquire(name: bytes, body: bytes, patience_ns: int) -> Claim:
    """Read what somebody wants who would hold the lock."""
    asked = _read(body, _acquires)
    lease_ns = asked.ttl_ms * MILLISECOND
    claim = Claim(LOCK + name, EX, 1, UNLIMITED, lease_ns, patience_ns, patience_ns > 0)
    claim.owner = asked.owner_id.encode()
    return claim


def renew(name: bytes, body: bytes) -> tuple[RenewRequest, Renew | None]:
    """Read a renewal; no command where no lease can have this proof."""
    asked = _read(body, _renewals)
    proof = Proof(asked.owner_id.encode(), asked.lease_id.encode())
    token = token_of(asked.fencing_token, proof.lease_id)
    if token is None:
        return asked, None
    return asked, Renew(LOCK + name, token, asked.extend_by_ms * MILLISECOND, proof, False)


def release(name: bytes, body: bytes) -> tuple[ReleaseRequest, End | None]:
    """Read a release; no command where no lease can have this proof."""
    asked = _read(body, _releases)
    proof = Proof(asked.owner_id.encode(), asked.lease_id.encode())
    token = token_of(asked.fencing_token, proof.lease_id)
    return asked, None if token is None else End(LOCK + name, token, proof=proof)


def name_of(text: str, name_bytes_max: int) -> bytes:
    """Check the length of a lock's name."""
    name = text.encode("utf-8", "surrogateescape")
    if len(name) > name_bytes_max:
        raise bad_request(f"the name of a lock has at most {name_bytes_max} bytes (http_name_bytes_max)")
    return name


def ticket_of(name: bytes, key: str) -> bytes:
    """Make a ticket of an Idempotency-Key: the same key on the same lock is the same request."""
    if not (0 < len(key) <= IDEMPOTENCY_KEY_MAX and key.isascii() and key.isprintable()):
        raise bad_request(f"Idempotency-Key has from 1 to {IDEMPOTENCY_KEY_MAX} printable ASCII characters")
    return hashlib.sha256(len(name).to_bytes(4, "big") + name + key.encode()).digest()


def wait_of(query: Mapping[str, str], wait_max_ns: int) -> int:
    """Read how long somebody would wait; who asks for more than there is gets what there is."""
    return min(_number(query, "wait_ms", 0, 0, WAIT_MS_MAX) * MILLISECOND, wait_max_ns)


def look_of(query: Mapping[str, str]) -> Look:
    """Read which locks somebody wants to see. One more is looked for than is shown, to know whether there is more."""
    limit = _number(query, "limit", LIST_DEFAULT, 1, LIST_MAX)
    held = query.get("held", "")
    if held not in ("", "true", "false"):
        raise bad_request("held must be true or false")
    try:
        after = bytes.fromhex(cursor) if (cursor := query.get("cursor", "")).isascii() else None
    except ValueError:
        after = None
    if after is None or after.hex() != cursor:
        raise bad_request("cursor must be one that an earlier list ended with")
    prefix = LOCK + query.get("prefix", "").encode("utf-8", "surrogateescape")
    return Look(prefix, after=LOCK + after if after else b"", count=limit + 1, held=held == "true" if held else None)


def _number(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise bad_request(f"{name} must be a whole number from {least} to {most}")
    return int(text)
