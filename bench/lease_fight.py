"""`python -m bench.lease_fight`: many processes fight for one cluster lock while all goes wrong that can.

Holders are killed and stopped, ways to the database are cut and fall silent, the database itself is killed and comes
back, clocks step; and at no time may two believe to hold the lock. `bench/fight_verdict.py` judges.
"""

import argparse
import asyncio
import json
import random
import sqlite3
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

from bench.databases import KINDS, Database
from bench.fight_verdict import MILLISECOND, Report, Trouble, Turn, judge, turns_of
from bench.lease_proxy import Proxy
from bench.lease_site import Subject, environment, port_for_long
from holdfast.errors import HoldfastError
from holdfast.leases.backend import DatabaseBackend
from holdfast.leases.claim import POLL_JITTER, POLL_S_MAX
from holdfast.leases.opening import open_backend
from holdfast.leases.words import Ask, Hold

SECONDS = 60.0
LEASE_S = 1.5
FIGHTERS = 5
# Two thirds of a lease are what an outage may last. A little less is demanded here, where leases are short: what a
# machine takes for other things does not get shorter with them.
SURVIVED_SHARE = 0.6
LOST_SHARES = (1.2, 1.6)
STOPPED_SHARES = (1.1, 1.7)
# One poll, and what the machine may take for it.
POLL_S = POLL_S_MAX * (1 + POLL_JITTER)
ALLOWANCE_S = 0.5
AWAIT_S_MAX = 60.0
PULSE_S = 0.05
SLOW_NS = 150 * MILLISECOND
SECOND = 1_000_000_000


class Fighter(Subject):
    """One process that fights, and its own way to the database."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lines: list[dict[str, Any]] = []
        self._news = asyncio.Event()
        self._ended = False

    async def start(self, url: str, *options: str) -> None:
        """Start it."""
        command = [sys.executable, "-m", "bench.lease_fighter", url, *options]
        self.process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=environment())
        assert self.process.stdout is not None
        self._reading = asyncio.create_task(self._read(self.process.stdout))

    async def _read(self, written: asyncio.StreamReader) -> None:
        try:
            async for line in written:
                with suppress(ValueError):  # it was killed in the middle of one
                    self.lines.append(json.loads(line))
                self._news.set()
        finally:
            self._ended = True
            self._news.set()

    def tell(self, order: str) -> None:
        """Order something."""
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.write(order.encode() + b"\n")

    async def hears(self, what: str, since: int) -> dict[str, Any] | None:
        """Wait for a line that was not among the first so many; None if it does not come."""
        with suppress(TimeoutError):
            async with asyncio.timeout(AWAIT_S_MAX):
                while True:
                    for line in self.lines[since:]:
                        if line["what"] == what:
                            return line
                    if self._ended:
                        return None
                    self._news.clear()
                    await self._news.wait()
        return None

    async def end(self) -> int | None:
        """Have it end, and read all that it has written."""
        self.tell("end")
        code = await super().end()
        await self._reading
        return code

    async def kill(self) -> None:
        """Kill it on the spot."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()
        await self._reading

    @property
    def turns(self) -> list[Turn]:
        return turns_of(f"fighter {self.number}", self.lines)


class Ring:
    """The place of a fight: a database, fighters, and what goes wrong between them."""

    def __init__(self, kind: str, *, lease_s: float, fighters: int, seed: int, folder: Path) -> None:
        self.dice = random.Random(seed)
        self.lease_s = lease_s
        self._lease_ns = int(lease_s * SECOND)
        self._kind = kind
        self._seed = seed
        self._count = fighters
        self._file = folder / "leases.db"
        self._database: Database | None = None
        self._proxies: list[Proxy] = []
        self._fighters: list[Fighter] = []
        self._dead: list[Fighter] = []
        self._troubles: list[Trouble] = []
        self._tally: Counter[str] = Counter()
        self._slow: list[tuple[int, int]] = []
        self._is_down = False  # the database is, by our doing

    async def __aenter__(self) -> "Ring":
        async with AsyncExitStack() as stack:
            if self._kind != "sqlite":
                port = port_for_long(self.dice)
                self._database = await asyncio.to_thread(KINDS[self._kind](port).__enter__)
                stack.callback(self._database.close)
            await asyncio.to_thread(self._prepare)
            for number in range(self._count):
                if self._database is not None:
                    proxy = Proxy(self._database.port)
                    await proxy.open()
                    stack.push_async_callback(proxy.close)
                    self._proxies.append(proxy)
                self._fighters.append(await self._fighter(number))
            self._pulse = asyncio.create_task(self._feel())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._pulse.cancel()
        await asyncio.gather(self._pulse, return_exceptions=True)
        for proxy in self._proxies:
            proxy.heal()
        for fighter in self._fighters:
            with suppress(ProcessLookupError):
                fighter.go_on()
        await asyncio.gather(*(fighter.end() for fighter in self._fighters))
        await self._stack.aclose()

    def _prepare(self) -> None:
        backend = open_backend(self._url(None))
        assert isinstance(backend, DatabaseBackend)
        backend.prepare()
        backend.close()

    def _url(self, proxy: Proxy | None) -> str:
        if self._database is None:
            return f"sqlite:{self._file}"
        return self._database.url if proxy is None else self._database.url_at(proxy.port)

    async def _fighter(self, number: int) -> Fighter:
        """Start a fighter: every other one in an event loop, and one with sessions in another time zone."""
        fighter = Fighter(number)
        options = ["--lease", str(self.lease_s), "--seed", str(self._seed * 1000 + number)]
        options += ["--loop"] if number % 2 else []
        options += ["--elsewhere"] if number == 0 and self._database is not None else []
        await fighter.start(self._url(self._proxies[number] if self._proxies else None), *options)
        return fighter

    async def _feel(self) -> None:
        """Feel the pulse of the database: a disk that others keep busy is nothing that a lock could survive."""
        backend = open_backend(self._url(None))
        asked = Ask(key=b"pulse/", lock_id="pulse", holder={}, node="", pid=0, process="", lease_us=SECOND)
        while True:
            began = time.monotonic_ns()
            is_down = self._is_down
            with suppress(HoldfastError):
                await asyncio.to_thread(backend.acquire, asked)
                await asyncio.to_thread(backend.release, [Hold(asked.key, asked.lock_id)])
            ended = time.monotonic_ns()
            if ended - began > SLOW_NS and not (is_down or self._is_down):
                self._slow.append((began, ended))
            await asyncio.sleep(PULSE_S)

    # --- the fight ---

    async def fight(self, seconds: float) -> None:
        """Let one thing after another go wrong, each of them before any of them comes again."""
        until = time.monotonic() + seconds
        kinds: list[str] = []
        while time.monotonic() < until:
            if not kinds:
                kinds = list(TROUBLES if self._database is not None else TROUBLES_OF_FILES)
                self.dice.shuffle(kinds)
            kind = kinds.pop()
            self._tally[kind] += 1
            await self._trouble(kind)

    async def _trouble(self, kind: str) -> None:
        """Let a fighter keep what it gets, and give it trouble."""
        fighter = self.dice.choice(self._fighters)
        since = len(fighter.lines)
        fighter.tell("keep")
        kept = await fighter.hears("keeping", since)
        if kept is None:
            self._tally["nobody kept"] += 1
            return
        await asyncio.sleep(self.lease_s * self.dice.uniform(0, 0.4))
        await (TROUBLES | TROUBLES_OF_FILES)[kind](self, fighter, kept["fence"])
        fighter.tell("let go")

    def report(self) -> Report:
        """Judge it all, when it is over."""
        turns = [turn for fighter in [*self._dead, *self._fighters] for turn in fighter.turns]
        return Report(judge(turns, self._troubles, self._slow), self._tally, self.lease_s)

    def _note(self, kind: str, fence: int, since: int, until: int, **facts: Any) -> None:
        self._troubles.append(Trouble(kind=kind, fence=fence, since_ns=since, until_ns=until, **facts))

    @property
    def _within_ns(self) -> int:
        return self._lease_ns + int((POLL_S + ALLOWANCE_S) * SECOND)

    # --- what goes wrong ---

    async def _kill(self, fighter: Fighter, fence: int) -> None:
        """Kill the holder; another one takes its place."""
        since = time.monotonic_ns()
        await fighter.kill()
        self._note("kill", fence, since, since, taken_within_ns=self._within_ns)
        self._dead.append(fighter)
        self._fighters[fighter.number] = await self._fighter(fighter.number)
        await self._another(fence)

    async def _stop(self, fighter: Fighter, fence: int) -> None:
        """Let the holder stand still for longer than its lease."""
        since = time.monotonic_ns()
        fighter.stop()
        await asyncio.sleep(self.lease_s * self.dice.uniform(*STOPPED_SHARES))
        fighter.go_on()
        self._note("stop", fence, since, time.monotonic_ns(), taken_within_ns=self._within_ns)
        await self._another(fence)

    async def _outage(
        self, kind: str, fighter: Fighter, fence: int, begin: Callable[[], Any], end: Callable[[], Any], *, long: bool
    ) -> None:
        """Cut the holder off for a while, and see whether it survives that, or hears of its loss."""
        shares = LOST_SHARES if long else (0.05, SURVIVED_SHARE)
        said = len(fighter.lines)
        since = time.monotonic_ns()
        self._is_down = kind in ("restart", "busy")
        await _done(begin())
        await asyncio.sleep(self.lease_s * self.dice.uniform(*shares))
        await _done(end())
        until = time.monotonic_ns()
        self._is_down = False
        lasted = until - since
        loses = lasted > self._lease_ns
        survives_ns = until + self._lease_ns if lasted <= self._lease_ns * SURVIVED_SHARE else None
        self._note(kind, fence, since, until, survives_ns=survives_ns, loses=loses)
        if loses:
            await fighter.hears("lost", said)
            await self._another(fence)
        elif survives_ns is not None:
            await asyncio.sleep((survives_ns - time.monotonic_ns()) / SECOND)

    async def _cut(self, fighter: Fighter, fence: int, *, long: bool = False) -> None:
        proxy = self._proxies[fighter.number]
        await self._outage("cut", fighter, fence, proxy.cut, proxy.heal, long=long)

    async def _stall(self, fighter: Fighter, fence: int, *, long: bool = False) -> None:
        proxy = self._proxies[fighter.number]
        up, down = self.dice.choice([(True, True), (True, False), (False, True)])
        await self._outage("stall", fighter, fence, lambda: proxy.stall(up=up, down=down), proxy.heal, long=long)

    async def _restart(self, fighter: Fighter, fence: int, *, long: bool = False) -> None:
        database = self._database
        assert database is not None
        await self._outage(
            "restart",
            fighter,
            fence,
            lambda: asyncio.to_thread(database.kill),
            lambda: asyncio.to_thread(database.start),
            long=long,
        )

    async def _busy(self, fighter: Fighter, fence: int, *, long: bool = False) -> None:
        """Keep a file from being written."""
        writer = sqlite3.connect(self._file, isolation_level=None, timeout=10)
        await self._outage(
            "busy",
            fighter,
            fence,
            lambda: writer.execute("BEGIN IMMEDIATE"),
            lambda: writer.execute("ROLLBACK"),
            long=long,
        )
        writer.close()

    async def _step(self, fighter: Fighter, fence: int) -> None:
        """Let the holder's clock step, which must not mean anything."""
        since = time.monotonic_ns()
        fighter.tell(f"step {self.dice.choice([-1, 1]) * self.dice.choice([30, 3600, 86400])}")
        await asyncio.sleep(self.lease_s * 1.5)
        until = time.monotonic_ns()
        self._note("step", fence, since, until, survives_ns=until)

    async def _another(self, fence: int) -> None:
        """Wait until somebody has got the lock after a fence."""
        until = time.monotonic() + AWAIT_S_MAX
        while not any(turn.fence > fence for fighter in self._fighters for turn in fighter.turns[-1:]):
            if time.monotonic() > until:
                return  # the verdict says so
            await asyncio.sleep(0.02)


async def _done(what: Any) -> None:
    if isinstance(what, Awaitable):
        await what


Act = Callable[[Ring, Fighter, int], Awaitable[None]]
ALWAYS: dict[str, Act] = {"kill": Ring._kill, "stop": Ring._stop, "step": Ring._step}
TROUBLES: dict[str, Act] = ALWAYS | {
    "cut": Ring._cut,
    "long cut": lambda ring, *whom: ring._cut(*whom, long=True),
    "stall": Ring._stall,
    "long stall": lambda ring, *whom: ring._stall(*whom, long=True),
    "restart": Ring._restart,
    "long restart": lambda ring, *whom: ring._restart(*whom, long=True),
}
TROUBLES_OF_FILES: dict[str, Act] = ALWAYS | {
    "busy": Ring._busy,
    "long busy": lambda ring, *whom: ring._busy(*whom, long=True),
}


def fight(kind: str, seconds: float, *, lease_s: float = LEASE_S, fighters: int = FIGHTERS, seed: int = 1) -> Report:
    """Let them fight for so long, and report."""

    async def play(folder: Path) -> Report:
        ring = Ring(kind, lease_s=lease_s, fighters=fighters, seed=seed, folder=folder)
        async with ring:
            await ring.fight(seconds)
        return ring.report()

    with tempfile.TemporaryDirectory(prefix="holdfast-fight-") as folder:
        return asyncio.run(play(Path(folder)))


def main() -> int:
    """Fight and tell; answer the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.lease_fight", description=__doc__)
    parser.add_argument("--backend", choices=[*KINDS, "sqlite"], default="mariadb", help="where (default mariadb)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"how long (default {SECONDS:g})")
    parser.add_argument("--lease", type=float, default=LEASE_S, help=f"of the lock, in seconds (default {LEASE_S:g})")
    parser.add_argument("--fighters", type=int, default=FIGHTERS, help=f"how many (default {FIGHTERS})")
    parser.add_argument("--seed", type=int, default=1, help="of what happens when (default 1)")
    options = parser.parse_args()
    report = fight(
        options.backend,
        options.seconds,
        lease_s=options.lease,
        fighters=options.fighters,
        seed=options.seed,
    )
    print(f"{options.backend}, seed {options.seed}, {options.seconds:g} s: {report.summary()}")
    return 1 if report.verdict.violations or report.verdict.late else 0


if __name__ == "__main__":
    sys.exit(main())
