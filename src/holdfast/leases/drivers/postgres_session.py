"""What every connection to PostgreSQL has to be told, and what its errors mean by their five characters.

The drivers differ in how they connect and share this; no driver is imported here.
"""

import re
from typing import Final

from holdfast.errors import Forbidden
from holdfast.leases.drivers.port import Times, Undone
from holdfast.leases.errors import BadTable, DatabaseUnavailable, StatementRefused
from holdfast.leases.postgres import Postgres
from holdfast.leases.steps import Clash, Statement, Steps

# Not serializable, a deadlock, a row that another one has for too long.
UNDONE: Final = frozenset({"40001", "40P01", "55P03"})
# A second row with one key; a table or a type that somebody else has made meanwhile.
CLASH: Final = frozenset({"23505", "42701", "42710", "42P07"})
# There is no such database, schema, column or table.
BAD_TABLE: Final = frozenset({"3D000", "3F000", "42703", "42P01"})
FORBIDDEN: Final = ("28", "42501")
# The connection; out of something; the operator steps in, or a statement took too long; the machine; a server that only
# may be read, as it is while another takes over; a statement that was prepared before the table was changed.
UNAVAILABLE: Final = ("08", "53", "57", "58", "25006", "0A000", "26000")

# A connection that is refused has no five characters, only words.
_NO_ENTRY: Final = re.compile(
    r"authentication failed|no pg_hba\.conf entry|no password supplied|role \".*\" does not exist|not permitted to log"
)

_NO_DATABASE: Final = re.compile(r"database \".*\" does not exist")


def begin(times: Times) -> Steps[Postgres]:
    """Set the session up, and say in which words the server is spoken to."""
    settings = {
        "statement_timeout": f"{times.statement_s}s",
        "lock_timeout": f"{times.row_s}s",
        "TimeZone": "UTC",
        "default_transaction_isolation": "read committed",
    }
    marks = ", ".join(f"set_config('{name}', %s, false)" for name in settings)
    yield Statement(f"SELECT {marks}", tuple(settings.values()))
    return Postgres()


def meaning(state: str | None, said: str, shown: str) -> Exception:
    """Say what an error of the server, or of the way to it, means for a lease."""
    said = said.strip()
    if state is None:
        if _NO_ENTRY.search(said):
            state = "28000"
        elif _NO_DATABASE.search(said):
            state = "3D000"
    if state is None or state.startswith(UNAVAILABLE):
        return DatabaseUnavailable(f"{shown}: {said}")
    if state in UNDONE:
        return Undone(said)
    if state in CLASH:
        return Clash(said)
    if state.startswith(FORBIDDEN):
        return Forbidden(f"{shown}: {said}")
    if state in BAD_TABLE:
        return BadTable(f"{shown}: {said}; `holdfast leases init` prepares the tables")
    return StatementRefused(f"{shown}: {said} ({state})")
