"""`python -m bench.lease_fighter`: a process that fights for a cluster lock, and writes down what it believes.

It is one of the parts of `bench.lease_fight`, which tells it on its standard input when to keep what it gets. It judges
nothing.
"""

import argparse
import asyncio
import logging
import queue
import random
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from bench.lease_holder import LATE_NS, LOOK_S, say
from holdfast.errors import HoldfastError
from holdfast.leases import ClusterLock, LockException
from holdfast.leases.aio import ClusterLock as LoopLock
from holdfast.leases.drivers.mariadb import MariaDbDriver
from holdfast.leases.drivers.port import AsyncConnection, AsyncListener, Connection, Driver, Listener, Times
from holdfast.leases.drivers.postgres import PostgresDriver
from holdfast.leases.handle import Handle
from holdfast.leases.steps import Statement
from holdfast.leases.url import POSTGRES, place_of

KEY = "fight"
HOLD_S_MAX = 0.05
REST_S_MAX = 0.2  # whoever gives it back lets others have it first
PATIENCE_S = 2.0
PAUSE_S = 0.05

# What puts a session into another time zone than all others.
ELSEWHERE = {
    "mariadb": "SET time_zone = '+05:30'",
    "postgres": "SET TIME ZONE INTERVAL '+05:30' HOUR TO MINUTE",
}

Orders = queue.SimpleQueue[list[str]]


class Elsewhere(Driver):
    """A way to a database on which every session is in another time zone."""

    def __init__(self, url: str) -> None:
        place = place_of(url)
        self._driver: Driver = PostgresDriver(place) if place.kind == POSTGRES else MariaDbDriver(place)
        self._statement = Statement(ELSEWHERE[place.kind])
        self.shown = self._driver.shown
        self.rings = self._driver.rings

    def connect(self, times: Times) -> Connection:
        connection = self._driver.connect(times)
        connection.execute(self._statement)
        return connection

    async def connect_async(self, times: Times) -> AsyncConnection:
        connection = await self._driver.connect_async(times)
        await connection.execute(self._statement)
        return connection

    def listen(self, times: Times) -> Listener:
        return self._driver.listen(times)

    async def listen_async(self, times: Times) -> AsyncListener:
        return await self._driver.listen_async(times)


class Fighter:
    """What a fighter does with a lock that it has; both faces share it."""

    def __init__(self, orders: Orders, dice: random.Random) -> None:
        self._orders = orders
        self._dice = dice
        self._keeps = False
        self.over = False

    def granted(self, lock: Handle) -> None:
        """Write down what was got."""
        say("granted", fence=lock.fence)
        self._until = time.monotonic() + self._dice.uniform(0, HOLD_S_MAX)
        self._looked = time.monotonic_ns()
        self._told = False

    @property
    def rest_s(self) -> float:
        """Say how long to rest between two turns."""
        return self._dice.uniform(0, REST_S_MAX)

    def obey(self) -> None:
        """Do what was ordered since."""
        while not self._orders.empty():
            order = self._orders.get()
            self._keeps = order == ["keep"]
            self._told = False
            self.over = order == ["end"]
            if order[0] == "step":
                step_clock(float(order[1]))

    def look(self, lock: "ClusterLock | LoopLock") -> bool:
        """Look once, and say whether to go on holding. The instant is from before the look."""
        self.obey()
        at = time.monotonic_ns()
        if at - self._looked >= LOOK_S * 1_000_000_000 + LATE_NS:
            say("away", self._looked, until=at)
        self._looked = at
        if not lock.held:
            say("not held", at)
            if lock.lost_event.is_set():
                say("lost", reason=lock.lost_reason)
            return not lock.lost_event.is_set()
        say("held", at)
        if self._keeps and not self._told:
            self._told = True
            say("keeping", fence=lock.fence)
        return self._keeps or time.monotonic() < self._until


def step_clock(seconds: float) -> None:
    """Let the clock of this process step, as far as a program can see it."""
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + seconds
    time.time_ns = lambda: now_ns() + int(seconds * 1e9)
    say("stepped", seconds=seconds)


def fight(lock: ClusterLock, fighter: Fighter) -> None:
    """Fight in a thread."""
    while not fighter.over:
        fighter.obey()
        try:
            lock.__enter__()
        except LockException:
            continue
        except HoldfastError as error:
            say("trouble", error=str(error))
            time.sleep(PAUSE_S)
            continue
        fighter.granted(lock)
        while fighter.look(lock):
            time.sleep(LOOK_S)
        with suppress(HoldfastError):
            lock.release()
        say("released")
        time.sleep(fighter.rest_s)


async def fight_in_loop(lock: LoopLock, fighter: Fighter) -> None:
    """Fight in an event loop."""
    while not fighter.over:
        fighter.obey()
        try:
            await lock.__aenter__()
        except LockException:
            continue
        except HoldfastError as error:
            say("trouble", error=str(error))
            await asyncio.sleep(PAUSE_S)
            continue
        fighter.granted(lock)
        while fighter.look(lock):  # noqa: ASYNC110  to look is what it is there for
            await asyncio.sleep(LOOK_S)
        with suppress(HoldfastError):
            await lock.release()
        say("released")
        await asyncio.sleep(fighter.rest_s)


def main() -> int:
    """Fight until told to end; answer the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.lease_fighter", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--lease", type=float, required=True, help="in seconds")
    parser.add_argument("--seed", type=int, default=1, help="of how long it holds")
    parser.add_argument("--loop", action="store_true", help="fight in an event loop")
    parser.add_argument("--elsewhere", action="store_true", help="with sessions in another time zone")
    options = parser.parse_args()
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)  # of so much trouble there is much to tell
    orders: Orders = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            orders.put(line.split())
        orders.put(["end"])

    threading.Thread(target=listen, daemon=True).start()
    source = Elsewhere(options.url) if options.elsewhere else options.url
    fighter = Fighter(orders, random.Random(options.seed))
    wishes: dict[str, Any] = {"backend": source, "lease": options.lease, "timeout": PATIENCE_S}
    if options.loop:
        asyncio.run(fight_in_loop(LoopLock(KEY, **wishes), fighter))
    else:
        fight(ClusterLock(KEY, **wishes), fighter)
    return 0


if __name__ == "__main__":
    sys.exit(main())
