"""The client for threads, most of it made from `holdfast.aio` by `tools/faces.py`; `holdfast` itself has its names.

Only what blocks may live here: leases, retries and protocols are in `holdfast.client`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# Where each public name lives; it is loaded when somebody asks for it.
_PLACES = {
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
