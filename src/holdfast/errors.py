"""Every way in which Holdfast says no, and how each protocol spells it.

Answers (busy, timed out, not held) travel as values inside the server; only a client raises them. Nothing here
knows a lock rule.
"""

from dataclasses import dataclass
from enum import Enum


class Retry(Enum):
    """When it makes sense to ask again."""

    NOW = "now"
    LATER = "later"
    NEVER = "never"


class HoldfastError(Exception):
    """The root of all our errors: a stable code, advice about retrying, and a sentence for a person."""

    code = "internal"
    retry = Retry.NEVER

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail or self.code)
        self.detail = detail


class Refused(HoldfastError):
    """Understood, and refused."""

    code = "refused"


class Busy(Refused):
    code = "busy"
    retry = Retry.LATER


class TimedOut(Refused):
    code = "timed_out"
    retry = Retry.NOW


class NotHeld(Refused):
    code = "not_held"


class LeaseLost(NotHeld):
    code = "lease_lost"


class WouldDeadlock(Refused):
    code = "would_deadlock"


class LimitMismatch(Refused):
    code = "limit_mismatch"


class TooMany(Refused):
    code = "too_many"
    retry = Retry.LATER


class Forbidden(Refused):
    code = "forbidden"


class BadRequest(HoldfastError):
    """The caller's fault."""

    code = "bad_request"


class BadPeer(HoldfastError):
    """The other side broke the protocol."""

    code = "bad_peer"


class Unavailable(HoldfastError):
    """Certainly not applied."""

    code = "unavailable"
    retry = Retry.LATER


class FenceUnavailable(Unavailable):
    """No fence can be issued whose order would survive a crash."""

    code = "fence_unavailable"


class StoreBusy(Unavailable):
    """Another process keeps the store to itself; certainly not applied."""

    code = "store_busy"


class StoreFailed(Unavailable):
    """The store cannot keep what it was given; the sentence says why."""

    code = "store_failed"


class Unknown(HoldfastError):
    """May have been applied: retry with the same ticket."""

    code = "unknown"
    retry = Retry.NOW


class Closed(HoldfastError):
    """The service or the connection is going away."""

    code = "closed"
    retry = Retry.LATER


class ConfigError(HoldfastError):
    """A setting that cannot be: names the setting, the value, its source and the limit."""

    code = "config"


class FenceFileError(ConfigError):
    """A fence file that must not be used; starting anyway could repeat a fence."""

    code = "fence_file"


class StoreFileError(ConfigError):
    """A store that cannot be opened, or is not ours to open."""

    code = "store_file"


class DocumentError(HoldfastError):
    """A stored document that is no resource, or one of a version that this release does not know."""

    code = "document"


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the protocols say one code."""

    line: str
    http: int
    grpc: str
    exit_code: int


# One row for each code above; tests/test_errors.py checks that none is missing. Exit codes from 64 up follow
# the sysexits tradition, so that a shell script can tell them apart.
SPELLINGS: dict[str, Spelling] = {
    "internal": Spelling(line="error", http=500, grpc="INTERNAL", exit_code=70),
    "refused": Spelling(line="error", http=409, grpc="FAILED_PRECONDITION", exit_code=75),
    "busy": Spelling(line="timeout", http=409, grpc="ABORTED", exit_code=75),
    "timed_out": Spelling(line="timeout", http=409, grpc="DEADLINE_EXCEEDED", exit_code=75),
    "not_held": Spelling(line="error", http=404, grpc="NOT_FOUND", exit_code=76),
    "lease_lost": Spelling(line="error_lease_expired", http=409, grpc="FAILED_PRECONDITION", exit_code=76),
    "would_deadlock": Spelling(line="error", http=409, grpc="ABORTED", exit_code=75),
    "limit_mismatch": Spelling(line="error_limit_mismatch", http=409, grpc="FAILED_PRECONDITION", exit_code=64),
    "too_many": Spelling(line="error", http=503, grpc="RESOURCE_EXHAUSTED", exit_code=75),
    "forbidden": Spelling(line="error_auth", http=403, grpc="PERMISSION_DENIED", exit_code=77),
    "bad_request": Spelling(line="error", http=400, grpc="INVALID_ARGUMENT", exit_code=64),
    "bad_peer": Spelling(line="error", http=502, grpc="INTERNAL", exit_code=76),
    "unavailable": Spelling(line="error", http=503, grpc="UNAVAILABLE", exit_code=69),
    "fence_unavailable": Spelling(line="error", http=503, grpc="UNAVAILABLE", exit_code=69),
    "store_busy": Spelling(line="error", http=503, grpc="UNAVAILABLE", exit_code=75),
    "store_failed": Spelling(line="error", http=503, grpc="UNAVAILABLE", exit_code=74),
    "unknown": Spelling(line="error", http=503, grpc="UNKNOWN", exit_code=75),
    "closed": Spelling(line="error_draining", http=503, grpc="UNAVAILABLE", exit_code=69),
    "config": Spelling(line="error", http=500, grpc="FAILED_PRECONDITION", exit_code=1),
    "fence_file": Spelling(line="error", http=500, grpc="FAILED_PRECONDITION", exit_code=1),
    "store_file": Spelling(line="error", http=500, grpc="FAILED_PRECONDITION", exit_code=1),
    "document": Spelling(line="error", http=500, grpc="DATA_LOSS", exit_code=65),
}
