"""The operations in the SQL of SQLite, for the processes of one machine.

Time is that machine's clock since it was started, which never steps and goes on while it sleeps: the driver lends it to
SQL as `now_us()`, and the mark of the start as `boot()`. What was held before a restart of the machine is free.
"""

from collections.abc import Sequence
from typing import Final

from holdfast.leases.dialect import (
    TABLE,
    VERSION,
    Dialect,
    keys_and_ids,
    need_version,
    refuse_later,
    refuse_strange,
    spelled,
    unprepared,
)
from holdfast.leases.steps import Statement, Steps
from holdfast.leases.words import Ask, Got, Hold, Taken

LAPSED: Final = "(l.boot <> boot() OR l.expires_at < now_us())"
LIVE: Final = "boot = boot() AND expires_at > now_us()"
LEFT: Final = "CASE WHEN boot = boot() THEN expires_at - now_us() ELSE 0 END"

TAKE: Final = f"""
INSERT INTO {TABLE} AS l (lock_key, holder_json, node_uuid, pid, process, lock_id, acquired_at, expires_at, boot, fence)
VALUES (?, ?, ?, ?, ?, ?, now_us(), now_us() + ?, boot(), 1)
ON CONFLICT (lock_key) DO UPDATE SET
fence = l.fence + 1, holder_json = excluded.holder_json, node_uuid = excluded.node_uuid, pid = excluded.pid,
process = excluded.process, lock_id = excluded.lock_id, acquired_at = excluded.acquired_at,
expires_at = excluded.expires_at, boot = excluded.boot
WHERE {LAPSED} RETURNING fence"""

SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
  lock_key BLOB NOT NULL PRIMARY KEY CHECK (length(lock_key) BETWEEN 1 AND 1024),
  holder_json TEXT NOT NULL,
  node_uuid TEXT NOT NULL,
  pid INTEGER NOT NULL,
  lock_id TEXT NOT NULL,
  acquired_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  boot TEXT NOT NULL,
  fence INTEGER NOT NULL,
  process TEXT NOT NULL
) WITHOUT ROWID"""

NEEDED: Final = (
    "lock_key",
    "holder_json",
    "node_uuid",
    "pid",
    "lock_id",
    "acquired_at",
    "expires_at",
    "boot",
    "fence",
    "process",
)

# Who has what, or has let it lapse.
ROWS: Final = f"""
SELECT lock_key, holder_json, node_uuid, pid, process, lock_id, fence,
CASE WHEN boot = boot() THEN now_us() - acquired_at ELSE 0 END, {LEFT} FROM {TABLE} WHERE expires_at > 0"""

# Whether the table of versions is there, and which version it has of ours.
THERE: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'holdfast_schema'"
SEEN: Final = "SELECT version FROM holdfast_schema WHERE name = ?"


def many(batch: Sequence[Hold]) -> str:
    marks = ", ".join("?" * len(batch))
    return f"lock_key IN ({marks}) AND lock_id IN ({marks})"


class SQLite(Dialect):
    """SQLite from 3.35 on."""

    name = "sqlite"

    def take(self, ask: Ask) -> Steps[Got | Taken]:
        holder = spelled(ask.holder)
        values = (ask.key, holder, ask.node, ask.pid, ask.process, ask.lock_id, ask.lease_us)
        taken = yield Statement(TAKE, values)
        if taken.rows:
            return Got(int(taken.rows[0][0]))
        # If it has been given back meanwhile, the next try will see.
        return (yield from self._look(ask)) or Taken({}, 0)

    def looking(self, key: bytes) -> Statement:
        return Statement(f"SELECT lock_id, fence, holder_json, {LEFT} FROM {TABLE} WHERE lock_key = ?", (key,))

    def refreshing(self, batch: Sequence[Hold], lease_us: int) -> Statement:
        return Statement(
            f"UPDATE {TABLE} SET expires_at = now_us() + ? WHERE {many(batch)} AND {LIVE}",
            [lease_us, *keys_and_ids(batch)],
        )

    def releasing(self, batch: Sequence[Hold]) -> Statement:
        return Statement(f"UPDATE {TABLE} SET expires_at = 0 WHERE {many(batch)}", keys_and_ids(batch))

    def clearing(self, batch: Sequence[Hold]) -> Statement:
        return Statement(
            f"UPDATE {TABLE} SET expires_at = 0, lock_id = '' WHERE {many(batch)} AND expires_at > 0",
            keys_and_ids(batch),
        )

    def finding(self, batch: Sequence[Hold], *, live: bool) -> Statement:
        alive = f" AND {LIVE}" if live else ""
        return Statement(f"SELECT lock_id FROM {TABLE} WHERE {many(batch)}{alive}", keys_and_ids(batch))

    def listing(self) -> Statement:
        return Statement(f"{ROWS} ORDER BY lock_key")

    def showing(self, key: bytes) -> Statement:
        return Statement(f"{ROWS} AND lock_key = ?", (key,))

    def telling(self) -> Statement:
        return Statement("SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000")

    # --- the table ---

    def verify(self) -> Steps[None]:
        if not (yield Statement(THERE)).rows:
            raise unprepared()
        need_version((yield Statement(SEEN, (TABLE,))))

    def prepare(self) -> Steps[list[str]]:
        if (yield Statement(THERE)).rows:
            refuse_later((yield Statement(SEEN, (TABLE,))))
        there = yield Statement("SELECT name FROM pragma_table_info(?)", (TABLE,))
        if there.rows:
            refuse_strange((str(name) for (name,) in there.rows), NEEDED)
        yield Statement(SCHEMA)
        yield Statement("CREATE TABLE IF NOT EXISTS holdfast_schema (name TEXT PRIMARY KEY, version INTEGER NOT NULL)")
        yield Statement(
            "INSERT INTO holdfast_schema (name, version) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET version = excluded.version",
            (TABLE, VERSION),
        )
        return [] if there.rows else [f"made the table {TABLE}"]
