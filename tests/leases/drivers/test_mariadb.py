"""Connections to MariaDB, both faces: who is let in, what a session is like, what hangs and what is over."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import Forbidden
from holdfast.leases.drivers.mariadb import FOUND_ROWS, MariaDbDriver, number_of, said_by
from holdfast.leases.drivers.port import Times
from holdfast.leases.errors import BadTable, DatabaseUnavailable, StatementRefused
from holdfast.leases.steps import Clash, Result, Statement
from holdfast.leases.url import place_of

Ask = Callable[..., list[Result]]
QUICK = Times(connect_s=2, statement_s=1, row_s=1)


def blocking(url: str, *asked: str) -> list[Result]:
    connection = MariaDbDriver(place_of(url)).connect(QUICK)
    try:
        return [connection.execute(Statement(sql)) for sql in asked]
    finally:
        connection.close()
        connection.close()


def in_loop(url: str, *asked: str) -> list[Result]:
    async def main() -> list[Result]:
        connection = await MariaDbDriver(place_of(url)).connect_async(QUICK)
        try:
            return [await connection.execute(Statement(sql)) for sql in asked]
        finally:
            await connection.close()
            await connection.close()

    return asyncio.run(main())


both = pytest.mark.parametrize("ask", [blocking, in_loop])


@both
def test_a_session_is_as_a_lease_needs_it(ask: Ask, mariadb_url: str) -> None:
    (result,) = ask(mariadb_url, "SELECT @@time_zone, @@autocommit, @@innodb_lock_wait_timeout, @@tx_isolation")
    assert result.rows == [("+00:00", 1, 1, "READ-COMMITTED")]
    assert MariaDbDriver(place_of(mariadb_url))._arguments()["client_flag"] & FOUND_ROWS


@both
def test_rows_are_counted_as_found_and_the_last_insert_id_is_told(ask: Ask, mariadb_url: str) -> None:
    *_, same, told = ask(
        mariadb_url,
        "CREATE TEMPORARY TABLE t (k INT PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES (1, 5)",
        "UPDATE t SET v = 5",
        "UPDATE t SET v = LAST_INSERT_ID(v + 1)",
    )
    assert (same.count, told.number) == (1, 6)


@both
def test_who_is_not_let_in_hears_that_and_not_that_the_server_is_away(ask: Ask, mariadb_url: str) -> None:
    with pytest.raises(Forbidden) as refusal:
        ask(mariadb_url.replace("secret", "wrong"))
    assert "wrong" not in str(refusal.value)
    with pytest.raises(BadTable, match="nowhere"):
        ask(mariadb_url.rpartition("/")[0] + "/nowhere")


@both
def test_nobody_listening_is_unavailable(ask: Ask) -> None:
    with pytest.raises(DatabaseUnavailable):
        ask("mariadb://u@127.0.0.1:1/d")


@both
def test_a_statement_that_takes_too_long_is_unavailable(ask: Ask, mariadb_url: str) -> None:
    with pytest.raises(DatabaseUnavailable):
        ask(mariadb_url, "SELECT SLEEP(30) FROM information_schema.tables")


@both
def test_mistakes_are_told_apart_and_leave_the_connection(ask: Ask, mariadb_url: str) -> None:
    with pytest.raises(StatementRefused):
        ask(mariadb_url, "SELEC 1")
    with pytest.raises(BadTable):
        ask(mariadb_url, "SELECT * FROM nothing_there")
    with pytest.raises(Clash):
        ask(mariadb_url, "CREATE TEMPORARY TABLE t (k INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (1)")


@both
def test_a_connection_that_the_server_has_ended_is_over(ask: Ask, mariadb_url: str) -> None:
    with pytest.raises(DatabaseUnavailable):
        ask(mariadb_url, "KILL CONNECTION_ID()", "SELECT 1")


def test_an_error_of_the_system_has_no_number_of_the_database() -> None:
    error: Any = ConnectionResetError(104, "reset")
    assert number_of(error) == 0
    assert "reset" in said_by(error)
    assert said_by(TimeoutError()) == "TimeoutError"
