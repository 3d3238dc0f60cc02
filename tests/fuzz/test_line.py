"""What the fuzzer says of any bytes holds for those that Hypothesis thinks of, and a lie is noticed.

The long look is `python -m fuzz`; this one is short.
"""

import io
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.__main__ import main, try_case
from fuzz.frames import COMMANDS, KEYS, NUMBERS, SURPRISES, TOKENS
from fuzz.line import GREETING, BrokenError, check_codec, check_door
from holdfast.observe.logs import configure
from holdfast.wire.line import LineCodec
from holdfast.words import SECOND
from sim.bugs import BUGS
from sim.planting import planted

WORDS = st.lists(st.sampled_from(NUMBERS + TOKENS), max_size=3).map(b" ".join)
FRAMES = st.tuples(st.sampled_from(COMMANDS), st.sampled_from(KEYS), WORDS).map(lambda lines: b"\n".join((*lines, b"")))
PIECES = st.one_of(FRAMES, FRAMES, st.sampled_from(SURPRISES), st.binary(max_size=20))
STREAMS = st.lists(PIECES, max_size=8)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    configure("error", "json", io.StringIO())
    yield
    structlog.reset_defaults()


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=80))
def test_the_codec_makes_sense_of_any_three_lines_or_refuses_them(command: bytes, key: bytes, arg: bytes) -> None:
    codec = LineCodec(33 * SECOND)
    for verb in (command, *COMMANDS):
        check_codec(codec, verb, key, arg)


@settings(deadline=None, max_examples=60)
@given(STREAMS, st.booleans(), st.booleans())
def test_the_answers_are_the_same_however_the_bytes_are_cut(
    parts: list[bytes], authenticated: bool, greets: bool
) -> None:
    parts = [GREETING, *parts] if greets else parts
    check_door(b"".join(parts), [part for part in parts if part], authenticated=authenticated)


def test_a_server_whose_answers_depend_on_the_cuts_is_found() -> None:
    data = b"ping\n_\n_\n" * 2 + b"x\n_\n_\n"
    check_door(data, [data[:20], data[20:]])
    with planted(BUGS["answered_backwards"]), pytest.raises(BrokenError, match="instead of"):
        check_door(data, [data[:20], data[20:]])


def test_some_cases_are_tried_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "60", "--cases", "20", "--seed", "7"]) == 0
    assert capsys.readouterr().out == "20 cases from seed 7, 0 findings\n20 passed, 0 failed\n"


def test_a_bad_case_is_shown_and_can_be_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    bad = next(number for number in range(100) if not holds(number))
    with planted(BUGS["nothing_behind_a_blocked_request"]):
        assert main(["--seed", "0", "--case", str(bad)]) == 1
    out = capsys.readouterr().out
    assert f"--seed 0 --case {bad}" in out
    assert out.endswith("0 passed, 1 failed\n")


def holds(number: int) -> bool:
    with planted(BUGS["nothing_behind_a_blocked_request"]):
        return try_case(0, number)
