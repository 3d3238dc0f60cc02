"""The world as it is: the machine's clock and dice, real sockets, and the keeper of this process.

Only put together here; each part lives in a file of its own.
"""

import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Final

from holdfast.client.clock import now_ns
from holdfast.client.keeper_thread import host, tell
from holdfast.client.network import SocketNetwork, sleep_until
from holdfast.client.ports import Signal, World

SECOND: Final = 1_000_000_000
# The longest that a thread can wait for in one piece.
WAIT_S_MAX: Final = 3600.0


def _wait(signal: Signal, until: int) -> bool:
    while not signal.is_set():
        left = (until - now_ns()) / SECOND
        if left <= 0:
            return False
        signal.wait(min(left, WAIT_S_MAX))
    return True


def _begin(work: Callable[[], object], name: str) -> Callable[[int], bool]:
    over = threading.Event()

    def run() -> None:
        try:
            work()
        finally:
            over.set()

    threading.Thread(target=run, name=name, daemon=True).start()
    return lambda until: _wait(over, until)


@cache
def real_world() -> World:
    """Give the world that a client lives in unless it is told otherwise."""
    return World(
        clock=now_ns,
        dice=os.urandom,
        network=SocketNetwork(),
        host=host,
        sleep=sleep_until,
        wait=_wait,
        tell=tell,
        begin=_begin,
    )
