"""What one operation is: what to ask, what to make of an answer or of none, and what is left to be cleaned up.

No input or output: a face carries the requests and comes back with what became of them. An operation keeps its ticket
however often it asks, which is why asking again after a lost answer is harmless.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from holdfast.client.asks import (
    LOCK,
    Acquire,
    Answer,
    Ask,
    Convert,
    End,
    Ended,
    Enqueue,
    Granted,
    GrantedAll,
    Proof,
    Query,
    Queued,
    Refusal,
    Renew,
    Renewed,
    Seen,
    Wait,
    Want,
)
from holdfast.client.retry import Attempts, RetryPolicy
from holdfast.errors import (
    BadPeer,
    Busy,
    Closed,
    HoldfastError,
    LeaseLost,
    StoreBusy,
    TimedOut,
    Unavailable,
    Unknown,
)

SECOND: Final = 1_000_000_000
MILLISECOND: Final = 1_000_000
# Trouble that is worth another try: nothing is wrong with the request.
PASSING: Final = (Unavailable, Unknown, Closed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a client's operations try again."""

    clock: Callable[[], int]
    chance: Callable[[], float]
    timeout_ns: int  # how long an answer may take, beyond what it has to wait for; and how long trouble is put up with
    trouble: RetryPolicy
    polling: RetryPolicy  # between two refusals of a server that has nobody wait
    slice_ns: int | None = None  # the longest that one request may wait at the server; None: as long as wanted


class Operation(ABC):
    """One thing to be done. `next` gives what to ask, or None to pause until `pause_until`; then what happened to it
    is told to `heard` or `missed`. `heard` answers whether it is done; refusals and lasting trouble are raised."""

    __slots__ = ("_rules", "_trouble_at", "_troubles", "asked_at", "asking", "pause_until", "unsure")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._troubles: Attempts | None = None
        self._trouble_at = 0
        self.asked_at = 0
        self.asking = False  # a request is on its way
        self.unsure = False  # a request may have been heard that was not answered
        self.pause_until = 0

    @abstractmethod
    def next(self, now: int) -> Ask | None:
        """Say what to ask now."""

    @abstractmethod
    def heard(self, answer: Answer, now: int) -> bool:
        """Take in an answer; say whether that was all."""

    def patience_ns(self) -> int | None:
        """Say how long the answer to the last request may take to be decided on; None is for ever."""
        return 0

    def asks(self, now: int) -> None:
        """The request is about to leave."""
        self.asked_at = now
        self.asking = True

    def missed(self, error: HoldfastError, *, began: int, now: int) -> None:
        """No answer came: raise what is to be told, or come back later with the same ticket."""
        self.asking = False
        if isinstance(error, Unknown):
            self.unsure = True
            began = now  # it may have waited for a long time before the connection broke
        if not isinstance(error, PASSING):
            raise error
        self._retry(error, now, began=began)

    def leftover(self) -> tuple[Want, Proof | None] | None:
        """Say what may be held, or wait, at the server that nobody will use."""
        return None

    def _retry(self, error: HoldfastError, now: int, *, began: int | None = None, advice_ns: int = 0) -> None:
        if self._troubles is None or now - self._trouble_at > 2 * self._rules.timeout_ns:
            self._troubles = Attempts(self._rules.trouble, now if began is None else began, self._rules.chance)
        self._trouble_at = now
        again = self._troubles.again(now, advice_ns=advice_ns)
        if again is None:
            raise Unknown(str(error)) if self.unsure and not isinstance(error, Unknown) else error
        self.pause_until = again

    def _refused(self, refusal: Refusal, now: int) -> None:
        """Try again where the trouble may pass."""
        if not isinstance(refusal.error, PASSING):
            raise refusal.error
        self._retry(refusal.error, now, advice_ns=refusal.advice_ns)


class Asking(Operation):
    """A query, which changes nothing that asking again would change once more."""

    __slots__ = ("_ask", "fields")

    def __init__(self, rules: Rules, ask: Ask) -> None:
        super().__init__(rules)
        self._ask = ask
        self.fields: dict[str, object] = {}

    def next(self, now: int) -> Ask | None:
        return None if now < self.pause_until else self._ask

    def heard(self, answer: Answer, now: int) -> bool:
        self.asking = False
        if isinstance(answer, Refusal):
            self._refused(answer, now)
            return False
        if not isinstance(answer, Seen):
            raise BadPeer(f"the server answered a query with {type(answer).__name__}")
        self.fields = answer.fields
        return True


class Acquiring(Operation):
    """Take something, or wait for it. The result is `grants`, whose leases count from `sent_at`."""

    __slots__ = (
        "_deadline",
        "_first_at",
        "_last_patience_ns",
        "_patience_ns",
        "_polls",
        "_recovers",
        "grants",
        "lease_ns",
        "left_ns",
        "sent_at",
        "want",
    )

    def __init__(self, rules: Rules, want: Want, patience_ns: int | None) -> None:
        super().__init__(rules)
        self.want = want
        self._patience_ns = patience_ns
        self._deadline: int | None = None
        self._first_at = 0
        self._last_patience_ns: int | None = None
        self._polls: Attempts | None = None
        self._recovers = False
        self.grants: list[Granted] = []
        self.sent_at = 0
        self.lease_ns = 0
        self.left_ns = 0

    def next(self, now: int) -> Ask | None:
        if now < self.pause_until:
            return None
        if self._first_at == 0:
            self._first_at = now
            if self._patience_ns is not None:
                self._deadline = now + self._patience_ns
        if self.grants:
            return Renew([(proof_of(self.want, grant), self.want.lease_ns) for grant in self.grants])
        if self._recovers:
            return Query("recover", {"want": self.want})
        left = None if self._deadline is None else max(0, self._deadline - now)
        if self._rules.slice_ns is not None and (left is None or left > self._rules.slice_ns):
            left = self._rules.slice_ns
        self._last_patience_ns = left
        return self._ask(left)

    def _ask(self, patience_ns: int | None) -> Ask:
        return Acquire(self.want, patience_ns)

    def patience_ns(self) -> int | None:
        return 0 if self.grants or self._recovers else self._last_patience_ns

    def leftover(self) -> tuple[Want, Proof | None] | None:
        """What was granted, or asked for: whoever stopped waiting for the answer does not know."""
        if self.grants and not self.want.members:
            return self.want, proof_of(self.want, self.grants[0])
        return (self.want, None) if self.asking or self.unsure or self.grants else None

    # --- answers ---

    def heard(self, answer: Answer, now: int) -> bool:
        self.asking = False
        if isinstance(answer, Granted):
            return self._granted([answer], now)
        if isinstance(answer, GrantedAll):
            return self._granted(answer.grants, now)
        if isinstance(answer, Renewed):
            return self._confirmed(answer, now)
        if isinstance(answer, Seen):  # it was not ours, after all
            self._recovers = False
            return False
        if isinstance(answer, Refusal):
            self.unsure = False  # it was said under this ticket, whatever became of an earlier request
            self._denied(answer, now)
            return False
        raise BadPeer(f"the server answered a request for {self.want.key!r} with {type(answer).__name__}")

    def _granted(self, grants: list[Granted], now: int) -> bool:
        """A lease counts from before the request; much of it may have gone by while that waited."""
        self.grants = grants
        self.lease_ns = min(self.want.lease_ns, *(grant.lease_ns for grant in grants))
        if any(grant.left_ns is None for grant in grants):
            self.sent_at = self._first_at  # with this ticket, it may have been granted as early as that
            self.left_ns = self.lease_ns
        else:
            self.sent_at = self.asked_at
            self.left_ns = min(self.lease_ns, *(grant.left_ns or 0 for grant in grants))
        # If a third of it may be gone, it is renewed before anybody relies on it.
        return self.left_ns - (now - self.sent_at) >= self.lease_ns - self.lease_ns // 3

    def _confirmed(self, answer: Renewed, now: int) -> bool:
        if all(answer.renewed):
            self.sent_at = self.asked_at
            self.left_ns = self.lease_ns
            return True
        if None in answer.renewed:
            self._retry(StoreBusy("the server did not get at its store"), now)
            return False
        self.grants.clear()
        raise LeaseLost(
            f"{self.want.key!r} was granted, but its lease of {self.want.lease_ns / SECOND:g} s ran out before that "
            "was known here"
        )

    def _denied(self, refusal: Refusal, now: int) -> None:
        error = refusal.error
        if refusal.ours and not self._recovers:
            self._recovers = True
            return
        self._recovers = False
        if isinstance(error, (Busy, TimedOut)):
            self._wait_on(error, refusal.advice_ns, now)
        else:
            self._refused(refusal, now)

    def _wait_on(self, error: HoldfastError, advice_ns: int, now: int) -> None:
        """Somebody else has it. Where the server does not have us wait until the end of our patience, we poll."""
        if self._deadline is not None and now >= self._deadline:
            if self._patience_ns == 0:
                raise error if isinstance(error, Busy) else Busy(str(error))
            raise TimedOut(f"{self.want.key!r} was not to be had: {error}")
        if self._rules.slice_ns is None:
            raise error
        if self._last_patience_ns is not None and now - self.asked_at >= self._last_patience_ns:
            return  # it had us wait as long as it was asked to, so this is no polling
        if self._polls is None:
            self._polls = Attempts(self._rules.polling, now, self._rules.chance)
        again = self._polls.again(now, advice_ns=advice_ns)
        assert again is not None  # polling goes on until the patience is over
        self.pause_until = again if self._deadline is None else min(again, self._deadline)


class Enqueueing(Acquiring):
    """Take something, or a place in the queue: then `queued` is true, and there are no grants."""

    __slots__ = ("queued",)

    def __init__(self, rules: Rules, want: Want) -> None:
        super().__init__(rules, want, None)
        self.queued = False

    def _ask(self, patience_ns: int | None) -> Ask:
        return Enqueue(self.want)

    def patience_ns(self) -> int | None:
        return 0

    def heard(self, answer: Answer, now: int) -> bool:
        self.asking = False
        if isinstance(answer, Queued):
            self.queued = True
            return True
        return super().heard(answer, now)


class Waiting(Acquiring):
    """Wait for what has a place in the queue."""

    __slots__ = ()

    def _ask(self, patience_ns: int | None) -> Ask:
        return Wait(self.want, patience_ns)


class Converting(Operation):
    """Change the mode of what is held; the result is `granted`."""

    __slots__ = ("_deadline", "_mode", "_patience_ns", "_value", "_want", "granted")

    def __init__(self, rules: Rules, want: Want, mode: str, patience_ns: int | None, value: bytes | None) -> None:
        super().__init__(rules)
        self._want = want
        self._mode = mode
        self._patience_ns = patience_ns
        self._deadline: int | None = None
        self._value = value
        self.granted: Granted | None = None

    def next(self, now: int) -> Ask | None:
        if now < self.pause_until:
            return None
        if self._deadline is None and self._patience_ns is not None:
            self._deadline = now + self._patience_ns
        left = None if self._deadline is None else max(0, self._deadline - now)
        return Convert(self._want, self._mode, left, self._value)

    def patience_ns(self) -> int | None:
        return None if self._deadline is None else max(0, self._deadline - self.asked_at)

    def heard(self, answer: Answer, now: int) -> bool:
        self.asking = False
        if isinstance(answer, Refusal):
            self._refused(answer, now)
            return False
        if not isinstance(answer, Granted):
            raise BadPeer(f"the server answered a conversion with {type(answer).__name__}")
        self.granted = answer
        return True


class Renewing(Operation):
    """Begin a lease again, now; `renewed` tells whether there still was one."""

    __slots__ = ("_lease_ns", "_proof", "renewed")

    def __init__(self, rules: Rules, proof: Proof, lease_ns: int) -> None:
        super().__init__(rules)
        self._proof = proof
        self._lease_ns = lease_ns
        self.renewed = False

    def next(self, now: int) -> Ask | None:
        return None if now < self.pause_until else Renew([(self._proof, self._lease_ns)])

    def heard(self, answer: Answer, now: int) -> bool:
        self.asking = False
        if isinstance(answer, Refusal):
            self._refused(answer, now)
            return False
        if not isinstance(answer, Renewed):
            raise BadPeer(f"the server answered a renewal with {type(answer).__name__}")
        if answer.renewed[0] is None:
            self._retry(StoreBusy("the server did not get at its store"), now)
            return False
        self.renewed = answer.renewed[0]
        return True


class Ending(Operation):
    """Give something back; `was_there` tells whether it was ours until then."""

    __slots__ = ("_ask", "was_there")

    def __init__(self, rules: Rules, proof: Proof, value: bytes | None) -> None:
        super().__init__(rules)
        self._ask = End(proof.want, proof, value)
        self.was_there = True

    def leftover(self) -> tuple[Want, Proof | None] | None:
        return self._ask.want, self._ask.proof

    def next(self, now: int) -> Ask | None:
        return None if now < self.pause_until else self._ask

    def heard(self, answer: Answer, now: int) -> bool:
        self.asking = False
        if isinstance(answer, Refusal):
            self._refused(answer, now)
            return False
        if not isinstance(answer, Ended):
            raise BadPeer(f"the server answered a release with {type(answer).__name__}")
        # If an earlier request was not answered, it may be what ended the claim.
        self.was_there = answer.was_there or self.unsure
        return True


def proof_of(want: Want, grant: Granted) -> Proof:
    """Keep what shows that a grant is ours, be it one of a group's."""
    if want.members:
        limit = None if grant.kind == LOCK else 0  # a renewal says of what kind it is, and not how large
        want = Want(key=grant.key, ticket=grant.ticket, lease_ns=want.lease_ns, mode=grant.mode, limit=limit)
    return Proof(want, grant.token, grant.fence, grant.lease_id, grant.owner)
