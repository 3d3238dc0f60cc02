# Made from aio/held.py by tools/faces.py: change that one, and run `python -m tools.faces`.

"""What a caller has in its hands while it holds a lock: its fence, how long it may rely on it, and the way back.

How it came by it is in `locks.py`; how a lease is judged, in `client/lease.py`.
"""

import logging
from collections.abc import Callable
from typing import Final

from holdfast.client.asks import Convert, Granted
from holdfast.client.core import Acquiring, Converting, Ending, Renewing, proof_of
from holdfast.client.lease import Lease, Notice, State
from holdfast.client.options import Options, Seconds, check_mode, check_value, optional_ns
from holdfast.client.steward import Kept
from holdfast.errors import HoldfastError, LeaseLost
from holdfast.sync.server import Server
from holdfast.sync.waiting import Event, Interrupter

logger: Final = logging.getLogger("holdfast.client")
SECOND: Final = 1_000_000_000
MILLISECOND: Final = 1_000_000


class Held:
    """A lock, or seats of a semaphore, that this process holds.

    `held`, `state` and `remaining` are computed from the clock whenever they are read, without asking anybody.
    """

    __slots__ = (
        "_also",
        "_given_back",
        "_interrupter",
        "_kept",
        "_lease",
        "_lost",
        "_mode",
        "_options",
        "_proof",
        "_server",
        "_value",
        "_value_valid",
    )

    def __init__(
        self,
        server: Server,
        acquired: Acquiring,
        grant: Granted,
        options: Options,
        interrupter: Interrupter | None,
        also: Callable[[], None] | None = None,
    ) -> None:
        self._server = server
        self._options = options
        self._proof = proof_of(acquired.want, grant)
        self._mode = grant.mode
        self._value = grant.value
        self._value_valid = grant.value_valid
        self._lost: Event | None = None
        self._given_back: bool | None = None
        self._interrupter = interrupter
        self._also = also  # called when it is lost, beside what the caller wants to be told by
        lease_ns = acquired.lease_ns
        self._lease = Lease(
            server.clock,
            sent_at=acquired.sent_at,
            lease_ns=lease_ns,
            left_ns=acquired.left_ns,
            # A server may give a shorter lease than was asked for.
            margin_ns=min(options.margin_ns, lease_ns // 4) if lease_ns < options.lease_ns else options.margin_ns,
            beat_ns=options.beat_ns,
        )
        self._kept = Kept(self._lease, self._proof, self._hear, listens=options.on_contended is not None)
        server.keep(self._kept)

    def __repr__(self) -> str:
        return f"<Held {self.key!r} fence={self.fence} {self.state.value} remaining={self.remaining:.3f}>"

    # --- what it is ---

    @property
    def key(self) -> str:
        """The name of what is held."""
        return self._proof.want.key

    @property
    def kind(self) -> str:
        """ "lock" or "semaphore"."""
        return self._proof.want.kind

    @property
    def mode(self) -> str:
        """How it is held: "EX" keeps everybody else out."""
        return self._mode

    @property
    def fence(self) -> int:
        """A number that is higher for every later grant of this key: what it protects can refuse a lower one."""
        return self._proof.fence

    @property
    def token(self) -> str:
        """What proves to the server that it is ours. A secret."""
        return self._proof.token

    @property
    def value(self) -> bytes | None:
        """What the last holder left with the lock, if anything."""
        return self._value

    @property
    def value_valid(self) -> bool:
        """Whether the last who could have left a value had the time to."""
        return self._value_valid

    # --- how it stands ---

    @property
    def state(self) -> State:
        """HELD, DANGER (a third of the lease or less is left), LOST or RELEASED, at this moment."""
        return self._lease.state()

    @property
    def held(self) -> bool:
        """Whether nobody else can have it yet, at this moment."""
        return self._lease.held

    @property
    def remaining(self) -> float:
        """For how many seconds it may be relied on if it is not renewed; 0.0 when it is over."""
        return self._lease.remaining_ns / SECOND

    @property
    def reason(self) -> str:
        """Why it was lost; empty while it is not."""
        return self._lease.reason if self._lease.state() is State.LOST else ""

    @property
    def lost(self) -> Event:
        """An event that is set when it is lost."""
        event = self._lost
        if event is None:
            with self._server.host.keeper():  # of two who ask at once, both get the same
                event = self._lost
                if event is None:
                    event = self._lost = Event()
            if self._lease.state() is State.LOST:
                event.set()
        return event

    def check(self) -> None:
        """Raise LeaseLost unless it is held at this moment. Asks nobody."""
        if not self._lease.held:
            raise self._loss()

    def beat(self) -> None:
        """Show that the work goes on; with `beat_timeout`, it is renewed no longer than that without it."""
        self._lease.beat()
        if self._server.clock() >= self._lease.renew_at:
            self._server.hurry(self._kept)

    def _loss(self) -> LeaseLost:
        state = self._lease.state()
        why = "it was released" if state is State.RELEASED else self._lease.reason
        return LeaseLost(f"{self.key!r} is not held any more: {why}")

    def _hear(self, notice: Notice) -> None:
        """Be told by the keeper, in its thread: pass it on, and wait for nothing."""
        if notice is Notice.LOST:
            logger.warning("%r was lost: %s", self.key, self._lease.reason)
            if self._interrupter is not None:
                self._interrupter.fire()
        self._server.place.soon(lambda: self._tell(notice))

    def _tell(self, notice: Notice) -> None:
        if notice is Notice.LOST:
            if self._lost is not None:
                self._lost.set()
            if self._also is not None:
                self._also()
        function = {
            Notice.LOST: self._options.on_lost,
            Notice.DANGER: self._options.on_danger,
            Notice.CONTENDED: self._options.on_contended,
        }[notice]
        if function is not None:
            self._server.place.tell(function, self)

    # --- asking the server ---

    def renew(self) -> None:
        """Renew now, instead of waiting until it is renewed by itself. Raises LeaseLost."""
        self.check()
        renewing = Renewing(self._server.rules, self._proof, self._lease.lease_ns)
        self._server.run(renewing)
        if not renewing.renewed:
            self._server.lost(
                self._kept, "the server does not know of it any more: its lease ran out there, or it was ended"
            )
        elif self._lease.confirm(sent_at=renewing.asked_at):
            self._kept.try_at = self._lease.renew_at
        elif self._lease.state() is State.LOST:
            # Too late: it is lost, and now held at the server for another lease that nobody wants.
            self._server.forget(self._proof.want, self._proof, not_before=self._lease.deadline + self._lease.margin_ns)
        self.check()

    def convert(self, mode: str, *, patience: Seconds | None = None, value: bytes | None = None) -> None:
        """Hold it in another mode; it stays held in the old one until then, and if that is refused.

        Raises WouldDeadlock where two holders wait for each other to step back, TimedOut, LeaseLost.
        """
        self._server.needs_native("convert")
        self.check()
        want = self._proof.want
        patience_ns = optional_ns(patience, "patience")
        converting = Converting(
            self._server.rules, self._proof, check_mode(mode), patience_ns, check_value(value), now_in=self._mode
        )
        try:
            self._server.run(converting)
        except BaseException as error:
            if isinstance(error, LeaseLost):
                self._server.lost(self._kept, "the server does not know of it any more")
            if converting.asking or converting.unsure:
                self._step_back(mode)
            raise
        grant = converting.granted
        assert grant is not None
        self._mode = grant.mode
        self._value, self._value_valid = grant.value, grant.value_valid
        self._proof = self._kept.proof = proof_of(want, grant)
        self.check()

    def _step_back(self, mode: str) -> None:
        """Nobody knows whether it was converted: rely on no more than it is in either case, and ask for that."""
        from holdfast.words import Mode, covers

        before, after = Mode[self._mode], Mode[mode]
        self._mode = max(weaker for weaker in Mode if covers(before, weaker) and covers(after, weaker)).name
        self._server.post(Convert(self._proof.want, self._mode, 0))

    def upgrade(self, *, patience: Seconds | None = None) -> None:
        """From reading to writing, without letting go. Of two who try it at once, one gets WouldDeadlock."""
        self.convert("EX", patience=patience)

    def downgrade(self) -> None:
        """From writing to reading, without letting go: nobody can write in between."""
        self.convert("PR")

    def release(self, value: bytes | None = None) -> bool:
        """Give it back; say whether it was ours until then. It may be called again, which does nothing more.

        `value` is left for the next holder. Nothing is raised for a lock that was lost, nor when the server cannot be
        reached: then that is logged, and tried on in the background until the lease is over.
        """
        check_value(value)
        if self._given_back is None:
            try:
                self._given_back = self._give_back(value)
            except HoldfastError as error:
                self._given_back = True
                logger.warning("%r could not be given back yet: %s", self.key, error)
        return self._given_back

    def _give_back(self, value: bytes | None) -> bool:
        was_held = self._lease.release()
        self._server.drop(self._kept)
        if self._interrupter is not None and self._also is None:
            self._interrupter.stand_down()
        if self._lease.foreign:
            return False  # it is the parent's, which goes on with it
        if not was_held:
            if self._lease.state() is State.LOST:
                self._server.forget(self._proof.want, self._proof)
            return self._lease.state() is State.RELEASED
        ending = Ending(self._server.rules, self._proof, value)
        self._server.run(ending)
        if not ending.was_there:
            self._lease.reason = "the server had ended it already"
        return ending.was_there

    def abandon(self) -> None:
        """Give it back without waiting for that."""
        if self._given_back is None:
            self._given_back = self._lease.release()
            self._server.drop(self._kept)
            if not self._lease.foreign:
                self._server.forget(self._proof.want, self._proof)

    def leave(self, error: BaseException | None, until: int = 0) -> None:
        """End a `with` block that ended with this error, or with none; leave the lock to nobody else before `until`.

        What the block raised is never hidden. If it raised nothing, the loss of the lock is raised.
        """
        interrupted = self._interrupter is not None and self._interrupter.disarm(error)
        held = False
        try:
            held = self._leave(until)
        except HoldfastError as trouble:
            held = True  # as far as anybody knows; the keeper goes on giving it back
            logger.warning("%r could not be given back yet: %s", self.key, trouble)
            if error is not None:
                error.add_note(f"holdfast: {self.key!r} could not be given back yet: {trouble}")
        if interrupted:
            raise self._loss_of_with() from error
        if not held and error is None:
            raise self._loss_of_with()

    def _leave(self, until: int) -> bool:
        if self._given_back is None:
            lingers = self._server.clock() < until and self._lease.held
            self._given_back = self._linger(until) if lingers else self._give_back(None)
        return self._given_back

    def keep_until(self, until: int, lease_ns: int) -> None:
        """Ask for no lease that ends before an instant, whatever becomes of this process, nor for a shorter one."""
        with self._server.host.keeper():
            self._kept.renewal_ns = lambda now: max(until - now, lease_ns)

    def _linger(self, until: int) -> bool:
        """Stop relying on it, and let its lease run out at an instant, whatever becomes of this process."""
        self._server.drop(self._kept)
        self._server.leave_behind(until)
        renewing = Renewing(self._server.rules, self._proof, max(until - self._server.clock(), MILLISECOND))
        self._server.run(renewing)
        return self._lease.release() and renewing.renewed

    def _loss_of_with(self) -> LeaseLost:
        return LeaseLost(f"{self.key!r} was lost before the work under it was done: {self._lease.reason}")


def held_of(server: Server, acquired: Acquiring, options: Options) -> Held:
    """Make what a caller gets of what a server granted."""
    interrupter = Interrupter(server.place) if options.cancel_on_lost else None
    return group_of(server, acquired, options, interrupter)[0]


def group_of(
    server: Server,
    acquired: Acquiring,
    options: Options,
    interrupter: Interrupter | None,
    also: Callable[[], None] | None = None,
) -> list[Held]:
    """Make what a caller gets of what a server granted together."""
    try:
        return [Held(server, acquired, grant, options, interrupter, also) for grant in acquired.grants]
    except HoldfastError:
        server.clean_up(acquired)
        raise
