"""What a caller of the load does, whichever door it calls at; and the one connection that it keeps.

How a request is spelled is said by the callers of each door; what they do with a lock is the run's business.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

# How long a caller waits for an answer; also long enough for a store that waits for another process.
ANSWER_S_MAX = 10.0
ANSWER_BYTES_MAX = 65_536

T = TypeVar("T")


class BadAnswer(Exception):
    """The server answered something that no caller can act upon."""


# What goes wrong between a caller and its server: the connection, the answer, or the patience with it.
TROUBLES = (OSError, EOFError, TimeoutError, BadAnswer)


@dataclass(frozen=True, slots=True)
class Grant:
    """The lock is ours: the token, and what has to be shown to give it back."""

    token: int
    proof: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """The lock is not ours; perhaps with a hint when to ask again."""

    wait_ns: int | None = None
    store_busy: bool = False


class Caller(ABC):
    """One caller, with a connection that it opens when it needs one."""

    def __init__(self, host: str, port: int, owner: str) -> None:
        self.host = host
        self.port = port
        self.owner = owner
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @abstractmethod
    async def acquire(self, lock: str, ttl_ns: int) -> Grant | Refusal:
        """Ask for a lock once."""

    @abstractmethod
    async def release(self, lock: str, grant: Grant) -> bool:
        """Give a lock back; say whether it was still ours."""

    def close(self) -> None:
        """Hang up. The next request opens a new connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def ask(self, request: bytes, read: Callable[[asyncio.StreamReader], Awaitable[T]]) -> T:
        """Send one request and read its answer; after any trouble the connection is of no use."""
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                if self._streams is None:
                    self._streams = await asyncio.open_connection(self.host, self.port, limit=ANSWER_BYTES_MAX)
                reader, writer = self._streams
                writer.write(request)
                return await read(reader)
        except asyncio.LimitOverrunError as error:
            self.close()
            raise BadAnswer(f"an answer of more than {ANSWER_BYTES_MAX} bytes") from error
        except TROUBLES:
            self.close()
            raise
