"""Refusals as old clients know them, and as problems for those who ask.

Which refusals there are is tested with the interfaces.
"""

import json

import msgspec
import pytest

from holdfast.wire.problems import PROBLEM_JSON, Refusal, bad_request, reply_to, wants_problem


class Fields(msgspec.Struct):
    acquired: bool
    reason: str


def test_an_old_client_gets_one_field() -> None:
    reply = reply_to(bad_request("no name"), None)
    assert (reply.status, reply.media_type, reply.body) == (400, "application/json", b'{"error":"no name"}\n')


def test_who_asks_for_a_problem_gets_one() -> None:
    reply = reply_to(bad_request("no name"), PROBLEM_JSON)
    assert reply.media_type == PROBLEM_JSON
    assert json.loads(reply.body) == {
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "detail": "no name",
        "code": "bad_request",
        "error": "no name",
    }


def test_a_refusal_with_fields_shows_them_either_way() -> None:
    refusal = Refusal(409, "busy", "held", ("Retry-After", "1"), fields=Fields(False, "HELD"))
    plain, problem = reply_to(refusal, None), reply_to(refusal, PROBLEM_JSON)
    assert plain.body == b'{"acquired":false,"reason":"HELD"}\n'
    assert plain.headers == problem.headers == (("Retry-After", "1"),)
    found = json.loads(problem.body)
    assert (found["title"], found["reason"], found["acquired"]) == ("Conflict", "HELD", False)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (None, False),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/problem+json", True),
        ("Application/Problem+JSON", True),
        ("application/json, application/problem+json;q=0.5", True),
        ("application/problem+json; charset=utf-8", True),
        ("application/problem+json;q=0", False),
        ("application/problem+json; q = 0.000", False),
        ("text/plain;x=application/problem+json", False),
    ],
)
def test_only_naming_problems_asks_for_one(accept: str | None, wanted: bool) -> None:
    assert wants_problem(accept) is wanted
