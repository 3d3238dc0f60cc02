"""The calls of LockServer's HTTP API, with the retries that each of them bears.

Bodies and reasons are in `client/lock_api.py`, what a failed try means in `client/lock_tries.py`.
"""

import os
import random
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from holdfast.aio.lock_heartbeat import Heartbeat
from holdfast.aio.lock_lease import Lease
from holdfast.aio.lock_pool import Hand, Pool
from holdfast.aio.lock_tools import SECOND, sleep_until
from holdfast.client.clock import now_ns
from holdfast.client.lease import MILLISECOND
from holdfast.client.lease import Lease as Term
from holdfast.client.lock_api import (
    BUSY_RETRY,
    NOT_OWNER,
    NOT_OWNER_OR_EXPIRED,
    Grant,
    LockApi,
    NotAcquired,
    ReleaseResult,
    Renewal,
    Seconds,
    base_of,
    ms_of,
    owner_of,
    path_of,
    read_acquire,
    read_look,
    read_release,
    read_renew,
    seconds_of,
)
from holdfast.client.lock_beat import Beat
from holdfast.client.lock_tries import Tries
from holdfast.client.ports import Address
from holdfast.client.retry import Attempts, RetryPolicy
from holdfast.errors import BadRequest, HoldfastError, Retry, Unavailable

TIMEOUT_S_MAX = 3600.0
WAIT_S_MAX = 60.0
# How a release is tried again, within the time of one request; after that, the lease ends by itself.
_RELEASE = RetryPolicy(max_retries=20, max_delay=0.5)
_ONCE = RetryPolicy(max_retries=0)
_OVER = Renewal(reason=NOT_OWNER_OR_EXPIRED)


class Calls:
    """What a server can be asked. Connections are kept for the next request, and may be used from anywhere."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout: Seconds = 10.0,
        token: str | None = None,
        owner: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        base = base_of(base_url)
        if tls is not None and not base.tls:
            raise BadRequest("TLS settings were given for a URL that begins with http://")
        seconds = seconds_of("timeout", timeout)
        if not 0 < seconds <= TIMEOUT_S_MAX:
            raise BadRequest(f"timeout is more than 0 and at most {TIMEOUT_S_MAX:g} seconds, not {seconds:g}")
        self.owner = owner_of(owner if owner is not None else f"{socket.gethostname()}:{os.getpid()}:{_dice(4).hex()}")
        self._timeout_ns = int(seconds * SECOND)
        self._release_policy = replace(_RELEASE, max_total_wait=seconds)
        self._api = LockApi(base, token)
        context = (tls or ssl.create_default_context()) if base.tls else None
        self._pool = Pool(Address(base.host, base.port, context))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what is kept. Leases stay until they are released or end."""
        self._pool.close()

    # --- acquire ---

    async def try_acquire(self, name: str, *, ttl: Seconds, owner: str | None = None) -> Lease:
        """Take the lock now, or raise `NotAcquired`."""
        return await self.acquire(name, ttl=ttl, owner=owner, retry=_ONCE)

    async def acquire(
        self,
        name: str,
        *,
        ttl: Seconds,
        owner: str | None = None,
        retry: RetryPolicy | None = None,
        wait: Seconds = 0.0,
    ) -> Lease:
        """Take the lock, and try again as `retry` says; in the end raise the last `NotAcquired`, or what went wrong.

        With `wait`, each try stands in the server's queue for up to so many seconds. The original has no queue, and
        answers at once.
        """
        ttl_ms = ms_of("ttl", ttl)
        owner = owner_of(owner if owner is not None else self.owner)
        wait_s = seconds_of("wait", wait)
        if not 0 <= wait_s <= WAIT_S_MAX:
            raise BadRequest(f"wait is from 0 to {WAIT_S_MAX:g} seconds, not {wait_s:g}")
        path_of(name)
        tries = Tries(retry if retry is not None else RetryPolicy(), now_ns(), random.random, _dice)
        while True:
            now = now_ns()
            tries.begin(now)
            until = tries.until(now, self._timeout_ns + int(wait_s * SECOND))
            # The server is to answer a little before the bound, so that its answer is heard.
            wait_ms = int(min(wait_s, (until - now) / SECOND * 0.9) * 1000)
            try:
                ask = self._api.acquire(name, owner, ttl_ms, tries.key, wait_ms)
                grant = read_acquire(ask, await self._pool.exchange(ask, until), name, owner, ttl_ms)
                return await self._taken(tries, grant, until)
            except HoldfastError as error:
                again_at = tries.failed(error, now_ns())
            await sleep_until(again_at)

    async def _taken(self, tries: Tries, grant: Grant, until: int) -> Lease:
        """Make a lease of a grant; if it may be an old one, have it renewed first, so as to know when it ends."""
        lease_ns = grant.ttl_ms * MILLISECOND
        term = Term(now_ns, sent_at=tries.sent_at, lease_ns=lease_ns)
        sent_at = now_ns()
        if not tries.in_doubt and sent_at - tries.sent_at < lease_ns // 4:
            return Lease(self, grant, term)
        try:
            renewal = await self._renew(grant, grant.ttl_ms, until)
        except HoldfastError:
            if term.held:
                return Lease(self, grant, term)
            raise
        if renewal.renewed:
            lease = Lease(self, grant, Term(now_ns, sent_at=sent_at, lease_ns=lease_ns))
            lease.lease_expiry_ms = renewal.lease_expiry_ms
            return lease
        if renewal.reason != BUSY_RETRY:
            tries.lapsed()
        elif term.held:
            return Lease(self, grant, term)
        raise NotAcquired(grant.lock_name, renewal.reason)

    # --- renew ---

    async def renew(self, lease: Lease, extend_by: Seconds | None = None) -> None:
        """Ask for that much time from now, or for as much as at first.

        Raises `LeaseLost` if the lease is over, and `Unavailable` or `Unknown` if the server could not be asked.
        """
        lease.check()
        renewal = await self.renew_once(lease, extend_by)
        if renewal.reason == BUSY_RETRY:
            raise Unavailable("the store of the server is busy, and the lease was not renewed")
        lease.check()

    async def renew_once(self, lease: Lease, extend_by: Seconds | None = None) -> Renewal:
        """Ask once, and say what the server said; what is over by the clock of this side stays over."""
        extend_ms = lease.grant.ttl_ms if extend_by is None else ms_of("extend_by", extend_by)
        if not lease.term.held:
            return _OVER
        sent_at = now_ns()
        lease.term.asks(sent_at=sent_at, lease_ns=extend_ms * MILLISECOND)
        renewal = await self._renew(lease.grant, extend_ms, sent_at + self._timeout_ns)
        if renewal.renewed:
            lease.lease_expiry_ms = renewal.lease_expiry_ms
            if not lease.term.confirm(sent_at=sent_at, lease_ns=extend_ms * MILLISECOND):
                return _OVER
        elif renewal.reason != BUSY_RETRY:
            lease.term.lose(f"the server says {renewal.reason}")
        return renewal

    async def _renew(self, grant: Grant, extend_ms: int, until: int, hand: Hand | None = None) -> Renewal:
        ask = self._api.renew(grant, extend_ms)
        return read_renew(ask, await self._pool.exchange(ask, until, hand=hand))

    def heartbeat(
        self,
        lease: Lease,
        interval: Seconds | None = None,
        extend_by: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
    ) -> Heartbeat:
        """Begin to renew the lease, on a worker of its own."""
        extend_ms = lease.grant.ttl_ms if extend_by is None else ms_of("extend_by", extend_by)
        interval_s = extend_ms / 3000 if interval is None else seconds_of("interval", interval)
        if not 0.001 <= interval_s < extend_ms / 1000:
            raise BadRequest(f"interval is at least 0.001 and less than extend_by, not {interval_s:g} seconds")
        beat = Beat(
            lease.term,
            now_ns(),
            interval_ns=int(interval_s * SECOND),
            extend_ns=extend_ms * MILLISECOND,
            chance=random.random,
        )

        async def renew(hand: Hand) -> Renewal:
            until = min(now_ns() + self._timeout_ns, lease.term.deadline)
            renewal = await self._renew(lease.grant, extend_ms, until, hand)
            if renewal.renewed:
                lease.lease_expiry_ms = renewal.lease_expiry_ms
            return renewal

        return Heartbeat(beat, renew, lease.lock_name, on_lost)

    # --- release and look ---

    async def release(self, lease: Lease) -> ReleaseResult:
        """Give the lease back; tries again while the store is busy, or when an answer was lost.

        That it was over before is a result, too. Raises `Unavailable` or `Unknown` if the server could not be asked.
        """
        result, _ = await self.release_surely(lease)
        return result

    async def release_surely(self, lease: Lease) -> tuple[ReleaseResult, bool]:
        """Release, and say whether NOT_OWNER is certain: after a lost answer, it may have been this very release."""
        if lease.term.foreign:
            # The child of a fork has a copy of the proof, but the lease is its parent's.
            return ReleaseResult(released=False, reason=NOT_OWNER), False
        lease.term.release()
        surely = True
        now = now_ns()
        end = now + self._timeout_ns
        attempts = Attempts(self._release_policy, now, random.random)
        ask = self._api.release(lease.grant)
        while True:
            failure, result = None, None
            try:
                result = read_release(ask, await self._pool.exchange(ask, end, twice=False))
            except HoldfastError as error:
                if error.retry is Retry.NEVER:
                    raise
                surely = surely and isinstance(error, Unavailable)
                failure = error
            if result is not None and result.reason != BUSY_RETRY:
                return result, surely
            again_at = attempts.again(now_ns())
            if again_at is None or again_at >= end:
                if result is not None:
                    return result, surely
                assert failure is not None
                raise failure
            await sleep_until(again_at)

    async def look(self, name: str) -> dict[str, Any]:
        """Give what the server says about a lock: `held`, and while it is held, the holder and the end of its lease."""
        ask = self._api.look(name)
        return read_look(ask, await self._pool.exchange(ask, now_ns() + self._timeout_ns))


def _dice(count: int) -> bytes:
    return os.urandom(count)
