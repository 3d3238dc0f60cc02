# Made from aio/lock_lease.py by tools/faces.py: change that one, and run `python -m tools.faces`.

"""A lease over HTTP in the hands of its holder: its token, what is known about it, and the block that it lasts for.

Nothing is sent here: `lock_calls.py` asks the server.
"""

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from holdfast.client.lease import Lease as Term
from holdfast.client.lease import State
from holdfast.client.lock_api import NOT_OWNER, Grant, ReleaseResult, Seconds
from holdfast.client.retry import RetryPolicy
from holdfast.errors import BadRequest, HoldfastError, LeaseLost
from holdfast.sync.lock_heartbeat import Heartbeat
from holdfast.sync.lock_tools import SECOND

logger = logging.getLogger("holdfast.client")


class Server(Protocol):
    """What a lease needs of the client that it came from."""

    def renew(self, lease: "Lease", extend_by: Seconds | None = None) -> None: ...

    def release(self, lease: "Lease") -> ReleaseResult: ...

    def release_surely(self, lease: "Lease") -> tuple[ReleaseResult, bool]: ...

    def heartbeat(
        self,
        lease: "Lease",
        interval: Seconds | None = None,
        extend_by: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
    ) -> Heartbeat: ...


class Lease:
    """A lease and its fencing token. What it says about itself, it computes from the clock on every read."""

    def __init__(self, server: Server, grant: Grant, term: Term) -> None:
        self._server = server
        self.grant = grant
        self.term = term
        self.lease_expiry_ms = grant.lease_expiry_ms  # by the clock of the server; follows renewals

    def __repr__(self) -> str:
        return f"<Lease {self.lock_name!r} fencing_token={self.fencing_token} {self.term.state().value}>"

    def __int__(self) -> int:
        return self.grant.fencing_token

    __index__ = __int__

    @property
    def lock_name(self) -> str:
        return self.grant.lock_name

    @property
    def owner_id(self) -> str:
        return self.grant.owner_id

    @property
    def lease_id(self) -> str:
        return self.grant.lease_id

    @property
    def fencing_token(self) -> int:
        """Higher than that of every lease of this lock before. Send it along with every write."""
        return self.grant.fencing_token

    def FencingTokenValue(self) -> int:  # noqa: N802  as in the Go client
        return self.fencing_token

    FencingToken = FencingTokenValue

    @property
    def ttl(self) -> float:
        return self.grant.ttl_ms / 1000

    @property
    def held(self) -> bool:
        """Whether nobody else can have the lock yet, as far as can be known without asking."""
        return self.term.held

    @property
    def lost(self) -> bool:
        """Whether the lease ended without having been released."""
        return self.term.state() is State.LOST

    @property
    def remaining(self) -> float:
        """For how many seconds it is held if nothing is renewed; 0 when it is over."""
        return self.term.remaining_ns / SECOND

    def check(self) -> None:
        """Raise `LeaseLost` unless the lease is held. No input or output."""
        if not self.term.held:
            raise LeaseLost(self.term.reason or f"the lease of {self.lock_name!r} has been released")

    def renew(self, extend_by: Seconds | None = None) -> None:
        """Ask for that much time from now, or for `ttl`; raise `LeaseLost` if the server says that it is over."""
        self._server.renew(self, extend_by)

    def release(self) -> ReleaseResult:
        """Give the lease back. Safe to call at any time, and more than once."""
        return self._server.release(self)

    def heartbeat(
        self,
        interval: Seconds | None = None,
        extend_by: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
    ) -> Heartbeat:
        """Renew every `interval` (a third of `extend_by`), for `extend_by` (`ttl`) each time, until it is stopped."""
        return self._server.heartbeat(self, interval, extend_by, on_lost)


class Acquire(Protocol):
    """Takes a lease."""

    def __call__(
        self, name: str, *, ttl: Seconds, owner: str | None, retry: RetryPolicy | None, wait: Seconds
    ) -> Lease: ...


class Holding:
    """A block for which a lock is held: acquire, heartbeat, release. Leaving it raises `LeaseLost` if it was lost.

    An exception of the block itself is never hidden.
    """

    def __init__(
        self,
        server: Server,
        acquire: Acquire,
        name: str,
        *,
        ttl: Seconds,
        owner: str | None,
        retry: RetryPolicy | None,
        wait: Seconds,
        interval: Seconds | None,
        extend_by: Seconds | None,
        on_lost: Callable[[], object] | None,
    ) -> None:
        self._server = server
        self._acquire = acquire
        self._name = name
        self._ttl = ttl
        self._owner = owner
        self._retry = retry
        self._wait = wait
        self._interval = interval
        self._extend_by = extend_by
        self._on_lost = on_lost
        self._held: tuple[Lease, Heartbeat] | None = None

    def __enter__(self) -> Lease:
        if self._held is not None:
            raise BadRequest(f"the block for {self._name!r} has been entered already; make one for each of its users")
        lease = self._acquire(self._name, ttl=self._ttl, owner=self._owner, retry=self._retry, wait=self._wait)
        try:
            heartbeat = lease.heartbeat(self._interval, self._extend_by, self._on_lost)
        except BaseException:
            lease.release()
            raise
        self._held = lease, heartbeat
        return lease

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._held is not None
        (lease, heartbeat), self._held = self._held, None
        heartbeat.stop()
        if lease.term.state() is State.RELEASED:
            return
        lost = lease.lost
        reason = lease.term.reason
        try:
            result, surely = self._server.release_surely(lease)
        except HoldfastError as trouble:
            # The work is done, and the lease ends by itself.
            logger.warning("the lease of %r could not be released: %s", lease.lock_name, trouble)
        else:
            if surely and result.reason == NOT_OWNER and not lost:
                lost, reason = True, "the server says NOT_OWNER"
        if lost and error is None:
            raise LeaseLost(f"the lease of {lease.lock_name!r} was lost: {reason}")
