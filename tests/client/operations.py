"""What tests of operations share: one carried by hand, at instants that the test says.

No network and no expectation lives here.
"""

from typing import Any

from holdfast.client.asks import Answer, Ask, Granted, Refusal, Want
from holdfast.client.core import Acquiring
from holdfast.client.operation import Operation, Rules
from holdfast.client.retry import RetryPolicy
from holdfast.errors import Busy, HoldfastError

SECOND = 1_000_000_000
SLICE = 50 * SECOND
TICKET = "ticket-of-a-0001"
WANT = Want(key="job", ticket=TICKET, lease_ns=30 * SECOND)


def rules(**changes: Any) -> Rules:
    """Give rules with a second between tries and no chance in it; trouble is put up with for ten seconds."""
    usual: dict[str, Any] = {
        "clock": lambda: 0,
        "chance": lambda: 0.5,
        "timeout_ns": 10 * SECOND,
        "trouble": RetryPolicy(max_retries=1000, max_total_wait=10, min_delay=1, max_delay=1, jitter=0),
        "polling": RetryPolicy(max_retries=1 << 30, min_delay=1, max_delay=4, jitter=0),
    }
    return Rules(**(usual | changes))


def grant(want: Want = WANT, **changes: Any) -> Granted:
    """Give what a native server says when it grants; its answer left with all of the lease still to come."""
    usual: dict[str, Any] = {
        "ticket": want.ticket,
        "key": want.key,
        "kind": want.kind,
        "mode": want.mode,
        "fence": 7,
        "token": f"{7:016x}{1:016x}",
        "lease_ns": want.lease_ns,
        "left_ns": want.lease_ns,
    }
    return Granted(**(usual | changes))


class Carrier:
    """Carries one operation; instants are seconds."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation

    def ask(self, at: float = 0) -> Ask:
        """Let it ask, and send that."""
        now = int(at * SECOND)
        ask = self.operation.next(now)
        assert ask is not None, f"it pauses until {self.operation.pause_until / SECOND} s"
        self.operation.asks(now)
        return ask

    def pause(self, at: float = 0) -> float:
        """Find that it wants to pause; say until when."""
        assert self.operation.next(int(at * SECOND)) is None
        return self.operation.pause_until / SECOND

    def hear(self, answer: Answer, at: float = 0) -> bool:
        """Bring the answer."""
        return self.operation.heard(answer, int(at * SECOND))

    def miss(self, error: HoldfastError, at: float = 0, *, began: float | None = None) -> None:
        """Bring the news that there is none."""
        self.operation.missed(error, began=int((at if began is None else began) * SECOND), now=int(at * SECOND))


def acquiring(patience: float | None = None, want: Want = WANT, **changes: Any) -> Carrier:
    """Begin to take something at a server that has its callers wait."""
    return Carrier(Acquiring(rules(**changes), want, None if patience is None else int(patience * SECOND)))


def over_http(patience: float | None = None, **changes: Any) -> Carrier:
    """Begin to take something at a server that has its callers come again."""
    return acquiring(patience, slice_ns=SLICE, **changes)


def http_grant() -> Granted:
    """Give what such a server says when it grants: not how much of the lease is left."""
    return grant(left_ns=None, lease_id="one-lease", owner="me/1")


def busy(advice: float = 0.0) -> Refusal:
    """Give what it says when somebody else has it."""
    return Refusal(Busy("a@host:1 holds it"), int(advice * SECOND))
