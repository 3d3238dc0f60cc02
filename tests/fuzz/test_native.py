"""What the fuzzer says of any lines holds for those that Hypothesis thinks of, and a lie is noticed.

The long look is `python -m fuzz`; this one is short.
"""

import io
import random
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.line import BrokenError
from fuzz.native import HELLO, check_codec, check_door, line, stream
from holdfast.doors.native_connection import NativeConnection
from holdfast.observe.logs import configure
from holdfast.wire.native import BadRequest, read_request

LINES = st.integers(0, 1 << 32).map(lambda seed: line(random.Random(seed)))
PIECES = st.one_of(LINES, LINES, st.binary(max_size=20))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    configure("error", "json", io.StringIO())
    yield
    structlog.reset_defaults()


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=100), LINES))
def test_the_codec_makes_sense_of_any_line_or_refuses_it(text: bytes) -> None:
    check_codec(text)


@settings(deadline=None, max_examples=60)
@given(st.lists(PIECES, max_size=8))
def test_the_answers_are_the_same_however_the_bytes_are_cut(parts: list[bytes]) -> None:
    check_door(HELLO + b"".join(parts), [HELLO, *(part for part in parts if part)])


def test_most_lines_are_requests() -> None:
    dice = random.Random(1)
    read = sum(_is_request(text) for _ in range(100) for text in stream(dice).splitlines())
    assert read > 200


def _is_request(text: bytes) -> bool:
    try:
        read_request(text)
    except BadRequest:
        return False
    return True


def test_a_server_whose_answers_depend_on_the_cuts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = HELLO + b'{"id":1,"op":"ping"}\n' * 2
    check_door(data, [data[:50], data[50:]])
    served = NativeConnection._serve

    def only_the_first(self: NativeConnection, text: bytes, now: int) -> None:
        if not self._out:
            served(self, text, now)

    monkeypatch.setattr(NativeConnection, "_serve", only_the_first)
    with pytest.raises(BrokenError, match="instead of"):
        check_door(data, [data[:50], data[50:]])
