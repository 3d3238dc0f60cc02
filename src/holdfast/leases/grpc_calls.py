"""What a backend over gRPC asks for, and what it makes of the answers: operations as steps, for whoever does the calls.

Nothing is sent here. Busy and lost are only ever read from an answer that says so; all else raises.
"""

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from holdfast.errors import BadPeer, BadRequest
from holdfast.leases.dialect import read_holder, spelled
from holdfast.leases.errors import BadKey, DatabaseUnavailable
from holdfast.leases.grpc_url import GrpcPlace
from holdfast.leases.words import LEASE_SECONDS, SECOND_US, Ask, Got, Hold, Row, Taken
from holdfast.wire import grpc_leases as wire
from holdfast.wire.grpc_leases import Outcome
from holdfast.wire.protobuf import Message

T = TypeVar("T")

MILLISECOND_US: Final = 1_000
LEASE_US: Final = LEASE_SECONDS * SECOND_US

# The longest that an operation takes, tries and pauses together. One that refreshes has to leave time for another one.
ANSWER_S_MAX: Final = 10.0
REFRESH_S_MAX: Final = 4.0
# ... and the share of a lease that it may take at most, unless that is too little for any call.
SHARE: Final = 6
ANSWER_S_LEAST: Final = 1.0


@dataclass(frozen=True, slots=True)
class Calls:
    """What to call, all at once, and how long that may take in all."""

    name: str
    requests: Sequence[Message]
    within_s: float
    again: bool = True  # a try whose answer did not come may be followed by another one


# What an operation yields, gets, and answers in the end.
Steps = Generator[Calls, list[Any], T]


def within(lease_us: int, most_s: float) -> float:
    """Say how long something about a lease may take."""
    return max(ANSWER_S_LEAST, min(most_s, lease_us / SECOND_US / SHARE))


class Operations:
    """The operations of a backend, against one kind of server."""

    def __init__(self, place: GrpcPlace) -> None:
        self._place = place
        self._is_ours = place.is_ours

    # --- holding ---

    def acquire(self, ask: Ask) -> Steps[Got | Taken]:
        """Take a lock. Where it is found to be ours since an earlier question, the lease begins again now."""
        self._check_lease(ask.lease_us)
        lock_data = spelled({**ask.holder, "node": ask.node, "pid": ask.pid, "id": ask.lock_id})
        request = wire.ClusterLockRequest(*parts_of(ask.key), lock_data)
        if self._is_ours:
            request.lease_ms = lease_ms_of(ask.lease_us)
            request.process = ask.process
        within_s = within(ask.lease_us, ANSWER_S_MAX)
        (reply,) = yield Calls(wire.ACQUIRE, [request], within_s)
        if not self._is_ours:
            return (yield from self._took_from_original(ask, reply, within_s))
        if reply.acquired:
            _expect(reply, Outcome.DONE)
            if reply.fence <= 0:
                raise BadPeer(f"{self._place.shown} has granted a lock without a fence")
            return Got(reply.fence)
        _expect(reply, Outcome.BUSY)
        return Taken(read_holder(reply.holder), reply.left_ms * MILLISECOND_US)

    def _took_from_original(self, ask: Ask, reply: wire.ClusterLockReply, within_s: float) -> Steps[Got | Taken]:
        """Read the answer of Shaken Fist, which says busy also when something failed."""
        if not reply.acquired:
            return Taken({}, 0)
        # It may be ours since an earlier question whose answer was lost: only a refresh begins the lease now.
        request = wire.ClusterRefreshLockRequest(*parts_of(ask.key), ask.lock_id)
        (status,) = yield Calls(wire.REFRESH, [request], within_s)
        return Got(0) if self._is_done(status) else Taken({}, 0)

    def refresh(self, holds: Sequence[Hold], lease_us: int) -> Steps[list[bool]]:
        """Begin leases again, now."""
        self._check_lease(lease_us)
        lease_ms = lease_ms_of(lease_us) if self._is_ours else 0
        requests = [wire.ClusterRefreshLockRequest(*parts_of(hold.key), hold.lock_id, lease_ms) for hold in holds]
        replies = yield Calls(wire.REFRESH, requests, within(lease_us, REFRESH_S_MAX))
        return [self._is_done(reply) for reply in replies]

    def release(self, holds: Sequence[Hold]) -> Steps[list[bool]]:
        """Give locks back. Our server remembers what it has released; of Shaken Fist's nobody may ask twice."""
        replies = yield self._releases(holds)
        return [self._is_done(reply) for reply in replies]

    def clear(self, holds: Sequence[Hold]) -> Steps[int]:
        """End what dead processes have left."""
        replies = yield self._releases(holds, clears=self._is_ours)
        return [self._is_done(reply) for reply in replies].count(True)

    def _releases(self, holds: Sequence[Hold], *, clears: bool = False) -> Calls:
        requests = [
            wire.ClusterReleaseLockRequest(*parts_of(hold.key), json.dumps({"id": hold.lock_id}), clears)
            for hold in holds
        ]
        return Calls(wire.RELEASE, requests, ANSWER_S_MAX, again=self._is_ours)

    def _is_done(self, reply: wire.StatusReply) -> bool:
        """Say whether a call was for a lock that is ours. Only an answer that says lost means that it is not."""
        if reply.error:
            raise DatabaseUnavailable(f"{self._place.shown} says: {reply.error}")
        if self._is_ours:
            _expect(reply, Outcome.DONE if reply.success else Outcome.LOST)
        return reply.success

    # --- looking ---

    def list(self) -> Steps[list[Row]]:
        """Show what is held."""
        (reply,) = yield Calls(wire.EXISTING, [wire.ClusterGetExistingLocksRequest()], ANSWER_S_MAX)
        return sorted((self._row(entry) for entry in reply.locks), key=lambda row: row.key)

    def look(self, key: bytes) -> Steps[Row | None]:
        """Show who has one lock."""
        request = wire.ClusterGetLockHolderRequest(*parts_of(key))
        (reply,) = yield Calls(wire.HOLDER, [request], ANSWER_S_MAX)
        if not reply.held:
            return None
        shown = key.decode()
        return self._row(
            wire.ClusterLockEntry(shown, reply.holder, reply.fence, reply.left_ms, reply.age_ms, reply.process)
        )

    def _row(self, entry: wire.ClusterLockEntry) -> Row:
        holder = read_holder(entry.holder)
        # Shaken Fist does not tell what is left; a whole lease is the most that there can be.
        left_us = entry.left_ms * MILLISECOND_US if self._is_ours else LEASE_US
        pid = holder.get("pid")
        return Row(
            key=entry.key.encode(),
            holder=holder,
            node=str(holder.get("node") or ""),
            pid=pid if isinstance(pid, int) else 0,
            process=entry.process,
            lock_id=str(holder.get("id") or ""),
            fence=entry.fence,
            age_us=entry.age_ms * MILLISECOND_US,
            left_us=left_us,
        )

    def now(self) -> Steps[int]:
        """Tell the time by the server's clock."""
        if not self._is_ours:
            raise BadRequest(f"{self._place.shown}: this server does not tell the time")
        (reply,) = yield Calls(wire.TIME, [wire.TimeRequest()], ANSWER_S_MAX)
        now_us: int = reply.now_us
        return now_us

    def verify(self) -> Steps[None]:
        """Ask for something harmless, to see whether there is such a server, and whether it lets us in."""
        if self._is_ours:
            yield Calls(wire.TIME, [wire.TimeRequest()], ANSWER_S_MAX)
        else:
            yield Calls(wire.EXISTING, [wire.ClusterGetExistingLocksRequest()], ANSWER_S_MAX)

    def _check_lease(self, lease_us: int) -> None:
        """Refuse a lease that a server of Shaken Fist would end before its holder does."""
        if not self._is_ours and lease_us > LEASE_US:
            raise BadRequest(f"{self._place.shown}: a lease there lasts {LEASE_SECONDS} s, and not longer")


def parts_of(key: bytes) -> tuple[str, str, str]:
    """Take a key apart so that the server puts together the same one."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        raise BadKey("over gRPC a key is text in UTF-8") from None
    at = text.find("/", 1)
    if at < 0:
        raise BadKey("over gRPC a key is a type, a slash, and what follows")
    return text[:at], "", text[at + 1 :]


def lease_ms_of(lease_us: int) -> int:
    """Spell a lease: rather longer at the server than here."""
    return -(-lease_us // MILLISECOND_US)


def _expect(reply: wire.ClusterLockReply | wire.StatusReply, outcome: Outcome) -> None:
    if reply.outcome != outcome:
        raise BadPeer(f"an answer contradicts itself: outcome {reply.outcome}, where {outcome.name} was to be")
