"""LockServer's API in JSON, as we answer: every outcome of acquire, renew, release and a look, field by field.

Which statuses and words there are is the original's choice; what is granted is decided elsewhere.
"""

import hmac
from typing import Final

import msgspec

from holdfast.secret import lease_id_of
from holdfast.wire.line import LOCK
from holdfast.wire.problems import Refusal
from holdfast.words import Answer, Claim, Holder, View

MILLISECOND: Final = 1_000_000

RETRY_MS_MIN: Final = 25
RETRY_MS_MAX: Final = 1000
BUSY_RETRY_MS: Final = 50

HELD: Final = "HELD"
BUSY_RETRY: Final = "BUSY_RETRY"
NOT_OWNER_OR_EXPIRED: Final = "NOT_OWNER_OR_EXPIRED"
NOT_OWNER: Final = "NOT_OWNER"

# Every hint of ours is at most a second, and this header cannot say less than one.
RETRY_AFTER: Final = ("Retry-After", "1")

# The order of fields is the original's.


class Lease(msgspec.Struct):
    """A lock that was taken."""

    acquired: bool
    lock_name: str
    owner_id: str
    lease_id: str
    fencing_token: int
    lease_expiry_ms: int


class NotAcquired(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A lock that somebody else has, or that could not be tried."""

    acquired: bool
    lock_name: str
    current_owner_id: str = ""
    current_expiry_ms: int = 0
    recommended_retry_ms: int
    reason: str


class Renewed(msgspec.Struct):
    """A lease that goes on."""

    renewed: bool
    lease_expiry_ms: int


class NotRenewed(msgspec.Struct):
    """A lease that is not the caller's, or that could not be tried."""

    renewed: bool
    reason: str


class Released(msgspec.Struct, omit_defaults=True):
    """Whether a lease was given back."""

    released: bool
    reason: str = ""


class LockState(msgspec.Struct, omit_defaults=True):
    """What is known of one lock. All but the first two are there only while it is held."""

    lock_name: str
    held: bool
    owner_id: str = ""
    lease_id: str = ""
    fencing_token: int = 0
    lease_expiry_ms: int = 0
    version: int = 0


class LockEntry(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One lock in a list."""

    lock_name: str
    held: bool
    waiters: int
    owner_id: str = ""
    fencing_token: int = 0
    lease_expiry_ms: int = 0
    version: int = 0


class LockList(msgspec.Struct, omit_defaults=True):
    """Some locks in the order of their names, and where to go on if there are more."""

    locks: list[LockEntry]
    next_cursor: str = ""


# --- spelling ---


def shown(text: bytes) -> str:
    """Spell a name or an owner as JSON can carry it."""
    return text.decode("utf-8", "replace")


def lock_name(key: bytes) -> str:
    return shown(key[len(LOCK) :])


def owner_of(holder: Claim | Holder) -> str:
    """Name who holds; a holder that came through a door where nobody has a name is told by its session."""
    return shown(holder.owner) if holder.owner else f"session/{holder.session}"


def lease(claim: Claim) -> Lease:
    """Tell a caller what it was granted."""
    return Lease(
        True,
        lock_name(claim.key),
        shown(claim.owner),
        lease_id_of(claim.secret).decode(),
        claim.fence,
        claim.deadline // MILLISECOND,
    )


def not_acquired(claim: Claim, answer: Answer, now: int) -> Refusal:
    """Tell a caller why it was not granted what it asked for."""
    rival = claim.rival
    if rival is not None and answer in (Answer.BUSY, Answer.TIMED_OUT):
        fields = NotAcquired(
            acquired=False,
            lock_name=lock_name(claim.key),
            current_owner_id=owner_of(rival),
            current_expiry_ms=rival.deadline // MILLISECOND,
            recommended_retry_ms=retry_ms(rival.deadline, now),
            reason=HELD,
        )
        return Refusal(409, "busy", "the lock is held", RETRY_AFTER, fields=fields)
    if answer in UNDECIDED:
        fields = NotAcquired(
            acquired=False, lock_name=lock_name(claim.key), recommended_retry_ms=BUSY_RETRY_MS, reason=BUSY_RETRY
        )
        return Refusal(409, "store_busy", "this could not be tried now", RETRY_AFTER, fields=fields)
    return failure(answer)


# What a caller who would acquire should simply try again: nothing was granted to it, and nobody is known to hold.
UNDECIDED: Final = frozenset(
    {
        Answer.BUSY,
        Answer.TIMED_OUT,
        Answer.STORE_BUSY,
        Answer.LEASE_EXPIRED,
        Answer.CANCELLED,  # the same Idempotency-Key came again, and who came with it waits now
    }
)


def retry_ms(deadline: int, now: int) -> int:
    """Advise when to ask again: after a quarter of what is left of the lease, within limits."""
    return min(max((deadline - now) // 4 // MILLISECOND, RETRY_MS_MIN), RETRY_MS_MAX)


def not_renewed(answer: Answer) -> Refusal:
    """Tell a caller why its lease was not renewed."""
    if answer is Answer.NOT_HELD:
        fields = NotRenewed(False, NOT_OWNER_OR_EXPIRED)
        return Refusal(409, "not_held", "there is no such lease, or not any more", fields=fields)
    if answer is Answer.STORE_BUSY:
        fields = NotRenewed(False, BUSY_RETRY)
        return Refusal(409, "store_busy", "this could not be tried now", RETRY_AFTER, fields=fields)
    return failure(answer)


def not_released(answer: Answer) -> Released | Refusal:
    """Tell a caller why its lease was not given back, which is mostly no error."""
    if answer is Answer.NOT_HELD:
        return Released(False, NOT_OWNER)
    if answer is Answer.STORE_BUSY:
        return Released(False, BUSY_RETRY)
    return failure(answer)


def failure(answer: Answer) -> Refusal:
    """Refuse what the service cannot do now, whoever asks."""
    status, code, detail = FAILURES.get(answer, (500, "internal", "this should not happen; please report it"))
    headers = (RETRY_AFTER,) if status == 503 else ()
    return Refusal(status, code, detail, *headers)


_STOPPING: Final = (503, "closed", "this server is about to stop")

FAILURES: Final = {
    Answer.NO_FENCE: (500, "fence_unavailable", "no fencing token can be had that would keep its place in the order"),
    Answer.STORE_FAILED: (500, "store_failed", "the store could not keep this"),
    Answer.STORE_BUSY: (503, "store_busy", "another process keeps the store to itself"),
    Answer.TOO_MANY_KEYS: (503, "too_many", "there are as many locks as the server takes (keys_max)"),
    Answer.TOO_MANY_WAITERS: (503, "too_many", "as many wait for this lock as may (waiters_max)"),
    Answer.DRAINING: _STOPPING,
    Answer.CLOSED: _STOPPING,
}


# --- looking ---


def holder_at(view: View, now: int) -> Holder | None:
    """Find who holds a key now: a lease whose time is over counts for nothing, swept up or not."""
    return next((holder for holder in view.holders if holder.deadline > now), None)


def state(name: bytes, views: list[View], now: int, *, lease_id: bytes, open_to_all: bool) -> LockState:
    """Show one lock; its lease id only to who knows it already, or to all."""
    holder = holder_at(views[0], now) if views else None
    if holder is None:
        return LockState(shown(name), False)
    hidden = lease_id_of(holder.secret)
    return LockState(
        shown(name),
        True,
        owner_of(holder),
        hidden.decode() if open_to_all or hmac.compare_digest(hidden, lease_id) else "",
        holder.fence,
        holder.deadline // MILLISECOND,
        views[0].version,
    )


def listing(views: list[View], now: int, *, count: int, held: bool | None) -> LockList:
    """Show the first `count` locks; if there are more, say where to go on."""
    entries = [_entry(view, holder_at(view, now)) for view in views[:count]]
    if held is not None:
        entries = [entry for entry in entries if entry.held is held]
    more = len(views) > count
    return LockList(entries, views[count - 1].key[len(LOCK) :].hex() if more else "")


def _entry(view: View, holder: Holder | None) -> LockEntry:
    entry = LockEntry(lock_name=lock_name(view.key), held=holder is not None, waiters=view.waiters)
    if holder is not None:
        entry.owner_id = owner_of(holder)
        entry.fencing_token = holder.fence
        entry.lease_expiry_ms = holder.deadline // MILLISECOND
        entry.version = view.version
    return entry
