"""What the keeper does at one server for one client: renews what is held, delivers what is to be ended, tells holders.

A renewal never makes a claim anew, and nothing here decides that a lease goes on: `lease.py` does, by the clock.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.client.asks import Acquire, Ask, End, Ended, Granted, Proof, Refusal, Renew, Renewed, Want
from holdfast.client.lease import Lease, Notice
from holdfast.client.link import FOREVER, SECOND, Call, Link
from holdfast.client.ports import Address
from holdfast.client.retry import RetryPolicy
from holdfast.errors import Forbidden, HoldfastError, Retry

if TYPE_CHECKING:
    from holdfast.client.keeper import Keeper

MILLISECOND: Final = 1_000_000
# A renewal that failed is tried again until the deadline, however often.
AGAIN: Final = RetryPolicy(min_delay=0.05, max_delay=1.0)
# A renewal's answer is overdue after a share of the lease, so that another connection can still be tried.
ANSWER_NS_MAX: Final = 5 * SECOND
ANSWER_NS_MIN: Final = 100 * MILLISECOND
# Renewals that are due soon go along with those that are due now.
ALONG: Final = 20
# What may have been asked for over a connection that broke may still be on its way: it is ended twice, so far apart.
SURE_NS: Final = SECOND
ERRANDS_MAX: Final = 100_000


class Kept:
    """A claim that is held, as the keeper knows it. `tell` is called outside of the keeper."""

    __slots__ = ("cost", "lease", "listens", "over", "proof", "renewal_ns", "renewing", "tell", "tries", "try_at")

    def __init__(
        self,
        lease: Lease,
        proof: Proof,
        tell: Callable[[Notice], None],
        *,
        listens: bool = False,
        renewal_ns: Callable[[int], int] | None = None,
    ) -> None:
        self.lease = lease
        self.proof = proof
        self.tell = tell
        self.listens = listens  # wants to hear of the server at once, not only with the next renewal
        self.renewal_ns = renewal_ns  # how long a lease to ask for, by now; None: as long as before
        self.renewing = False
        self.tries = 0  # renewals that failed since the last one that did not
        self.try_at = lease.renew_at
        self.cost = 0  # bytes of a line that a renewal takes; 0: not counted yet
        self.over = False


class Errand:
    """Something to be ended at the server, for as long as it could be held there."""

    __slots__ = ("ask", "asking", "done", "sure", "tries", "try_at", "until")

    def __init__(self, ask: End, *, until: int, now: int, done: Callable[[], None] | None) -> None:
        self.ask = ask
        self.until = until
        self.try_at = now
        self.tries = 0
        self.asking = False
        # Nothing that was asked for earlier can still arrive: there is a proof, or that was checked twice.
        self.sure = ask.proof is not None
        self.done = done


class Steward(ABC):
    """The part that all protocols have in common."""

    def __init__(self, keeper: "Keeper", address: Address) -> None:
        self.keeper = keeper
        self.address = address
        self.kept: dict[str, Kept] = {}
        self.errands: list[Errand] = []
        self.due = FOREVER
        self.closed = False

    # --- from the faces, under the keeper's roof ---

    def keep(self, kept: Kept) -> None:
        """Take care of a claim from now on."""
        self.kept[kept.proof.want.ticket] = kept
        lease = kept.lease
        at = kept.try_at
        if lease.deadline - lease.danger_ns < at:
            at = lease.deadline - lease.danger_ns
        if self.listen_at(kept) < at:
            at = self.listen_at(kept)
        self.wake(at)

    def drop(self, kept: Kept) -> None:
        """Take no more care of a claim: it is being given back, or gone."""
        kept.over = True
        if self.kept.get(kept.proof.want.ticket) is kept:
            del self.kept[kept.proof.want.ticket]

    def hurry(self, kept: Kept) -> None:
        """Look at a claim now; its holder has given a sign of life, say."""
        kept.try_at = min(kept.try_at, kept.lease.renew_at)
        self.wake(kept.try_at)

    def finish(
        self,
        want: Want,
        proof: Proof | None,
        *,
        value: bytes | None = None,
        not_before: int = 0,
        done: Callable[[], None] | None = None,
    ) -> None:
        """End a claim, or what may have become one, however often that has to be tried before its lease is over."""
        now = max(self.keeper.clock(), not_before)
        if len(self.errands) >= ERRANDS_MAX:
            self.errands.pop(0)  # the oldest one's lease is nearest to its end
        ask = End(want, proof, value)
        self.errands.append(Errand(ask, until=now + want.lease_ns + SURE_NS, now=now, done=done))
        self.wake(now)

    def retire(self, done: Callable[[], None]) -> int:
        """Give back what is held, as this process is about to end; say how often `done` will be called."""
        for kept in list(self.kept.values()):
            if kept.renewal_ns is None and kept.lease.release():  # what is to outlive its work is left to its lease
                self.drop(kept)
                self.finish(kept.proof.want, kept.proof)
        waited = [errand for errand in self.errands if errand.done is None]
        for errand in waited:
            errand.done = done
        return len(waited)

    def call(self, ask: Ask, *, until: int, done: Callable[[Call], None]) -> Call:
        """Ask something once."""
        now = self.keeper.clock()
        call = Call(ask, until, done)
        self.deliver(call, now)
        self.wake(min(until, now + SECOND))
        return call

    def wake(self, at: int) -> None:
        """See that `tick` comes no later than this."""
        if at < self.due:
            self.due = at
            if at < self.keeper.due:
                self.keeper.due = at

    # --- what the protocols do each in their way ---

    renewals_max = 1

    @abstractmethod
    def deliver(self, call: Call, now: int) -> None:
        """Send a call over a connection that is fit for it, which may have to be opened first."""

    @abstractmethod
    def cancel(self, call: Call) -> None:
        """Nobody wants this answer any more."""

    @abstractmethod
    def tend(self, now: int) -> int:
        """Look after the connections; answer when to look again."""

    @abstractmethod
    def hang_up(self) -> None:
        """Let go of all connections."""

    def listen_at(self, kept: Kept) -> int:
        """Say by when there has to be a connection to hear news of this claim."""
        return FOREVER

    def prepare(self, errand: Errand) -> Ask | None:
        """Say what to ask so that this is ended; None if there is nothing to ask for."""
        return errand.ask

    # --- time ---

    def tick(self, now: int) -> int:
        """Do what is due; answer when to come back."""
        if now >= self.due:
            self.due = FOREVER
            for work in (self._look_after_leases, self._run_errands):
                self.wake(work(now))  # what is done may itself wake
        self.wake(self.tend(now))
        return self.due

    def _look_after_leases(self, now: int) -> int:
        soonest = FOREVER
        renewals: list[Kept] = []
        waiting: list[Kept] = []
        for kept in list(self.kept.values()):
            notice_at = kept.lease.next_notice_at()
            if notice_at is None or notice_at <= now:
                self._notice(kept)
                if kept.over:
                    continue
                notice_at = kept.lease.next_notice_at()
            if notice_at is not None and notice_at < soonest:
                soonest = notice_at
            if not kept.renewing:
                waiting.append(kept)
                if kept.try_at <= now:
                    renewals.append(kept)
        if renewals:
            renewals = [kept for kept in waiting if kept.try_at <= now + kept.lease.lease_ns // ALONG]
            self._renew([kept for kept in renewals if self._deserves(kept, now)], now)
        for kept in waiting:
            if not kept.renewing and not kept.over and kept.try_at < soonest:
                soonest = kept.try_at
        return soonest

    def _deserves(self, kept: Kept, now: int) -> bool:
        """A holder that gives no sign of life is let go; should it come back in time, it is renewed again."""
        if kept.lease.beats(now):
            return True
        kept.try_at = now + kept.lease.lease_ns // 10
        return False

    def _notice(self, kept: Kept) -> None:
        for notice in kept.lease.notices():
            self.keeper.tell(kept.tell, notice)
            if notice is Notice.LOST:
                # It is not ended here, though it may be there for as long as the margin: its holder stops meanwhile.
                self.drop(kept)

    # --- renewals ---

    def _renew(self, renewals: list[Kept], now: int) -> None:
        for batch in self.batches(renewals):
            proofs = []
            overdue = ANSWER_NS_MAX
            for kept in batch:
                kept.renewing = True
                lease_ns = kept.lease.lease_ns if kept.renewal_ns is None else kept.renewal_ns(now)
                overdue = min(overdue, lease_ns // 6)
                proofs.append((kept.proof, lease_ns))
            until = now + max(overdue, ANSWER_NS_MIN)

            def done(call: Call, batch: list[Kept] = batch) -> None:
                self._renewed(call, batch)

            self.deliver(Call(Renew(proofs), until, done), now)
            self.wake(until)

    def batches(self, renewals: list[Kept]) -> list[list[Kept]]:
        """Say which renewals travel together."""
        return [renewals[at : at + self.renewals_max] for at in range(0, len(renewals), self.renewals_max)]

    def _renewed(self, call: Call, batch: list[Kept]) -> None:
        now = self.keeper.clock()
        answer = call.answer
        assert isinstance(call.ask, Renew)
        if isinstance(answer, Renewed):
            for kept, renewed, (_, lease_ns) in zip(batch, answer.renewed, call.ask.proofs, strict=True):
                kept.renewing = False
                if kept.over:
                    continue
                if renewed:
                    self._confirmed(kept, call.sent_at, lease_ns)
                elif renewed is None:
                    self._again(kept, now)
                else:
                    kept.lease.lose("the server does not know of it any more: its lease ran out there, or it was ended")
                    self.wake(now)
            return
        error = answer.error if isinstance(answer, Refusal) else call.error
        for kept in batch:
            kept.renewing = False
            if not kept.over:
                self._again(kept, now, error)

    def _confirmed(self, kept: Kept, sent_at: int, lease_ns: int) -> None:
        if kept.lease.confirm(sent_at=sent_at, lease_ns=lease_ns):
            kept.tries = 0
            kept.try_at = kept.lease.renew_at
            self.wake(kept.try_at)
            self.wake(kept.lease.deadline - kept.lease.danger_ns)
        else:
            # Too late: it is lost, and now held at the server for another lease that nobody wants.
            self.finish(kept.proof.want, kept.proof, not_before=kept.lease.deadline + kept.lease.margin_ns)
            self.wake(sent_at)

    def _again(self, kept: Kept, now: int, error: HoldfastError | None = None) -> None:
        kept.tries += 1
        delay_ns = AGAIN.delay_ns(kept.tries, self.keeper.chance())
        kept.try_at = now + min(delay_ns, max(kept.lease.lease_ns // 10, MILLISECOND))
        self.wake(kept.try_at)
        if kept.tries == 1 and error is not None:
            self.keeper.log(f"could not renew {kept.proof.want.key!r} at {self.address} yet: {error}")

    # --- errands ---

    def _run_errands(self, now: int) -> int:
        soonest = FOREVER
        for errand in list(self.errands):
            if errand.asking:
                continue
            if errand.try_at <= now:
                self._run(errand, now)
            if not errand.asking and errand in self.errands:
                soonest = min(soonest, errand.try_at)
        return soonest

    def _run(self, errand: Errand, now: int) -> None:
        ask = self.prepare(errand)
        if now >= errand.until or ask is None:
            self._finished(errand)
            return
        errand.asking = True
        until = now + ANSWER_NS_MAX
        self.deliver(Call(ask, until, lambda call: self._ran(errand, call)), now)
        self.wake(until)

    def _ran(self, errand: Errand, call: Call) -> None:
        now = self.keeper.clock()
        errand.asking = False
        answer = call.answer
        if isinstance(answer, Ended) and (answer.was_there or errand.sure):
            self._finished(errand)
            return
        if isinstance(answer, Ended):
            errand.sure = True
            errand.try_at = now + SURE_NS
        elif isinstance(answer, Granted):  # it was found again, or taken anew only to be given back with a proof
            want = errand.ask.want
            proof = Proof(want, answer.token, answer.fence, answer.lease_id, answer.owner)
            errand.ask = End(want, proof, errand.ask.value)
            errand.sure = True
            errand.try_at = now
        elif isinstance(answer, Refusal) and self._is_final(answer.error, call.ask):
            errand.try_at = errand.until = now
        else:
            errand.tries += 1
            errand.try_at = min(now + AGAIN.delay_ns(errand.tries, self.keeper.chance()), errand.until)
        self.wake(errand.try_at)

    @staticmethod
    def _is_final(error: HoldfastError, ask: Ask) -> bool:
        """Tell whether asking again is of no use: somebody else holds it, or the server will not listen."""
        return isinstance(error, Forbidden) or error.retry is Retry.NEVER or isinstance(ask, Acquire)

    def _finished(self, errand: Errand) -> None:
        if errand in self.errands:
            self.errands.remove(errand)
            if errand.done is not None:
                errand.done()

    # --- for the protocols ---

    def lost(self, kept: Kept, why: str, now: int) -> None:
        """The server has said, or the end of a connection says, that a claim is gone."""
        kept.lease.lose(why)
        self.wake(now)
        self.due = now

    def open(self, link: Link) -> Link:
        """Note when to look at a new connection again."""
        self.wake(link.tick(self.keeper.clock()))
        return link
