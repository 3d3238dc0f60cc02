"""What the fuzzer says of clients holds for bytes that Hypothesis thinks of, and a lie is noticed.

The long look is `python -m fuzz`; this one is short.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.client import CLAIM, DIALECTS, TICKET, TOKEN, check, hear, stream, try_dialects
from fuzz.frames import pieces
from fuzz.line import BrokenError
from holdfast.client.asks import Acquire, Granted
from holdfast.client.dialects import native
from holdfast.client.dialects.dflock import DflockCodec

GRANT = f"ok {TOKEN} 30\n".encode()


def asks(dialect: str) -> list[Acquire]:
    ask = CLAIM[0]
    assert isinstance(ask, Acquire)
    return [ask] * DIALECTS[dialect].at_once


@pytest.mark.parametrize("name", DIALECTS)
@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(st.integers(0, 1 << 32), st.binary(max_size=40)), max_size=6))
def test_the_answers_are_the_same_however_the_bytes_are_cut(name: str, parts: list[int | bytes]) -> None:
    dialect = DIALECTS[name]
    said = [part if isinstance(part, bytes) else dialect.says(random.Random(part)) for part in parts]
    check(dialect, list(asks(name)), b"".join(said), [part for part in said if part])


def test_some_cases_are_tried() -> None:
    for seed in range(100):
        try_dialects(random.Random(seed), pieces)


@pytest.mark.parametrize("name", DIALECTS)
def test_many_of_the_answers_are_grants_and_many_are_nonsense(name: str) -> None:
    dice = random.Random(1)
    heard = [hear(DIALECTS[name], asks(name), [stream(dice, DIALECTS[name])]) for _ in range(300)]
    assert sum(isinstance(answer, Granted) for one in heard for _, answer in one.answers) > 5
    assert sum(one.why is not None for one in heard) > 20
    assert sum(one.why is None for one in heard) > 20


def test_a_client_whose_answers_depend_on_the_cuts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    dialect = DIALECTS["dflock"]
    check(dialect, list(asks("dflock")), GRANT * 2, [GRANT, GRANT])
    take_in = DflockCodec._take_in

    def only_the_first(codec: DflockCodec, data: bytes, answers: list) -> None:
        take_in(codec, data, answers)
        del answers[1:]

    monkeypatch.setattr(DflockCodec, "_take_in", only_the_first)
    with pytest.raises(BrokenError, match="forgotten"):
        check(dialect, list(asks("dflock")), GRANT * 2, [GRANT, GRANT])


def test_a_client_that_believes_what_was_granted_to_others_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    said = b'{"id":1,"answer":"granted","ticket":"%b","key":"another","kind":"lock","mode":"EX","fence":7,' % (
        TICKET.encode()
    ) + b'"token":"%b","lease_ms":30000,"left_ms":30000}\n' % (TOKEN.encode())
    dialect = DIALECTS["native"]
    check(dialect, list(asks("native")), said, [said])
    monkeypatch.setattr(native, "_read_grant", lambda ask, line, text: native.granted(native._GRANT.decode(text)))
    with pytest.raises(BrokenError, match="was answered"):
        check(dialect, list(asks("native")), said, [said])


def test_a_client_that_raises_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.client.dialects.dflock._read", lambda ask, line: line[99])
    with pytest.raises(IndexError) as raised:
        try_dialects(random.Random(0), pieces)
    assert "the server said" in raised.value.__notes__[0]
