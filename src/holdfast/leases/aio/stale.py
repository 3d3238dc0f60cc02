"""What dead processes of this machine have left in the table, and who has what now; for asyncio.

Which rows those are is decided in `holdfast/leases/stale.py`.
"""

from typing import Any

from holdfast.leases.aio.refresher import backend_of
from holdfast.leases.sharing import named
from holdfast.leases.stale import held_among, stale_among


async def clear_stale_locks(backend: Any = None) -> int:
    """End what dead processes of this machine have left, as is good to do at a start; say how many there were."""
    opened = backend_of(named(backend))
    stale = stale_among(await opened.list())
    count: int = await opened.clear(stale) if stale else 0
    return count


async def get_existing_locks(backend: Any = None) -> dict[str, dict[str, Any]]:
    """Say who has which lock: the holder for each key that is held. What has lapsed is held by nobody."""
    return held_among(await backend_of(named(backend)).list())
