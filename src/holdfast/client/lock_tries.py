"""Trying to acquire over HTTP until it works or is enough: what each failure means for the next try.

Instants come in and go out; nothing is sent here, and nobody sleeps here.
"""

from collections.abc import Callable

from holdfast.client.lock_api import NotAcquired, UnexpectedStatus
from holdfast.client.ports import Dice
from holdfast.client.retry import SECOND, Attempts, RetryPolicy
from holdfast.client.tickets import new_ticket
from holdfast.errors import HoldfastError, Retry, Unavailable

# The last try begins so long before the bound that it can be answered: a fifth of the whole, but no more than this.
LAST_TRY_NS_MAX = SECOND // 4


class Tries:
    """The tries of one acquire.

    All of them carry the same key, so that a server which knows such keys answers a second request with the lease of
    the first. The lease then counts from before the first request whose outcome is not known.
    """

    def __init__(self, policy: RetryPolicy, now: int, chance: Callable[[], float], dice: Dice) -> None:
        self._policy = policy
        self._attempts = Attempts(policy, now, chance)
        self._dice = dice
        self._end: int | None = None
        self._last_at: int | None = None
        if policy.max_total_wait is not None:
            total = int(policy.max_total_wait * SECOND)
            self._end = now + total
            self._last_at = self._end - min(total // 5, LAST_TRY_NS_MAX)
        self._refusal: NotAcquired | None = None
        self._in_doubt_since: int | None = None
        self.key = new_ticket(dice)
        self.sent_at = now

    @property
    def in_doubt(self) -> bool:
        """Tell whether an earlier request may have been granted, or may still be."""
        return self._in_doubt_since is not None

    def until(self, now: int, timeout_ns: int) -> int:
        """Say when a try that begins now has to be over."""
        return now + timeout_ns if self._end is None else min(now + timeout_ns, self._end)

    def begin(self, now: int) -> None:
        """A request is about to be sent. A lease may count from here, unless it could be that of an earlier one."""
        self.sent_at = now if self._in_doubt_since is None else self._in_doubt_since

    def failed(self, error: HoldfastError, now: int) -> int:
        """Say when to try again after this error, or raise the one to end with."""
        advice = 0.0
        if isinstance(error, NotAcquired):
            self._refusal, advice = error, error.retry_after
        else:
            if error.retry is Retry.NEVER:
                raise error
            if isinstance(error, UnexpectedStatus):
                advice = error.retry_after
            if not isinstance(error, Unavailable) and self._in_doubt_since is None:
                self._in_doubt_since = self.sent_at
            if not self._policy.retry_transport:
                raise error
        then = self._attempts.again(now, advice_ns=int(advice * SECOND))
        if then is not None and self._last_at is not None:
            then = None if now >= self._last_at else min(then, self._last_at)
        if then is None:
            # A refusal tells more than that the last request had no time to be answered.
            raise self._refusal or error
        return then

    def lapsed(self) -> None:
        """The lease that a lost request got is over: begin anew, with another key."""
        self._in_doubt_since = None
        self.key = new_ticket(self._dice)
