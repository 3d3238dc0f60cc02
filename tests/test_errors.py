"""Every way of saying no has one code, and every protocol has a word for it.

Who says no, and when, is tested where it is decided.
"""

from collections.abc import Iterator

import pytest

from holdfast import errors
from holdfast.errors import SPELLINGS, HoldfastError, Retry, Spelling

GRPC = {
    "ABORTED",
    "DATA_LOSS",
    "DEADLINE_EXCEEDED",
    "FAILED_PRECONDITION",
    "INTERNAL",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "UNKNOWN",
}


def family(root: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    yield root
    for child in root.__subclasses__():
        yield from family(child)


FAMILY = [kind for kind in family(HoldfastError) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", FAMILY, ids=lambda kind: kind.__name__)
def test_every_error_has_a_spelling(kind: type[HoldfastError]) -> None:
    assert kind.code in SPELLINGS


@pytest.mark.parametrize("code", SPELLINGS)
def test_every_spelling_belongs_to_one_error(code: str) -> None:
    assert [kind.code for kind in FAMILY].count(code) == 1


@pytest.mark.parametrize(("code", "spelling"), SPELLINGS.items(), ids=list(SPELLINGS))
def test_every_spelling_is_one_that_its_protocol_knows(code: str, spelling: Spelling) -> None:
    assert spelling.line == "timeout" or spelling.line.startswith("error")
    assert " " not in spelling.line
    assert 400 <= spelling.http < 600
    assert spelling.grpc in GRPC
    assert 0 < spelling.exit_code < 126


@pytest.mark.parametrize("kind", FAMILY, ids=lambda kind: kind.__name__)
def test_every_error_says_when_to_ask_again(kind: type[HoldfastError]) -> None:
    assert kind.retry in Retry


def test_an_error_tells_its_detail_and_without_one_its_code() -> None:
    assert str(errors.Busy("orders/17 is held")) == "orders/17 is held"
    assert errors.Busy("orders/17 is held").detail == "orders/17 is held"
    assert str(errors.Busy()) == "busy"
    assert errors.Busy().detail == ""


def test_what_was_certainly_not_applied_is_kept_apart_from_what_may_have_been() -> None:
    assert not issubclass(errors.Unknown, errors.Unavailable)
    assert issubclass(errors.FenceUnavailable, errors.Unavailable)
    assert issubclass(errors.LeaseLost, errors.NotHeld)
