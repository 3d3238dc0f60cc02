"""A guard in memory: the highest fence seen for each key, and a refusal for everything lower.

It forgets everything with its process; what has to survive that lives in `files` and `sql`.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from typing import Protocol, SupportsIndex

from holdfast.errors import BadRequest, LeaseLost, TooMany

TOKEN_MAX = 2**64 - 1
KEYS_MAX = 100_000
KEY_BYTES_MAX = 1024


class StaleToken(LeaseLost):
    """A write came with a fence lower than one seen before: whoever sent it does not hold the lock any more."""

    def __init__(self, token: int, highest: int, key: str = "") -> None:
        about = f" for {key!r}" if key else ""
        super().__init__(f"the token {token} is stale{about}: {highest} has been seen")
        self.token = token
        self.highest = highest
        self.key = key


class Guard(Protocol):
    """What remembers the highest token of each key, and refuses lower ones."""

    def check(self, token: SupportsIndex, key: str = "") -> int:
        """Accept the token and give it as a number, or raise StaleToken."""


def as_token(token: SupportsIndex) -> int:
    """Read a token: a whole number, or what stands for one, such as a lease."""
    if isinstance(token, bool) or not hasattr(token, "__index__"):
        raise BadRequest(f"a fencing token is a whole number, not {token!r}")
    number = index(token)
    if not 0 < number <= TOKEN_MAX:
        raise BadRequest(f"a fencing token is from 1 to {TOKEN_MAX}, not {number}")
    return number


def as_key(key: str) -> str:
    if not isinstance(key, str):
        raise BadRequest(f"a key is text, not {key!r}")
    size = len(key.encode(errors="surrogatepass"))
    if size > KEY_BYTES_MAX:
        raise BadRequest(f"a key has at most {KEY_BYTES_MAX} bytes, not {size}")
    return key


class _Mark:
    """The highest token of one key. Whoever writes under it keeps its lock meanwhile."""

    __slots__ = ("highest", "lock")

    def __init__(self) -> None:
        self.highest = 0
        self.lock = threading.Lock()

    def accept(self, token: int, key: str) -> None:
        if token < self.highest:
            raise StaleToken(token, self.highest, key)
        self.highest = token


class FencingGuard:
    """Accepts a token that is as high as the highest one seen for its key; for any number of threads.

    A key is never forgotten by itself, because its stale tokens would be accepted again: beyond `keys_max`, new keys
    are refused, and `forget` makes room.
    """

    def __init__(self, *, keys_max: int = KEYS_MAX) -> None:
        if keys_max < 1:
            raise BadRequest(f"keys_max is at least 1, not {keys_max}")
        self._keys_max = keys_max
        self._marks: dict[str, _Mark] = {}
        self._lock = threading.Lock()

    def check(self, token: SupportsIndex, key: str = "") -> int:
        """Accept the token and give it as a number, or raise StaleToken.

        Between this and the write that follows, a newer holder may write; where that matters, write within `admit`.
        """
        with self.admit(token, key) as number:
            return number

    @contextmanager
    def admit(self, token: SupportsIndex, key: str = "") -> Iterator[int]:
        """Accept the token as `check` does, and let nobody else in for this key until the block is left."""
        number = as_token(token)
        mark = self._mark(as_key(key))
        with mark.lock:
            mark.accept(number, key)
            yield number

    def highest(self, key: str = "") -> int:
        """Give the highest token seen for the key, or 0."""
        mark = self._marks.get(as_key(key))
        return mark.highest if mark is not None else 0

    def forget(self, key: str) -> None:
        """Forget a key that nobody will write to again; a stale token for it would be accepted."""
        with self._lock:
            self._marks.pop(key, None)

    def _mark(self, key: str) -> _Mark:
        with self._lock:
            mark = self._marks.get(key)
            if mark is None:
                if len(self._marks) >= self._keys_max:
                    raise TooMany(f"the guard remembers {self._keys_max} keys, which is its keys_max")
                mark = self._marks[key] = _Mark()
            return mark
