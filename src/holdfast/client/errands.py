"""What is left to be ended at a server: claims that are given back, and those that nobody may be told of any more.

Each is asked for until the server says that it is over, or until its lease must be. What is held is not known here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.client.asks import End, Ended, Granted, Proof, Refusal, Seen
from holdfast.client.link import FOREVER, SECOND, Call
from holdfast.client.retry import RetryPolicy
from holdfast.errors import Busy, Retry

if TYPE_CHECKING:
    from holdfast.client.steward import Steward

# How far apart the tries are of whatever the keeper does by itself; it ends with a lease, not with a number of them.
AGAIN: Final = RetryPolicy(min_delay=0.05, max_delay=1.0)
ANSWER_NS_MAX: Final = 5 * SECOND
# What may have been asked for over a connection that broke may still be on its way: it is ended twice, so far apart.
SURE_NS: Final = SECOND
ERRANDS_MAX: Final = 100_000


class Errand:
    """Something to be ended at the server, for as long as it could be held there."""

    __slots__ = ("ask", "asking", "done", "ours", "sure", "tries", "try_at", "until")

    def __init__(self, ask: End, *, now: int, done: Callable[[], None] | None) -> None:
        self.ask = ask
        self.until = now + ask.want.lease_ns + SURE_NS
        self.try_at = now
        self.tries = 0
        self.asking = False
        # Nothing that was asked for earlier can still arrive: there is a proof, or that was checked twice.
        self.sure = ask.proof is not None
        self.ours = False  # the server has said that it is held by this very claim, and not with what proof
        self.done = done


class Errands:
    """All that one steward has left to end, in its order."""

    def __init__(self, steward: "Steward") -> None:
        self._steward = steward
        self._errands: dict[Errand, None] = {}

    def __len__(self) -> int:
        return len(self._errands)

    def add(self, ask: End, *, now: int, done: Callable[[], None] | None) -> None:
        """Have something ended from now on."""
        if len(self._errands) >= ERRANDS_MAX:
            self._finish(next(iter(self._errands)))  # the oldest one's lease is nearest to its end
        self._errands[Errand(ask, now=now, done=done)] = None

    def tell_all(self, done: Callable[[], None]) -> int:
        """Have `done` called for each that is due and that nobody waits for yet; say how often that will be."""
        now = self._steward.keeper.clock()
        waited = [errand for errand in self._errands if errand.done is None and errand.try_at <= now + SURE_NS]
        for errand in waited:
            errand.done = done
        return len(waited)

    def run(self, now: int) -> int:
        """Ask for what is due; answer when to come back."""
        soonest = FOREVER
        for errand in list(self._errands):
            if not errand.asking and errand.try_at <= now:
                self._run(errand, now)
            if not errand.asking and errand.try_at < soonest and errand in self._errands:
                soonest = errand.try_at
        return soonest

    def _run(self, errand: Errand, now: int) -> None:
        ask = self._steward.prepare(errand)
        if now >= errand.until or ask is None:
            self._finish(errand)
            return
        errand.asking = True
        until = now + ANSWER_NS_MAX
        self._steward.deliver(Call(ask, until, lambda call: self._ran(errand, call)), now)
        self._steward.wake(until)

    def _ran(self, errand: Errand, call: Call) -> None:
        keeper = self._steward.keeper
        errand.asking = False
        errand.try_at = now = keeper.clock()
        answer = call.answer
        refused = answer.error if isinstance(answer, Refusal) else None
        if isinstance(answer, Granted):  # it was found again, or taken anew only to be given back with a proof
            want = errand.ask.want
            proof = Proof(want, answer.token, answer.fence, answer.lease_id, answer.owner)
            errand.ask = End(want, proof, errand.ask.value)
            errand.until = max(errand.until, now + want.lease_ns + SURE_NS)
            errand.sure = True
        elif isinstance(answer, Refusal) and answer.ours and not errand.ours:
            errand.ours = True
        elif isinstance(answer, Ended) and answer.was_there:
            self._finish(errand)
        elif isinstance(answer, (Ended, Seen)) or isinstance(refused, Busy):
            self._miss(errand, now)
        elif refused is not None and refused.retry is Retry.NEVER:
            self._finish(errand)  # the server will not listen
        else:
            errand.tries += 1
            errand.try_at = min(now + AGAIN.delay_ns(errand.tries, keeper.chance()), errand.until)
        self._steward.wake(errand.try_at)

    def _miss(self, errand: Errand, now: int) -> None:
        """There is nothing of ours at the server: for good, or because the request for it is still on its way."""
        if errand.sure:
            self._finish(errand)
        errand.sure = True
        errand.ours = False
        errand.try_at = now + SURE_NS

    def _finish(self, errand: Errand) -> None:
        if errand in self._errands:
            del self._errands[errand]
            if errand.done is not None:
                errand.done()
