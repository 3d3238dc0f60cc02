"""The operations in the SQL of MariaDB and MySQL.

Time is the server's, in UTC and microseconds. Statements run in autocommit; no two of them ever depend on one snapshot.
"""

from collections.abc import Sequence
from typing import Any, Final

from holdfast.leases import words
from holdfast.leases.dialect import (
    TABLE,
    VERSION,
    Dialect,
    answer_of,
    keys_and_ids,
    need_version,
    refuse_later,
    refuse_strange,
    spelled,
    text,
    unprepared,
)
from holdfast.leases.errors import BadTable
from holdfast.leases.steps import Clash, Statement, Steps
from holdfast.leases.words import Ask, Got, Hold, Taken

# The name that the constant has beside the statements of the original.
CLUSTER_LOCK_LEASE_SECONDS: Final = words.LEASE_SECONDS

# When a row is free: long ago, so that whoever comes may take it.
FREE: Final = "'1970-01-01 00:00:01'"
NOW: Final = "UTC_TIMESTAMP(6)"
LEFT: Final = f"TIMESTAMPDIFF(MICROSECOND, {NOW}, expires_at)"
EPOCH_US: Final = f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', {NOW})"

# One statement for a row that is there. The new fence comes back as the last insert id.
TAKE: Final = f"""
UPDATE {TABLE} SET fence = LAST_INSERT_ID(fence + 1), holder_json = %s, node_uuid = %s, pid = %s, process = %s,
lock_id = %s, acquired_at = {EPOCH_US} / 1e6, expires_at = {NOW} + INTERVAL %s MICROSECOND
WHERE lock_key = %s AND expires_at < {NOW}"""

COLUMNS: Final = "holder_json, node_uuid, pid, process, lock_id, acquired_at, expires_at, lock_key, fence"
NEW_ROW: Final = f"%s, %s, %s, %s, %s, {EPOCH_US} / 1e6, {NOW} + INTERVAL %s MICROSECOND, %s, 1"

INSERT: Final = f"INSERT INTO {TABLE} ({COLUMNS}) VALUES ({NEW_ROW})"

# One statement for a row that may be missing; it tells what the row is then. Assignments are made from left to right,
# so the one that decides comes last.
UPSERT: Final = (
    f"{INSERT} ON DUPLICATE KEY UPDATE "
    + ", ".join(
        f"{column} = IF(expires_at < {NOW}, {value}, {column})"
        for column, value in [
            ("fence", "fence + 1"),
            *((name, f"VALUES({name})") for name in COLUMNS.split(", ") if name not in ("lock_key", "fence")),
        ]
    )
    + f" RETURNING lock_id, fence, holder_json, {LEFT}"
)

# Who has what, or has let it lapse.
ROWS: Final = f"""
SELECT lock_key, holder_json, node_uuid, pid, process, lock_id, fence,
CAST({EPOCH_US} - acquired_at * 1e6 AS SIGNED), {LEFT} FROM {TABLE} WHERE expires_at > {FREE}"""

# Whether the table of versions is there, and which version it has of ours.
THERE: Final = (
    "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'holdfast_schema'"
)
SEEN: Final = "SELECT version FROM holdfast_schema WHERE name = %s"

SCHEMA: Final = f"""
CREATE TABLE {TABLE} (
  lock_key VARBINARY(1024) NOT NULL PRIMARY KEY,
  holder_json JSON NOT NULL,
  node_uuid VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
  pid INT NOT NULL,
  lock_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  acquired_at DOUBLE NOT NULL,
  expires_at DATETIME(6) NOT NULL,
  fence BIGINT NOT NULL DEFAULT 0,
  process VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ''
) ENGINE = InnoDB"""


def many(batch: Sequence[Hold]) -> str:
    """Spell a condition on so many rows."""
    marks = ", ".join(["%s"] * len(batch))
    return f"lock_key IN ({marks}) AND lock_id IN ({marks})"


class MariaDB(Dialect):
    """MariaDB from 10.5 on, and MySQL from 8.0 on, which cannot return rows from an INSERT."""

    name = "mariadb"

    def __init__(self, *, returns: bool = True) -> None:
        self._returns = returns

    def take(self, ask: Ask) -> Steps[Got | Taken]:
        values = (spelled(ask.holder), ask.node, ask.pid, ask.process, ask.lock_id, ask.lease_us, ask.key)
        taken = yield Statement(TAKE, values)
        if taken.count:
            return Got(taken.number)
        # It is held, as nearly always, or the row is missing. To look costs no lock on the row.
        seen = yield from self._look(ask)
        if seen is not None:
            return seen
        if self._returns:
            row = (yield Statement(UPSERT, values)).rows[0]
            return answer_of(ask, *row)
        return (yield from self._insert(ask, values))

    def _insert(self, ask: Ask, values: Sequence[Any]) -> Steps[Got | Taken]:
        """The row is missing."""
        try:
            yield Statement(INSERT, values)
        except Clash:
            # Somebody else was quicker, or it has lapsed this very moment: the next try will see.
            return (yield from self._look(ask)) or Taken({}, 0)
        return Got(1)

    def looking(self, key: bytes) -> Statement:
        return Statement(f"SELECT lock_id, fence, holder_json, {LEFT} FROM {TABLE} WHERE lock_key = %s", (key,))

    def refreshing(self, batch: Sequence[Hold], lease_us: int) -> Statement:
        return Statement(
            f"UPDATE {TABLE} SET expires_at = {NOW} + INTERVAL %s MICROSECOND "
            f"WHERE {many(batch)} AND expires_at > {NOW}",
            [lease_us, *keys_and_ids(batch)],
        )

    def releasing(self, batch: Sequence[Hold]) -> Statement:
        return Statement(f"UPDATE {TABLE} SET expires_at = {FREE} WHERE {many(batch)}", keys_and_ids(batch))

    def clearing(self, batch: Sequence[Hold]) -> Statement:
        return Statement(
            f"UPDATE {TABLE} SET expires_at = {FREE}, lock_id = '' WHERE {many(batch)} AND expires_at > {FREE}",
            keys_and_ids(batch),
        )

    def finding(self, batch: Sequence[Hold], *, live: bool) -> Statement:
        alive = f" AND expires_at > {NOW}" if live else ""
        return Statement(f"SELECT lock_id FROM {TABLE} WHERE {many(batch)}{alive}", keys_and_ids(batch))

    def listing(self) -> Statement:
        return Statement(f"{ROWS} ORDER BY lock_key")

    def showing(self, key: bytes) -> Statement:
        return Statement(f"{ROWS} AND lock_key = %s", (key,))

    def telling(self) -> Statement:
        return Statement(f"SELECT {EPOCH_US}")

    # --- the table ---

    def verify(self) -> Steps[None]:
        if not (yield Statement(THERE)).rows:
            raise unprepared()
        need_version((yield Statement(SEEN, (TABLE,))))
        # This changes nothing, and matches one row. A connection that counts changes would take each refresh in the
        # same microsecond for a loss.
        same = yield Statement("UPDATE holdfast_schema SET version = version WHERE name = %s", (TABLE,))
        if same.count != 1:
            raise BadTable("this connection counts changed rows, not found ones: open it with the flag FOUND_ROWS")

    def prepare(self) -> Steps[list[str]]:
        if (yield Statement(THERE)).rows:
            refuse_later((yield Statement(SEEN, (TABLE,))))
        done: list[str] = []
        columns = yield Statement(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = DATABASE() AND table_name = %s",
            (TABLE,),
        )
        if not columns.rows:
            yield Statement(SCHEMA)
            done.append(f"made the table {TABLE}")
        else:
            kinds = {text(name).lower(): text(kind).lower() for name, kind in columns.rows}
            done += yield from self._take_over(kinds)
        yield Statement(
            "CREATE TABLE IF NOT EXISTS holdfast_schema "
            "(name VARCHAR(64) NOT NULL PRIMARY KEY, version INT NOT NULL) ENGINE = InnoDB"
        )
        yield Statement(
            "INSERT INTO holdfast_schema (name, version) VALUES (%s, %s) "
            "ON DUPLICATE KEY UPDATE version = VALUES(version)",
            (TABLE, VERSION),
        )
        return done

    def _take_over(self, kinds: dict[str, str]) -> Steps[list[str]]:
        """Bring a table of Shaken Fist up to date, in place. Whoever holds something there gets a full lease anew.

        Each step may have been done before: a statement that changes a table is a transaction of its own.
        """
        refuse_strange(kinds, ("lock_key", "holder_json", "node_uuid", "pid", "lock_id", "acquired_at"))
        done: list[str] = []
        if "fence" not in kinds:
            yield Statement(f"ALTER TABLE {TABLE} ADD COLUMN fence BIGINT NOT NULL DEFAULT 1")
            done.append("added the column fence")
        if "process" not in kinds:
            yield Statement(
                f"ALTER TABLE {TABLE} ADD COLUMN process VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin "
                "NOT NULL DEFAULT ''"
            )
            done.append("added the column process")
        done += yield from self._retype(kinds)
        indexes = yield Statement(
            "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() "
            "AND table_name = %s AND index_name <> 'PRIMARY'",
            (TABLE,),
        )
        for (index,) in indexes.rows:
            yield Statement(f"ALTER TABLE {TABLE} DROP INDEX `{text(index)}`")
            done.append(f"dropped the index {text(index)}, which only made for more to lock")
        return done

    def _retype(self, kinds: dict[str, str]) -> Steps[list[str]]:
        done: list[str] = []
        if kinds["lock_key"] != "varbinary":
            # By way of text in UTF-8, or else the bytes would be those of the character set that the table has.
            yield Statement(
                f"ALTER TABLE {TABLE} MODIFY lock_key VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, "
                "MODIFY node_uuid VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL"
            )
            yield Statement(
                f"ALTER TABLE {TABLE} MODIFY lock_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, "
                "MODIFY lock_key VARBINARY(1024) NOT NULL"
            )
            done.append("keys and lock ids are compared byte by byte")
        exact = yield Statement(
            "SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = %s "
            "AND column_name = 'expires_at' AND data_type = 'datetime' AND datetime_precision = 6 "
            "AND is_nullable = 'NO'",
            (TABLE,),
        )
        if exact.rows:
            return done
        if "expires_at" in kinds:
            # By which time zone it was written nobody knows, so nothing is read from it.
            yield Statement(f"ALTER TABLE {TABLE} MODIFY expires_at DATETIME(6) NULL DEFAULT NULL")
        else:
            yield Statement(f"ALTER TABLE {TABLE} ADD COLUMN expires_at DATETIME(6) NULL DEFAULT NULL")
        yield Statement(f"UPDATE {TABLE} SET expires_at = {NOW} + INTERVAL %s SECOND", (CLUSTER_LOCK_LEASE_SECONDS,))
        yield Statement(f"ALTER TABLE {TABLE} MODIFY expires_at DATETIME(6) NOT NULL")
        done.append("leases end by UTC, to the microsecond; each that was there has begun anew")
        return done
