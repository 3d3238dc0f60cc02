"""What a cluster lock shows of itself without asking anybody: the half that both faces have in common.

Nothing here waits or talks to a database.
"""

import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from holdfast.client.lease import State
from holdfast.client.retry import SECOND
from holdfast.leases.claim import Claim, wish_for
from holdfast.leases.errors import LockLost, LockNotHeld
from holdfast.leases.identity import node_name
from holdfast.leases.sharing import named, place_of
from holdfast.leases.words import LEASE_SECONDS, Row
from holdfast.leases.world import World

HERE: Final = f"{Path(__file__).parent}{os.sep}"


class Handle:
    """One lock, as its user has it in hand."""

    def __init__(
        self,
        objecttype: str,
        subtype: str | None = None,
        name: str | None = None,
        *,
        timeout: float | None = 120,
        op: str | None = None,
        backend: Any = None,
        lease: float = LEASE_SECONDS,
        beat_timeout: float | None = None,
        strict: bool = False,
        world: World,
        new_event: Callable[[], Any],
    ) -> None:
        self.objecttype = objecttype
        self.subtype = subtype
        self.objectname = name
        self.timeout = timeout
        self.operation = op
        self.strict = strict
        self.node = node_name()
        self.pid = os.getpid()
        self._given = named(backend)
        self._world = world
        wish = wish_for(
            objecttype,
            subtype,
            name,
            place=place_of(self._given),
            lease=lease,
            beat_timeout=beat_timeout,
            op=op,
            line=caller(),
        )
        self._claim = Claim(wish, world, new_event)
        # At the end of the process, the refresher gives back all at once.
        weakref.finalize(self, self._claim.dropped).atexit = False

    def __str__(self) -> str:
        operation = f", op={self.operation}" if self.operation is not None else ""
        return f"ClusterLock({self._claim.wish.shown}{operation})"

    def __repr__(self) -> str:
        return f"<{self} {self.state.value if self.state is not None else 'not acquired'}>"

    @property
    def key(self) -> str:
        """The key of the row."""
        return self._claim.wish.shown

    @property
    def lockid(self) -> str:
        """What proves that the row is ours; made anew for each acquisition."""
        return self._claim.lock_id

    @property
    def lock_data(self) -> dict[str, Any]:
        """What others can read of us."""
        return self._claim.lock_data

    @property
    def state(self) -> State | None:
        """How the lease stands at this moment; None if there was none so far. Asks nobody."""
        holding = self._claim.holding
        return None if holding is None else holding.lease.state()

    @property
    def held(self) -> bool:
        """Whether nobody else can have it at this moment. Asks nobody."""
        holding = self._claim.holding
        return holding is not None and holding.live

    @property
    def lost(self) -> bool:
        """Whether we had it, and it ended before we gave it back. Asks nobody."""
        return self._claim.is_lost

    @property
    def lost_reason(self) -> str:
        """Why it is lost; empty if it is not."""
        return self._claim.holding.reason if self.lost and self._claim.holding is not None else ""

    @property
    def remaining(self) -> float:
        """For how many seconds from now it may be relied on, if no refresh comes through. Asks nobody."""
        holding = self._claim.holding
        return 0.0 if holding is None else holding.lease.remaining_ns / SECOND

    @property
    def fence(self) -> int:
        """The number that rises with every change of owner: what is written to under the lock can refuse older ones."""
        if self._claim.holding is None:
            raise LockNotHeld(f"the lock {self.key} has not been acquired")
        return self._claim.holding.fence

    def check(self) -> None:
        """Raise LockLost, or LockNotHeld, unless nobody else can have it at this moment. Asks nobody."""
        self._claim.check()

    def beat(self) -> None:
        """The work goes on; with a `beat_timeout`, the lease is refreshed no longer than that without it."""
        if self._claim.holding is not None:
            self._claim.holding.lease.beat()

    # --- for the faces ---

    def _loss(self) -> LockLost | None:
        """Say what a `with` has to tell that ends, and did not have the lock all the time."""
        if not self._claim.is_lost:
            return None
        return LockLost(f"the lock {self.key} was lost before it was released: {self.lost_reason}")

    def _loss_by(self, not_held: LockNotHeld) -> LockLost:
        """The same, where only the database knew."""
        return LockLost(f"the lock {self.key} was lost before it was released: {not_held}")

    def _tell_at_end(self, loss: LockLost | None, error: BaseException | None) -> None:
        """Tell of a loss at the end of a `with`: beside what the body has raised, or instead of nothing."""
        if loss is None:
            return
        if error is not None:
            error.add_note(str(loss))
        elif self.strict:
            raise loss

    def _not_ours(self, row: Row | None) -> LockNotHeld:
        """Say that the database knows nothing of our having it, and who has it instead."""
        now = "nobody has it now" if row is None or row.lapsed else f"it is now held by {dict(row.holder)}"
        return LockNotHeld(f"the database has no record that we hold the lock {self.key}; {now}")

    def _is_ours(self, row: Row | None) -> bool:
        return row is not None and row.lock_id == self.lockid and not row.lapsed


def caller() -> str:
    """Say from where this part of the program was called, as file:line."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
