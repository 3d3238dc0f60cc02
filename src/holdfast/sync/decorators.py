# Made from aio/decorators.py by tools/faces.py: change that one, and run `python -m tools.faces`.

"""Functions that run under a lock: `locked` waits for it, `once` runs only where nobody else does.

The lock of a decorated function is an ordinary one; nothing here decides who has it.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, ParamSpec, Protocol, TypeVar, Unpack

from holdfast.client.options import Seconds, span_ns
from holdfast.sync.waiting import Shared, check_function
from holdfast.sync.wishes import Wishes

if TYPE_CHECKING:
    from holdfast.sync.client import Client

SECOND: Final = 1_000_000_000

P = ParamSpec("P")
R = TypeVar("R")

# A key, or a function that makes one of the arguments of the decorated function.
Key = str | Callable[..., str]


class Locks(Protocol):
    """Makes of a function one that runs under a lock."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...


class RunsOnce(Protocol):
    """Makes of a function one that runs, or answers None because another one does."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | None]: ...


_shared = Shared()


def locked(key: Key, *, lease: Seconds = 30.0, patience: Seconds | None = None, **wishes: Unpack[Wishes]) -> Locks:
    """Have a function run under a lock of the server at HOLDFAST_SERVER: see `Client.locked`."""

    def client() -> "Client":
        return default_client()

    return locked_by(client, key, lease, patience, wishes)


def once(key: Key, *, at_least: Seconds = 0.0, lease: Seconds = 30.0, **wishes: Unpack[Wishes]) -> RunsOnce:
    """Have a function run only where nobody else runs it, by the server at HOLDFAST_SERVER: see `Client.once`."""

    def client() -> "Client":
        return default_client()

    return once_by(client, key, at_least, lease, wishes)


def default_client() -> "Client":
    """Give the client of those who have not made one."""
    from holdfast.sync.client import connect

    client: Client = _shared.get(connect)
    return client


def locked_by(
    client: Callable[[], "Client"], key: Key, lease: Seconds, patience: Seconds | None, wishes: Wishes
) -> Locks:
    """Make the decorator `locked`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        check_function(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            name = key if isinstance(key, str) else key(*args, **kwargs)
            hf = client()
            with hf.lock(name, lease, patience, **wishes):
                return function(*args, **kwargs)

        return call

    return decorate


def once_by(client: Callable[[], "Client"], key: Key, at_least: Seconds, lease: Seconds, wishes: Wishes) -> RunsOnce:
    """Make the decorator `once`."""
    at_least_ns = span_ns(at_least, "at_least")
    lease_ns = span_ns(lease, "lease", least=0.001)

    def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
        check_function(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            name = key if isinstance(key, str) else key(*args, **kwargs)
            hf = client()
            until = hf.until(name, at_least_ns)
            # Should this process die, the lock has to stay taken all the same.
            held = hf.try_lock(name, max(lease_ns, at_least_ns) / SECOND, **wishes)
            if held is None:
                return None
            if at_least_ns:
                held.keep_until(until, lease_ns)
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                held.leave(error, until)
                raise
            held.leave(None, until)
            return result

        return call

    return decorate
