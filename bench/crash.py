"""`python -m bench.crash`: a real server over a SQLite file is killed again and again under load, and a verdict.

What callers may believe of what they were told stands in `bench/diary.py`; no part of Holdfast is imported.
"""

import argparse
import asyncio
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from bench.diary import Diary
from bench.line import Unexpected
from bench.servers import SERVE, free_port, stop, wait_until_open
from bench.soak import Connection

ROUNDS = 200
OWNERS = 12  # callers with keys of their own, which nobody else asks for
RIVALS = 12  # callers that share a few
SHARED_KEYS = 4
OWN_KEYS = 3  # for each owner
LONG_LEASE_S = 3600  # outlives all rounds: what is held so is held until it is released
SHORT_LEASE_S = 30
PATIENCE_S = 5
LOAD_S_LEAST, LOAD_S_MOST = 0.02, 0.25  # how long a server lives under load
RELEASED_IN_A_CHECK = 0.5  # of what has survived, so that keys become free again
EVIDENCE_SHOWN = 20

GONE = (ConnectionError, asyncio.IncompleteReadError, OSError)


@dataclass(slots=True)
class Report:
    """What happened, how often, and what must not have."""

    seed: int
    rounds: int = 0
    seconds: float = 0.0
    tally: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """Say it in a few lines."""
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(self.tally.items()))
        verdict = f"{len(self.violations)} violations" if self.violations else "no violation"
        head = f"seed {self.seed}: {self.rounds} rounds in {self.seconds:.0f} s: {counts}"
        return "\n".join([head, *self.violations[:EVIDENCE_SHOWN], verdict])


class Caller:
    """Asks for keys, renews and releases until its server is gone, and writes down all that it is told."""

    def __init__(self, connection: Connection, diary: Diary, keys: list[str], dice: random.Random) -> None:
        self._connection = connection
        self._diary = diary
        self._keys = keys
        self._dice = dice

    async def run(self) -> None:
        """Go on until the connection breaks; what was under way then may have happened or not."""
        with suppress(*GONE):
            while True:
                await self._turn(self._dice.choice(self._keys))

    async def _turn(self, key: str) -> None:
        token = self._diary.token_of(key, self)
        if token is None:
            await self._acquire(key)
        elif self._dice.random() < 0.4:
            await self._renew(key, token)
        else:
            await self._release(key, token)

    async def _acquire(self, key: str) -> None:
        lease_s = self._dice.choice((LONG_LEASE_S, SHORT_LEASE_S))
        asking = self._diary.asks(key)
        match await self._connection.ask("l", key, f"{self._dice.choice((0, PATIENCE_S))} {lease_s}"):
            case ["ok", token, _]:
                self._diary.granted(asking, token, lease_s, self)
            case ["timeout"]:
                self._diary.refused(asking)
            case answer:
                raise Unexpected(f"l {key}: {answer}")

    async def _renew(self, key: str, token: str) -> None:
        lease_s = self._dice.choice((LONG_LEASE_S, SHORT_LEASE_S))
        self._diary.begins_to_renew(key, token, lease_s)
        answer = await self._connection.ask("n", key, f"{token} {lease_s}")
        self._diary.renewed(key, token, lease_s, accepted=answer == ["ok", str(lease_s)])

    async def _release(self, key: str, token: str) -> None:
        self._diary.begins_to_release(key, token)
        answer = await self._connection.ask("r", key, token)
        self._diary.released(key, token, accepted=answer == ["ok"])


class Round:
    """One life of a server: what the last one left is checked, then load, then death."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], diary: Diary, dice: random.Random) -> None:
        self._port = port
        self._process = process
        self._diary = diary
        self._dice = dice

    async def live(self) -> None:
        """Check, load, kill."""
        await self._check()
        callers = [Caller(await Connection.open(self._port), self._diary, keys, self._dice) for keys in key_sets()]
        tasks = [asyncio.create_task(caller.run()) for caller in callers]
        await asyncio.sleep(self._dice.uniform(LOAD_S_LEAST, LOAD_S_MOST))
        self._process.kill()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if end is not None:
                self._diary.objects(f"a caller failed: {end!r}")

    async def _check(self) -> None:
        """Try out all that must still be held, and all that must be free; then give some of it back."""
        connection = await Connection.open(self._port)
        for key, token in self._diary.believed():
            answer = await connection.ask("l", key, f"0 {SHORT_LEASE_S}")
            self._diary.tried(key, token, answer)
            if answer[0] == "ok":
                await connection.ask("r", key, answer[1])
            self._diary.begins_to_renew(key, token, LONG_LEASE_S)
            answer = await connection.ask("n", key, f"{token} {LONG_LEASE_S}")
            self._diary.renewed(key, token, LONG_LEASE_S, accepted=answer == ["ok", str(LONG_LEASE_S)])
        for key, token in self._diary.doubtful():
            await self._settle(connection, key, token)
        for key, token in self._diary.believed():
            if self._dice.random() < RELEASED_IN_A_CHECK:
                self._diary.begins_to_release(key, token)
                self._diary.released(key, token, accepted=await connection.ask("r", key, token) == ["ok"])
        await connection.close()

    async def _settle(self, connection: Connection, key: str, token: str) -> None:
        """A release was under way: it has happened or it has not, and from now on it has."""
        answer = await connection.ask("r", key, token)
        self._diary.settled(key, token, accepted=answer == ["ok"])


def key_sets() -> Iterator[list[str]]:
    """Give each caller its keys."""
    shared = [f"shared-{number}" for number in range(SHARED_KEYS)]
    for owner in range(OWNERS):
        yield [f"own-{owner}-{number}" for number in range(OWN_KEYS)]
    for _ in range(RIVALS):
        yield shared
