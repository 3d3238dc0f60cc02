"""The client for asyncio, written by hand; the blocking client is generated from it.

Only what awaits may live here: leases, retries and protocols are in `holdfast.client`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.aio.lock_client import LockClient as LockClient

# Where each public name lives; it is loaded when somebody asks for it.
_PLACES = {
    "LockClient": "holdfast.aio.lock_client",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(place), name)
