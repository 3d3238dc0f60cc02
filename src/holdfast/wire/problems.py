"""Errors over HTTP: one field that every old client knows, and an RFC 9457 problem for those who ask for one.

What can go wrong is said by the interfaces; here it only gets its form.
"""

from http import HTTPStatus
from typing import Final

import msgspec

from holdfast.wire.http import Headers, HttpReply, spell

PROBLEM_JSON: Final = "application/problem+json"

# Nothing is to be read under the type of a problem: what tells problems apart is `code`.
TYPE: Final = "about:blank"


class ErrorBody(msgspec.Struct):
    """What went wrong, in a sentence for a person."""

    error: str


class Problem(msgspec.Struct):
    """What went wrong, as RFC 9457 has it, and `error` besides; members of the plain answer may follow."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    error: str


class Refusal(Exception):
    """A request that ends here: the status, a code for programs, and a sentence for a person.

    `fields` is the answer that a caller gets who asks for no problem, where that is more than the sentence.
    """

    def __init__(
        self, status: int, code: str, detail: str, *headers: tuple[str, str], fields: msgspec.Struct | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers: Headers = headers
        self.fields = fields


def bad_request(detail: str) -> Refusal:
    return Refusal(400, "bad_request", detail)


def wants_problem(accept: str | None) -> bool:
    """Say whether an Accept header names problems; that anything will do is no such wish."""
    if accept is None or PROBLEM_JSON not in (accept := accept.lower()):
        return False
    for media_range in accept.split(","):
        name, *parameters = (part.strip() for part in media_range.split(";"))
        if name == PROBLEM_JSON:
            return all(_is_wanted(parameter) for parameter in parameters)
    return False


def _is_wanted(parameter: str) -> bool:
    """Look for the weight that says never."""
    name, _, weight = parameter.partition("=")
    return name.strip() != "q" or weight.strip(" 0.") != ""


def reply_to(refusal: Refusal, accept: str | None) -> HttpReply:
    """Spell a refusal as its caller wants it."""
    if wants_problem(accept):
        body = problem_of(refusal)
        return HttpReply(status=refusal.status, body=spell(body), media_type=PROBLEM_JSON, headers=refusal.headers)
    fields = refusal.fields if refusal.fields is not None else ErrorBody(refusal.detail)
    return HttpReply(status=refusal.status, body=spell(fields), headers=refusal.headers)


def problem_of(refusal: Refusal) -> dict[str, object]:
    """Make a problem of a refusal, with all that the plain answer has."""
    title = HTTPStatus(refusal.status).phrase
    problem = Problem(TYPE, title, refusal.status, refusal.detail, refusal.code, refusal.detail)
    fields = {} if refusal.fields is None else msgspec.to_builtins(refusal.fields)
    return msgspec.to_builtins(problem) | fields  # type: ignore[no-any-return]
