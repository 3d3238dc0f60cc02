"""Holdfast: one lock service for everything that must not happen twice at once.

Nothing heavy is imported here, so that `import holdfast` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.client.lease import State as State
    from holdfast.client.lock_api import NotAcquired as NotAcquired
    from holdfast.client.lock_api import ReleaseResult as ReleaseResult
    from holdfast.client.lock_api import UnexpectedStatus as UnexpectedStatus
    from holdfast.client.retry import RetryPolicy as RetryPolicy
    from holdfast.errors import BadPeer as BadPeer
    from holdfast.errors import BadRequest as BadRequest
    from holdfast.errors import Busy as Busy
    from holdfast.errors import Closed as Closed
    from holdfast.errors import Forbidden as Forbidden
    from holdfast.errors import HoldfastError as HoldfastError
    from holdfast.errors import LeaseLost as LeaseLost
    from holdfast.errors import LimitMismatch as LimitMismatch
    from holdfast.errors import NotHeld as NotHeld
    from holdfast.errors import Refused as Refused
    from holdfast.errors import StoreBusy as StoreBusy
    from holdfast.errors import TimedOut as TimedOut
    from holdfast.errors import TooMany as TooMany
    from holdfast.errors import Unavailable as Unavailable
    from holdfast.errors import Unknown as Unknown
    from holdfast.errors import WouldDeadlock as WouldDeadlock
    from holdfast.sync.client import Client as Client
    from holdfast.sync.client import connect as connect
    from holdfast.sync.decorators import locked as locked
    from holdfast.sync.decorators import once as once
    from holdfast.sync.election import Election as Election
    from holdfast.sync.group import Group as Group
    from holdfast.sync.group import HeldGroup as HeldGroup
    from holdfast.sync.held import Held as Held
    from holdfast.sync.lock_client import LockClient as LockClient
    from holdfast.sync.locks import Lock as Lock
    from holdfast.sync.locks import Place as Place
    from holdfast.sync.locks import RWLock as RWLock
    from holdfast.sync.locks import Semaphore as Semaphore
    from holdfast.sync.wishes import Wishes as Wishes

__version__ = "0.1.0"

# Where each public name lives; it is loaded when somebody asks for it.
_PLACES = {
    "holdfast.client.lease": ("State",),
    "holdfast.client.lock_api": ("NotAcquired", "ReleaseResult", "UnexpectedStatus"),
    "holdfast.client.retry": ("RetryPolicy",),
    "holdfast.errors": (
        "BadPeer",
        "BadRequest",
        "Busy",
        "Closed",
        "Forbidden",
        "HoldfastError",
        "LeaseLost",
        "LimitMismatch",
        "NotHeld",
        "Refused",
        "StoreBusy",
        "TimedOut",
        "TooMany",
        "Unavailable",
        "Unknown",
        "WouldDeadlock",
    ),
    "holdfast.sync.client": ("Client", "connect"),
    "holdfast.sync.decorators": ("locked", "once"),
    "holdfast.sync.election": ("Election",),
    "holdfast.sync.group": ("Group", "HeldGroup"),
    "holdfast.sync.held": ("Held",),
    "holdfast.sync.lock_client": ("LockClient",),
    "holdfast.sync.locks": ("Lock", "Place", "RWLock", "Semaphore"),
    "holdfast.sync.wishes": ("Wishes",),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    place = _PLACE_OF.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(place), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACE_OF])
