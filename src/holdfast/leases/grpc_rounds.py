"""Several calls that are made together, and those among them again that failed: when, how long, and what becomes of it.

Nothing is sent here, and gRPC is not imported: a status comes in as its name.
"""

import random
from collections.abc import Callable
from typing import Any, Final

from holdfast.errors import BadPeer, BadRequest, Forbidden, HoldfastError
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.grpc_calls import Calls
from holdfast.wire.grpc_leases import METHODS
from holdfast.wire.protobuf import BadMessage, decode, encode

# Calls that are under way at a time.
WINDOW: Final = 100
# A try may take half of the time that is left, so that there is always another one.
TRY_SHARE: Final = 2
PAUSE_S_LEAST: Final = 0.05
PAUSE_S_MOST: Final = 1.0

# After these the same may be asked again: the server is not there, or could not do it now.
TRANSIENT: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "RESOURCE_EXHAUSTED", "ABORTED"})

# These say that it was not done, and will not be.
REFUSED: Final[dict[str, type[HoldfastError]]] = {
    "UNAUTHENTICATED": Forbidden,
    "PERMISSION_DENIED": Forbidden,
    "INVALID_ARGUMENT": BadRequest,
    "UNIMPLEMENTED": BadPeer,
}


class Round:
    """The calls of one step of an operation."""

    def __init__(self, calls: Calls, shown: str, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._shown = shown
        self._clock = clock
        self._until = clock() + calls.within_s
        self._pause_s = PAUSE_S_LEAST
        self._has_failed = False
        self._failure = ""  # what was said last about why
        self._reply = METHODS[calls.name].reply
        self._replies: dict[int, Any] = {}

    @property
    def name(self) -> str:
        return self._calls.name

    def next(self) -> list[tuple[int, bytes]]:
        """Give what is to be called now, by numbers; nothing when all is answered."""
        pending = [at for at in range(len(self._calls.requests)) if at not in self._replies]
        return [(at, encode(self._calls.requests[at])) for at in pending[:WINDOW]]

    def try_s(self) -> float:
        """Say how long a try may take that begins now."""
        left_s = self._until - self._clock()
        return max(left_s / TRY_SHARE if self._calls.again else left_s, 0.001)

    def took(self, at: int, data: bytes) -> None:
        """Take an answer."""
        try:
            self._replies[at] = decode(self._reply, data)
        except BadMessage as error:
            raise BadPeer(f"{self._shown}: an answer cannot be read: {error.detail}") from error

    def failed(self, status: str, detail: str) -> None:
        """Take a failure; raises where trying again would be of no use."""
        sentence = f"{self._shown}: {detail or status}"
        if status in REFUSED:
            raise REFUSED[status](sentence)
        if status not in TRANSIENT or not self._calls.again:
            raise DatabaseUnavailable(f"{sentence} ({status})")
        self._has_failed = True
        if status != "DEADLINE_EXCEEDED" or not self._failure:  # that time was up says less than what came before
            self._failure = f"{sentence} ({status})"

    def pause_s(self) -> float:
        """Say how long to wait before the next try; raises DatabaseUnavailable when no time is left for one."""
        if not self._has_failed:
            return 0.0
        self._has_failed = False
        pause_s = self._pause_s * random.uniform(0.5, 1.0)
        self._pause_s = min(self._pause_s * 2, PAUSE_S_MOST)
        if self._clock() + pause_s >= self._until:
            raise DatabaseUnavailable(self._failure)
        return pause_s

    def replies(self) -> list[Any]:
        """Give all answers, in the order of the requests."""
        return [self._replies[at] for at in range(len(self._calls.requests))]
