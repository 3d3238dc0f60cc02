"""Cluster locks as leases in a database that you run already: no lock server is needed.

The names that users need are here and are loaded when somebody asks for one; the same for asyncio is in `leases.aio`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.leases.cluster_lock import ClusterLock as ClusterLock
    from holdfast.leases.errors import AlreadyHeld as AlreadyHeld
    from holdfast.leases.errors import BadKey as BadKey
    from holdfast.leases.errors import BadTable as BadTable
    from holdfast.leases.errors import DatabaseUnavailable as DatabaseUnavailable
    from holdfast.leases.errors import LockException as LockException
    from holdfast.leases.errors import LockLost as LockLost
    from holdfast.leases.errors import LockNotHeld as LockNotHeld
    from holdfast.leases.stale import clear_stale_locks as clear_stale_locks
    from holdfast.leases.stale import get_existing_locks as get_existing_locks
    from holdfast.leases.words import LEASE_SECONDS as LEASE_SECONDS
    from holdfast.leases.words import REFRESH_INTERVAL as REFRESH_INTERVAL
    from holdfast.leases.words import REFRESH_RETRY as REFRESH_RETRY

# Where each public name lives.
_PLACES = {
    "holdfast.leases.cluster_lock": ("ClusterLock",),
    "holdfast.leases.errors": (
        "AlreadyHeld",
        "BadKey",
        "BadTable",
        "DatabaseUnavailable",
        "LockException",
        "LockLost",
        "LockNotHeld",
    ),
    "holdfast.leases.stale": ("clear_stale_locks", "get_existing_locks"),
    "holdfast.leases.words": ("LEASE_SECONDS", "REFRESH_INTERVAL", "REFRESH_RETRY"),
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
