"""The vocabulary of leases in a database: how a key is spelled, what is asked for one, what a backend answers.

Nothing here talks to a database. How a holder judges its lease is in `client/lease.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from holdfast.leases.errors import BadKey

# How long a lease lasts that nobody refreshes, how often its holder refreshes it, and how soon it tries again after a
# refresh that failed.
LEASE_SECONDS: Final = 60
REFRESH_INTERVAL: Final = LEASE_SECONDS // 3
REFRESH_RETRY: Final = 2

SECOND_US: Final = 1_000_000

KEY_BYTES_MAX: Final = 1024
# All that is said of a holder, as JSON.
HOLDER_BYTES_MAX: Final = 4096


def key_of(objecttype: str, subtype: str | None = None, name: str | None = None) -> bytes:
    """Spell the key of a lock: `type/subtype/name`, where what is not given leaves out its part.

    With neither, the key is `type/`; with a subtype alone, `type/subtype/`; with a name alone, `type/name`.
    """
    if not objecttype:
        raise BadKey("a lock needs a type")
    spelled = f"{objecttype}/{subtype}/" if subtype else f"{objecttype}/"
    key = (spelled + (name or "")).encode("utf-8", "strict")
    if len(key) > KEY_BYTES_MAX:
        raise BadKey(f"the key of a lock has at most {KEY_BYTES_MAX} bytes in UTF-8, not {len(key)}")
    if b"\0" in key:
        raise BadKey("the key of a lock has no byte 0")
    return key


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One try to get a lock."""

    key: bytes
    lock_id: str  # made anew for each acquisition: what proves that the row is ours
    holder: Mapping[str, Any]  # what others may read of us
    node: str
    pid: int
    process: str  # which process this is, beyond doubt; see `identity.py`
    lease_us: int
    again: bool = False  # it was taken a moment ago: worth a look before the row is locked


@dataclass(frozen=True, slots=True)
class Got:
    """It is ours, under this fence; the lease began no earlier than the question left."""

    fence: int


@dataclass(frozen=True, slots=True)
class Taken:
    """Somebody else has it."""

    holder: Mapping[str, Any]
    left_us: int  # of its lease, as far as is known; a holder that refreshes will have it for longer


@dataclass(frozen=True, slots=True)
class Hold:
    """What shows that a row is ours."""

    key: bytes
    lock_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What the table says of one lock that somebody has, or whose holder has let it lapse."""

    key: bytes
    holder: Mapping[str, Any]
    node: str
    pid: int
    process: str
    lock_id: str
    fence: int
    age_us: int  # since it was acquired
    left_us: int  # of its lease; 0 or less: it has lapsed, and anybody may take it

    @property
    def lapsed(self) -> bool:
        return self.left_us <= 0


class Backend(Protocol):
    """Where leases are kept. Every call asks the server, whose clock alone decides what has lapsed.

    A call raises DatabaseUnavailable when the server could not be asked, or may or may not have done what it was asked
    for; asking again is harmless, since a lock id is never used for two acquisitions. Any other error is a mistake of
    ours or of the table, and never means that a lock is lost.
    """

    def acquire(self, ask: Ask) -> Got | Taken:
        """Take a lock that nobody has, or whose lease has lapsed. Asking again with the same lock id is harmless."""

    def refresh(self, holds: Sequence[Hold], lease_us: int) -> list[bool]:
        """Begin leases again, now; False for each row that is not ours any more."""

    def release(self, holds: Sequence[Hold]) -> list[bool]:
        """Give locks back; False for each row that is not ours any more."""

    def list(self) -> Sequence[Row]:
        """Show what is held, and what has lapsed, in the order of the keys."""

    def look(self, key: bytes) -> Row | None:
        """Show one lock as `list` does; None if it is free."""

    def clear(self, holds: Sequence[Hold]) -> int:
        """Take locks away, such as those that dead processes have left; a row that has changed hands since stays.

        Say how many there were. Whoever had one is told by its next refresh or release that it is not its own.
        """

    def now(self) -> int:
        """Tell the time by the server's clock, in microseconds since 1970."""

    def wait(self, key: bytes, seconds: float) -> None:
        """Wait until the lock may have become free, and no longer than that."""

    def close(self) -> None:
        """Let go of all connections."""


class AsyncBackend(Protocol):
    """The same for asyncio."""

    async def acquire(self, ask: Ask) -> Got | Taken: ...

    async def refresh(self, holds: Sequence[Hold], lease_us: int) -> list[bool]: ...

    async def release(self, holds: Sequence[Hold]) -> list[bool]: ...

    async def list(self) -> Sequence[Row]: ...

    async def look(self, key: bytes) -> Row | None: ...

    async def clear(self, holds: Sequence[Hold]) -> int: ...

    async def now(self) -> int: ...

    async def wait(self, key: bytes, seconds: float) -> None: ...

    async def close(self) -> None: ...
