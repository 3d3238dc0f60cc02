"""What a session is told, and what the errors of MariaDB mean: what may come right is never called hopeless."""

import pytest

from holdfast.errors import Forbidden
from holdfast.leases.drivers.mariadb_session import begin, meaning, numbers_of
from holdfast.leases.drivers.port import Times, Undone
from holdfast.leases.errors import BadTable, DatabaseUnavailable, StatementRefused
from holdfast.leases.mariadb import MariaDB
from holdfast.leases.steps import Clash, Result, Statement, run


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        *((number, Undone) for number in (1020, 1205, 1213)),
        *((number, DatabaseUnavailable) for number in (2002, 2003, 2006, 2013, 1040, 1047, 1053, 1290, 1927, 1969)),
        *((number, Forbidden) for number in (1044, 1045, 1142)),
        *((number, BadTable) for number in (1049, 1054, 1146)),
        *((number, StatementRefused) for number in (1064, 1406)),
        *((number, Clash) for number in (1050, 1062)),
        (0, DatabaseUnavailable),
        ("no number", DatabaseUnavailable),
    ],
)
def test_each_number_means_one_thing(number: object, kind: type[Exception]) -> None:
    error = meaning(number, "said", "mariadb://h/d")
    assert type(error) is kind
    assert "said" in str(error)


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("10.11.19-MariaDB-0+deb12u1", (10, 11)), ("8.4.3", (8, 4)), ("5.5-x", (0, 0)), ("strange", (0, 0))],
)
def test_versions_are_read_and_what_cannot_be_read_is_old(version: str, numbers: tuple[int, int]) -> None:
    assert numbers_of(version) == numbers


def told(version: str, binlog: int, logged: str) -> tuple[list[str], MariaDB]:
    """Play a server, and write down what it is told."""
    heard: list[str] = []

    def execute(statement: Statement) -> Result:
        heard.append(statement.sql)
        return Result(1, [(version, binlog, logged)])

    return heard, run(execute, begin(Times(statement_s=7, row_s=3)))


def test_a_session_has_limits_and_the_time_of_no_place() -> None:
    heard, dialect = told("10.11.19-MariaDB", 0, "MIXED")
    for part in ("time_zone = '+00:00'", "innodb_lock_wait_timeout = 3", "max_statement_time = 7", "autocommit = 1"):
        assert part in heard[1]
    assert "READ COMMITTED" in heard[2]
    assert dialect._returns


def test_mysql_and_old_servers_are_spoken_to_in_their_own_way() -> None:
    heard, dialect = told("8.4.3", 1, "ROW")
    assert "max_execution_time = 7000" in heard[1]
    assert not dialect._returns
    assert not told("10.4.2-MariaDB", 0, "ROW")[1]._returns


def test_a_log_of_statements_is_not_disturbed() -> None:
    heard, _dialect = told("10.11.19-MariaDB", 1, "STATEMENT")
    assert len(heard) == 2
