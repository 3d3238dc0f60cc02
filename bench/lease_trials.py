"""`python -m bench.lease_trials`: real processes lose their leases, many at once, and a verdict.

A holder is stopped, hangs, or is cut off, or its server is killed; somebody else waits for its lock meanwhile. What
must not come of that stands in `bench/lease_verdict.py`.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.lease_proxy import Proxy
from bench.lease_site import Holder, NotBegunError, Run, Site
from bench.lease_verdict import Story, judge, was_starved

TRIALS = 200
AT_ONCE = 20
LEASES_S = (1.0, 2.0)
SPANS = (1.3, 2.0)  # of what costs the lease, in leases
SERVER_SPANS = (0.1, 2.0)  # for how long a server is down; its leases survive it
START_S_MAX = 60.0
GRANT_S_MAX = 60.0
NO_LOSS_CODES = (0, 128 + 1, -1)  # of `holdfast run`, when we have ended it
LOST_CODE = 76
EVIDENCE_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of trial: who holds, and what happens to it."""

    who: str  # threads, loop, run
    fault: str

    def __str__(self) -> str:
        return f"{self.who}, {self.fault}"


# The commonest of all troubles, a process that stands still, comes twice.
KINDS = [
    *(Kind(who, fault) for fault in ("stop", "stall", "cut", "server") for who in ("threads", "loop", "run")),
    *(Kind(who, "regex") for who in ("threads", "loop")),
    Kind("threads", "stall up"),
    Kind("loop", "stall down"),
    Kind("loop", "sleep"),
    Kind("loop", "sleep and stall"),
    Kind("threads", "sleep"),
    Kind("run", "stop"),
]
DEAFENING = ("stop", "regex", "sleep", "sleep and stall")


@dataclass(slots=True)
class Report:
    """What came of all trials."""

    tally: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, kind: Kind, story: Story) -> None:
        """Count one trial, and judge it."""
        self.tally["trials"] += 1
        self.tally[f"({kind})"] += 1
        self.tally["lost"] += bool(story.when("lost") or story.exit_code == LOST_CODE)
        self.tally["starved"] += was_starved(story)
        self.violations += judge(story)
        if story.exit_code not in (None, LOST_CODE, *NO_LOSS_CODES):
            self.violations.append(f"{story.name}: the exit code of holdfast run was {story.exit_code}")

    def summary(self) -> str:
        """Say it in a few lines."""
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(self.tally.items()))
        verdict = f"{len(self.violations)} violations" if self.violations else "no violation"
        return "\n".join([counts, *self.violations[:EVIDENCE_SHOWN], verdict])


class Trial:
    """One trial at one site."""

    def __init__(self, number: int, kind: Kind, site: Site, folder: Path, dice: random.Random) -> None:
        self._kind = kind
        self._site = site
        self._dice = dice
        self._key = f"trial-{number}"
        self._lease_s = dice.choice(LEASES_S)
        self._proxy = Proxy(site.port)
        self._subject: Holder | Run = Run(folder, self._key) if kind.who == "run" else Holder()
        self.story = Story(f"trial {number} ({kind})", round(self._lease_s * 1e9), deaf=kind.fault in DEAFENING)

    async def play(self) -> Story:
        """Have the lock held, have trouble, and have somebody else get the lock."""
        await self._proxy.open()
        options = ["--lease", str(self._lease_s)]
        if self._kind.fault == "sleep":
            options += ["--beat", str(self._lease_s / 2)]
        if self._kind.who == "loop":
            options += ["--loop"]
        try:
            async with asyncio.timeout(START_S_MAX):
                await self._subject.start(self._site.url(self._proxy.port), self._key, *options)
            async with asyncio.timeout(GRANT_S_MAX):
                await self._contend()
        except NotBegunError as error:
            self.story.failure = str(error)
        except TimeoutError:
            pass  # the verdict says so
        finally:
            self._proxy.heal()
            code = await self._subject.end()
            await self._proxy.close()
        if isinstance(self._subject, Holder):
            self.story.lines = self._subject.lines
        else:
            self.story.exit_code = code
        return self.story

    async def _contend(self) -> None:
        story, subject = self.story, self._subject
        next_one = asyncio.create_task(self._site.be_next(self._key, self._lease_s))
        try:
            await asyncio.sleep(self._dice.uniform(0.05, self._lease_s))
            await self._trouble()
            await asyncio.wait([next_one], timeout=self._lease_s / 2)
            if isinstance(subject, Run):
                story.alive_ns = subject.alive_ns
            if not next_one.done():
                ending = asyncio.create_task(subject.end())  # it has kept the lock, and gives it back
                await next_one
                await ending
            story.next_grant_ns, story.next_fence = await next_one
            if isinstance(subject, Run):
                story.alive_ns = subject.alive_ns
        finally:
            next_one.cancel()

    async def _trouble(self) -> None:
        span_s = self._lease_s * self._dice.uniform(*(SERVER_SPANS if self._kind.fault == "server" else SPANS))
        for fault in self._kind.fault.split(" and "):
            FAULTS[fault](self, span_s)
        await asyncio.sleep(span_s)
        if self._kind.fault == "server":
            await self._site.start()
        elif self._kind.fault == "stop":
            self._subject.go_on()
        self._proxy.heal()

    # --- what goes wrong ---

    def _stop(self, _span_s: float) -> None:
        self._subject.stop()

    def _hang(self, how: str, span_s: float) -> None:
        assert isinstance(self._subject, Holder)
        self._subject.tell(f"{how} {span_s}")

    def _stall(self, *, up: bool = True, down: bool = True) -> None:
        self._proxy.stall(up=up, down=down)

    def _cut(self, _span_s: float) -> None:
        self._proxy.cut()

    def _kill_server(self, _span_s: float) -> None:
        self._site.kill()


FAULTS: dict[str, Callable[[Trial, float], None]] = {
    "stop": Trial._stop,
    "regex": lambda trial, span_s: trial._hang("regex", span_s),
    "sleep": lambda trial, span_s: trial._hang("sleep", span_s),
    "stall": lambda trial, _span_s: trial._stall(),
    "stall up": lambda trial, _span_s: trial._stall(down=False),
    "stall down": lambda trial, _span_s: trial._stall(up=False),
    "cut": Trial._cut,
    "server": Trial._kill_server,
}


class Trials:
    """Many trials, so many at once."""

    def __init__(self, count: int, at_once: int, seed: int, folder: Path) -> None:
        self._count = count
        self._turn = asyncio.Semaphore(at_once)
        self._seed = seed
        self._folder = folder
        self.report = Report()

    async def run(self) -> None:
        """Play all of them."""
        site = Site(self._folder / "shared", random.Random(self._seed))
        try:
            await site.start()
            async with asyncio.TaskGroup() as group:
                for number in range(self._count):
                    group.create_task(self._play(number, site))
        finally:
            await site.close()

    async def _play(self, number: int, shared: Site) -> None:
        kind = KINDS[number % len(KINDS)]
        dice = random.Random(f"{self._seed}/{number}")
        async with self._turn:
            if kind.fault != "server":
                story = await Trial(number, kind, shared, self._folder, dice).play()
            else:
                site = Site(self._folder / f"site-{number}", dice)
                try:
                    await site.start()
                    story = await Trial(number, kind, site, self._folder, dice).play()
                finally:
                    await site.close()
        self.report.add(kind, story)


def try_all(count: int, at_once: int, seed: int) -> Report:
    """Play so many trials, and report."""
    with tempfile.TemporaryDirectory(prefix="holdfast-leases-") as folder:

        async def play() -> Report:
            trials = Trials(count, at_once, seed, Path(folder))
            await trials.run()
            return trials.report

        return asyncio.run(play())


def main() -> int:
    """Try and tell; answer the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.lease_trials", description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"how many (default {TRIALS})")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help=f"how many at a time (default {AT_ONCE})")
    parser.add_argument("--seed", type=int, default=1, help="of what happens when (default 1)")
    options = parser.parse_args()
    logging.getLogger("holdfast.client").setLevel(logging.CRITICAL)  # of so much trouble there is much to tell
    started_s = time.monotonic()
    report = try_all(options.trials, options.at_once, options.seed)
    print(f"seed {options.seed}, {time.monotonic() - started_s:.0f} s: {report.summary()}")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
