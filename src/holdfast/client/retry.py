"""How often and how soon something is tried again: connecting, asking after a lost answer, polling over HTTP.

Nothing here waits, reads a clock or rolls dice: instants and chance come in, the instant of the next try goes out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from holdfast.errors import BadRequest

SECOND: Final = 1_000_000_000
SECONDS_MAX: Final = 1_000_000_000.0  # some 31 years
# Each delay is that much longer than the one before, where the other side did not say how long to wait.
GROWTH: Final = 1.5


def chance_of(dice: Callable[[int], bytes]) -> Callable[[], float]:
    """Make of random bytes what jitter is made of: a number from 0.0 to below 1.0."""
    return lambda: int.from_bytes(dice(4), "big") / (1 << 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Bounds for trying again: how many times after the first, for how long in all, how far apart. Seconds.

    A delay is what the other side advises, or `min_delay` growing by half each time; never less than `min_delay`, nor
    more than `max_delay`; then made longer or shorter at random by up to the share `jitter`, so that many who were
    refused together do not come back together. `jitter=0` is for exact delays. `max_total_wait` is a hard bound: no
    try begins after it, and nobody sleeps behind the last one.
    """

    max_retries: int = 50
    max_total_wait: float | None = None
    min_delay: float = 0.025
    max_delay: float = 1.0
    jitter: float = 0.2
    retry_transport: bool = True  # whether a broken connection is worth another try, or only a refusal is

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise BadRequest(f"max_retries must be 0 or more, not {self.max_retries}")
        if self.max_total_wait is not None and not 0 <= self.max_total_wait <= SECONDS_MAX:
            raise BadRequest(f"max_total_wait must be 0 or more seconds, not {self.max_total_wait}")
        if not 0 < self.min_delay <= self.max_delay <= SECONDS_MAX:
            raise BadRequest(
                f"min_delay and max_delay must be more than 0 and rise, not {self.min_delay} to {self.max_delay} s"
            )
        if not 0 <= self.jitter < 1:
            raise BadRequest(f"jitter must be a share from 0 to less than 1, not {self.jitter}")

    def delay_ns(self, tries: int, chance: float, *, advice_ns: int = 0) -> int:
        """Say how long to wait after so many tries; `chance` is a number from 0 to 1."""
        # The exponent is bounded, so that no number of tries makes a number that is too large.
        delay = advice_ns / SECOND if advice_ns > 0 else self.min_delay * GROWTH ** min(tries - 1, 100)
        delay = max(self.min_delay, min(delay, self.max_delay))
        return int(delay * (1 + self.jitter * (2 * chance - 1)) * SECOND)


class Attempts:
    """The tries of one thing under a policy. The first one is free; `again` says when the next one may begin."""

    __slots__ = ("_chance", "_end", "_policy", "tries")

    def __init__(self, policy: RetryPolicy, now: int, chance: Callable[[], float]) -> None:
        self._policy = policy
        self._chance = chance
        self._end = None if policy.max_total_wait is None else now + int(policy.max_total_wait * SECOND)
        self.tries = 1

    def again(self, now: int, *, advice_ns: int = 0) -> int | None:
        """Say at which instant to try again, or None when it is enough."""
        if self.tries > self._policy.max_retries or (self._end is not None and now >= self._end):
            return None
        then = now + self._policy.delay_ns(self.tries, self._chance(), advice_ns=advice_ns)
        self.tries += 1
        return then if self._end is None else min(then, self._end)  # the last try is at the bound, not behind it
