"""Guards for what a lock protects: they refuse the writes of a holder whose time is over.

They know numbers, files and tables; no connection to a lock service may live here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.fencing.guard import FencingGuard, StaleToken

if TYPE_CHECKING:
    from holdfast.fencing.asgi import FencingMiddleware
    from holdfast.fencing.files import FencedFile, FenceFile, FileGuard
    from holdfast.fencing.sql import SqlFence

__all__ = [
    "FenceFile",
    "FencedFile",
    "FencingGuard",
    "FencingMiddleware",
    "FileGuard",
    "SqlFence",
    "StaleToken",
]

# Loaded when they are asked for: nobody needs all of them, and not every system can lock files.
_PLACES = {
    "FenceFile": "files",
    "FencedFile": "files",
    "FencingMiddleware": "asgi",
    "FileGuard": "files",
    "SqlFence": "sql",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
