"""LockServer's own hand on a database: its tables, and its statements, written from its specification.

It knows nothing of Holdfast, as little as the original does.
"""

import sqlite3
from pathlib import Path

TABLES = """
CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, applied_at_ns INTEGER NOT NULL);
CREATE TABLE tokens (lock_name TEXT PRIMARY KEY, last_token INTEGER NOT NULL);
CREATE TABLE locks (
    lock_name TEXT PRIMARY KEY, owner_id TEXT NULL, lease_id TEXT NULL, fencing_token INTEGER NOT NULL,
    lease_expiry_ns INTEGER NOT NULL, version INTEGER NOT NULL, created_at_ns INTEGER NOT NULL,
    updated_at_ns INTEGER NOT NULL
);
CREATE INDEX idx_locks_expiry ON locks (lease_expiry_ns);
INSERT INTO schema_migrations VALUES (1, 1700000000000000000);
"""


class LockServer:
    """One connection of the original; each call is one transaction."""

    def __init__(self, path: Path) -> None:
        new = not path.exists()
        self.connection = sqlite3.connect(path, timeout=1, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        if new:
            self.connection.executescript(TABLES)

    def __enter__(self) -> "LockServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def acquire(self, name: object, owner: str, lease_id: str, now: int, until: int) -> int:
        """Give a lock away, whoever has it."""
        with self.connection as c:
            c.execute("BEGIN")
            c.execute("INSERT OR IGNORE INTO tokens VALUES (?, 0)", (name,))
            c.execute("UPDATE tokens SET last_token = last_token + 1 WHERE lock_name = ?", (name,))
            (token,) = c.execute("SELECT last_token FROM tokens WHERE lock_name = ?", (name,)).fetchone()
            c.execute(
                "INSERT INTO locks (lock_name, owner_id, lease_id, fencing_token, lease_expiry_ns, version,"
                " created_at_ns, updated_at_ns) VALUES (?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT (lock_name) DO UPDATE SET"
                " owner_id = excluded.owner_id, lease_id = excluded.lease_id,"
                " fencing_token = excluded.fencing_token, lease_expiry_ns = excluded.lease_expiry_ns,"
                " version = version + 1, updated_at_ns = excluded.updated_at_ns",
                (name, owner, lease_id, token, until, now, now),
            )
            c.execute("COMMIT")
        return int(token)

    def release(self, name: object, now: int) -> None:
        self.connection.execute(
            "UPDATE locks SET owner_id = NULL, lease_id = NULL, lease_expiry_ns = 0, version = version + 1,"
            " updated_at_ns = ? WHERE lock_name = ?",
            (now, name),
        )

    def renew(self, name: object, until: int) -> None:
        self.connection.execute(
            "UPDATE locks SET lease_expiry_ns = ?, version = version + 1 WHERE lock_name = ?", (until, name)
        )

    def row(self, name: object) -> tuple[object, ...]:
        """Give owner, lease id, token, expiry and version."""
        found = self.connection.execute(
            "SELECT owner_id, lease_id, fencing_token, lease_expiry_ns, version FROM locks WHERE lock_name = ?", (name,)
        ).fetchone()
        return tuple(found or ())

    def token(self, name: object) -> int | None:
        found = self.connection.execute("SELECT last_token FROM tokens WHERE lock_name = ?", (name,)).fetchone()
        return found[0] if found else None
