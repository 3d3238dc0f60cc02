"""What all operations of a client have in common: what is asked again when no answer came, and for how long.

No input or output, and nothing about any one request: those are in `core.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from holdfast.client.asks import Answer, Ask, Proof, Refusal, Want
from holdfast.client.retry import Attempts, RetryPolicy
from holdfast.errors import BadPeer, Closed, HoldfastError, Unavailable, Unknown

# Trouble that is worth another try: nothing is wrong with the request.
PASSING: Final = (Unavailable, Unknown, Closed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a client's operations try again."""

    clock: Callable[[], int]
    chance: Callable[[], float]
    timeout_ns: int  # how long an answer may take, beyond what it has to wait for; and how long trouble is put up with
    trouble: RetryPolicy
    polling: RetryPolicy  # between two refusals of a server that has nobody wait
    slice_ns: int | None = None  # the longest that one request may wait at the server; None: as long as wanted


class Operation(ABC):
    """One thing to be done. `next` gives what to ask, or None to pause until `pause_until`; then what happened to it
    is told to `heard` or `missed`. `heard` answers whether it is done; refusals and lasting trouble are raised."""

    __slots__ = ("_rules", "_trouble_at", "_troubles", "asked_at", "asking", "pause_until", "unsure")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._troubles: Attempts | None = None
        self._trouble_at = 0
        self.asked_at = 0
        self.asking = False  # a request is on its way
        self.unsure = False  # a request may have been heard that was not answered
        self.pause_until = 0

    @abstractmethod
    def next(self, now: int) -> Ask | None:
        """Say what to ask now."""

    @abstractmethod
    def heard(self, answer: Answer, now: int) -> bool:
        """Take in an answer; say whether that was all."""

    def patience_ns(self) -> int | None:
        """Say how long the answer to the last request may take to be decided on; None is for ever."""
        return 0

    def asks(self, now: int) -> None:
        """The request is about to leave."""
        self.asked_at = now
        self.asking = True

    def missed(self, error: HoldfastError, *, began: int, now: int) -> None:
        """No answer came: raise what is to be told, or come back later with the same ticket."""
        self.asking = False
        if isinstance(error, (Unknown, BadPeer)):
            self.unsure = True
            began = now  # it may have waited for a long time before the connection broke
        if not isinstance(error, PASSING):
            raise error
        self._retry(error, now, began=began)

    def leftover(self) -> tuple[Want, Proof | None] | None:
        """Say what may be held, or wait, at the server that nobody will use."""
        return None

    def _retry(self, error: HoldfastError, now: int, *, began: int | None = None, advice_ns: int = 0) -> None:
        if self._troubles is None or now - self._trouble_at > 2 * self._rules.timeout_ns:
            self._troubles = Attempts(self._rules.trouble, now if began is None else began, self._rules.chance)
        self._trouble_at = now
        again = self._troubles.again(now, advice_ns=advice_ns)
        if again is None:
            raise Unknown(str(error)) if self.unsure and not isinstance(error, Unknown) else error
        self.pause_until = again

    def _refused(self, refusal: Refusal, now: int) -> None:
        """Try again where the trouble may pass."""
        if isinstance(refusal.error, Unknown):
            self.unsure = True
        if not isinstance(refusal.error, PASSING):
            raise refusal.error
        self._retry(refusal.error, now, advice_ns=refusal.advice_ns)

    def _strange(self, answer: Answer, what: str) -> BadPeer:
        """Nothing that we know is answered like this, so what became of the request is not known either."""
        self.unsure = True
        return BadPeer(f"the server answered {what} with {type(answer).__name__}")
