"""The heartbeat of one lease over HTTP: when to renew, what a failure means, when it is over.

It decides; asking the server and telling the holder is done in the faces.
"""

import threading
from collections import deque
from collections.abc import Callable
from enum import Enum

from holdfast.client.lease import Lease as Term
from holdfast.client.lease import State
from holdfast.client.lock_api import BUSY_RETRY, NotAcquired, Renewal
from holdfast.client.retry import SECOND, RetryPolicy
from holdfast.errors import Closed, HoldfastError, LeaseLost

ERRORS_MAX = 16


class Next(Enum):
    """What a heartbeat does next."""

    RENEW = "renew"
    WAIT = "wait"
    END = "end"


class Beat:
    """Renews at a steady interval; what fails is tried again soon, until the deadline has passed by the local clock."""

    def __init__(self, term: Term, now: int, *, interval_ns: int, extend_ns: int, chance: Callable[[], float]) -> None:
        self.term = term
        self.extend_ns = extend_ns
        self.error: HoldfastError | None = None
        # The latest ones; who does not take them loses the oldest.
        self.errors: deque[HoldfastError] = deque(maxlen=ERRORS_MAX)
        self.stopped = False
        self._interval_ns = interval_ns
        self._due = now + interval_ns
        self._failures = 0
        self._loss: LeaseLost | None = None
        self._lock = threading.Lock()
        self._chance = chance
        # Ten tries or so fit between the first one and the end of a lease that is renewed at a third.
        slowest = interval_ns / SECOND / 2
        self._policy = RetryPolicy(min_delay=min(0.025, slowest), max_delay=slowest)

    @property
    def lost(self) -> bool:
        """Tell whether the lease is lost, by the clock of this very moment."""
        return self.term.state() is State.LOST

    @property
    def over(self) -> bool:
        return self.stopped or not self.term.held

    def next(self, now: int) -> tuple[Next, int]:
        """Say what to do, and for a wait until which instant."""
        if self.over:
            return Next.END, now
        if now >= self._due:
            return Next.RENEW, now
        return Next.WAIT, min(self._due, self.term.deadline)

    def asks(self, sent_at: int) -> None:
        """A renewal is about to leave; where it is for less than what is left, no answer need ever come to that."""
        self.term.asks(sent_at=sent_at, lease_ns=self.extend_ns)

    def answered(self, renewal: Renewal, sent_at: int, now: int) -> None:
        """Take in what the server said to a renewal that was sent at that instant."""
        if renewal.renewed:
            self._failures = 0
            self.error = None
            self._due = max(sent_at + self._interval_ns, now)
            self.term.confirm(sent_at=sent_at, lease_ns=self.extend_ns)
        elif renewal.reason == BUSY_RETRY:
            self.failed(NotAcquired("renewal", BUSY_RETRY), now)
        else:
            self.term.lose(f"the server says {renewal.reason}")

    def failed(self, error: HoldfastError, now: int) -> None:
        """Nobody knows whether the lease was renewed; try again soon, unless the client has been closed for good."""
        self._failures += 1
        self._note(error)
        closed = isinstance(error, Closed)
        self._due = self.term.deadline if closed else now + self._policy.delay_ns(self._failures, self._chance())

    def loss(self) -> LeaseLost:
        """Note once that the lease is lost, and give the error that says so."""
        with self._lock:
            if self._loss is None:
                why = f"; before that: {self.error}" if self.error is not None else ""
                self._loss = LeaseLost(f"{self.term.reason}{why}")
                self._note(self._loss)
            return self._loss

    def _note(self, error: HoldfastError) -> None:
        self.error = error
        self.errors.append(error)
