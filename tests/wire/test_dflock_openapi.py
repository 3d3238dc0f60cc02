"""The description of the session API names what is really served, and its schemas are those that bodies are read by.

Whether the server keeps to it is tried by a program that reads it.
"""

import json

import msgspec
import pytest

from holdfast.wire import dflock_http as wire
from holdfast.wire.dflock_openapi import Place, Taken, document
from holdfast.wire.http import HttpRequest
from holdfast.words import Answer
from tests.wire.test_openapi import references

DOCUMENT = json.loads(document("1.2.3"))
OPERATIONS = [
    (path, method, part[method])
    for path, part in DOCUMENT["paths"].items()
    for method in ("get", "post", "delete")
    if method in part
]


def test_it_is_openapi_and_says_which_version_serves() -> None:
    assert (DOCUMENT["openapi"], DOCUMENT["info"]["version"]) == ("3.1.0", "1.2.3")


def test_every_reference_leads_somewhere() -> None:
    found = set(references(DOCUMENT))
    assert len(found) > 10
    for reference in found:
        part = DOCUMENT
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]
        assert part


def test_no_operation_has_the_name_of_another() -> None:
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(names) == len(set(names)) == 17


@pytest.mark.parametrize(("path", "method"), [(path, method) for path, method, _ in OPERATIONS])
def test_every_operation_is_one_that_paths_are_read_as(path: str, method: str) -> None:
    asked = path.replace("{key}", "job").replace("{id}", "0" * 32)
    assert wire.route(HttpRequest(method=method.upper(), path=asked, raw_path=asked)).verb in wire.Verb


def test_what_a_body_takes_is_what_is_read() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["SeatBody"]["required"] == ["limit"]
    assert schemas["SeatBody"]["additionalProperties"] is False
    assert schemas["AcquireBody"]["properties"]["lease_ttl_s"]["maximum"] == wire.SECONDS_MAX
    assert schemas["ReleaseBody"]["properties"]["token"]["maxLength"] == wire.TOKEN_BYTES_MAX


def test_replies_without_a_grant_are_of_the_kind_that_is_described() -> None:
    assert msgspec.json.decode(wire.REPLIES[Answer.TIMED_OUT].body, type=Taken) == Taken("timeout")
    assert msgspec.json.decode(wire.REPLIES[Answer.QUEUED].body, type=Place) == Place("queued")


def test_whoever_asks_about_the_service_needs_no_token() -> None:
    free = {path for path, _, operation in OPERATIONS if operation.get("security") == []}
    assert free == {"/v1/openapi.json", "/health", "/ready"}
