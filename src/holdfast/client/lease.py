"""What this side knows about one grant: until when it may be relied on, judged by the clock on every read.

No input or output, and no thread: `keeper.py` renews, the faces show it. Nothing here ever makes a lease live again.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final

from holdfast.client.process import generation
from holdfast.errors import BadRequest

MILLISECOND: Final = 1_000_000
# What the default margin makes up for: clocks that run at different speeds, and the time that a word takes from the
# deadline to whoever has to stop.
DRIFT_PERCENT: Final = 2
ALLOWANCE_NS: Final = 20 * MILLISECOND


class State(Enum):
    """How a grant stands."""

    HELD = "held"
    DANGER = "danger"  # still held, but a third of the lease or less is left: something is wrong with renewing
    LOST = "lost"  # it may belong to somebody else now
    RELEASED = "released"  # given back


class Notice(Enum):
    """What a holder is told without asking. Each is told once: danger once for each time that it begins."""

    DANGER = "danger"
    LOST = "lost"
    CONTENDED = "contended"


def default_margin_ns(lease_ns: int) -> int:
    """Say by how much earlier than the server this side lets a lease end."""
    return min(lease_ns * DRIFT_PERCENT // 100 + ALLOWANCE_NS, lease_ns // 4)


class Lease:
    """One lease. Everything is computed from the clock when it is read, so a process that was frozen knows at once.

    The deadline counts from before the request was sent that the server has confirmed last, so it is never later than
    the server's own. What was once seen to be lost stays lost, even if a late answer says otherwise.
    """

    __slots__ = (
        "_beaten_at",
        "_clock",
        "_danger_told",
        "_generation",
        "_lost_told",
        "_margin_given_ns",
        "_over",
        "beat_ns",
        "confirmed_at",
        "deadline",
        "lease_ns",
        "margin_ns",
        "reason",
    )

    def __init__(
        self,
        clock: Callable[[], int],
        *,
        sent_at: int,
        lease_ns: int,
        left_ns: int | None = None,
        margin_ns: int | None = None,
        beat_ns: int | None = None,
    ) -> None:
        self._clock = clock
        self._margin_given_ns = margin_ns
        self.lease_ns = lease_ns
        self.margin_ns = self._margin_of(lease_ns)
        if not 0 <= self.margin_ns < lease_ns:
            raise BadRequest(
                f"a margin of {self.margin_ns / 1e9:g} s leaves nothing of a lease of {lease_ns / 1e9:g} s"
            )
        self.beat_ns = beat_ns
        self.confirmed_at = sent_at
        self.deadline = sent_at + (lease_ns if left_ns is None else min(left_ns, lease_ns)) - self.margin_ns
        self.reason = ""  # why it was lost
        self._beaten_at = sent_at
        self._over: State | None = None
        self._generation = generation()
        self._danger_told = False
        self._lost_told = False

    # --- what is known ---

    def state(self) -> State:
        """Judge by the clock of this very moment."""
        if self._over is None:
            if self._generation != generation():
                self.lose("it belongs to the process that this one was forked from")
            else:
                left = self.deadline - self._clock()
                if left > self.danger_ns:
                    return State.HELD
                if left > 0:
                    return State.DANGER
                self.lose("its lease ran out")
        assert self._over is not None
        return self._over

    @property
    def held(self) -> bool:
        """Tell whether nobody else can have it yet."""
        state = self.state()
        return state is State.HELD or state is State.DANGER

    @property
    def foreign(self) -> bool:
        """Tell whether it belongs to the process that this one was forked from."""
        return self._generation != generation()

    @property
    def remaining_ns(self) -> int:
        """Tell how long it may be relied on from now; 0 when it is over."""
        return max(0, self.deadline - self._clock()) if self.held else 0

    @property
    def danger_ns(self) -> int:
        return self.lease_ns // 3

    # --- what happens to it ---

    def asks(self, *, sent_at: int, lease_ns: int) -> None:
        """It is about to be renewed. Where that makes it end earlier, it does from now on: no answer need ever come."""
        self.deadline = min(self.deadline, sent_at + lease_ns - self._margin_of(lease_ns))

    def confirm(self, *, sent_at: int, lease_ns: int | None = None) -> bool:
        """The server has renewed it, upon a request that left at `sent_at`; say whether that was in time.

        A lease that is not renewed before its deadline is over, whatever the server says: somebody was told so, or
        could have been.
        """
        if not self.held:
            return False
        before, self.lease_ns = self.lease_ns, self.lease_ns if lease_ns is None else lease_ns
        self.margin_ns = self._margin_of(self.lease_ns)
        deadline = sent_at + self.lease_ns - self.margin_ns
        if self.lease_ns < before:  # a shorter lease ends earlier at the server too
            self.deadline = deadline if sent_at >= self.confirmed_at else min(self.deadline, deadline)
        else:
            self.deadline = max(self.deadline, deadline)
        self.confirmed_at = max(self.confirmed_at, sent_at)
        if self.state() is State.HELD:
            self._danger_told = False
        return self._over is None  # meanwhile, another thread may have seen it end

    def lose(self, reason: str) -> None:
        """It is not ours any more."""
        if self._over is None:
            self.reason = reason
            self._over = State.LOST

    def release(self) -> bool:
        """Stop relying on it, because it is about to be given back; say whether it was held until now."""
        if not self.held:
            return False
        self._over = State.RELEASED
        return True

    def beat(self) -> None:
        """The work goes on; without this, a lease with `beat_ns` is renewed no longer than that."""
        self._beaten_at = self._clock()

    def beats(self, now: int) -> bool:
        """Tell whether the work has given a sign of life lately enough to deserve a renewal."""
        return self.beat_ns is None or now - self._beaten_at <= self.beat_ns

    def _margin_of(self, lease_ns: int) -> int:
        """Say by how much earlier a lease of that length ends here, if nobody has said: it grows with the lease."""
        return default_margin_ns(lease_ns) if self._margin_given_ns is None else self._margin_given_ns

    # --- when to do something about it ---

    @property
    def renew_at(self) -> int:
        """Say when to renew: two thirds of the lease are then left to try again."""
        return self.confirmed_at + self.lease_ns // 3

    def next_notice_at(self) -> int | None:
        """Say when there will be something to tell, if nothing happens until then."""
        if self._over is not None:
            return None if self._lost_told or self._over is State.RELEASED else 0
        return self.deadline if self._danger_told else self.deadline - self.danger_ns

    def notices(self) -> tuple[Notice, ...]:
        """Take what is to be told now. Only one thread may ask."""
        state = self.state()
        if state is State.LOST and not self._lost_told:
            self._lost_told = True
            return (Notice.LOST,)
        if state is State.DANGER and not self._danger_told:
            self._danger_told = True
            return (Notice.DANGER,)
        return ()
