"""What the keeper does at one server for one client: renews what is held, delivers what is to be ended, tells holders.

A renewal never makes a claim anew, and nothing here decides that a lease goes on: `lease.py` does, by the clock.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.client.asks import Ask, End, Proof, Refusal, Renew, Renewed, Want
from holdfast.client.errands import AGAIN, Errand, Errands
from holdfast.client.lease import Lease, Notice
from holdfast.client.link import FOREVER, SECOND, Call
from holdfast.client.ports import Address
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.client.keeper import Keeper

MILLISECOND: Final = 1_000_000
# A renewal's answer is overdue after a share of the lease, so that another connection can still be tried.
ANSWER_NS_MAX: Final = 5 * SECOND
ANSWER_NS_MIN: Final = 100 * MILLISECOND
# Renewals that are due soon go along with those that are due now.
ALONG: Final = 20
UNKNOWN_THERE: Final = "the server does not know of it any more: its lease ran out there, or it was ended"


class Kept:
    """A claim that is held, as the keeper knows it. `tell` is called outside of the keeper."""

    __slots__ = (
        "cost",
        "hung",
        "lease",
        "listens",
        "over",
        "proof",
        "renewal_ns",
        "renewing",
        "tell",
        "tries",
        "try_at",
        "unsure",
    )

    def __init__(
        self,
        lease: Lease,
        proof: Proof,
        tell: Callable[[Notice], None],
        *,
        listens: bool = False,
    ) -> None:
        self.lease = lease
        self.proof = proof
        self.tell = tell
        self.listens = listens  # wants to hear of the server at once, not only with the next renewal
        self.renewal_ns: Callable[[int], int] | None = None  # how long a lease to ask for, by now; None: as before
        self.hung = False  # it was not renewed when it was due, for want of a sign of life
        self.renewing = False
        self.unsure = False  # a renewal has left that was not answered, so the server may know of a later deadline
        self.tries = 0  # renewals that failed since the last one that did not
        self.try_at = lease.renew_at
        self.cost = 0  # bytes of a line that a renewal takes; 0: not counted yet
        self.over = False


class Steward(ABC):
    """The part that all protocols have in common."""

    def __init__(self, keeper: "Keeper", address: Address) -> None:
        self.keeper = keeper
        self.address = address
        self.kept: dict[str, Kept] = {}
        self.errands = Errands(self)
        self.due = FOREVER
        self.closed = False
        self._retired = False
        self._line: deque[list[Kept]] = deque()  # renewals that have to wait until there are fewer under way
        self._under_way = 0

    # --- from the faces, under the keeper's roof ---

    def keep(self, kept: Kept) -> None:
        """Take care of a claim from now on."""
        if self._retired:  # it was granted while the client was being closed, or the process ended
            kept.lease.lose("the client was closed")
            self.keeper.tell(kept.tell, Notice.LOST)
            self.finish(kept.proof.want, kept.proof)
            return
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
        """Renew a claim that was let go of until now; its holder has given a sign of life.

        Nobody else is in such a hurry: whoever gives a sign of life a thousand times a second does not make this side
        ask a server as often that cannot be reached.
        """
        if kept.hung and not kept.over:
            kept.hung = False
            kept.try_at = now = self.keeper.clock()
            self.wake(now)

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
        self.errands.add(End(want, proof, value), now=now, done=done)
        if self.closed:
            self.keeper.recall(self)
        self.wake(now)

    def retire(self, done: Callable[[], None]) -> int:
        """Give back what is held, as the client or its process is about to end; say how often `done` will be called."""
        self._retired = True
        for kept in list(self.kept.values()):
            if kept.renewal_ns is None and kept.lease.release():  # what is to outlive its work is left to its lease
                self.drop(kept)
                self.finish(kept.proof.want, kept.proof)
        return self.errands.tell_all(done)

    def fail(self, why: str) -> None:
        """Rely on nothing that is held; its holders are told."""
        for kept in list(self.kept.values()):
            kept.lease.lose(why)
            self._notice(kept)

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

    renewals_max = 1  # in one request
    renewals_under_way_max = 1000

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
            for work in (self._look_after_leases, self.errands.run):
                self.wake(work(now))  # what is done may itself wake
            self._send_renewals(now)
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
            kept.hung = False
            return True
        kept.hung = True
        kept.try_at = now + kept.lease.lease_ns // 10
        return False

    def _notice(self, kept: Kept) -> None:
        for notice in kept.lease.notices():
            self.keeper.tell(kept.tell, notice)
            if notice is Notice.LOST:
                self.drop(kept)
                if kept.renewing or kept.unsure:
                    # The server may have heard the last renewal, and hold it for another lease that nobody wants. It is
                    # not ended before the lease that was promised is over there too: its holder stops meanwhile.
                    until = kept.lease.deadline + kept.lease.margin_ns
                    self.finish(kept.proof.want, kept.proof, not_before=until)

    # --- renewals ---

    def _renew(self, renewals: list[Kept], now: int) -> None:
        for batch in self.batches(renewals):
            for kept in batch:
                kept.renewing = True
            self._line.append(batch)
        self._send_renewals(now)

    def _send_renewals(self, now: int) -> None:
        while self._line and self._under_way < self.renewals_under_way_max:
            batch = [kept for kept in self._line.popleft() if not kept.over]
            if not batch:
                continue
            proofs = []
            overdue = ANSWER_NS_MAX
            for kept in batch:
                lease_ns = kept.lease.lease_ns
                if kept.renewal_ns is not None:
                    lease_ns = kept.renewal_ns(now)
                    kept.lease.asks(sent_at=now, lease_ns=lease_ns)
                overdue = min(overdue, lease_ns // 6)
                proofs.append((kept.proof, lease_ns))
            until = now + max(overdue, ANSWER_NS_MIN)

            def done(call: Call, batch: list[Kept] = batch) -> None:
                self._renewed(call, batch)

            self._under_way += 1
            self.deliver(Call(Renew(proofs), until, done), now)
            self.wake(until)

    def batches(self, renewals: list[Kept]) -> list[list[Kept]]:
        """Say which renewals travel together."""
        return [renewals[at : at + self.renewals_max] for at in range(0, len(renewals), self.renewals_max)]

    def _renewed(self, call: Call, batch: list[Kept]) -> None:
        now = self.keeper.clock()
        self._under_way -= 1
        if self._line:
            self.wake(now)  # there is room for another one
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
                    self.lost(kept, UNKNOWN_THERE, now)
            return
        error = answer.error if isinstance(answer, Refusal) else call.error
        for kept in batch:
            kept.renewing = False
            if call.error is not None and call.sent_at:
                kept.unsure = True
            if not kept.over:
                self._again(kept, now, error)

    def _confirmed(self, kept: Kept, sent_at: int, lease_ns: int) -> None:
        if kept.lease.confirm(sent_at=sent_at, lease_ns=lease_ns):
            kept.unsure = False
            kept.tries = 0
            kept.try_at = kept.lease.renew_at
            self.wake(kept.try_at)
            self.wake(kept.lease.deadline - kept.lease.danger_ns)
        else:
            # Too late: it is lost, and held at the server for another lease that nobody wants.
            kept.unsure = True
            self.wake(sent_at)

    def _again(self, kept: Kept, now: int, error: HoldfastError | None = None) -> None:
        kept.tries += 1
        delay_ns = AGAIN.delay_ns(kept.tries, self.keeper.chance())
        kept.try_at = now + min(delay_ns, max(kept.lease.lease_ns // 10, MILLISECOND))
        self.wake(kept.try_at)
        if kept.tries == 1 and error is not None:
            self.keeper.log(f"could not renew {kept.proof.want.key!r} at {self.address} yet: {error}")

    # --- for the protocols ---

    def lost(self, kept: Kept, why: str, now: int) -> None:
        """The server has said, or the end of a connection says, that a claim is gone."""
        kept.lease.lose(why)
        kept.unsure = False
        self.wake(now)
