"""The opening through which a connection changes its protocol: what stands behind it has to offer both halves.

Who really takes over is tested with the native door.
"""

import asyncio
from collections.abc import Callable

import pytest

from holdfast.doors.dialect import Dialect, Greeting
from holdfast.testing.line_stage import LineStage


class Parrot(Greeting):
    """Says `mine` to whoever greets it with the right word."""

    def refusal(self) -> bytes:
        return b"" if self.auth == b"please" else b"error say please\n"

    def take_over(self, transport: asyncio.Transport, said: bytes, rest: bytes, left: Callable[[], None]) -> None:
        transport.write(said + b"mine: " + rest)
        self.transport = transport

    def hear_end(self) -> None:
        self.transport.write(b"bye\n")


class Cage(Dialect):
    def greet(self, text: bytes) -> Parrot:
        return Parrot(text)


@pytest.mark.parametrize("opening", [Dialect, Greeting])
def test_half_a_dialect_is_none(opening: type) -> None:
    with pytest.raises(TypeError):
        opening()


def test_what_was_said_and_heard_so_far_goes_along() -> None:
    stage = LineStage()
    stage.door.dialect = Cage()
    caller = stage.caller()
    caller.send(b"ping\n_\n_\nhello\n_\nplease\nand now\n")
    assert caller.transport.take() == b"ok\nmine: and now\n"


def test_an_end_that_was_heard_before_is_told_along() -> None:
    stage = LineStage(late=True)
    stage.door.dialect = Cage()
    caller = stage.caller()
    caller.send(b"l\njob\n0 30\nhello\n_\nplease\nand now\n")
    caller.hang_up()
    stage.commit()
    granted, *rest = caller.transport.take().splitlines()
    assert granted.startswith(b"ok ")
    assert rest == [b"mine: and now", b"bye"]


def test_a_refused_greeting_leaves_the_connection_as_it_is() -> None:
    stage = LineStage()
    stage.door.dialect = Cage()
    caller = stage.caller()
    assert caller.ask("hello", "_", "now") == "error say please"
    assert caller.ask("ping") == "ok"


def test_without_a_dialect_hello_is_no_command() -> None:
    assert LineStage().caller().ask("hello", "_", "please") == "error"
