"""What every connection to MariaDB or MySQL has to be told, and what the numbers of its errors mean.

The drivers differ in how they connect and share this; no driver is imported here.
"""

from typing import Final

from holdfast.errors import Forbidden
from holdfast.leases.drivers.port import Times, Undone
from holdfast.leases.errors import BadTable, DatabaseUnavailable, StatementRefused
from holdfast.leases.mariadb import MariaDB
from holdfast.leases.steps import Clash, Statement, Steps

# A deadlock, a row or a table that another one has for too long, a row that has changed since it was read, a statement
# that somebody has interrupted.
UNDONE: Final = frozenset({1020, 1205, 1213, 1317})
# A second row with one key; a table, a column or an index that somebody else has made or dropped meanwhile.
CLASH: Final = frozenset({1050, 1060, 1062, 1091})
FORBIDDEN: Final = frozenset({1044, 1045, 1130, 1142, 1143, 1227, 1370, 1698, 1820, 1862, 3118, 4151})
# There is no such database, column or table.
BAD_TABLE: Final = frozenset({1049, 1054, 1146})
UNAVAILABLE: Final = frozenset(
    {
        *(1015, 1021, 1026, 1030, 1037, 1038, 1041, 1114, 1180),  # the machine is out of something, or its disk fails
        *(1040, 1135, 1203, 1226),  # too many connections
        *(1047, 1053, 1077, 1079, 1152, 1184, 1927, 4031),  # it is going down, or has ended the connection
        *(1043, 1153, 1156, 1157, 1158, 1159, 1160, 1161),  # the network
        *(1290, 1792, 1836),  # read only, as a server is that has handed over to another one
        *(1028, 1969, 3024),  # too slow
    }
)
# From here to there the numbers are those of clients, about the way to the server.
CLIENT: Final = range(2000, 3000)

# With these, MariaDB returns rows from an INSERT.
RETURNS_FROM: Final = (10, 5)
MODES: Final = "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"


def begin(times: Times) -> Steps[MariaDB]:
    """Set the session up, and say in which words the server is spoken to."""
    version, binlog, logged = (yield Statement("SELECT VERSION(), @@log_bin, @@binlog_format")).rows[0]
    ours = "mariadb" in str(version).lower()
    slow = f"max_statement_time = {times.statement_s}" if ours else f"max_execution_time = {times.statement_s * 1000}"
    yield Statement(
        f"SET SESSION autocommit = 1, time_zone = '+00:00', sql_mode = '{MODES}', "
        f"innodb_lock_wait_timeout = {times.row_s}, lock_wait_timeout = {times.row_s}, {slow}"
    )
    # Then a statement about some rows never waits for others that it only looks at. A log of statements forbids it.
    if not (int(binlog) and str(logged).upper() == "STATEMENT"):
        yield Statement("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return MariaDB(returns=ours and numbers_of(str(version)) >= RETURNS_FROM)


def numbers_of(version: str) -> tuple[int, int]:
    """Read the first two numbers of a version such as 10.11.6-MariaDB-1; what cannot be read is old."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


def meaning(number: object, said: str, shown: str) -> Exception:
    """Say what an error of the server, or of the way to it, means for a lease."""
    if not isinstance(number, int) or number == 0 or number in UNAVAILABLE or number in CLIENT:
        return DatabaseUnavailable(f"{shown}: {said}")
    if number in UNDONE:
        return Undone(said)
    if number in CLASH:
        return Clash(said)
    if number in FORBIDDEN:
        return Forbidden(f"{shown}: {said}")
    if number in BAD_TABLE:
        return BadTable(f"{shown}: {said}; `holdfast leases init` prepares the tables")
    return StatementRefused(f"{shown}: {said} ({number})")
