"""A wish for a lock and what comes of it: all of a cluster lock that does not wait, for both faces.

Nothing here talks to a database: a face takes the `Ask` to it and brings the answer back.
"""

import logging
import os
import secrets
import string
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

from holdfast.client.lease import Lease, State
from holdfast.client.process import generation
from holdfast.client.retry import SECOND, Attempts, RetryPolicy
from holdfast.errors import BadRequest
from holdfast.leases.errors import AlreadyHeld, DatabaseUnavailable, LockException, LockLost, LockNotHeld
from holdfast.leases.holding import Holding
from holdfast.leases.identity import node_name, process_identity
from holdfast.leases.words import Ask, Got, Hold, Taken, key_of
from holdfast.leases.world import Host, World

logger: Final = logging.getLogger("holdfast.leases")

MICROSECOND: Final = 1_000
LETTERS: Final = string.ascii_letters + string.digits
ID_LENGTH: Final = 16
ID_BITS: Final = 128  # so many more than are used that all letters are equally likely

# How those who wait look again: soon at first, and then about once in a second. Half of it is chance, so that many who
# wait do not come all at once, and none of them always wins.
FIRST_POLL_S: Final = 0.05
POLL_S_MAX: Final = 1.0
POLL_JITTER: Final = 0.5
# So much later than a lease ends is it tried again, where its end is known to be near.
AFTER_LAPSE_S: Final = 0.01


def new_id() -> str:
    """Make what proves that a row is ours; nobody can guess it, and it is never used for a second acquisition."""
    number = secrets.randbits(ID_BITS)
    letters = []
    for _ in range(ID_LENGTH):
        number, letter = divmod(number, len(LETTERS))
        letters.append(LETTERS[letter])
    return "".join(letters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for, by whom."""

    key: bytes
    shown: str
    place: Hashable
    lease_ns: int
    beat_ns: int | None
    operation: str | None
    line: str


def wish_for(
    objecttype: str,
    subtype: str | None,
    name: str | None,
    *,
    place: Hashable,
    lease: float,
    beat_timeout: float | None,
    op: str | None,
    line: str,
) -> Wish:
    """Check what was given."""
    if not 0 < lease <= 86_400:
        raise BadRequest(f"a lease has more than 0 seconds and at most a day, not {lease}")
    if beat_timeout is not None and not beat_timeout > 0:
        raise BadRequest(f"beat_timeout must be more than 0 seconds, not {beat_timeout}")
    key = key_of(objecttype, subtype, name)
    return Wish(
        key=key,
        shown=key.decode(),
        place=place,
        lease_ns=int(lease * SECOND),
        beat_ns=None if beat_timeout is None else int(beat_timeout * SECOND),
        operation=op,
        line=line,
    )


class Claim:
    """What one handle has, or is asking for. It does not know the handle, which may be dropped without a word."""

    def __init__(self, wish: Wish, world: World, new_event: Callable[[], Any]) -> None:
        self.wish = wish
        self.world = world
        self.lock_id = ""
        self.holding: Holding | None = None  # what was got last, whatever has become of it
        self.taken: Taken | None = None  # what was answered last, if somebody else has it
        self.event = new_event()
        self.asking = False
        self.backend: Any = None  # where it was asked for last
        self._new_event = new_event
        self._again = False  # the last try has found it taken
        self._open = False  # a try is on its way
        self._doubtful = False  # the database may have given it to us, and the answer was lost
        self._returned = False  # the database knows that we do not want it any more
        self._perhaps_returned = False
        self._generation = generation()
        self._host: Host | None = None

    # --- how it stands ---

    @property
    def live(self) -> bool:
        """Whether another claim of this process would wait for this one."""
        return self.asking or (self.holding is not None and self.holding.live)

    @property
    def place(self) -> tuple[Hashable, bytes]:
        return (self.wish.place, self.wish.key)

    @property
    def hold(self) -> Hold:
        return Hold(self.wish.key, self.lock_id)

    @property
    def lock_data(self) -> dict[str, Any]:
        """Say what others may read of us."""
        return {
            "node": node_name(),
            "pid": os.getpid(),
            "thread": threading.get_ident(),
            "line": self.wish.line,
            "operation": self.wish.operation,
            "id": self.lock_id,
        }

    @property
    def is_lost(self) -> bool:
        """Whether it was ours, and ended before we gave it back."""
        return self.holding is not None and self.holding.lease.state() is State.LOST

    def check(self) -> None:
        """Raise unless it may be relied on at this moment."""
        holding = self.holding
        if holding is None:
            raise LockNotHeld(f"the lock {self.wish.shown} has not been acquired")
        if self.is_lost:
            raise LockLost(f"the lock {self.wish.shown} is lost: {holding.reason}")
        if not holding.live:
            raise LockNotHeld(f"the lock {self.wish.shown} has been released")

    # --- asking ---

    def begin(self, backend: Any) -> None:
        """Have the key for ourselves in this process, for as long as we ask."""
        if self._generation != generation():
            # It was the parent's.
            self.holding, self.asking, self._open, self._doubtful = None, False, False, False
            self._generation = generation()
        if not self.world.registry.enter(self.place, self):
            raise AlreadyHeld(f"this process has the lock {self.wish.shown} already, or is asking for it")
        before, self.holding = self.holding, None
        if before is not None and before.lease.state() is State.LOST:
            self._host_remove(before)
            before.event.set()  # now, if nobody has come to it yet
        self.taken = None
        self.backend, self._host = backend, self.world.host()

    def finish(self) -> None:
        """We ask no longer; whoever has it keeps the key."""
        self.asking = False
        if not self.live:
            self.world.registry.leave(self.place, self)

    def ask(self) -> Ask:
        """Say what is asked of the backend. After a lost answer it is the same again, so that one try finds another."""
        if not self._doubtful:
            self.lock_id = new_id()
        self._open = True
        return Ask(
            key=self.wish.key,
            lock_id=self.lock_id,
            holder=self.lock_data,
            node=node_name(),
            pid=os.getpid(),
            process=process_identity(),
            lease_us=self.wish.lease_ns // MICROSECOND,
            again=self._again,
        )

    @property
    def is_doubtful(self) -> bool:
        """Whether an earlier try may have begun the lease that an answer tells of, so that nobody knows when."""
        return self._doubtful

    def unanswered(self) -> None:
        """The database may have done what it was asked for, or may do so yet."""
        self._doubtful = self._doubtful or self._open
        self._open = False

    def refused(self) -> None:
        """It certainly has not."""
        self._open = False

    def was_taken(self, taken: Taken) -> None:
        """Somebody else has it."""
        self._open = False
        self._again = True
        self.taken = taken
        if self.world.registry.knows(taken.holder.get("id")):
            raise AlreadyHeld(f"this process has the lock {self.wish.shown} already, through another backend")

    def got(self, got: Got, *, sent_at: int) -> None:
        """It is ours, for a lease that began no earlier than `sent_at`."""
        lease = Lease(self.world.clock, sent_at=sent_at, lease_ns=self.wish.lease_ns, beat_ns=self.wish.beat_ns)
        if not lease.held:
            self.give_up()
            raise DatabaseUnavailable(f"the answer about the lock {self.wish.shown} came when its lease was over")
        if self.event.is_set():
            self.event = self._new_event()  # that one told of an earlier loss
        self.holding = Holding(
            self.hold,
            shown=self.wish.shown,
            fence=got.fence,
            lease=lease,
            beats=self.world.beats,
            event=self.event,
            told=self._told,
        )
        assert self._host is not None
        self._host.add(self.backend, self.holding)
        self._again = self._open = self._doubtful = self._returned = self._perhaps_returned = False

    def _told(self) -> None:
        """The keeper has told of the loss."""
        if not self.live:
            self.world.registry.leave(self.place, self)

    # --- letting go ---

    def give_up(self) -> None:
        """Ask no more. What the database may have given us is given back by and by, and its id is not used again."""
        had = self.let_go()
        if had or self._open or self._doubtful:
            self._open = self._doubtful = False
            self._returned = True
            self.leave()

    def let_go(self) -> bool:
        """Stop relying on what we have, and have it refreshed no longer; say whether it is still to be given back."""
        holding = self.holding
        if holding is None or holding.lease.foreign or self._returned:
            return False
        holding.lease.release()
        self._host_remove(holding)
        self.world.registry.leave(self.place, self)
        return True

    @property
    def is_returned(self) -> bool:
        """Whether nothing is left to give back of what we had."""
        return self._returned

    def was_perhaps_returned(self) -> None:
        """The database may have it back, and the answer was lost."""
        self._perhaps_returned = True

    def returned(self, *, ours: bool) -> bool:
        """The database has said whether the row was ours; say whether it was, when we first gave it back.

        After a lost answer, it may be another's already because we gave it back.
        """
        self._returned = True
        return ours or (self._perhaps_returned and not self.is_lost)

    def leave(self) -> None:
        """Have it given back by and by."""
        assert self._host is not None
        self._host.leave(self.backend, self.hold, self.wish.lease_ns)

    def _host_remove(self, holding: Holding) -> None:
        if self._host is not None:
            self._host.remove(self.backend, holding)

    def dropped(self) -> None:
        """The handle is gone without a word. A finaliser calls this, wherever it is, so no lock may be waited for."""
        to_do = self.live or self._doubtful or self._open
        if to_do and self._host is not None and self._generation == generation():
            self._host.post(self._drop)

    def _drop(self) -> None:
        if self.live:
            logger.warning("the lock %s was dropped while it was held, and is given back", self.wish.shown)
        self.asking = False
        self.give_up()


class Patience:
    """How long somebody waits, and when it tries again."""

    def __init__(self, world: World, timeout: float | None) -> None:
        policy = RetryPolicy(
            max_retries=1_000_000_000,
            max_total_wait=timeout,
            min_delay=FIRST_POLL_S,
            max_delay=POLL_S_MAX,
            jitter=POLL_JITTER,
        )
        self._world = world
        self._attempts = Attempts(policy, world.clock(), world.chance)

    def pause_s(self, taken: Taken | None) -> float | None:
        """Say how long to wait before the next try; None when it is enough."""
        now = self._world.clock()
        again = self._attempts.again(now)
        if again is None:
            return None
        pause = (again - now) / SECOND
        if taken is not None and taken.left_us > 0:
            pause = min(pause, taken.left_us / 1_000_000 + AFTER_LAPSE_S)
        return pause


def too_late(claim: Claim, timeout: float | None, error: DatabaseUnavailable | None) -> LockException:
    """Say that patience is over, and who has the lock."""
    sentence = f"could not get the lock {claim.wish.shown} in {timeout:g} seconds" if timeout is not None else "no lock"
    if error is not None:
        return LockException(f"{sentence}: {error}")
    holder = claim.taken.holder if claim.taken is not None else {}
    if not holder:
        return LockException(f"{sentence}: somebody else has it")
    told = ", ".join(f"{name} {holder[name]}" for name in ("node", "pid", "operation", "line") if holder.get(name))
    return LockException(f"{sentence}: {told or holder} has it")
