"""The log of operations on leases: which of them are worth a line, and what the line says.

Lines are written by the logger of `logs.py`, and how an operation came out is for its caller to say. A lease id is
proof of a lease, so no more than its beginning ever gets into a line.
"""

from datetime import UTC, datetime
from typing import Final, final

from holdfast.observe.counters import MILLISECOND
from holdfast.observe.logs import get_logger
from holdfast.ports import Clock
from holdfast.words import SECOND

OFF: Final = "off"
FAILURES: Final = "failures"
SAMPLED: Final = "sampled"
ALL: Final = "all"
MODES: Final = (OFF, FAILURES, SAMPLED, ALL)

SUCCESSES_A_SECOND: Final = 10
# A caller that fails in a tight loop must not turn the log into the slowest part of the service.
FAILURES_A_SECOND: Final = 100
LEASE_ID_CHARACTERS: Final = 8


@final
class Ration:
    """So many a second and no more; knows how many went without."""

    __slots__ = ("_left", "_most", "_until", "refused")

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = 0
        self._until = 0
        self.refused = 0

    def take(self, now: int) -> bool:
        """Take one, if there is one left in this second."""
        if now >= self._until:
            self._until = now + SECOND
            self._left = self._most
        if self._left == 0:
            self.refused += 1
            return False
        self._left -= 1
        return True


@final
class OperationLog:
    """Writes a line about each operation that the mode asks for.

    An operation is a failure when the service could not do it, or when a caller lost what it thought it held. That a
    lock is held by somebody else is an ordinary answer.
    """

    def __init__(self, mode: str, clock: Clock) -> None:
        assert mode in MODES
        self._mode = mode
        self._clock = clock
        self._ordinary = Ration(SUCCESSES_A_SECOND)
        self._failed = Ration(FAILURES_A_SECOND)
        self._log = get_logger(part="operations")

    def acquired(
        self, *, lock: str, owner: str, lease_id: str, token: int, latency_ns: int, request_id: str = ""
    ) -> None:
        """Tell of a lease that was given out."""
        if self._mode in (OFF, FAILURES):
            return
        facts = {"lock": lock, "owner": owner, "acquired": True, "lease_id": shortened(lease_id), "token": token}
        self._ordinarily("acquire", facts, latency_ns, request_id)

    def refused(self, *, lock: str, owner: str, cur_owner: str, latency_ns: int, request_id: str = "") -> None:
        """Tell of an acquire that found the lock held."""
        if self._mode in (OFF, FAILURES):
            return
        facts = {"lock": lock, "owner": owner, "acquired": False, "cur_owner": cur_owner}
        self._ordinarily("acquire", facts, latency_ns, request_id)

    def not_acquired(self, *, lock: str, owner: str, error: str, latency_ns: int, request_id: str = "") -> None:
        """Tell of an acquire that the service could not decide."""
        facts: dict[str, object] = {"lock": lock, "owner": owner, "acquired": False}
        self._failing("acquire", facts, error, latency_ns, request_id)

    def renewed(
        self,
        *,
        lock: str,
        owner: str,
        lease_id: str,
        token: int,
        renewed: bool,
        latency_ns: int,
        request_id: str = "",
        error: str = "",
    ) -> None:
        """Tell how a renewal came out."""
        facts = {"lock": lock, "owner": owner, "lease_id": lease_id, "token": token, "renewed": renewed}
        self._proved("renew", facts, renewed, error, latency_ns, request_id)

    def released(
        self,
        *,
        lock: str,
        owner: str,
        lease_id: str,
        token: int,
        released: bool,
        latency_ns: int,
        request_id: str = "",
        error: str = "",
    ) -> None:
        """Tell how a release came out."""
        facts = {"lock": lock, "owner": owner, "lease_id": lease_id, "token": token, "released": released}
        self._proved("release", facts, released, error, latency_ns, request_id)

    def swept(self, *, held: int, cleared: int, latency_ns: int, error: str = "") -> None:
        """Tell of a sweep, if it came upon anything."""
        facts: dict[str, object] = {"held": held, "cleared": cleared}
        if error:
            self._failing("expire_sweep", facts, error, latency_ns, "")
        elif cleared and self._mode not in (OFF, FAILURES):
            self._ordinarily("expire_sweep", facts, latency_ns, "")

    def _proved(
        self, op: str, facts: dict[str, object], done: bool, error: str, latency_ns: int, request_id: str
    ) -> None:
        if done and self._mode in (OFF, FAILURES):
            return
        facts["lease_id"] = shortened(str(facts["lease_id"]))
        if done:
            self._ordinarily(op, facts, latency_ns, request_id)
        else:
            self._failing(op, facts, error, latency_ns, request_id)

    def _ordinarily(self, op: str, facts: dict[str, object], latency_ns: int, request_id: str) -> None:
        now = self._clock()
        if self._mode == ALL or self._ordinary.take(now):
            self._log.info("operation", op=op, **_when(now, latency_ns, request_id), **facts)

    def _failing(self, op: str, facts: dict[str, object], error: str, latency_ns: int, request_id: str) -> None:
        """Write a failure: as an error where the service is to blame, else as information."""
        if self._mode == OFF:
            return
        now = self._clock()
        if self._mode != ALL and not self._failed.take(now):
            return
        facts = _when(now, latency_ns, request_id) | facts
        if self._failed.refused:
            facts["unlogged"] = self._failed.refused
            self._failed.refused = 0
        if error:
            self._log.error("operation", op=op, error=error, **facts)
        else:
            self._log.info("operation", op=op, **facts)


def shortened(lease_id: str) -> str:
    """Keep as much of a lease id as it takes to find two lines about the same lease."""
    return lease_id[:LEASE_ID_CHARACTERS]


def spell_instant(ns: int) -> str:
    """Spell an instant as RFC 3339 has it, to the nanosecond."""
    seconds, rest = divmod(ns, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def _when(now: int, latency_ns: int, request_id: str) -> dict[str, object]:
    facts: dict[str, object] = {"ts": spell_instant(now), "latency_ms": latency_ns / MILLISECOND}
    return facts | {"request_id": request_id} if request_id else facts
