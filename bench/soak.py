"""`python -m bench.soak`: many callers on few keys of a real server, some of them rude, and a verdict.

The callers do what people's programs do: wait, try, queue, renew, vanish, outstay a lease. The rules that
their histories must obey stand in `bench/history.py`, and no part of Holdfast is imported.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from asyncio import StreamReader, StreamWriter
from collections import Counter
from dataclasses import dataclass, field

from bench.history import History
from bench.line import Unexpected
from bench.servers import holdfast, running

CALLERS = 50
KEYS = 5
SECONDS = 30.0
LEASE_S = 30
PATIENCE_S = 10
LAPSE_S = 1
ANSWER_S_MAX = 60  # an answer that takes longer than any patience is a waiter that was lost
SETTLE_S_MAX = 5
HOLD_S_MAX = 0.002

# How a caller comes to a key, and how it leaves; rude ways are rare, because each one costs the others time.
ARRIVALS = {"wait": 45, "queue": 45, "try": 4, "peek": 4, "desert": 2}
ENDINGS = {"release": 890, "renew": 90, "vanish": 18, "lapse": 2}


@dataclass(slots=True)
class Report:
    """What happened, how often, and what must not have."""

    seconds: float
    tally: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """Say it in a few lines."""
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(self.tally.items()))
        verdict = f"{len(self.violations)} violations" if self.violations else "no violation"
        return "\n".join([f"{self.seconds:g} s: {counts}", *self.violations[:20], verdict])


@dataclass(slots=True)
class Key:
    """A key that the callers share; one at a time joins its queue, so that the order of arrival is known."""

    history: History
    joining: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def name(self) -> str:
        """Name the key."""
        return self.history.key


@dataclass(slots=True)
class Connection:
    """The line protocol over asyncio's streams."""

    reader: StreamReader
    writer: StreamWriter

    @classmethod
    async def open(cls, port: int) -> "Connection":
        """Connect to the server."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, command: str, key: str, argument: object) -> list[str]:
        """Send one request, and split its answer into words."""
        self.writer.write(f"{command}\n{key}\n{argument}\n".encode())
        async with asyncio.timeout(ANSWER_S_MAX):
            answer = await self.reader.readuntil(b"\n")
        return answer.decode().split()

    async def close(self) -> None:
        """Close without a word to the server."""
        self.writer.close()
        await self.writer.wait_closed()


class Caller:
    """One caller, which takes turns on random keys until its time is up."""

    def __init__(self, port: int, keys: list[Key], tally: Counter[str], dice: random.Random) -> None:
        self.port = port
        self.keys = keys
        self.tally = tally
        self.dice = dice

    async def run(self, until_s: float) -> None:
        """Take turns; every turn that was begun is ended."""
        self.connection = await Connection.open(self.port)
        try:
            while time.monotonic() < until_s:
                await self.turn(self.dice.choice(self.keys))
        finally:
            await self.connection.close()

    async def turn(self, key: Key) -> None:
        """Come to a key, and leave it again."""
        arrival = self.draw(ARRIVALS)
        self.tally[arrival] += 1
        token = await self.arrive(key, arrival)
        if token:
            ending = self.draw(ENDINGS)
            self.tally[ending] += 1
            await self.hold()
            await self.leave(key, token, ending)

    def draw(self, chances: dict[str, int]) -> str:
        """Choose one of several ways."""
        return self.dice.choices(list(chances), list(chances.values()))[0]

    async def hold(self) -> None:
        """Do some work, or none at all."""
        await asyncio.sleep(self.dice.choice([0, self.dice.uniform(0, HOLD_S_MAX)]))

    async def reconnect(self) -> None:
        """Vanish, as a program that crashed, and come back as another one."""
        await self.connection.close()
        self.connection = await Connection.open(self.port)

    async def arrive(self, key: Key, arrival: str) -> str | None:
        """Get the lock; answer the token, or nothing."""
        match arrival:
            case "wait":
                return await self.acquire(key, PATIENCE_S)
            case "try":
                return await self.acquire(key, 0)
            case "queue":
                return await self.enqueue_and_wait(key, PATIENCE_S)
            case "peek":
                return await self.enqueue_and_wait(key, 0)
        await self.enqueue_and_desert(key)
        return None

    async def acquire(self, key: Key, patience_s: int) -> str | None:
        """Acquire in one phase."""
        sent_s = time.monotonic()
        match await self.connection.ask("l", key.name, f"{patience_s} {LEASE_S}"):
            case ["ok", token, _]:
                self.note_grant(key, token, sent_s)
                return token
            case ["timeout"]:
                self.tally["timed out"] += 1
                return None
            case answer:
                raise Unexpected(f"l {key.name}: {answer}")

    async def enqueue(self, key: Key) -> tuple[int, str | None]:
        """Join the queue; answer the place, and the token when the lock was free."""
        async with key.joining:
            sent_s = time.monotonic()
            answer = await self.connection.ask("e", key.name, LEASE_S)
            place = key.history.joined()
        match answer:
            case ["acquired", token, _]:
                self.note_grant(key, token, sent_s)
                key.history.served(place, fence_of(token), now_s=time.monotonic())
                return place, token
            case ["queued"]:
                return place, None
        raise Unexpected(f"e {key.name}: {answer}")

    async def enqueue_and_wait(self, key: Key, patience_s: int) -> str | None:
        """Acquire in two phases."""
        place, early = await self.enqueue(key)
        await self.hold()
        sent_s = time.monotonic()
        match await self.connection.ask("w", key.name, patience_s):
            case ["ok", token, _] if early is None:
                self.note_grant(key, token, sent_s)
                key.history.served(place, fence_of(token), now_s=time.monotonic())
                return token
            case ["ok", token, _] if token == early:
                return token
            case ["timeout"] if early is None:
                key.history.left(place, until_s=sent_s + patience_s)
                self.tally["timed out"] += 1
                return None
            case answer:
                raise Unexpected(f"w {key.name}: {answer} after {early or 'queued'}")

    async def enqueue_and_desert(self, key: Key) -> None:
        """Join the queue and vanish, with the lock or without."""
        place, token = await self.enqueue(key)
        await self.hold()
        if token:
            key.history.given_up(fence_of(token))
        else:
            key.history.left(place, until_s=time.monotonic())
        await self.reconnect()

    async def leave(self, key: Key, token: str, ending: str) -> None:
        """End a grant in one of the ways in which grants end."""
        if ending == "lapse":
            await self.outstay(key, token)
            return
        if ending == "renew":
            await self.renew(key, token, LEASE_S)
            await self.hold()
        key.history.given_up(fence_of(token))
        if ending == "vanish":
            await self.reconnect()
        elif (answer := await self.connection.ask("r", key.name, token)) != ["ok"]:
            raise Unexpected(f"r {key.name}: {answer}")

    async def outstay(self, key: Key, token: str) -> None:
        """Shorten the lease, sleep through its end, and release what may be somebody else's by now."""
        await self.renew(key, token, LAPSE_S)
        await asyncio.sleep(LAPSE_S * 1.2)
        answer = await self.connection.ask("r", key.name, token)
        if answer not in (["ok"], ["error"]):
            raise Unexpected(f"r {key.name} after the lease: {answer}")

    async def renew(self, key: Key, token: str, lease_s: int) -> None:
        """Renew, and rely on the lease from before the request was sent."""
        sent_s = time.monotonic()
        answer = await self.connection.ask("n", key.name, f"{token} {lease_s}")
        if answer != ["ok", str(lease_s)]:
            raise Unexpected(f"n {key.name}: {answer}")
        key.history.renewed(fence_of(token), until_s=sent_s + lease_s)

    def note_grant(self, key: Key, token: str, sent_s: float) -> None:
        """Tell the history of a grant."""
        key.history.granted(fence_of(token), now_s=time.monotonic(), until_s=sent_s + LEASE_S)


def fence_of(token: str) -> int:
    """Read the fence, which is the first half of a token."""
    return int(token[:16], 16)


async def leftovers(port: int) -> list[str]:
    """Say what is still held, waited for or connected when all have gone; the server may need a moment."""
    connection = await Connection.open(port)
    limit_s = time.monotonic() + SETTLE_S_MAX
    while True:
        answer = await connection.ask("stats", "_", "_")
        stats = json.loads(" ".join(answer[1:]))
        left = [f"left over: {entry}" for entry in stats["locks"] + stats["semaphores"]]
        if stats["connections"] != 1:
            left.append(f"left over: {stats['connections'] - 1} connections")
        if not left or time.monotonic() > limit_s:
            await connection.close()
            return left
        await asyncio.sleep(0.05)


async def drive(port: int, report: Report, seed: int) -> None:
    """Let all callers loose on a running server, and judge."""
    keys = [Key(History(f"soak_{number}")) for number in range(KEYS)]
    until_s = time.monotonic() + report.seconds
    callers = [Caller(port, keys, report.tally, random.Random(f"{seed}/{number}")) for number in range(CALLERS)]
    ends = await asyncio.gather(*(caller.run(until_s) for caller in callers), return_exceptions=True)
    report.violations += [f"a caller failed: {end!r}" for end in ends if end is not None]
    for key in keys:
        report.tally["grants"] += key.history.grants
        report.violations += key.history.finished()
    report.violations += await leftovers(port)


def soak(seconds: float, seed: int = 1) -> Report:
    """Start a server, soak it, and report."""
    report = Report(seconds)
    with running("holdfast", holdfast) as server:
        asyncio.run(drive(server.port, report, seed))
    return report


def main() -> int:
    """Soak and tell; answer the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"how long (default {SECONDS:g})")
    parser.add_argument("--seed", type=int, default=1, help="of the callers' choices (default 1)")
    options = parser.parse_args()
    report = soak(options.seconds, options.seed)
    print(report.summary())
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
