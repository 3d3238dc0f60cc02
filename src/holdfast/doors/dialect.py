"""How a connection of the line protocol changes to another one: an opening between doors that do not know each other.

Only types live here; who greets and who takes over is told by whoever puts the doors together.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Greeting(ABC):
    """What somebody has said to change to a dialect. `auth`: what it shows to a server that wants a token."""

    def __init__(self, auth: bytes) -> None:
        self.auth = auth

    @abstractmethod
    def refusal(self) -> bytes:
        """Say why the connection stays as it is; nothing, where it may change."""

    @abstractmethod
    def take_over(self, transport: asyncio.Transport, said: bytes, rest: bytes, left: Callable[[], None]) -> None:
        """Go on: `said` has still to be written, `rest` to be read, and `left` to be called at the end."""

    @abstractmethod
    def hear_end(self) -> None:
        """Hear that the peer had said all that it would say, before the connection was taken over."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Dialect(ABC):
    """Another protocol for the same port."""

    @abstractmethod
    def greet(self, text: bytes) -> Greeting:
        """Read what was said."""
