"""What the LockServer half of the HTTP door can do, as OpenAPI 3.1, made from the types that read and spell it.

Nothing is decided here; a page of docs/protocol tells the same to people.
"""

from typing import Any, Final

import msgspec

from holdfast.wire import lockserver as wire
from holdfast.wire import lockserver_answers as answers
from holdfast.wire.http import JSON, spell
from holdfast.wire.problems import PROBLEM_JSON, ErrorBody, Problem

# Two old paths take any of them.
METHODS: Final = ("get", "head", "post", "put", "patch", "delete", "options", "trace")

# Visible characters, and spaces between them: what is outside of them does not belong to the value of a header.
IDEMPOTENCY_KEY: Final = "^[!-~]([ -~]*[!-~])?$"

REF: Final = "#/components/schemas/{name}"

Part = dict[str, Any]


class Status(msgspec.Struct):
    """How the service is."""

    status: str


class Version(msgspec.Struct):
    """Who serves here."""

    name: str
    version: str


BODIES: Final = (
    wire.AcquireRequest,
    wire.RenewRequest,
    wire.ReleaseRequest,
    answers.Lease,
    answers.NotAcquired,
    answers.Renewed,
    answers.NotRenewed,
    answers.Released,
    answers.LockState,
    answers.LockList,
    ErrorBody,
    Problem,
    Status,
    Version,
)

# Refusals that any call about a lock may meet, with what they mean.
REFUSALS: Final = {
    "400": "The request is wrong.",
    "401": "No token was shown, or none that is known.",
    "403": "The token has no such right to this lock.",
    "408": "The request took too long to arrive.",
    "413": "The body is too long.",
    "429": "Too many requests came from this address.",
    "500": "The service cannot do this.",
    "503": "The service cannot do this now.",
}


def document(version: str, *, name_bytes_max: int) -> bytes:
    """Spell the whole document."""
    _, schemas = msgspec.json.schema_components(BODIES, ref_template=REF)
    name = {
        "name": "name",
        "in": "path",
        "required": True,
        "description": f"The lock's name, percent-encoded; it has no slash in it, and at most {name_bytes_max} bytes.",
        # A segment of dots alone would be taken out of the path.
        "schema": {"type": "string", "minLength": 1, "maxLength": name_bytes_max, "pattern": r"^[^/]*[^/.][^/]*$"},
    }
    about = "Leases on named locks, each with a fencing token."
    return spell(frame(version, about, _paths(), {"schemas": schemas, "parameters": {"name": name}}))


def frame(version: str, about: str, paths: Part, components: Part) -> Part:
    """Put what two descriptions have in common around what is their own."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": version,
            "description": about,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            **components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "headers": {
                "RetryAfter": {
                    "description": "After how many seconds to ask again.",
                    "schema": {"type": "integer", "minimum": 1},
                }
            },
        },
    }


def _paths() -> Part:
    lock = "/v1/locks/{name}"
    return {
        f"{lock}/acquire": {"parameters": [_NAME], "post": _acquire()},
        f"{lock}/renew": {"parameters": [_NAME], "post": _renew()},
        f"{lock}/release": {"parameters": [_NAME], "post": _release()},
        lock: {"parameters": [_NAME], "get": _get()},
        "/v1/locks": {"get": _list()},
        "/healthz": {method: _plain(f"{method}Health", "Ask whether the process lives.", Status) for method in METHODS},
        "/livez": {"get": _plain("getLife", "Ask whether the process lives.", Status)},
        "/readyz": {"get": _ready()},
        "/version": {"get": _plain("getVersion", "Ask who serves here.", Version)},
        "/openapi.json": {"get": _document("getDocument")},
        "/metrics": {method: _metrics(f"{method}Metrics") for method in METHODS},
    }


_NAME: Final = {"$ref": "#/components/parameters/name"}


def _acquire() -> Part:
    return {
        "operationId": "acquireLock",
        "summary": "Take a lease.",
        "parameters": [
            query(
                "wait_ms",
                "How long to wait in the queue.",
                {"type": "integer", "minimum": 0, "maximum": wire.WAIT_MS_MAX},
            ),
            header(
                "Idempotency-Key",
                "Names the request, so that sending it again gives the same lease.",
                {"type": "string", "maxLength": wire.IDEMPOTENCY_KEY_MAX, "pattern": IDEMPOTENCY_KEY},
            ),
        ],
        "requestBody": body(wire.AcquireRequest),
        "responses": {
            "200": answer("The lease.", answers.Lease),
            "409": _refusal("Somebody holds the lock, or it could not be tried.", answers.NotAcquired),
            "422": _refusal("The Idempotency-Key was used for another request.", ErrorBody),
            **_refusals(),
        },
    }


def _renew() -> Part:
    return {
        "operationId": "renewLease",
        "summary": "Let a lease end later.",
        "requestBody": body(wire.RenewRequest),
        "responses": {
            "200": answer("When it ends now.", answers.Renewed),
            "409": _refusal("There is no such lease, or it could not be tried.", answers.NotRenewed),
            **_refusals(),
        },
    }


def _release() -> Part:
    return {
        "operationId": "releaseLease",
        "summary": "Give a lease back.",
        "requestBody": body(wire.ReleaseRequest),
        "responses": {"200": answer("Whether it was given back.", answers.Released), **_refusals()},
    }


def _get() -> Part:
    return {
        "operationId": "getLock",
        "summary": "Look at a lock.",
        "parameters": [header("X-Lease-ID", "Whoever knows the lease id is shown it.", {"type": "string"})],
        "responses": {"200": answer("What is known of it.", answers.LockState), **_refusals()},
    }


def _list() -> Part:
    return {
        "operationId": "listLocks",
        "summary": "List locks in the order of their names.",
        "parameters": [
            query("prefix", "How the names begin.", {"type": "string"}),
            query("held", "Only those that are held, or are not.", {"type": "string", "enum": ["true", "false"]}),
            query(
                "limit",
                "How many at once.",
                {"type": "integer", "minimum": 1, "maximum": wire.LIST_MAX, "default": wire.LIST_DEFAULT},
            ),
            query(
                "cursor",
                "The next_cursor of the list that this one goes on from.",
                {"type": "string", "pattern": "^([0-9a-f]{2})*$"},
            ),
        ],
        "responses": {"200": answer("Some locks.", answers.LockList), **_refusals()},
    }


def _ready() -> Part:
    part = _plain("getReadiness", "Ask whether requests are served.", Status)
    part["responses"]["503"] = _refusal("They are not.", ErrorBody)
    return part


def _plain(operation: str, summary: str, kind: type) -> Part:
    return {
        "operationId": operation,
        "summary": summary,
        "security": [],
        "responses": {"200": answer("So it is.", kind)},
    }


def _document(operation: str) -> Part:
    part = _plain(operation, "This document.", Status)
    part["responses"]["200"]["content"] = {JSON: {"schema": {"type": "object"}}}
    return part


def _metrics(operation: str) -> Part:
    text = {"description": "All metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    refusals = _refusals()
    return {
        "operationId": operation,
        "summary": "Metrics in the format of Prometheus.",
        "responses": {"200": text, "401": refusals["401"], "403": refusals["403"]},
    }


def query(name: str, description: str, schema: Part) -> Part:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def header(name: str, description: str, schema: Part) -> Part:
    return {"name": name, "in": "header", "description": description, "schema": schema}


def schema(kind: type) -> Part:
    return {"schema": {"$ref": REF.format(name=kind.__name__)}}


def body(kind: type) -> Part:
    return {"required": True, "content": {JSON: schema(kind)}}


def answer(description: str, kind: type) -> Part:
    return {"description": description, "content": {JSON: schema(kind)}}


def _refusal(description: str, kind: type) -> Part:
    """Describe a refusal: a plain answer, and a problem for those who ask for it."""
    part = answer(description, kind)
    part["content"][PROBLEM_JSON] = schema(Problem)
    return part


def _refusals() -> Part:
    found = {status: _refusal(description, ErrorBody) for status, description in REFUSALS.items()}
    for status in ("429", "503"):
        found[status]["headers"] = {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}}
    return found
