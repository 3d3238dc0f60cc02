"""What happened in one run of the simulator, in order: what was sent, what was answered, and when.

Facts only, seen from outside the server; what they should have been is the business of `checkers/`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What this server was told to do: the settings that its behaviour can be judged by."""

    release_on_disconnect: bool = True
    keys_max: int = 1_000_000
    waiters_max: int = 0
    idle_max_ns: int = 60_000_000_000
    lease_default_ns: int = 33_000_000_000
    read_timeout_ns: int = 23_000_000_000
    idle_timeout: bool = False
    write_timeout_ns: int = 5_000_000_000
    pending_bytes_max: int = 65_536
    auth_token: bytes | None = None
    fence_file: bool = False
    store: str = "memory"  # or "sqlite"
    batch_max: int = 1_000

    @property
    def durable(self) -> bool:
        """Say whether what is held outlives the server, and answers come only after a transaction."""
        return self.store == "sqlite"


# What the desk hands to a store of transactions, or what such a store does by itself: whose it is, and its kind, which
# is "request", "hangup", "cancel", "tick", "sweep" or "other".
Work = tuple[int, str]


@dataclass(slots=True)
class Event:
    """Something that happened. One step is one call into the server; time stands still within it."""

    step: int
    at: int


@dataclass(slots=True)
class Started(Event):
    """A server began to serve: with nothing held, unless what is held outlives it."""

    rules: Rules
    clock: int = 0  # what the machine's own clock shows


@dataclass(slots=True)
class Stopped(Event):
    """The server is gone, with all connections."""

    how: str


@dataclass(slots=True)
class Connected(Event):
    """A caller reached the server; every connection is another peer."""

    peer: int


@dataclass(slots=True)
class Came(Event):
    """Bytes of a peer arrived at the server."""

    peer: int
    data: bytes


@dataclass(slots=True)
class CameEnd(Event):
    """A peer has finished sending."""

    peer: int


@dataclass(slots=True)
class Taken(Event):
    """The server took up a request."""

    peer: int
    command: bytes
    key: bytes
    arg: bytes


@dataclass(slots=True)
class Wrote(Event):
    """The server wrote to a peer."""

    peer: int
    data: bytes


@dataclass(slots=True)
class Stalled(Event):
    """A peer does not read: what was written to it last has not left."""

    peer: int


@dataclass(slots=True)
class Flowed(Event):
    """A peer reads again, and everything has left."""

    peer: int


@dataclass(slots=True)
class Cut(Event):
    """The server ended a connection."""

    peer: int
    how: str  # "close" lets the last bytes leave, "abort" does not


@dataclass(slots=True)
class Torn(Event):
    """A connection broke; what the server writes goes nowhere, and it has not been told yet."""

    peer: int


@dataclass(slots=True)
class HungUp(Event):
    """The server gave up a connection's session, and with it what waits there."""

    peer: int


@dataclass(slots=True)
class Lost(Event):
    """The server was told that a connection is over."""

    peer: int


@dataclass(slots=True)
class Minted(Event):
    """A grant got its fence; `last` was the last one of its key."""

    last: int
    fence: int


@dataclass(slots=True)
class Refused(Event):
    """A grant could get no fence."""

    last: int


@dataclass(slots=True)
class Ticked(Event):
    """The server did its timed work."""


@dataclass(slots=True)
class Swept(Event):
    """The server did a piece of housekeeping: on first phases that expired, or on idle keys."""

    what: str  # "phases" or "keys"


@dataclass(slots=True)
class Slept(Event):
    """From now until then the server could do nothing at all."""

    until: int


@dataclass(slots=True)
class Drained(Event):
    """The server was told to finish."""


@dataclass(slots=True)
class Cleared(Event):
    """The server was told to cut whoever is still there."""


@dataclass(slots=True)
class Handed(Event):
    """The desk handed something to a store of transactions: a request of this peer, or news of its end."""

    peer: int
    what: str


@dataclass(slots=True)
class Occupied(Event):
    """The store has something to do."""


@dataclass(slots=True)
class Freed(Event):
    """The store has nothing to do any more."""


@dataclass(slots=True)
class Performing(Event):
    """The store turned to these works, all at once."""

    works: tuple[Work, ...]


@dataclass(slots=True)
class Began(Event):
    """A transaction began in the file, and nobody else can write."""


@dataclass(slots=True)
class Applied(Event):
    """A piece of work was taken up in the transaction that runs."""

    peer: int
    what: str


@dataclass(slots=True)
class Committed(Event):
    """What the transaction wrote is in the file, and no power cut takes it out."""


@dataclass(slots=True)
class Failed(Event):
    """The file refused; the transaction that runs comes to nothing."""

    how: str
    written: bool = False  # all of it is in the file, but it could not be synced


@dataclass(slots=True)
class Resurfaced(Event):
    """What a commit had written that failed is in the file after all, as the next server will see."""


@dataclass(slots=True)
class Told(Event):
    """What the last transaction came to reached those who wait for it."""


@dataclass(slots=True)
class Inspected(Event):
    """What the server still kept when everybody had left, by name."""

    left: dict[str, int]


@dataclass(slots=True)
class Raised(Event):
    """The server raised where it must not, or one of its invariants did not hold."""

    what: str


@dataclass(slots=True)
class Noted(Event):
    """Something that only a reader of the trace wants to know."""

    text: str


class History:
    """The events of one run, and the clock they are stamped with."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.events: list[Event] = []
        self.step = 0
        self.now = 0

    def add(self, event: Callable[Concatenate[int, int, P], Event], *args: P.args, **kwargs: P.kwargs) -> None:
        """Write down that something happened now."""
        self.events.append(event(self.step, self.now, *args, **kwargs))
