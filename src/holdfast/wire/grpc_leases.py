"""Leases over gRPC, as they are spelled: the messages of the six calls, and how requests are read and answers worded.

The numbers below 100 are those of Shaken Fist's service, whose clients find here what they know; from 100 on stands
what is ours, which they pass over. `leases.proto` says the same to other tools. No lock rule is here.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import msgspec

from holdfast.errors import SPELLINGS
from holdfast.wire.line import LOCK
from holdfast.wire.protobuf import Message, messages, small_numbers, text, truth, whole
from holdfast.words import KEY_BYTES_MAX, RESIDENT, Answer, Claim, Holder

MILLISECOND: Final = 1_000_000

# A client of Shaken Fist names no lease: it refreshes every 20 s, and counts on 60.
LEASE_MS_DEFAULT: Final = 60_000
LEASE_MS_MAX: Final = 86_400_000
WAIT_MS_MAX: Final = 60_000
NAME_BYTES_MAX: Final = KEY_BYTES_MAX - len(LOCK)
LOCK_ID_BYTES_MAX: Final = 64
LOCK_DATA_BYTES_MAX: Final = 8192
PROCESS_BYTES_MAX: Final = 256
PID_MAX: Final = (1 << 31) - 1

PACKAGE: Final = "holdfast.leases.v1"
SERVICE: Final = f"{PACKAGE}.LeaseService"
ORIGINAL_PACKAGE: Final = "shakenfist.protos"
ORIGINAL_SERVICE: Final = f"{ORIGINAL_PACKAGE}.DatabaseService"

# In the trailing metadata of a refusal: its code, as everywhere else.
CODE_KEY: Final = "holdfast-code"


class Outcome(IntEnum):
    """What came of a call that was carried out. A failure is none of these: it is a status."""

    UNSPECIFIED = 0  # the server is not ours
    DONE = 1
    BUSY = 2  # somebody else has the lock
    LOST = 3  # the lock is not, or not any more, that of the caller


# --- messages ---


@dataclass(slots=True)
class ClusterLockRequest(Message):
    """Take a lock."""

    object_type: str = text(1)
    subtype: str = text(2)
    name: str = text(3)
    lock_data: str = text(4)
    lease_ms: int = whole(100)
    wait_ms: int = whole(101)
    process: str = text(102)


@dataclass(slots=True)
class ClusterLockReply(Message):
    """Whether it was taken; if not, who has it."""

    acquired: bool = truth(1)
    outcome: int = whole(100)
    fence: int = whole(101)
    left_ms: int = whole(102)
    holder: str = text(103)


@dataclass(slots=True)
class ClusterReleaseLockRequest(Message):
    """Give a lock back; of the lock data, only `id` counts."""

    object_type: str = text(1)
    subtype: str = text(2)
    name: str = text(3)
    lock_data: str = text(4)
    clears: bool = truth(100)


@dataclass(slots=True)
class ClusterRefreshLockRequest(Message):
    """Begin a lease again, now."""

    object_type: str = text(1)
    subtype: str = text(2)
    name: str = text(3)
    lock_id: str = text(4)
    lease_ms: int = whole(100)


@dataclass(slots=True)
class StatusReply(Message):
    """Whether that was done. `error` stays empty: what goes wrong is told by the status of the call."""

    success: bool = truth(1)
    error: str = text(2)
    outcome: int = whole(100)
    fence: int = whole(101)
    left_ms: int = whole(102)
    count: int = whole(103)


@dataclass(slots=True)
class ClusterGetLockHolderRequest(Message):
    """Ask who has a lock."""

    object_type: str = text(1)
    subtype: str = text(2)
    name: str = text(3)


@dataclass(slots=True)
class ClusterLockHolderReply(Message):
    """Who has it, in its own words."""

    held: bool = truth(1)
    holder: str = text(2)
    fence: int = whole(101)
    left_ms: int = whole(102)
    age_ms: int = whole(103)
    process: str = text(104)


@dataclass(slots=True)
class ClusterClearStaleLocksRequest(Message):
    """End what processes of a node have left that do not live any more."""

    node_name: str = text(1)
    live_pids: list[int] = small_numbers(2)  # noqa: RUF009  it is made anew for each message


@dataclass(slots=True)
class ClusterGetExistingLocksRequest(Message):
    """Ask for all locks that are held; in the original this is empty."""

    prefix: str = text(100)


@dataclass(slots=True)
class ClusterLockEntry(Message):
    """A lock that is held."""

    key: str = text(1)
    holder: str = text(2)
    fence: int = whole(101)
    left_ms: int = whole(102)
    age_ms: int = whole(103)
    process: str = text(104)


@dataclass(slots=True)
class ClusterGetExistingLocksReply(Message):
    """All locks that are held, in the order of their keys."""

    locks: list[ClusterLockEntry] = messages(1, ClusterLockEntry)  # noqa: RUF009  as above


@dataclass(slots=True)
class TimeRequest(Message):
    """Ask what time it is."""


@dataclass(slots=True)
class TimeReply(Message):
    """The clock by which the server judges leases, in microseconds since 1970."""

    now_us: int = whole(1)


@dataclass(frozen=True, slots=True)
class Method:
    """One call."""

    request: type[Message]
    reply: type[Message]


ACQUIRE: Final = "AcquireLock"
RELEASE: Final = "ReleaseLock"
REFRESH: Final = "RefreshLock"
HOLDER: Final = "GetLockHolder"
CLEAR: Final = "ClearStaleLocks"
EXISTING: Final = "GetExistingLocks"
TIME: Final = "GetTime"

ORIGINAL_METHODS: Final = {
    ACQUIRE: Method(ClusterLockRequest, ClusterLockReply),
    RELEASE: Method(ClusterReleaseLockRequest, StatusReply),
    REFRESH: Method(ClusterRefreshLockRequest, StatusReply),
    HOLDER: Method(ClusterGetLockHolderRequest, ClusterLockHolderReply),
    CLEAR: Method(ClusterClearStaleLocksRequest, StatusReply),
    EXISTING: Method(ClusterGetExistingLocksRequest, ClusterGetExistingLocksReply),
}
METHODS: Final = {**ORIGINAL_METHODS, TIME: Method(TimeRequest, TimeReply)}

# Each service under which the calls are offered, with its package.
SERVICES: Final = {SERVICE: (PACKAGE, METHODS), ORIGINAL_SERVICE: (ORIGINAL_PACKAGE, ORIGINAL_METHODS)}


# --- refusing ---


class Refusal(Exception):
    """A call that was not carried out, or may not have been: a status other than OK, and never an answer."""

    def __init__(self, code: str, detail: str, status: str | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.status = status or SPELLINGS[code].grpc


def bad_request(detail: str) -> Refusal:
    return Refusal("bad_request", detail)


def failure(answer: Answer) -> Refusal:
    """Refuse what the service cannot do now."""
    return Refusal(*FAILURES.get(answer, ("internal", "this should not happen; please report it")))


_STOPPING: Final = ("closed", "this server is about to stop")

FAILURES: Final = {
    Answer.NO_FENCE: ("fence_unavailable", "no fence can be had that would keep its place in the order"),
    Answer.STORE_FAILED: ("store_failed", "the store could not keep this"),
    Answer.STORE_BUSY: ("store_busy", "another process keeps the store to itself"),
    Answer.TOO_MANY_KEYS: ("too_many", "there are as many locks as the server takes (keys_max)"),
    Answer.TOO_MANY_WAITERS: ("too_many", "as many wait for this lock as may (waiters_max)"),
    Answer.DRAINING: _STOPPING,
    Answer.CLOSED: _STOPPING,
    # It was granted, and ran out before its caller could be told; or the same caller came again meanwhile.
    Answer.LEASE_EXPIRED: ("unavailable", "the lease ran out before this could be answered; ask again"),
    Answer.CANCELLED: ("unavailable", "the same lock id has asked again since, or was released"),
}


# --- reading ---


def name_of(object_type: str, subtype: str, name: str) -> bytes:
    """Spell the name of a lock, as Shaken Fist does: what is not given leaves out its part."""
    if not object_type:
        raise bad_request("object_type: a lock needs a type")
    spelled = f"{object_type}/{subtype}/" if subtype else f"{object_type}/"
    found = (spelled + name).encode()
    if len(found) > NAME_BYTES_MAX:
        raise bad_request(f"the key of a lock has at most {NAME_BYTES_MAX} bytes here, not {len(found)}")
    if b"\0" in found:
        raise bad_request("the key of a lock has no byte 0")
    return found


class LockData(msgspec.Struct):
    """What the lock data has to say to us; more may stand in it."""

    id: str
    node: str | None = None
    pid: int | None = None
    operation: str | None = None


_lock_data: Final = msgspec.json.Decoder(LockData)
_NO_ID: Final = re.compile(r"[\x00-\x1f\x7f]")


def read_lock_data(given: str) -> LockData:
    """Read what a caller tells of itself."""
    if len(given.encode()) > LOCK_DATA_BYTES_MAX:
        raise bad_request(f"lock_data: at most {LOCK_DATA_BYTES_MAX} bytes")
    try:
        data = _lock_data.decode(given)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"lock_data: {error}") from None
    check_id("lock_data.id", data.id)
    if data.pid is not None and not 0 <= data.pid <= PID_MAX:
        raise bad_request(f"lock_data.pid: from 0 to {PID_MAX}")
    return data


def check_id(field: str, lock_id: str) -> None:
    """Refuse a lock id that names nothing."""
    size = len(lock_id.encode("utf-8", "replace"))
    if not 0 < size <= LOCK_ID_BYTES_MAX or _NO_ID.search(lock_id):
        raise bad_request(f"{field}: 1 to {LOCK_ID_BYTES_MAX} bytes, without control characters")


def lease_ns_of(lease_ms: int) -> int:
    """Read how long a lease is to last."""
    if not 0 <= lease_ms <= LEASE_MS_MAX:
        raise bad_request(f"lease_ms: from 1 to {LEASE_MS_MAX}, or 0 for {LEASE_MS_DEFAULT}")
    return (lease_ms or LEASE_MS_DEFAULT) * MILLISECOND


def wait_ns_of(wait_ms: int) -> int:
    """Read how long somebody would wait; who asks for more than there is gets what there is."""
    if wait_ms < 0:
        raise bad_request("wait_ms: 0 or more")
    return min(wait_ms, WAIT_MS_MAX) * MILLISECOND


def process_of(process: str) -> str:
    if len(process.encode()) > PROCESS_BYTES_MAX:
        raise bad_request(f"process: at most {PROCESS_BYTES_MAX} bytes")
    return process


def ticket_of(name: bytes, lock_id: str) -> bytes:
    """Make a ticket of a lock id: the same id on the same lock is the same claim. No other door makes such a one."""
    return hashlib.sha256(b"grpc lease\0" + lock_id.encode() + b"\0" + name).digest()


# --- what a claim tells of its caller ---


class About(msgspec.Struct, omit_defaults=True):
    """What is kept with a claim; the first ones are what all doors tell."""

    door: str = ""
    peer: str = ""
    host: str = ""
    pid: int | None = None
    operation: str = ""
    id: str = ""
    process: str = ""
    lock_data: str = ""
    client: str = ""


_about: Final = msgspec.json.Decoder(About)
DOOR: Final = "grpc"


def introduce(claim: Claim, data: LockData, *, lock_data: str, process: str, peer: str) -> None:
    """Write down on a claim who asks for it."""
    about = About(
        door=DOOR,
        peer=peer,
        host=data.node or "",
        pid=data.pid,
        operation=data.operation or "",
        id=data.id,
        process=process,
        lock_data=lock_data,
    )
    claim.about = msgspec.json.encode(about)
    claim.owner = f"{data.node or peer or DOOR}:{'?' if data.pid is None else data.pid}".encode()


def read_about(holder: Claim | Holder) -> About:
    """Read what was written down; what another release, or another door, has written may be anything."""
    try:
        return _about.decode(holder.about)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return About()


def told_by(holder: Claim | Holder) -> About | None:
    """Give what a caller of this door has said of itself; None for one of another door, whatever it says."""
    about = read_about(holder)
    # In the session that is never over, no other door writes any of this down.
    return about if holder.session == RESIDENT and about.door == DOOR and about.id else None


def holder_json(holder: Claim | Holder) -> str:
    """Show who holds: in its own words, or, for a caller of another door, in words that readers of this one know."""
    told = told_by(holder)
    if told is not None:
        return told.lock_data
    about = read_about(holder)
    owner = holder.owner.decode("utf-8", "backslashreplace")
    shown: dict[str, Any] = {
        "node": about.host or about.peer or owner or f"session/{holder.session}",
        "pid": about.pid,
        "thread": None,
        "line": None,
        "operation": about.operation or owner or f"over the {about.door or 'http'} door",
        "id": None,
    }
    return json.dumps(shown)


def shown_name(key: bytes) -> str:
    """Spell the name of a lock in a text, which cannot have all that a key can."""
    return key[len(LOCK) :].decode("utf-8", "backslashreplace")
