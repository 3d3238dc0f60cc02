"""The document names what is really served, and its schemas are those of the types that read requests.

Whether the server keeps to it is tried by a program that reads it.
"""

import json
from collections.abc import Iterator
from typing import Any

from holdfast.wire import lockserver as wire
from holdfast.wire.openapi import METHODS, document

DOCUMENT = json.loads(document("1.2.3", name_bytes_max=99))


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, part[method]) for path, part in DOCUMENT["paths"].items() for method in METHODS if method in part
    ]


def test_it_is_openapi_and_says_which_version_serves() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT["info"]["version"] == "1.2.3"


def test_every_reference_leads_somewhere() -> None:
    found = set(references(DOCUMENT))
    assert len(found) > 10
    for reference in found:
        part = DOCUMENT
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]
        assert part


def test_no_operation_has_the_name_of_another() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))


def test_every_action_of_a_lock_is_there() -> None:
    assert {f"/v1/locks/{{name}}/{action}" for action in wire.ACTIONS} <= set(DOCUMENT["paths"])


def test_what_a_request_takes_is_what_is_read() -> None:
    schema = DOCUMENT["components"]["schemas"]["AcquireRequest"]
    assert schema["properties"]["ttl_ms"] == {"type": "integer", "minimum": 1, "maximum": wire.LEASE_MS_MAX}
    assert schema["required"] == ["owner_id", "ttl_ms"]
    assert schema["additionalProperties"] is False


def test_the_limit_of_names_is_the_one_in_force() -> None:
    assert DOCUMENT["components"]["parameters"]["name"]["schema"]["maxLength"] == 99


def test_whoever_asks_about_the_process_needs_no_token() -> None:
    free = {path for path, _, operation in operations() if operation.get("security") == []}
    assert free == {"/healthz", "/livez", "/readyz", "/version", "/openapi.json"}
