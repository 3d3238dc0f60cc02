"""The openings through which time, chance and the network reach the client; whoever tests it hands in their own.

Only types live here. The real ones are `clock.py`, `network.py` and `keeper_thread.py`; those of paper are in tests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    import ssl
    from types import TracebackType

    from holdfast.client.keeper import Keeper

# Tells nanoseconds that never step back, and that go on while the machine sleeps.
Clock = Callable[[], int]

# Gives so many random bytes.
Dice = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and how it is to be talked to."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Stream(Protocol):
    """A connection that blocks its caller: what the blocking face reads and writes itself.

    Trouble is an `OSError`. Instants are those of the client's clock.
    """

    def send(self, data: bytes) -> None: ...

    def receive(self, until: int) -> bytes:
        """Wait for bytes; none means that the other side has closed. Raises TimeoutError at `until`."""

    def close(self) -> None:
        """Let go of it at once. It may be closed twice, and from another thread."""


class Pipe(Protocol):
    """A connection that never blocks: what the keeper writes to. What arrives, its `Receiver` hears."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        """Let go of it; its receiver hears nothing more."""


class Receiver(Protocol):
    """Hears what becomes of a connection that never blocks. `now` is the client's clock."""

    def connected(self, now: int) -> None: ...

    def received(self, data: bytes, now: int) -> None: ...

    def broken(self, why: str, now: int) -> None:
        """It could not be made, or it is over; this comes last, and once."""


class Network(Protocol):
    """Makes connections."""

    def dial(self, address: Address, until: int) -> Stream:
        """Connect, TLS and all, and block meanwhile. Raises OSError (TimeoutError at `until`)."""

    async def connect(self, address: Address, protocol: asyncio.Protocol, until: int) -> asyncio.Transport:
        """Connect in the running event loop. Raises OSError (TimeoutError at `until`)."""


class Opener(Protocol):
    """Makes connections that never block, for a keeper."""

    def __call__(self, address: Address, receiver: Receiver) -> Pipe:
        """Begin to connect; the receiver hears how it went, but not before this has returned."""


class Host(Protocol):
    """Keeps a keeper going: a thread does, or whoever turns the hands of the clock."""

    def keeper(self) -> AbstractContextManager[Keeper]:
        """Lend the keeper to one caller at a time. What is due afterwards, the host sees to."""


class Mutex(Protocol):
    """Lets one thread at a time through: a `threading.Lock` is one."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Signal(Protocol):
    """Something a thread can wait for: a `threading.Event` is one."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All that a client takes from outside."""

    clock: Clock
    dice: Dice
    network: Network
    host: Callable[[], Host]  # asked again in the child of a fork, which has a keeper of its own
    # Blocks the calling thread until an instant of the clock; only the blocking face asks for it.
    sleep: Callable[[int], None]
    # Blocks the calling thread until something has come true that the keeper brings about, or until an instant.
    wait: Callable[[Signal, int], bool]
    # Calls a caller's own function, where that delays nobody; only the blocking face asks for it.
    tell: Callable[[Callable[[], object]], None]
    # Begins work in a thread of its own. What comes back waits for its end until an instant, and says whether it came.
    # Only the blocking face asks for it.
    begin: Callable[[Callable[[], object], str], Callable[[int], bool]]
    # Makes a lock that threads may have to wait at for a while. Only the blocking face asks for it.
    lock: Callable[[], Mutex] = threading.Lock
