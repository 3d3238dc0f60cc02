"""The operations in the SQL of PostgreSQL, from version 12 on.

Time is `clock_timestamp()`, which goes on while a statement waits for a row. Whoever gives a lock back rings a bell.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from holdfast.leases.dialect import (
    TABLE,
    VERSION,
    Dialect,
    need_version,
    refuse_later,
    refuse_strange,
    spelled,
    unprepared,
)
from holdfast.leases.steps import Statement, Steps
from holdfast.leases.words import Ask, Got, Hold, Taken

# The channel on which it is told that a lock has been given back; the payload is `bell_of` the key.
BELL: Final = "holdfast_leases"

FREE: Final = "'epoch'::timestamptz"
NOW: Final = "clock_timestamp()"


def us(what: str) -> str:
    """Spell a length of time in microseconds."""
    return f"(extract(epoch FROM {what}) * 1000000)::bigint"


LEFT: Final = us(f"expires_at - {NOW}")

TAKE: Final = f"""
INSERT INTO {TABLE} AS l (lock_key, holder_json, node_uuid, pid, process, lock_id, acquired_at, expires_at, fence)
VALUES (%s, %s, %s, %s, %s, %s, extract(epoch FROM {NOW}), {NOW} + %s * interval '1 microsecond', 1)
ON CONFLICT (lock_key) DO UPDATE SET
fence = l.fence + 1, holder_json = EXCLUDED.holder_json, node_uuid = EXCLUDED.node_uuid, pid = EXCLUDED.pid,
process = EXCLUDED.process, lock_id = EXCLUDED.lock_id, acquired_at = extract(epoch FROM {NOW}),
expires_at = {NOW} + %s * interval '1 microsecond'
WHERE l.expires_at < {NOW} RETURNING fence"""

SCHEMA: Final = f"""
CREATE TABLE {TABLE} (
  lock_key bytea PRIMARY KEY CHECK (octet_length(lock_key) BETWEEN 1 AND 1024),
  holder_json text NOT NULL,
  node_uuid text NOT NULL,
  pid integer NOT NULL,
  lock_id text NOT NULL,
  acquired_at double precision NOT NULL,
  expires_at timestamptz(6) NOT NULL,
  fence bigint NOT NULL DEFAULT 0,
  process text NOT NULL DEFAULT ''
) WITH (fillfactor = 70)"""


NEEDED: Final = (
    "lock_key",
    "holder_json",
    "node_uuid",
    "pid",
    "lock_id",
    "acquired_at",
    "expires_at",
    "fence",
    "process",
)

# Who has what, or has let it lapse.
ROWS: Final = f"""
SELECT lock_key, holder_json, node_uuid, pid, process, lock_id, fence,
((extract(epoch FROM {NOW}) - acquired_at) * 1000000)::bigint, {LEFT} FROM {TABLE} WHERE expires_at > {FREE}"""

# Whether the table of versions is there, and which version it has of ours.
THERE: Final = "SELECT to_regclass('holdfast_schema') IS NOT NULL"
SEEN: Final = "SELECT version FROM holdfast_schema WHERE name = %s"


def bell_of(key: bytes) -> str:
    """Name a key in the payload of a bell, as PostgreSQL itself does."""
    return hashlib.md5(key, usedforsecurity=False).hexdigest()


def keys_and_ids(batch: Sequence[Hold]) -> list[Any]:
    return [[hold.key for hold in batch], [hold.lock_id for hold in batch]]


MANY: Final = "lock_key = ANY(%s) AND lock_id = ANY(%s)"


class Postgres(Dialect):
    """PostgreSQL."""

    name = "postgres"

    def take(self, ask: Ask) -> Steps[Got | Taken]:
        holder = spelled(ask.holder)
        values = (ask.key, holder, ask.node, ask.pid, ask.process, ask.lock_id, ask.lease_us, ask.lease_us)
        taken = yield Statement(TAKE, values)
        if taken.rows:
            return Got(int(taken.rows[0][0]))
        # If it has been given back meanwhile, the next try will see.
        return (yield from self._look(ask)) or Taken({}, 0)

    def looking(self, key: bytes) -> Statement:
        return Statement(f"SELECT lock_id, fence, holder_json, {LEFT} FROM {TABLE} WHERE lock_key = %s", (key,))

    def refreshing(self, batch: Sequence[Hold], lease_us: int) -> Statement:
        return Statement(
            f"UPDATE {TABLE} SET expires_at = {NOW} + %s * interval '1 microsecond' "
            f"WHERE {MANY} AND expires_at > {NOW}",
            [lease_us, *keys_and_ids(batch)],
        )

    def releasing(self, batch: Sequence[Hold]) -> Statement:
        return self._freeing(batch, "", MANY)

    def clearing(self, batch: Sequence[Hold]) -> Statement:
        return self._freeing(batch, ", lock_id = ''", f"{MANY} AND expires_at > {FREE}")

    def _freeing(self, batch: Sequence[Hold], forgetting: str, condition: str) -> Statement:
        return Statement(
            f"WITH gone AS (UPDATE {TABLE} SET expires_at = {FREE}{forgetting} WHERE {condition} RETURNING lock_key) "
            f"SELECT pg_notify('{BELL}', md5(lock_key)) FROM gone",
            keys_and_ids(batch),
        )

    def finding(self, batch: Sequence[Hold], *, live: bool) -> Statement:
        alive = f" AND expires_at > {NOW}" if live else ""
        return Statement(f"SELECT lock_id FROM {TABLE} WHERE {MANY}{alive}", keys_and_ids(batch))

    def listing(self) -> Statement:
        return Statement(f"{ROWS} ORDER BY lock_key")

    def showing(self, key: bytes) -> Statement:
        return Statement(f"{ROWS} AND lock_key = %s", (key,))

    def telling(self) -> Statement:
        return Statement(f"SELECT {us(NOW)}")

    # --- the table ---

    def verify(self) -> Steps[None]:
        if not (yield Statement(THERE)).rows[0][0]:
            raise unprepared()
        need_version((yield Statement(SEEN, (TABLE,))))

    def prepare(self) -> Steps[list[str]]:
        if (yield Statement(THERE)).rows[0][0]:
            refuse_later((yield Statement(SEEN, (TABLE,))))
        columns = yield Statement(
            "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0", (TABLE,)
        )
        done: list[str] = []
        if not columns.rows:
            yield Statement(SCHEMA)
            done.append(f"made the table {TABLE}")
        else:
            refuse_strange((str(name) for (name,) in columns.rows), NEEDED)
        yield Statement("CREATE TABLE IF NOT EXISTS holdfast_schema (name text PRIMARY KEY, version integer NOT NULL)")
        yield Statement(
            "INSERT INTO holdfast_schema (name, version) VALUES (%s, %s) "
            "ON CONFLICT (name) DO UPDATE SET version = EXCLUDED.version",
            (TABLE, VERSION),
        )
        return done
