"""What every codec of a client's connection is, and how refusals that arrive become our errors.

What a certain protocol looks like is in the modules beside this one.
"""

from abc import ABC, abstractmethod
from typing import Any, Final

from holdfast import errors
from holdfast.client.asks import Answer, Ask, News
from holdfast.errors import HoldfastError, Refused

# Whoever asks gets its answer under this: a future, a slot, a call. A codec only passes it back.
Handle = Any


class Codec(ABC):
    """One connection's requests and answers. `ready` once the greeting is answered; then it may be asked."""

    ready = False

    def __init__(self) -> None:
        self.news: list[News] = []  # what came unasked; whoever reads takes it away

    @abstractmethod
    def greeting(self) -> bytes:
        """Give what is to be sent first; without any, the connection is ready at once."""

    @abstractmethod
    def write(self, ask: Ask, handle: Handle) -> bytes:
        """Spell a request. Raises BadRequest for what this protocol cannot do."""

    @abstractmethod
    def read(self, data: bytes) -> list[tuple[Handle, Answer]]:
        """Take in what has arrived; answer what it answers. Raises what makes the connection useless."""

    def end(self) -> list[tuple[Handle, Answer]]:
        """Take in that the other side has closed; most protocols have nothing left to say then."""
        return []

    @abstractmethod
    def has_room(self) -> bool:
        """Tell whether one more request may be sent now."""

    @property
    @abstractmethod
    def waiting(self) -> list[Handle]:
        """List who has no answer yet."""


def _by_code() -> dict[str, type[HoldfastError]]:
    return {
        kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HoldfastError)
    }


BY_CODE: Final = _by_code()


def error_of(code: str, detail: str) -> HoldfastError:
    """Make the error that a code names; one that this release does not know is a refusal all the same."""
    kind = BY_CODE.get(code)
    return Refused(f"{code}: {detail}") if kind is None else kind(detail)
