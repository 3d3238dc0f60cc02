"""What one operation is: what to ask, what to make of an answer or of none, and what is left to be cleaned up.

No input or output: a face carries the requests and comes back with what became of them. An operation keeps its ticket
however often it asks, which is why asking again after a lost answer is harmless.
"""

from dataclasses import replace
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
from holdfast.client.operation import PASSING, Operation, Rules
from holdfast.client.retry import Attempts
from holdfast.errors import Busy, HoldfastError, LeaseLost, NotHeld, StoreBusy, TimedOut, Unknown

SECOND: Final = 1_000_000_000
# The only query that changes something: by the second time, somebody else may have what is taken away.
NOT_TWICE: Final = ("break",)
# Stands in the tickets of a group's members, which cannot be shown one by one.
GROUP_MARK: Final = "#"


class Asking(Operation):
    """A query. It is asked again until it is answered, unless asking again could change something once more."""

    __slots__ = ("_ask", "fields")

    def __init__(self, rules: Rules, ask: Query) -> None:
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
            raise self._strange(answer, "a query")
        self.fields = answer.fields
        return True

    def missed(self, error: HoldfastError, *, began: int, now: int) -> None:
        if isinstance(error, Unknown) and self._ask.op in NOT_TWICE:
            self.asking = False
            raise error
        super().missed(error, began=began, now=now)


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
        self._first_at: int | None = None
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
        if self._first_at is None:
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
        if isinstance(answer, Seen) and self._recovers:
            self._recovers = False
            self._wait_on(Busy("it cannot be told whether it is held by this very claim"), 0, now)
            return False
        if isinstance(answer, Refusal):
            self._denied(answer, now)
            return False
        raise self._strange(answer, f"a request for {self.want.key!r}")

    def _granted(self, grants: list[Granted], now: int) -> bool:
        """A lease counts from before the request; much of it may have gone by while that waited."""
        self.grants = grants
        self.lease_ns = min(self.want.lease_ns, *(grant.lease_ns for grant in grants))
        if any(grant.left_ns is None for grant in grants):
            assert self._first_at is not None
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
        if not any(answer.renewed):
            self.grants.clear()  # of a group, what is left is still to be ended
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
        self._troubles = None  # it works, whatever was wrong before
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

    def leftover(self) -> tuple[Want, Proof | None] | None:
        """There was a place before anything was asked."""
        return super().leftover() or (self.want, None)


class Converting(Operation):
    """Change the mode of what is held, `now_in` another one; the result is `granted`.

    A server that was started again knows what it kept by its ticket alone, and has to be shown that first. Should it
    have nothing under it, it takes that for a new request: such a grant is given back, and the old one is lost.
    """

    __slots__ = ("_deadline", "_looks", "_mode", "_now_in", "_patience_ns", "_proof", "_unknown", "_value", "granted")

    def __init__(
        self, rules: Rules, proof: Proof, mode: str, patience_ns: int | None, value: bytes | None, *, now_in: str
    ) -> None:
        super().__init__(rules)
        self._proof = proof
        self._mode = mode
        self._now_in = now_in
        self._looks = False  # the ticket is being shown
        self._unknown: NotHeld | None = None  # what the server said that did not know of it
        self._patience_ns = patience_ns
        self._deadline: int | None = None
        self._value = value
        self.granted: Granted | None = None

    def next(self, now: int) -> Ask | None:
        if now < self.pause_until:
            return None
        if self._deadline is None and self._patience_ns is not None:
            self._deadline = now + self._patience_ns
        if self._looks:
            return Acquire(replace(self._proof.want, mode=self._now_in), 0)
        left = None if self._deadline is None else max(0, self._deadline - now)
        return Convert(self._proof.want, self._mode, left, self._value)

    def patience_ns(self) -> int | None:
        if self._looks:
            return 0
        return None if self._deadline is None else max(0, self._deadline - self.asked_at)

    def leftover(self) -> tuple[Want, Proof | None] | None:
        """Only what is certainly not what is held: that must not be ended behind its holder's back."""
        if self.granted is None or not self._looks:
            return None
        return self._proof.want, proof_of(self._proof.want, self.granted)

    def heard(self, answer: Answer, now: int) -> bool:
        self.asking = False
        if isinstance(answer, Refusal):
            self._denied(answer, now)
            return False
        if not isinstance(answer, Granted):
            raise self._strange(answer, "a conversion")
        if self._looks and answer.fence == self._proof.fence:
            self._looks = False
            return False
        self.granted = answer
        if self._looks:
            raise LeaseLost(f"{self._proof.want.key!r} is not held any more: the server did not know of it") from (
                self._unknown
            )
        return True

    def _denied(self, refusal: Refusal, now: int) -> None:
        error = refusal.error
        if type(error) is NotHeld and self._unknown is None and GROUP_MARK not in self._proof.want.ticket:
            self._looks = True
            self._unknown = error
        elif self._looks and not isinstance(error, PASSING):
            assert self._unknown is not None
            raise self._unknown
        else:
            self._refused(refusal, now)


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
            raise self._strange(answer, "a renewal")
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
            raise self._strange(answer, "a release")
        # If an earlier request was not answered, it may be what ended the claim.
        self.was_there = answer.was_there or self.unsure
        return True


def proof_of(want: Want, grant: Granted) -> Proof:
    """Keep what shows that a grant is ours, be it one of a group's."""
    if want.members:
        limit = None if grant.kind == LOCK else 0  # a renewal says of what kind it is, and not how large
        want = Want(key=grant.key, ticket=grant.ticket, lease_ns=want.lease_ns, mode=grant.mode, limit=limit)
    return Proof(want, grant.token, grant.fence, grant.lease_id, grant.owner)
