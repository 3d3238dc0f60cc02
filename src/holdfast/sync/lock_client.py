# Made from aio/lock_client.py by tools/faces.py: change that one, and run `python -m tools.faces`.

"""A client for LockServer's HTTP API, of our server or of the original, with Python's names and those of the Go client.

How the server is asked is in `lock_calls.py`; here is only what callers see.
"""

from collections.abc import Callable

from holdfast.client.lock_api import ReleaseResult, Seconds
from holdfast.client.retry import RetryPolicy
from holdfast.sync.lock_calls import Calls
from holdfast.sync.lock_heartbeat import Heartbeat
from holdfast.sync.lock_lease import Holding, Lease


class LockClient(Calls):
    """Leases from one server. Anybody may share it; it keeps connections, so close it, or use it as a block.

    `owner` is the name under which it holds locks; without one, it makes one up for itself. `timeout` bounds every
    single request, connecting included. `token` is for servers that want one.
    """

    def lock(
        self,
        name: str,
        *,
        ttl: Seconds,
        owner: str | None = None,
        retry: RetryPolicy | None = None,
        wait: Seconds = 0.0,
        interval: Seconds | None = None,
        extend_by: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
    ) -> Holding:
        """Hold the lock for a block: acquire, heartbeat, release. Raises `LeaseLost` at its end if it was lost."""
        return Holding(
            self,
            self.acquire,
            name,
            ttl=ttl,
            owner=owner,
            retry=retry,
            wait=wait,
            interval=interval,
            extend_by=extend_by,
            on_lost=on_lost,
        )

    # --- as in the Go client of LockServer; what is an error there, is raised here ---

    def AcquireOnce(self, lock: str, owner: str, ttl: Seconds) -> Lease:  # noqa: N802
        return self.try_acquire(lock, ttl=ttl, owner=owner)

    def AcquireWithRetry(  # noqa: N802
        self, lock: str, owner: str, ttl: Seconds, retry: RetryPolicy | None = None
    ) -> Lease:
        return self.acquire(lock, ttl=ttl, owner=owner, retry=retry)

    def RenewOnce(self, lease: Lease, extend_by: Seconds) -> tuple[int, bool, str]:  # noqa: N802
        """Give the new end of the lease in milliseconds, whether it was renewed, and the reason if not."""
        renewal = self.renew_once(lease, extend_by)
        return renewal.lease_expiry_ms, renewal.renewed, renewal.reason

    def StartHeartbeat(  # noqa: N802
        self, lease: Lease, interval: Seconds | None = None, extend_by: Seconds | None = None
    ) -> Heartbeat:
        """Begin to renew; the channel of errors is `errors()` of what this gives."""
        return self.heartbeat(lease, interval, extend_by)

    def ReleaseOnce(self, lease: Lease) -> ReleaseResult:  # noqa: N802
        return self.release(lease)

    Release = ReleaseOnce
