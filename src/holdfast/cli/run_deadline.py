"""When a command has to be warned and when it has to be dead: a deadline that two processes share, and the rule.

Nobody is signalled here; whoever looks at the rule does what it says.
"""

import mmap
from dataclasses import dataclass
from enum import Enum

MILLISECOND = 1_000_000
FOREVER = 2**63 - 1

# How much earlier than the end of the lease a command has to die: a tenth of a short lease, and never more than what
# a busy machine takes to wake a process up and to find everybody whom it has to kill.
EARLY_NS_MAX = 250 * MILLISECOND
DANGER_SHARE = 3  # a third of the lease is left

MASK = 2**63 - 1


class Policy(Enum):
    """What becomes of the command when its lock is lost."""

    KILL = "kill"  # a warning in danger, and death before the end
    TERM = "term"  # a warning in danger
    WARN = "warn"  # nothing: only the person is told


class Step(Enum):
    """How bad it is."""

    HELD = "held"
    DANGER = "danger"
    OVER = "over"


class SharedDeadline:
    """A deadline in memory that a forked process sees as well; it can be moved while the other side is not running."""

    def __init__(self, deadline_ns: int = FOREVER) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._words = memoryview(self._memory).cast("q")
        self.set(deadline_ns)

    def set(self, deadline_ns: int) -> None:
        """Move it. Whoever is stopped in the middle of this leaves the one before to be read, whole."""
        spare = 1 - self._words[0]
        # The second word proves the first: a number that is half written is never taken for a deadline.
        self._words[1 + 2 * spare] = deadline_ns
        self._words[2 + 2 * spare] = deadline_ns ^ MASK
        self._words[0] = spare

    def get(self) -> int | None:
        """Read it; None in the moment in which it is being moved a second time."""
        valid = self._words[0]
        deadline_ns = self._words[1 + 2 * valid]
        return deadline_ns if self._words[2 + 2 * valid] == deadline_ns ^ MASK else None

    def close(self) -> None:
        """Give the memory back."""
        self._words.release()
        self._memory.close()


@dataclass(frozen=True, slots=True)
class Rule:
    """The two instants before a deadline that matter, for a lease of this length."""

    lease_ns: int

    @property
    def early_ns(self) -> int:
        """How long before the deadline it is over."""
        return min(self.lease_ns // 10, EARLY_NS_MAX)

    def danger_at(self, deadline_ns: int) -> int:
        """Tell the instant from which on it is dangerous."""
        return deadline_ns - self.lease_ns // DANGER_SHARE

    def over_at(self, deadline_ns: int) -> int:
        """Tell the instant at which it is over."""
        return deadline_ns - self.early_ns

    def step(self, now_ns: int, deadline_ns: int) -> Step:
        """Say how bad it is."""
        if now_ns >= self.over_at(deadline_ns):
            return Step.OVER
        return Step.DANGER if now_ns >= self.danger_at(deadline_ns) else Step.HELD

    def next_look(self, now_ns: int, deadline_ns: int) -> int | None:
        """Say when the answer changes by itself; None for never."""
        instants = (self.danger_at(deadline_ns), self.over_at(deadline_ns))
        return next((instant for instant in instants if instant > now_ns), None)
