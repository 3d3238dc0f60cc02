"""Leases over gRPC, from a request that has been read to its reply: what the desk is asked, and what its answers mean.

Messages are in wire/grpc_leases.py, what is granted is decided below the desk, and neither gRPC nor a socket is here.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from holdfast.desk import Desk
from holdfast.doors.asker import Asker
from holdfast.doors.rights import FORBIDDEN, UNAUTHORIZED, Right, Rights
from holdfast.doors.whois import introduce
from holdfast.observe.counters import FAIL, SUCCESS
from holdfast.ports import Clock
from holdfast.wire import grpc_leases as wire
from holdfast.wire.grpc_leases import Outcome, Refusal, failure
from holdfast.wire.line import LOCK
from holdfast.words import (
    ENDED,
    EX,
    GRANTED,
    NOT_HELD,
    RENEWED,
    TOKEN_BYTES,
    UNLIMITED,
    Answer,
    Cancel,
    Claim,
    End,
    Holder,
    Look,
    Reason,
    Renew,
    View,
)

MILLISECOND: Final = 1_000_000

# How often one acquire finds its own claim just before its end, and begins anew, until that is too odd.
TURNS_MAX: Final = 3
# Locks that are looked at in one go, and that one listing shows.
PAGE: Final = 1_000
LISTED_MAX: Final = 10_000
# Releases that are remembered, for callers whose answer was lost.
RELEASES_MAX: Final = 10_000

# Takes an operation, how it came out, and how long it took; such as OperationCounters.count.
Count = Callable[[str, str, int], None]

IN_THE_WAY: Final = (Answer.BUSY, Answer.TIMED_OUT)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: what it shows, and where from."""

    authorization: str | None = None
    peer: str = ""


class Releases:
    """The claims that were given back last, so that whoever asks again hears the same as before."""

    def __init__(self, most: int = RELEASES_MAX) -> None:
        self._most = most
        self._tickets: OrderedDict[bytes, None] = OrderedDict()

    def add(self, ticket: bytes) -> None:
        self._tickets[ticket] = None
        self._tickets.move_to_end(ticket)
        if len(self._tickets) > self._most:
            self._tickets.popitem(last=False)

    def forget(self, ticket: bytes) -> None:
        """It is asked for anew: what became of it before is no news of it."""
        self._tickets.pop(ticket, None)

    def __contains__(self, ticket: bytes) -> bool:
        return ticket in self._tickets


class LeasesApi:
    """Serves the calls; each answers, or raises Refusal."""

    def __init__(
        self, desk: Desk, asker: Asker, clock: Clock, *, rights: Rights | None = None, count: Count | None = None
    ) -> None:
        self._desk = desk
        self._asker = asker
        self._clock = clock
        self._rights = rights
        self._count = count
        self._releases = Releases()
        self.calls: dict[str, Callable[[Any, Caller], Awaitable[Any]]] = {
            wire.ACQUIRE: self.acquire,
            wire.RELEASE: self.release,
            wire.REFRESH: self.refresh,
            wire.HOLDER: self.holder,
            wire.CLEAR: self.clear_stale,
            wire.EXISTING: self.existing,
            wire.TIME: self.time,
        }

    # --- holding ---

    async def acquire(self, request: wire.ClusterLockRequest, caller: Caller) -> wire.ClusterLockReply:
        """Take a lock; if the caller goes away, cancel this: its place in the queue is given up."""
        started = self._clock()
        name = self._name(request, "hold", caller)
        data = wire.read_lock_data(request.lock_data)
        lease_ns = wire.lease_ns_of(request.lease_ms)
        until = started + wire.wait_ns_of(request.wait_ms)
        process = wire.process_of(request.process)
        for _ in range(TURNS_MAX):
            patience_ns = max(0, until - self._clock())
            claim = Claim(LOCK + name, EX, 1, UNLIMITED, lease_ns, patience_ns, patience_ns > 0)
            claim.ticket = wire.ticket_of(name, data.id)
            wire.introduce(claim, data, lock_data=request.lock_data, process=process, peer=caller.peer)
            answer, given = await self._asker.ask(claim)
            if answer is GRANTED:
                assert given is not None
                if given is not claim:
                    answer = await self._begin_again(given, lease_ns)
                    if answer is NOT_HELD:
                        continue
                self._releases.forget(wire.ticket_of(name, data.id))
                return self._taken(given, started)
            if answer in IN_THE_WAY:
                return self._busy((given or claim).rival, started)
            raise failure(answer)
        raise failure(Answer.LEASE_EXPIRED)

    async def _begin_again(self, claim: Claim, lease_ns: int) -> Answer:
        """Start the lease of who has come back: it counts from when it asked last, having heard of nothing before."""
        answer, _ = await self._asker.ask(Renew(claim.key, claim.token, lease_ns))
        if answer not in (RENEWED, NOT_HELD):
            raise failure(answer)
        return answer

    def _taken(self, claim: Claim, started: int) -> wire.ClusterLockReply:
        self._note("acquire", SUCCESS, started)
        return wire.ClusterLockReply(
            acquired=True, outcome=Outcome.DONE, fence=claim.fence, left_ms=self._left_ms(claim.deadline)
        )

    def _busy(self, rival: Claim | None, started: int) -> wire.ClusterLockReply:
        self._note("acquire", FAIL, started)
        reply = wire.ClusterLockReply(outcome=Outcome.BUSY)
        if rival is not None:
            reply.holder = wire.holder_json(self._introduced(rival))
            reply.left_ms = self._shown_left_ms(rival.deadline)
        return reply

    def _introduced(self, rival: Claim) -> Holder:
        view = View(rival.key, rival.limit, [Holder(rival)], 0, 0, 0)
        return introduce(self._desk, [view])[0].holders[0]

    async def refresh(self, request: wire.ClusterRefreshLockRequest, caller: Caller) -> wire.StatusReply:
        """Begin a lease again, unless it is over."""
        started = self._clock()
        name = self._name(request, "hold", caller)
        wire.check_id("lock_id", request.lock_id)
        lease_ns = wire.lease_ns_of(request.lease_ms)
        holder = await self._find(name, request.lock_id)
        answer, claim = NOT_HELD, None
        if holder is not None:
            answer, claim = await self._asker.ask(Renew(LOCK + name, holder.secret[:TOKEN_BYTES], lease_ns))
        if answer is RENEWED:
            assert claim is not None
            self._note("renew", SUCCESS, started)
            left_ms = self._left_ms(claim.deadline)
            return wire.StatusReply(success=True, outcome=Outcome.DONE, fence=claim.fence, left_ms=left_ms)
        return self._lost("renew", answer, started)

    async def release(self, request: wire.ClusterReleaseLockRequest, caller: Caller) -> wire.StatusReply:
        """Give a lock back; whoever asks again, because it has not heard the answer, hears it again."""
        started = self._clock()
        name = self._name(request, "hold", caller)
        ticket = wire.ticket_of(name, wire.read_lock_data(request.lock_data).id)
        answer, _ = await self._asker.ask(Cancel(self._asker.session.id, ticket, held=True))
        if answer is ENDED:
            if not request.clears:
                self._releases.add(ticket)
            self._note("release", SUCCESS, started)
            return wire.StatusReply(success=True, outcome=Outcome.DONE, count=1)
        if answer is NOT_HELD and ticket in self._releases and not request.clears:
            return wire.StatusReply(success=True, outcome=Outcome.DONE)
        # What only waited has been withdrawn, and was never held.
        return self._lost("release", NOT_HELD if answer is Answer.CANCELLED else answer, started)

    def _lost(self, operation: str, answer: Answer, started: int) -> wire.StatusReply:
        if answer is not NOT_HELD:
            raise failure(answer)
        self._note(operation, FAIL, started)
        return wire.StatusReply(outcome=Outcome.LOST)

    # --- looking ---

    async def holder(self, request: wire.ClusterGetLockHolderRequest, caller: Caller) -> wire.ClusterLockHolderReply:
        """Show who has a lock."""
        name = self._name(request, "read", caller)
        holder = self._live(await self._look(Look(key=LOCK + name)))
        if holder is None:
            return wire.ClusterLockHolderReply()
        entry = self._entry(LOCK + name, holder)
        return wire.ClusterLockHolderReply(
            held=True,
            holder=entry.holder,
            fence=entry.fence,
            left_ms=entry.left_ms,
            age_ms=entry.age_ms,
            process=entry.process,
        )

    async def existing(
        self, request: wire.ClusterGetExistingLocksRequest, caller: Caller
    ) -> wire.ClusterGetExistingLocksReply:
        """Show all locks that are held, through any door. Half a list would be a false one, so there is none."""
        self._check("read", caller, request.prefix)
        locks: list[wire.ClusterLockEntry] = []
        async for view in self._held(request.prefix.encode()):
            holder = self._live([view])
            if holder is not None:
                locks.append(self._entry(view.key, holder))
            if len(locks) > LISTED_MAX:
                raise Refusal("too_many", f"more than {LISTED_MAX} locks are held; ask with a prefix")
        return wire.ClusterGetExistingLocksReply(locks=locks)

    async def time(self, request: wire.TimeRequest, caller: Caller) -> wire.TimeReply:
        """Tell the time by which leases are judged."""
        self._check(None, caller)
        return wire.TimeReply(now_us=self._clock() // 1_000)

    def _entry(self, key: bytes, holder: Holder) -> wire.ClusterLockEntry:
        told = wire.told_by(holder)
        return wire.ClusterLockEntry(
            key=wire.shown_name(key),
            holder=wire.holder_json(holder),
            fence=holder.fence,
            left_ms=self._shown_left_ms(holder.deadline),
            age_ms=max(0, self._clock() - holder.since) // MILLISECOND,
            process=told.process if told is not None else "",
        )

    # --- clearing ---

    async def clear_stale(self, request: wire.ClusterClearStaleLocksRequest, caller: Caller) -> wire.StatusReply:
        """End what a node's dead processes have left, as far as the caller may hold it."""
        self._check(None, caller)
        if not request.node_name:
            raise wire.bad_request("node_name: whose locks?")
        live, cleared = set(request.live_pids), 0
        async for view in self._held(b""):
            for holder in view.holders:
                told = wire.told_by(holder)
                if told is None or told.host != request.node_name or told.pid in live:
                    continue
                if not self._may("hold", caller, wire.shown_name(view.key)):
                    continue
                answer, _ = await self._asker.ask(End(view.key, holder.secret[:TOKEN_BYTES], Reason.BROKEN))
                if answer not in (ENDED, NOT_HELD):
                    raise failure(answer)
                cleared += answer is ENDED
        return wire.StatusReply(success=True, outcome=Outcome.DONE, count=cleared)

    # --- what they share ---

    async def _find(self, name: bytes, lock_id: str) -> Holder | None:
        """Find what was taken under a lock id."""
        for view in await self._look(Look(key=LOCK + name)):
            for holder in view.holders:
                told = wire.told_by(holder)
                if told is not None and told.id == lock_id:
                    return holder
        return None

    async def _held(self, prefix: bytes) -> AsyncIterator[View]:
        """Look at all locks that somebody holds, some at a time, so that others have their turns in between."""
        after = b""
        while True:
            views = await self._look(Look(LOCK + prefix, after=after, count=PAGE, held=True))
            for view in views:
                yield view
            if len(views) < PAGE:
                return
            after = views[-1].key

    async def _look(self, look: Look) -> list[View]:
        answer, views = await self._asker.see(look)
        if answer is not None:
            raise failure(answer)
        return introduce(self._desk, views)

    def _live(self, views: list[View]) -> Holder | None:
        """Find who holds: a lease whose time is over counts for nothing, swept up or not."""
        now = self._clock()
        return next((holder for view in views for holder in view.holders if holder.deadline > now), None)

    def _left_ms(self, deadline: int) -> int:
        """Tell a holder what is left of its lease, and never more."""
        return max(0, deadline - self._clock()) // MILLISECOND

    def _shown_left_ms(self, deadline: int) -> int:
        """Tell others, for whom nothing would be left only where the lock is free."""
        return -(-max(0, deadline - self._clock()) // MILLISECOND)

    def _name(
        self,
        request: wire.ClusterLockRequest
        | wire.ClusterReleaseLockRequest
        | wire.ClusterRefreshLockRequest
        | wire.ClusterGetLockHolderRequest,
        right: Right,
        caller: Caller,
    ) -> bytes:
        """Read which lock is meant, and check that the caller has this right to it; strangers learn nothing before."""
        self._check(None, caller)
        name = wire.name_of(request.object_type, request.subtype, request.name)
        self._check(right, caller, name.decode())
        return name

    def _may(self, right: Right, caller: Caller, key_name: str) -> bool:
        return self._rights is None or self._rights.allows(caller.authorization, right, key_name) < UNAUTHORIZED

    def _check(self, right: Right | None, caller: Caller, key_name: str = "") -> None:
        if self._rights is None:
            return
        status = self._rights.allows(caller.authorization, right, key_name)
        if status in (UNAUTHORIZED, FORBIDDEN):
            self._refuse(status, right)

    def _refuse(self, status: int, right: Right | None) -> NoReturn:
        if status == UNAUTHORIZED:
            detail = "show a token that is known here, in the metadata: authorization: Bearer TOKEN"
            raise Refusal("unauthorized", detail, "UNAUTHENTICATED")
        raise Refusal("forbidden", f"the token has no right to {right} this")

    def _note(self, operation: str, result: str, started: int) -> None:
        if self._count is not None:
            self._count(operation, result, self._clock() - started)
