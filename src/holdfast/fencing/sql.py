"""A guard inside a database: a table of fences, and updates that change nothing for a stale token.

It runs on a connection of the caller's, within the caller's transaction; it never commits, and knows no driver by name.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, SupportsIndex

from holdfast.errors import BadRequest, Busy, ConfigError, NotHeld
from holdfast.fencing.guard import StaleToken, as_token

# The highest number of BIGINT, in every database.
TOKEN_MAX = 2**63 - 1
NAME_CHARS_MAX = 190  # with four bytes each, what fits into an index of MySQL with its oldest limits
COLUMNS_MAX = 1000
TABLE = "holdfast_fences"

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62}){0,2}")

# How a driver wants the n-th value, and whether the values go in a list or by name.
_PLACES: dict[str, Callable[[int], str]] = {
    "qmark": lambda _number: "?",
    "format": lambda _number: "%s",
    "numeric": lambda number: f":{number}",
    "named": lambda number: f":p{number}",
    "pyformat": lambda number: f"%(p{number})s",
}
_BY_NAME = {"named", "pyformat"}


class Cursor(Protocol):
    """What is needed of a DB-API 2.0 cursor."""

    @property
    def rowcount(self) -> int: ...

    def execute(self, operation: str, parameters: Any, /) -> Any: ...

    def fetchone(self) -> Any: ...

    def close(self) -> Any: ...


class Connection(Protocol):
    """What is needed of a DB-API 2.0 connection."""

    def cursor(self) -> Any: ...


class SqlFence:
    """Marks of many keys in one table; call its methods within the transaction that writes."""

    def __init__(self, table: str = TABLE, *, paramstyle: str | None = None) -> None:
        self.table = _identifier(table)
        if paramstyle is not None and paramstyle not in _PLACES:
            raise BadRequest(f"paramstyle is one of {', '.join(_PLACES)}, not {paramstyle!r}")
        self._paramstyle = paramstyle

    @property
    def create_table(self) -> str:
        """The statement that makes the table, for a migration of yours."""
        # `writes` changes with every accepted write, so that no driver can count such a row as unchanged.
        return (
            f"CREATE TABLE {self.table} (name VARCHAR({NAME_CHARS_MAX}) NOT NULL PRIMARY KEY, "
            "fence BIGINT NOT NULL, writes BIGINT NOT NULL)"
        )

    def check(self, connection: Connection, token: SupportsIndex, key: str = "") -> int:
        """Accept the token and give it as a number, or raise StaleToken: then roll back.

        What the transaction writes after this is guarded: until it ends, no other one gets past its own check of the
        key. Raises Busy if another transaction is just making the key's first mark, or has moved it: roll back, and try
        again.
        """
        number = _sql_token(token)
        if len(key) > NAME_CHARS_MAX:
            raise BadRequest(f"a key in the table has at most {NAME_CHARS_MAX} characters, not {len(key)}")
        with _Statements(connection, self._paramstyle) as run:
            sql = f"UPDATE {self.table} SET fence = {{}}, writes = writes + 1 WHERE name = {{}} AND fence <= {{}}"
            if run(sql, number, key, number) == 1:
                return number
            highest = run.number(f"SELECT fence FROM {self.table} WHERE name = {{}}", key)
            if highest is not None:
                raise _refused(number, highest, key)
            try:
                run(f"INSERT INTO {self.table} (name, fence, writes) VALUES ({{}}, {{}}, 1)", key, number)
            except Exception as error:
                # The drivers share no class of errors, only its name.
                if all(kind.__name__ != "IntegrityError" for kind in type(error).__mro__):
                    raise
                raise Busy(
                    f"another transaction is making the first mark of {key!r}; roll back, and try again"
                ) from error
        return number

    def update(
        self,
        connection: Connection,
        table: str,
        values: Mapping[str, object],
        where: Mapping[str, object],
        token: SupportsIndex,
        *,
        column: str = "fence",
    ) -> int:
        """Update rows that carry their fence in a column of their own, and give their number.

        Raises StaleToken if a row has a higher fence, and NotHeld if there is no such row; then roll back. A driver for
        MySQL or MariaDB has to count found rows, as they say, and not changed ones.
        """
        number = _sql_token(token)
        if not values or not where or len(values) + len(where) > COLUMNS_MAX:
            raise BadRequest(f"an update needs values and conditions, at most {COLUMNS_MAX} together")
        table, column = _identifier(table), _identifier(column)
        if column in values or column in where:
            raise BadRequest(f"the column {column} is set by the guard")
        sets = ", ".join(f"{_identifier(name)} = {{}}" for name in [*values, column])
        condition = " AND ".join(f"{_identifier(name)} = {{}}" for name in where)
        look = f"SELECT MAX({column}) FROM {table} WHERE {condition}"
        with _Statements(connection, self._paramstyle) as run:
            # All of the rows or none: where one of them is ahead, nothing is tried.
            highest = run.number(look, *where.values())
            if highest is not None and highest <= number:
                change = f"UPDATE {table} SET {sets} WHERE {condition} AND {column} <= {{}}"
                changed = run(change, *values.values(), number, *where.values(), number)
                # Somebody may have been quicker, with all of the rows or with some of them.
                highest = run.number(look, *where.values())
                if changed > 0 and (highest is None or highest <= number):
                    return changed
        if highest is None:
            raise NotHeld(f"{table} has no row with {', '.join(where)} as given, or it has no fence")
        raise _refused(number, highest, table)


class _Statements:
    """One cursor, and the way in which its driver wants values."""

    def __init__(self, connection: Connection, paramstyle: str | None) -> None:
        self._style = paramstyle or _paramstyle_of(connection)
        self._cursor: Cursor = connection.cursor()

    def __enter__(self) -> "_Statements":
        return self

    def __exit__(self, *_exc: object) -> None:
        self._cursor.close()

    def __call__(self, sql: str, *values: object) -> int:
        """Run a statement with a {} for each value; give the number of rows that it was about."""
        places = [_PLACES[self._style](number) for number in range(1, len(values) + 1)]
        parameters: Mapping[str, object] | Sequence[object] = values
        if self._style in _BY_NAME:
            parameters = {f"p{number}": value for number, value in enumerate(values, 1)}
        self._cursor.execute(sql.format(*places), parameters)
        return self._cursor.rowcount

    def number(self, sql: str, *values: object) -> int | None:
        """Run a query for one number."""
        self(sql, *values)
        row = self._cursor.fetchone()
        return int(row[0]) if row is not None and row[0] is not None else None


def _refused(token: int, highest: int, key: str) -> StaleToken | Busy:
    if highest > token:
        return StaleToken(token, highest, key)
    # Nothing was changed although nothing is higher: the mark has moved since, or the driver does not count found rows.
    return Busy(f"the fence of {key!r} was {highest} and could not be set to {token}; roll back, and try again")


def _paramstyle_of(connection: object) -> str:
    """Ask the driver, which is a module above the class of its connections."""
    for kind in type(connection).__mro__:
        parts = kind.__module__.split(".")
        for end in range(len(parts), 0, -1):
            style = getattr(sys.modules.get(".".join(parts[:end])), "paramstyle", None)
            if style in _PLACES:
                return str(style)
    raise ConfigError(
        f"a {type(connection).__name__} does not tell the paramstyle of its driver; say it: paramstyle=..."
    )


def _identifier(name: str) -> str:
    """Let a name of a table or a column through, and nothing that is more than a name."""
    if _IDENTIFIER.fullmatch(name) is None:
        raise BadRequest(f"{name!r} is no name of a table or a column that can be used here")
    return name


def _sql_token(token: SupportsIndex) -> int:
    number = as_token(token)
    if number > TOKEN_MAX:
        raise BadRequest(f"a fencing token in a table is at most {TOKEN_MAX}, not {number}")
    return number
