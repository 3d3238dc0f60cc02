"""What a cluster lock takes from its surroundings: time, chance, and what there is once in a process.

Only put together here; whoever tests a lock hands in another one.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from holdfast.client.clock import now_ns
from holdfast.leases.beats import Beats, process_beats
from holdfast.leases.holding import Holding
from holdfast.leases.refresher import host
from holdfast.leases.registry import Registry, process_registry
from holdfast.leases.words import Hold


class Host(Protocol):
    """Keeps leases alive: threads do, or a task, or whoever turns the hands of the clock."""

    def add(self, backend: Any, holding: Holding) -> None: ...

    def remove(self, backend: Any, holding: Holding) -> None: ...

    def leave(self, backend: Any, hold: Hold, lease_ns: int) -> None: ...

    def post(self, act: Callable[[], Any]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All that a lock takes from outside."""

    clock: Callable[[], int]
    chance: Callable[[], float]
    registry: Registry
    beats: Beats
    # Asked again for each acquisition: the child of a fork has one of its own, and so has each event loop.
    host: Callable[[], Host]
    # Only the one of its own face is asked.
    sleep: Callable[[float], None] = time.sleep
    sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep


@cache
def real_world() -> World:
    """Give the world in which threads wait."""
    return World(clock=now_ns, chance=random.random, registry=process_registry, beats=process_beats, host=host)
