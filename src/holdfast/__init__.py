"""Holdfast: one lock service for everything that must not happen twice at once.

Nothing heavy is imported here, so that `import holdfast` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.client.lock_api import NotAcquired as NotAcquired
    from holdfast.client.lock_api import ReleaseResult as ReleaseResult
    from holdfast.client.lock_api import UnexpectedStatus as UnexpectedStatus
    from holdfast.client.retry import RetryPolicy as RetryPolicy
    from holdfast.sync.lock_client import LockClient as LockClient

__version__ = "0.1.0"

# Where each public name lives; it is loaded when somebody asks for it.
_PLACES = {
    "LockClient": "holdfast.sync.lock_client",
    "NotAcquired": "holdfast.client.lock_api",
    "ReleaseResult": "holdfast.client.lock_api",
    "RetryPolicy": "holdfast.client.retry",
    "UnexpectedStatus": "holdfast.client.lock_api",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(place), name)
