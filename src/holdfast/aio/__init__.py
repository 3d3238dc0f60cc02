"""The client for asyncio, written by hand; the blocking client is made from it.

Only what awaits may live here: leases, retries and protocols are in `holdfast.client`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.aio.client import Client as Client
    from holdfast.aio.client import connect as connect
    from holdfast.aio.decorators import locked as locked
    from holdfast.aio.decorators import once as once
    from holdfast.aio.election import Election as Election
    from holdfast.aio.group import Group as Group
    from holdfast.aio.group import HeldGroup as HeldGroup
    from holdfast.aio.held import Held as Held
    from holdfast.aio.lock_client import LockClient as LockClient
    from holdfast.aio.locks import Lock as Lock
    from holdfast.aio.locks import Place as Place
    from holdfast.aio.locks import RWLock as RWLock
    from holdfast.aio.locks import Semaphore as Semaphore
    from holdfast.aio.wishes import Wishes as Wishes

# Where each public name lives; it is loaded when somebody asks for it.
_PLACES = {
    "holdfast.aio.client": ("Client", "connect"),
    "holdfast.aio.decorators": ("locked", "once"),
    "holdfast.aio.election": ("Election",),
    "holdfast.aio.group": ("Group", "HeldGroup"),
    "holdfast.aio.held": ("Held",),
    "holdfast.aio.lock_client": ("LockClient",),
    "holdfast.aio.locks": ("Lock", "Place", "RWLock", "Semaphore"),
    "holdfast.aio.wishes": ("Wishes",),
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
