"""`python -m bench.crash`: a real server over a SQLite file is killed again and again under load, and a verdict.

What may follow from what callers were told stands in `bench/diary.py`, and no part of Holdfast is imported.
"""

import argparse
import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from bench.diary import Diary
from bench.line import Unexpected
from bench.servers import SERVE, free_port, wait_until_open
from bench.soak import Connection

ROUNDS = 200
OWNERS = 12  # callers with keys of their own, for which nobody else asks
OWN_KEYS = 3
RIVALS = 12  # callers that share a few keys
SHARED_KEYS = 4
FIRST_LEASE_S = 3  # of a grant; one that nobody was told of is over after that
LEASES_S = (3, 3600)  # of renewals; the long one outlives all rounds
PATIENCES_S = (0, 1)
LOAD_S_MOST = 0.25  # how long a server lives under load
HELD_ON = 0.5  # how much of what has survived is held on to for another round
EVIDENCE_SHOWN = 20

GONE = (OSError, EOFError)  # what a caller sees of a server that dies


class Caller:
    """Asks for keys, renews and releases until its server is gone, and notes all that it is told."""

    def __init__(self, name: str, keys: list[str], diary: Diary, dice: random.Random) -> None:
        self.name = name
        self._keys = keys
        self._diary = diary
        self._dice = dice

    async def run(self, connection: Connection) -> None:
        """Go on until the connection breaks; what is under way then may have happened or not."""
        with suppress(*GONE):
            while True:
                key = self._dice.choice(self._keys)
                entry = self._diary.entry(key)
                if entry.holder != self.name or entry.leaving:
                    await self._acquire(connection, key)
                elif self._dice.random() < 0.4:
                    await renew(connection, self._diary, key, entry.token, self._dice.choice(LEASES_S))
                else:
                    await release(connection, self._diary, key, entry.token)

    async def _acquire(self, connection: Connection, key: str) -> None:
        self._diary.asks(key)
        sent_s = time.time()
        match await connection.ask("l", key, f"{self._dice.choice(PATIENCES_S)} {FIRST_LEASE_S}"):
            case ["ok", token, _]:
                until_s = sent_s + FIRST_LEASE_S
                self._diary.is_granted(key, self.name, token, now_s=time.time(), until_s=until_s)
            case ["timeout"]:
                self._diary.is_refused(key)
            case answer:
                raise Unexpected(f"l {key}: {answer}")


async def renew(connection: Connection, diary: Diary, key: str, token: str, lease_s: int) -> None:
    """Renew, and note what comes of it."""
    until_s = time.time() + lease_s
    diary.renews(key, until_s=until_s)
    answer = await connection.ask("n", key, f"{token} {lease_s}")
    accepted = answer == ["ok", str(lease_s)]
    diary.is_renewed(key, token, accepted=accepted, now_s=time.time(), until_s=until_s)


async def release(connection: Connection, diary: Diary, key: str, token: str) -> None:
    """Release, and note what comes of it."""
    diary.releases(key)
    answer = await connection.ask("r", key, token)
    diary.is_released(key, token, accepted=answer == ["ok"], now_s=time.time())


async def check(connection: Connection, diary: Diary, dice: random.Random) -> None:
    """Try out what the server makes of all that its forerunners have promised."""
    for key, token in diary.believed(time.time()):
        await check_held(connection, diary, key, token)
        if key.startswith("shared") or dice.random() > HELD_ON:
            await release(connection, diary, key, token)
    for key, token in diary.doubtful():
        await connection.ask("r", key, token)  # it may have been released before, or not
        diary.settle(key)
    for key, token in diary.left(time.time()):
        await check_left(connection, diary, key, token)


async def check_held(connection: Connection, diary: Diary, key: str, token: str) -> None:
    """What is held is held against others, and its token is good."""
    until_s = diary.entry(key).until_s
    diary.tally["holds checked"] += 1
    answer = await connection.ask("l", key, f"0 {FIRST_LEASE_S}")
    if answer != ["timeout"] and time.time() < until_s:
        diary.object(f"{key}: it is held with {token}, and another caller was answered {answer}")
    await renew(connection, diary, key, token, max(LEASES_S))


async def check_left(connection: Connection, diary: Diary, key: str, token: str) -> None:
    """What was given back is free, and its token is good for nothing any more."""
    diary.tally["releases checked"] += 1
    answer = await connection.ask("n", key, f"{token} {FIRST_LEASE_S}")
    if answer != ["error"]:
        diary.object(f"{key}: a token that had been given back was renewed: {answer}")
    diary.asks(key)
    sent_s = time.time()
    match await connection.ask("l", key, f"0 {FIRST_LEASE_S}"):
        case ["ok", new, _]:
            diary.is_granted(key, "checker", new, now_s=time.time(), until_s=sent_s + FIRST_LEASE_S)
            await release(connection, diary, key, new)
        case answer:
            diary.object(f"{key}: it had been given back, and whoever asked was answered {answer}")


async def live(server: subprocess.Popen[bytes], port: int, diary: Diary, dice: random.Random) -> None:
    """One life of a server: it is examined, put under load, and killed."""
    connection = await Connection.open(port)
    await check(connection, diary, dice)
    await connection.close()
    callers = [Caller(name, keys, diary, dice) for name, keys in casting()]
    connections = [await Connection.open(port) for _ in callers]
    tasks = [
        asyncio.create_task(caller.run(connection)) for caller, connection in zip(callers, connections, strict=True)
    ]
    await asyncio.sleep(dice.uniform(0, LOAD_S_MOST))
    server.kill()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    diary.violations += [f"a caller failed: {end!r}" for end in ends if end is not None]
    diary.server_dies(ghosts_until_s=time.time() + FIRST_LEASE_S)
    for connection in connections:
        with suppress(*GONE):
            await connection.close()


def casting() -> Iterator[tuple[str, list[str]]]:
    """Name the callers, and the keys that each of them asks for."""
    for number in range(OWNERS):
        yield f"owner-{number}", [f"own-{number}-{key}" for key in range(OWN_KEYS)]
    for number in range(RIVALS):
        yield f"rival-{number}", [f"shared-{key}" for key in range(SHARED_KEYS)]


def read_tables(file: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Read the last token of each key, and that of its holder; in a copy, as all this is left to the next server."""
    copy = file.with_suffix(".copy")
    for end in ("", "-wal"):
        if Path(f"{file}{end}").exists():
            shutil.copyfile(f"{file}{end}", f"{copy}{end}")
    with closing(sqlite3.connect(copy)) as connection:
        tokens = dict(connection.execute("SELECT lock_name, last_token FROM tokens"))
        rows = connection.execute("SELECT lock_name, fencing_token FROM locks WHERE owner_id IS NOT NULL")
        held = dict(rows)
    for left in file.parent.glob(f"{copy.name}*"):
        left.unlink()
    return tokens, held


@contextmanager
def serving(file: Path, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a server on a file; it is over when the block is."""
    port = free_port()
    command = [*SERVE, "--store", f"sqlite:{quote(str(file))}", "--line", f"127.0.0.1:{port}", "--http", "off"]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, cwd=file.parent, env=environ)
    try:
        wait_until_open("holdfast", port, server, log)
        yield server, port
    finally:
        server.kill()
        server.wait()


def crash(rounds: int, seed: int, folder: Path) -> Diary:
    """Live through so many servers on one file; stop at the first one that broke a promise."""
    diary = Diary()
    dice = random.Random(seed)
    file = folder / "locks.db"
    for number in range(rounds):
        with serving(file, folder / "server.log") as (server, port):
            asyncio.run(live(server, port, diary, dice))
        diary.compare(*read_tables(file), time.time())
        diary.tally["rounds"] += 1
        if diary.violations:
            diary.violations.append(f"in round {number}; the server said: {(folder / 'server.log').read_text()!r}")
            break
    return diary


def summary(diary: Diary, seed: int, seconds: float) -> str:
    """Say what happened in a few lines."""
    counts = ", ".join(f"{name} {count:,}" for name, count in sorted(diary.tally.items()))
    verdict = "a promise was broken" if diary.violations else "no violation"
    return "\n".join([f"seed {seed}, {seconds:.0f} s: {counts}", *diary.violations[:EVIDENCE_SHOWN], verdict])


def main() -> int:
    """Crash and tell; answer the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how many servers die (default {ROUNDS})")
    parser.add_argument("--seed", type=int, default=None, help="of the callers' choices and of the time of death")
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-crash-") as folder:
        diary = crash(options.rounds, seed, Path(folder))
    print(summary(diary, seed, time.monotonic() - started_s))
    return 1 if diary.violations else 0


if __name__ == "__main__":
    sys.exit(main())
