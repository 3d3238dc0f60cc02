"""One backend for each URL in a process, so that all its locks share connections and are refreshed in one statement.

What is handed in as an object stays its owner's, and is closed by nobody here.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, Final

from holdfast.client.process import on_fork
from holdfast.errors import ConfigError

BACKEND_VARIABLE: Final = "HOLDFAST_BACKEND"


class Shared:
    """The backends of a process, by their URLs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._backends: dict[Hashable, Any] = {}
        # What a parent had. Its connections are the parent's still: to end one here would end it there.
        self._of_parents: list[Any] = []

    def get(self, place: Hashable, make: Callable[[], Any]) -> Any:
        """Give what is at a place, made now if nobody has asked before."""
        with self._lock:
            if place not in self._backends:
                self._backends[place] = make()
            return self._backends[place]

    def reset(self) -> None:
        """Begin anew in the child of a fork."""
        self._lock = threading.Lock()
        self._of_parents.append(self._backends)
        self._backends = {}


shared = Shared()
on_fork(shared.reset)


def named(backend: Any) -> Any:
    """Say which backend is meant: the one that was given, or else the one of the environment."""
    if backend is not None:
        return backend
    url = os.environ.get(BACKEND_VARIABLE)
    if not url:
        raise ConfigError(f"no backend: give one as backend=URL, or set {BACKEND_VARIABLE}")
    return url


def backend_of(given: Any) -> Any:
    """Give the backend of a URL or of an engine; an object that is a backend is taken as it is."""
    if hasattr(given, "acquire"):
        return given
    from holdfast.leases.opening import open_backend

    return shared.get(place_of(given), lambda: open_backend(given))


def place_of(given: Any) -> Hashable:
    """Name a backend, so that two locks on one of them can be told from two on two."""
    return given if isinstance(given, Hashable) else id(given)


def in_loop(place: Hashable, make: Callable[[], Any]) -> Any:
    """Give what is at a place of the running event loop, made now if nobody has asked before."""
    loop = asyncio.get_running_loop()
    if loop not in _of_loops:
        for other in [other for other in _of_loops if other.is_closed()]:
            del _of_loops[other]
    places = _of_loops.setdefault(loop, {})
    if place not in places:
        places[place] = make()
    return places[place]


# What event loops have, until another one comes after their end.
_of_loops: dict[asyncio.AbstractEventLoop, dict[Hashable, Any]] = {}
