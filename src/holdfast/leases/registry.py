"""Which locks this process has, or is asking for: a second try for one of them would wait for itself.

A lease that is over counts no more, whether anybody has been told so or not.
"""

import threading
from collections.abc import Hashable
from typing import Protocol

from holdfast.client.process import on_fork


class Member(Protocol):
    """A claim to a lock."""

    asking: bool

    @property
    def lock_id(self) -> str: ...

    @property
    def live(self) -> bool:
        """Whether it is asking, or has the lock."""


class Registry:
    """All claims of a process, each under its backend and key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[tuple[Hashable, bytes], Member] = {}

    def enter(self, place: tuple[Hashable, bytes], claim: Member) -> bool:
        """Let a claim begin to ask; False where there is a live one already, which may be the same."""
        with self._lock:
            other = self._claims.get(place)
            if claim.live or (other is not None and other.live):
                return False
            claim.asking = True
            self._claims[place] = claim
            return True

    def leave(self, place: tuple[Hashable, bytes], claim: Member) -> None:
        """Let go of it, if it is still this one."""
        with self._lock:
            if self._claims.get(place) is claim:
                del self._claims[place]

    def knows(self, lock_id: object) -> bool:
        """Tell whether a live claim of this process has a lock, whatever way to the database it has taken."""
        with self._lock:
            return any(claim.lock_id == lock_id and claim.live for claim in self._claims.values())

    def reset(self) -> None:
        """Begin anew in the child of a fork; some other thread may have been in the middle of something."""
        self._lock = threading.Lock()
        self._claims = {}


process_registry = Registry()
on_fork(process_registry.reset)
