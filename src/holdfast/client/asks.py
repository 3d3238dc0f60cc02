"""What a client can ask a server and what it may hear, whichever protocol carries it.

Plain data; how it is spelled is in `dialects/`, when it is asked in `core.py`. Durations are nanoseconds.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.errors import HoldfastError

LOCK: Final = "lock"
SEMAPHORE: Final = "semaphore"


def kind_of(limit: int | None) -> str:
    """Say what has so many seats; None is a lock, which has no number of them."""
    return LOCK if limit is None else SEMAPHORE


# --- asked ---


@dataclass(slots=True, frozen=True)
class Member:
    """One key of an atomic group."""

    key: str
    mode: str = "EX"
    limit: int | None = None
    units: int = 1


@dataclass(slots=True, frozen=True, kw_only=True)
class Want:
    """What a caller wants to hold. All of it, and the ticket, stays the same however often it is asked for."""

    key: str
    ticket: str
    lease_ns: int
    mode: str = "EX"
    limit: int | None = None  # of the semaphore; None: it is a lock
    units: int = 1
    nudge: bool = False
    refuse_deadlock: bool = False
    about: dict[str, str] | None = None
    members: tuple[Member, ...] = ()  # of an atomic group; the key is then only what to call it

    @property
    def kind(self) -> str:
        return kind_of(self.limit)


@dataclass(slots=True)
class Acquire:
    """Take it, or wait for it so long; None is for ever."""

    want: Want
    patience_ns: int | None


@dataclass(slots=True)
class Enqueue:
    """Take it, or a place in the queue."""

    want: Want


@dataclass(slots=True)
class Wait:
    """Wait for what was enqueued."""

    want: Want
    patience_ns: int | None


@dataclass(slots=True)
class Convert:
    """Change the mode of what is held."""

    want: Want
    mode: str
    patience_ns: int | None
    value: bytes | None = None


@dataclass(slots=True, frozen=True)
class Proof:
    """What shows that a grant is ours."""

    want: Want
    token: str
    fence: int
    lease_id: str = ""  # of LockServer's leases, as the owner is
    owner: str = ""


@dataclass(slots=True)
class Renew:
    """Begin the leases again, now; each with its length."""

    proofs: list[tuple[Proof, int]]


@dataclass(slots=True)
class End:
    """Give back what is held, or leave the queue; what is gone already is as good as ended."""

    want: Want
    proof: Proof | None  # None: whether it was ever granted is not known
    value: bytes | None = None


@dataclass(slots=True)
class Query:
    """Anything that is no claim: look, explain, watch, break, stats, ping."""

    op: str
    fields: dict[str, Any] = field(default_factory=dict)


Ask = Acquire | Enqueue | Wait | Convert | Renew | End | Query


# --- heard ---


@dataclass(slots=True)
class Granted:
    """It is ours."""

    ticket: str
    key: str
    kind: str
    mode: str
    fence: int
    token: str
    lease_ns: int
    # How much of the lease was left when the server answered; None: the protocol does not say, and the lease may have
    # begun at any time since the first request with this ticket.
    left_ns: int | None = None
    value: bytes | None = None
    value_valid: bool = False
    lease_id: str = ""
    owner: str = ""


@dataclass(slots=True)
class GrantedAll:
    """All members of a group are ours."""

    grants: list[Granted]


@dataclass(slots=True)
class Queued:
    """There is a place in the queue."""


@dataclass(slots=True)
class Renewed:
    """Which leases were begun again: True, or False where there is none any more, or None where it is not known."""

    renewed: list[bool | None]


@dataclass(slots=True)
class Ended:
    """It is over; `was_there` tells whether there was anything to end."""

    was_there: bool


@dataclass(slots=True)
class Seen:
    """The answer to a query."""

    fields: dict[str, Any]


@dataclass(slots=True)
class Refusal:
    """No, and why; `advice_ns` is how long the server would wait before asking again."""

    error: HoldfastError
    advice_ns: int = 0
    ours: bool = False  # held by this very claim, whose grant was never heard


Answer = Granted | GrantedAll | Queued | Renewed | Ended | Seen | Refusal


@dataclass(slots=True)
class News:
    """What the server tells without being asked."""

    event: str
    fields: dict[str, Any]
