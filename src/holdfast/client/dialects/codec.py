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
        self._unheard: list[Handle] = []  # whose answer came along with what made the connection useless

    @abstractmethod
    def greeting(self) -> bytes:
        """Give what is to be sent first; without any, the connection is ready at once."""

    @abstractmethod
    def write(self, ask: Ask, handle: Handle) -> bytes:
        """Spell a request. Raises BadRequest for what this protocol cannot do."""

    def read(self, data: bytes) -> list[tuple[Handle, Answer]]:
        """Take in what has arrived; answer what it answers. Raises what makes the connection useless.

        Whoever asked is either answered or goes on waiting: nobody is forgotten because the other side talks nonsense.
        """
        answers: list[tuple[Handle, Answer]] = []
        try:
            self._take_in(data, answers)
        except HoldfastError:
            self._unheard += [handle for handle, _ in answers]
            raise
        return answers

    @abstractmethod
    def _take_in(self, data: bytes, answers: list[tuple[Handle, Answer]]) -> None:
        """Add what the bytes answer; a request is forgotten when its answer has been read, and not before."""

    def end(self) -> list[tuple[Handle, Answer]]:
        """Take in that the other side has closed; most protocols have nothing left to say then."""
        return []

    @abstractmethod
    def has_room(self) -> bool:
        """Tell whether one more request may be sent now."""

    @property
    def waiting(self) -> list[Handle]:
        """List who has no answer yet."""
        return [*self._unheard, *self._unanswered()]

    @abstractmethod
    def _unanswered(self) -> list[Handle]:
        """List whose answer has not come."""


def _by_code() -> dict[str, type[HoldfastError]]:
    return {
        kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HoldfastError)
    }


BY_CODE: Final = _by_code()


def error_of(code: str, detail: str) -> HoldfastError:
    """Make the error that a code names; one that this release does not know is a refusal all the same."""
    kind = BY_CODE.get(code)
    return Refused(f"{code}: {detail}") if kind is None else kind(detail)
