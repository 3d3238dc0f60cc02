"""What the session API can do, as OpenAPI 3.1, made from the types that read its bodies.

Nothing is decided here; a page of docs/protocol tells the same to people.
"""

from typing import Final, Literal

import msgspec

from holdfast.wire import dflock_http as wire
from holdfast.wire.http import JSON, spell
from holdfast.wire.openapi import REF, Part, answer, body, frame, header

CACHE_FOR_A_MINUTE: Final = ("Cache-Control", "public, max-age=60")


class Refused(msgspec.Struct, omit_defaults=True):
    """Why not: a word for programs, and mostly a sentence for people."""

    error: str
    detail: str = ""


class Opened(msgspec.Struct):
    """A new session, and after how long without a call it may end."""

    session_id: str
    idle_timeout_s: int


class Taken(msgspec.Struct, omit_defaults=True):
    """A grant with its token, or that there was none in time."""

    status: Literal["ok", "timeout"]
    token: str = ""
    lease_ttl_s: int = 0


class Place(msgspec.Struct, omit_defaults=True):
    """A grant with its token, or a place in the queue."""

    status: Literal["acquired", "queued"]
    token: str = ""
    lease_ttl_s: int = 0


class Remaining(msgspec.Struct):
    """How long the lease lasts from now."""

    remaining_s: int


class State(msgspec.Struct):
    """How the service is."""

    status: Literal["ok", "draining"]


BODIES: Final = (
    wire.AcquireBody,
    wire.SeatBody,
    wire.EnqueueBody,
    wire.EnqueueSeatBody,
    wire.WaitBody,
    wire.ReleaseBody,
    wire.RenewBody,
    Refused,
    Opened,
    Taken,
    Place,
    Remaining,
    State,
)

# What any call may meet, and what any call about a key may meet besides.
COMMON: Final = {
    "400": "The call is wrong.",
    "401": "No token was shown, or none that is known.",
    "403": "The token does not give the right to this.",
    "408": "The request took too long to arrive.",
    "429": "Too many requests came from this address.",
    "503": "The service cannot do this now; the word says why.",
}
GONE: Final = {"410": "There is no such session, or not any more."}
CONFLICT: Final = {"409": "The word says which: already_enqueued, not_enqueued, lease_expired, limit_mismatch."}
NOT_HELD: Final = {"404": "The token holds nothing on this key."}


def document(version: str) -> bytes:
    """Spell the whole document."""
    _, schemas = msgspec.json.schema_components(BODIES, ref_template=REF)
    text = {"type": "string", "minLength": 1, "maxLength": wire.KEY_BYTES_MAX}
    parameters = {
        "key": {
            "name": "key",
            "in": "path",
            "required": True,
            "description": f"1 to {wire.KEY_BYTES_MAX} bytes, percent-encoded; no space, tab, CR or LF.",
            "schema": {**text, "pattern": "^[!-.0-~]*[0-~][!-.0-~]*$"},
        },
        "id": {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"}},
        "session": {**header("X-Dflockd-Session", "Whose call it is.", {"type": "string"}), "required": True},
    }
    about = "Locks and semaphores that are held by sessions."
    return spell(frame(version, about, _paths(), {"schemas": schemas, "parameters": parameters}))


def _paths() -> Part:
    session = "/v1/sessions/{id}"
    return {
        "/v1/sessions": {"post": _call("openSession", "Begin a session.", answer("It has begun.", Opened))},
        session: {
            "parameters": [_shared("id")],
            "delete": _call("closeSession", "End a session, and give back all it holds.", NO_CONTENT, GONE),
        },
        f"{session}/ping": {
            "parameters": [_shared("id")],
            "post": _call("pingSession", "Show that the caller lives.", NO_CONTENT, GONE),
        },
        **_of_keys("/v1/locks/{key}", "Lock", wire.AcquireBody, wire.EnqueueBody),
        **_of_keys("/v1/semaphores/{key}", "Seat", wire.SeatBody, wire.EnqueueSeatBody),
        "/v1/stats": {"get": _call("getStats", "Look at all keys.", _object("All keys that are known."))},
        "/v1/openapi.json": {"get": _open("getDocument", "This document.", _object("It."))},
        "/health": {"get": _open("getHealth", "Ask whether the process lives.", answer("It does.", State))},
        "/ready": {"get": _ready()},
    }


def _of_keys(path: str, kind: str, take: type, enqueue: type) -> Part:
    """Describe the five calls about a key, which locks and semaphores have in common."""
    at_once = body(enqueue)
    if enqueue is wire.EnqueueBody:
        at_once["required"] = False
    taken, place = answer("A grant, or none in time.", Taken), answer("A grant, or a place.", Place)
    remaining = answer("It lasts from now.", Remaining)
    return {
        path: _about_key(f"acquire{kind}", "Take it, or wait for it.", take, taken, CONFLICT),
        f"{path}/release": _about_key(f"release{kind}", "Give it back.", wire.ReleaseBody, NO_CONTENT, NOT_HELD),
        f"{path}/renew": _about_key(f"renew{kind}", "Start its lease again.", wire.RenewBody, remaining, NOT_HELD),
        f"{path}/enqueue": _about_key(f"enqueue{kind}", "Take a place in the queue.", at_once, place, CONFLICT),
        f"{path}/wait": _about_key(f"wait{kind}", "Wait in a place taken before.", wire.WaitBody, taken, CONFLICT),
    }


def _about_key(operation: str, summary: str, asked: type | Part, told: Part, more: dict[str, str]) -> Part:
    part = _call(operation, summary, told, GONE | more)
    part["requestBody"] = asked if isinstance(asked, dict) else body(asked)
    return {"parameters": [_shared("key"), _shared("session")], "post": part}


def _call(operation: str, summary: str, told: Part, more: dict[str, str] | None = None) -> Part:
    status = "204" if told is NO_CONTENT else "200"
    refused = {code: answer(why, Refused) for code, why in sorted((COMMON | (more or {})).items())}
    for code in ("429", "503"):
        refused[code]["headers"] = {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}}
    return {"operationId": operation, "summary": summary, "responses": {status: told, **refused}}


def _open(operation: str, summary: str, told: Part) -> Part:
    """Describe what needs no token."""
    return {"operationId": operation, "summary": summary, "security": [], "responses": {"200": told}}


def _ready() -> Part:
    part = _open("getReadiness", "Ask whether calls are served.", answer("They are.", State))
    part["responses"]["503"] = answer("They are not.", State)
    return part


def _object(description: str) -> Part:
    return {"description": description, "content": {JSON: {"schema": {"type": "object"}}}}


def _shared(name: str) -> Part:
    return {"$ref": f"#/components/parameters/{name}"}


NO_CONTENT: Final[Part] = {"description": "Done."}
