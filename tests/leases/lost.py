"""Questions whose answers are lost on the way: the server has heard them, and the caller does not know.

No expectation lives here.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tests.leases.proxy import Proxy

T = TypeVar("T")


def losing_the_answer(proxy: Proxy, work: Callable[[], T], heard: Callable[[], Any]) -> T:
    """Ask, keep the answer until the server has done what it was asked, and cut the connection then."""
    proxy.stall_answers()
    with ThreadPoolExecutor(1) as callers:
        asking = callers.submit(work)
        until = time.monotonic() + 5
        while not heard() and time.monotonic() < until:
            pass
        proxy.cut()
        proxy.restore()
        return asking.result(60)
