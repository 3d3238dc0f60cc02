"""Cluster locks for asyncio: the same as `holdfast.leases`, with `await`.

Only what awaits may live here: leases, polling and who is refreshed when are decided in `holdfast.leases`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.leases.aio.cluster_lock import ClusterLock as ClusterLock
    from holdfast.leases.aio.stale import clear_stale_locks as clear_stale_locks
    from holdfast.leases.aio.stale import get_existing_locks as get_existing_locks

# Where each public name lives.
_PLACE_OF = {
    "ClusterLock": "holdfast.leases.aio.cluster_lock",
    "clear_stale_locks": "holdfast.leases.aio.stale",
    "get_existing_locks": "holdfast.leases.aio.stale",
}


def __getattr__(name: str) -> Any:
    place = _PLACE_OF.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(place), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACE_OF])
