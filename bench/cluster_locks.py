"""Leases in a database: pairs a second against the quickest plain statements, one hot key, and a thousand refreshed.

The servers are private instances with the durability that they have by default; each client is a process of its own.
"""

import gc
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Barrier
from statistics import median
from typing import Any, Protocol

from bench.databases import KINDS, Database, program
from bench.servers import ServerFailed
from bench.tables import Figures, medians, ratio, table
from holdfast.errors import HoldfastError
from holdfast.leases import mariadb, postgres
from holdfast.leases.backend import DatabaseBackend
from holdfast.leases.claim import new_id
from holdfast.leases.cluster_lock import ClusterLock
from holdfast.leases.mariadb import MariaDB
from holdfast.leases.opening import open_backend
from holdfast.leases.postgres import Postgres
from holdfast.leases.words import Ask, Hold

CLIENTS = 32
ALONE = 1
LOCKS = 1000
REFRESHES = 30
WARM_UP = 30  # until connections and rows are there, and a process has what it shares with none
LEASE_US = 60_000_000
HOT = "hot"
HOLDER = '{"node": "bench"}'
# A row that is free; without it, our statements would be other ones.
ROW = (
    "INSERT INTO cluster_locks "
    "(lock_key, holder_json, node_uuid, pid, process, lock_id, acquired_at, expires_at, fence) "
    "VALUES (%s, '{}', '', 0, '', '', 0, '1970-01-01 00:00:01', 0)"
)
START_S_MAX = 60.0
US = 1e6

PLAIN_TABLE = "plain_locks"
SERVERS = {"mariadb": "mariadbd", "postgres": "postgres"}


class Client(Protocol):
    """One who asks for a lock and gives it back."""

    def acquire(self) -> bool:
        """Try once."""

    def release(self) -> None:
        """Give it back."""


# --- who is compared ---


class Ours:
    """A cluster lock, as a program uses it."""

    def __init__(self, database: Database, name: str) -> None:
        self._lock = ClusterLock("bench", name=name, backend=database.url)

    def acquire(self) -> bool:
        return self._lock.acquire()

    def release(self) -> None:
        self._lock.release()


class Statements:
    """The same statements by a bare cursor of the same driver, without all that keeps a lease."""

    def __init__(self, database: Database, name: str) -> None:
        self._connection = database.connect()
        self._cursor = self._connection.cursor()
        self._key = f"bench/{name}".encode()
        self._lock_id = ""
        self._look = False
        self._dialect = MariaDB() if database.kind == "mariadb" else Postgres()
        with suppress(*failures()):  # all of them make the row, and one of them does
            self._cursor.execute(ROW, (self._key,))

    def acquire(self) -> bool:
        self._lock_id = new_id()
        if self._look and self._is_held():
            return False
        holder = (HOLDER, "bench", 1, "", self._lock_id, LEASE_US)
        if isinstance(self._dialect, MariaDB):
            self._cursor.execute(mariadb.TAKE, (*holder, self._key))
        else:
            self._cursor.execute(postgres.TAKE, (self._key, *holder, LEASE_US))
        self._look = self._cursor.rowcount != 1
        return not self._look

    def _is_held(self) -> bool:
        """Look as those do who have found it taken."""
        look = self._dialect.looking(self._key)
        self._cursor.execute(look.sql, look.values)
        row = self._cursor.fetchone()
        return bool(row is not None and row[-1] > 0)

    def release(self) -> None:
        asked = self._dialect.releasing([Hold(self._key, self._lock_id)])
        self._cursor.execute(asked.sql, asked.values)


class PlainMariaDb:
    """What Shaken Fist describes: INSERT IGNORE, an UPDATE to steal, and a DELETE; each is a transaction."""

    def __init__(self, database: Database, name: str) -> None:
        self._connection = database.connect()
        self._cursor = self._connection.cursor()
        self._key = f"bench/{name}"
        self._lock_id = ""

    def acquire(self) -> bool:
        self._lock_id = new_id()
        if self._cursor.execute(
            f"INSERT IGNORE INTO {PLAIN_TABLE} (lock_key, holder_json, node_uuid, pid, lock_id, acquired_at, "
            "expires_at) VALUES (%s, %s, %s, %s, %s, %s, NOW() + INTERVAL 60 SECOND)",
            (self._key, HOLDER, "bench", 1, self._lock_id, time.time()),
        ):
            return True
        return bool(
            self._cursor.execute(
                f"UPDATE {PLAIN_TABLE} SET holder_json = %s, node_uuid = %s, pid = %s, lock_id = %s, "
                "acquired_at = %s, expires_at = NOW() + INTERVAL 60 SECOND WHERE lock_key = %s AND expires_at < NOW()",
                (HOLDER, "bench", 1, self._lock_id, time.time(), self._key),
            )
        )

    def release(self) -> None:
        self._cursor.execute(
            f"DELETE FROM {PLAIN_TABLE} WHERE lock_key = %s AND lock_id = %s", (self._key, self._lock_id)
        )


class PlainPostgres:
    """One statement to take a lock and a DELETE; each is a transaction."""

    def __init__(self, database: Database, name: str) -> None:
        self._connection = database.connect()
        self._key = f"bench/{name}"
        self._lock_id = ""

    def acquire(self) -> bool:
        self._lock_id = new_id()
        taken = self._connection.execute(
            f"INSERT INTO {PLAIN_TABLE} AS l (lock_key, holder_json, node_uuid, pid, lock_id, acquired_at, expires_at) "
            "VALUES (%s, %s, %s, %s, %s, %s, now() + interval '60 seconds') ON CONFLICT (lock_key) DO UPDATE SET "
            "holder_json = EXCLUDED.holder_json, lock_id = EXCLUDED.lock_id, acquired_at = EXCLUDED.acquired_at, "
            "expires_at = EXCLUDED.expires_at WHERE l.expires_at < now() RETURNING lock_id",
            (self._key, HOLDER, "bench", 1, self._lock_id, time.time()),
        )
        return taken.fetchone() is not None

    def release(self) -> None:
        self._connection.execute(
            f"DELETE FROM {PLAIN_TABLE} WHERE lock_key = %s AND lock_id = %s", (self._key, self._lock_id)
        )


PLAIN_COLUMNS = (
    "lock_key VARCHAR(255) NOT NULL PRIMARY KEY, holder_json {json} NOT NULL, node_uuid VARCHAR(255) NOT NULL, "
    "pid INT NOT NULL, lock_id VARCHAR(64) NOT NULL, acquired_at DOUBLE PRECISION NOT NULL, expires_at {time} NOT NULL"
)
TYPES = {"mariadb": {"json": "JSON", "time": "DATETIME"}, "postgres": {"json": "TEXT", "time": "TIMESTAMPTZ"}}
Make = Callable[[Database, str], Client]
PLAIN: dict[str, Make] = {"mariadb": PlainMariaDb, "postgres": PlainPostgres}
OURS = "Holdfast"


def sides(kind: str) -> dict[str, Make]:
    """Say who is compared on a database."""
    return {OURS: Ours, "its statements alone": Statements, "plain statements": PLAIN[kind]}


# --- measuring ---


def load(database: Database, make: Make, names: Sequence[str], seconds: float) -> Figures:
    """Have a client for each name spin for so long, each in a process of its own."""
    forks = multiprocessing.get_context("fork")
    barrier = forks.Barrier(len(names))
    gc.collect()
    gc.freeze()  # or else each of them would copy all of our memory in the middle of it
    reports = forks.SimpleQueue()
    clients = [
        forks.Process(target=spin, args=(database, make, name, seconds, barrier, reports), daemon=True)
        for name in names
    ]
    for client in clients:
        client.start()
    took: list[float] = []
    errors: list[str] = []
    cpu_s = 0.0
    for _ in names:
        one, failed, used_s = reports.get()
        took += one
        errors += failed
        cpu_s += used_s
    for client in clients:
        client.join()
    took.sort()
    at = len(took) / 100
    return {
        "pairs/s": len(took) / seconds,
        "p50 ms": took[int(at * 50)] * 1000 if took else 0.0,
        "p99 ms": took[int(at * 99)] * 1000 if took else 0.0,
        "CPU µs": cpu_s * US / max(1, len(took)),
        "errors": float(len(errors)),
    }


def spin(database: Database, make: Make, name: str, seconds: float, barrier: Barrier, reports: Any) -> None:
    """Take and give back without a pause, and report how long each pair took and what went wrong."""
    took: list[float] = []
    errors: list[str] = []
    client = make(database, name)
    for _ in range(WARM_UP):
        with suppress(*failures()):
            if client.acquire():
                client.release()
    barrier.wait(START_S_MAX)
    used_s = time.process_time()
    began = time.perf_counter()
    until = began + seconds
    while time.perf_counter() < until:
        try:
            if client.acquire():
                client.release()
                ended = time.perf_counter()
                took.append(ended - began)
                began = ended
        except failures() as error:
            errors.append(str(error))
    reports.put((took, errors, time.process_time() - used_s))


def failures() -> tuple[type[Exception], ...]:
    """Name what clients may run into."""
    import psycopg
    import pymysql

    return (HoldfastError, pymysql.MySQLError, psycopg.Error)


@contextmanager
def prepared(kind: str) -> Iterator[Database]:
    """Start a database that has all tables."""
    with KINDS[kind]() as database:
        backend = open_backend(database.url)
        assert isinstance(backend, DatabaseBackend)
        backend.prepare()
        backend.close()
        connection = database.connect()
        connection.cursor().execute(f"CREATE TABLE {PLAIN_TABLE} ({PLAIN_COLUMNS.format(**TYPES[kind])})")
        connection.close()
        yield database


def is_here(kind: str) -> bool:
    """Tell whether a database is installed, and how to install it if not."""
    try:
        program(SERVERS[kind])
    except ServerFailed as missing:
        print(f"{kind} is left out: {missing}\n", file=sys.stderr)
        return False
    return True


def own_keys(database: Database, seconds: float, rounds: int) -> str:
    """Compare pairs a second where nobody is in anybody's way."""
    rows = []
    for count in (ALONE, CLIENTS):
        names = [f"own-{number}" for number in range(count)]
        history: dict[str, list[Figures]] = {name: [] for name in sides(database.kind)}
        for round_ in range(rounds):
            makes = list(sides(database.kind).items())
            for name, make in makes if round_ % 2 == 0 else reversed(makes):
                history[name].append(load(database, make, names, seconds))
        base = list(history)[-1]
        for name, taken in history.items():
            middle = medians(taken)
            share = ratio("pairs/s", taken, history[base])
            rows.append([name, count, middle["pairs/s"], middle["p50 ms"], middle["p99 ms"], share, middle["errors"]])
    header = ["a key each", "clients", "pairs/s", "p50 ms", "p99 ms", "÷ plain statements", "errors"]
    return table(header, rows)


def hot_key(database: Database, seconds: float, rounds: int) -> str:
    """Compare how often one key changes hands while all spin for it."""
    rows = []
    for name, make in sides(database.kind).items():
        before = deadlocks(database)
        taken = [load(database, make, [HOT] * CLIENTS, seconds) for _ in range(rounds)]
        undone = deadlocks(database)
        middle = medians(taken)
        met = "" if undone is None or before is None else undone - before
        rows.append([name, CLIENTS, middle["pairs/s"], sum(one["errors"] for one in taken), met])
    header = ["one key for all", "clients", "hand-overs/s", "errors that surface", "deadlocks in the server"]
    return table(header, rows)


def deadlocks(database: Database) -> int | None:
    """Ask MariaDB how many deadlocks it has had so far."""
    if database.kind != "mariadb":
        return None
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
        return int(cursor.fetchone()[1])


def thousand(database: Database) -> str:
    """Measure one refresh of a thousand locks."""
    backend = open_backend(database.url)
    holds = []
    for number in range(LOCKS):
        hold = Hold(b"bench/refresh/%d" % number, new_id())
        holds.append(hold)
        backend.acquire(
            Ask(
                key=hold.key,
                lock_id=hold.lock_id,
                holder={"node": "bench"},
                node="bench",
                pid=1,
                process="",
                lease_us=LEASE_US,
            )
        )
    took = []
    for _ in range(REFRESHES):
        began = time.perf_counter()
        assert all(backend.refresh(holds, LEASE_US))
        took.append((time.perf_counter() - began) * 1000)
    assert all(backend.release(holds))
    backend.close()
    rows = [[f"{LOCKS:,} locks refreshed", median(took), max(took)]]
    return table(["in one statement", "median ms", "max ms"], rows)


def cluster_locks(seconds: float, rounds: int, kinds: Sequence[str] = tuple(KINDS)) -> str:
    """Measure all of it, on each database."""
    parts = []
    for kind in kinds:
        if not is_here(kind):
            continue
        with prepared(kind) as database:
            parts += [
                f"### Leases in a database: {kind}",
                own_keys(database, seconds, rounds),
                hot_key(database, seconds, rounds),
                thousand(database),
            ]
    return "\n\n".join(parts)
