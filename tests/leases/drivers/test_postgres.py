"""Connections to PostgreSQL, both faces: who is let in, what a session is like, what hangs and what is over."""

import asyncio
from collections.abc import Callable

import psycopg
import pytest

from holdfast.errors import Forbidden
from holdfast.leases.drivers.port import Times
from holdfast.leases.drivers.postgres import PostgresDriver, failed
from holdfast.leases.errors import BadTable, DatabaseUnavailable, StatementRefused
from holdfast.leases.steps import Clash, Result, Statement
from holdfast.leases.url import place_of

Ask = Callable[..., list[Result]]
QUICK = Times(connect_s=2, statement_s=1, row_s=1)


def blocking(url: str, *asked: str) -> list[Result]:
    connection = PostgresDriver(place_of(url)).connect(QUICK)
    try:
        return [connection.execute(Statement(sql)) for sql in asked]
    finally:
        connection.close()
        connection.close()


def in_loop(url: str, *asked: str) -> list[Result]:
    async def main() -> list[Result]:
        connection = await PostgresDriver(place_of(url)).connect_async(QUICK)
        try:
            return [await connection.execute(Statement(sql)) for sql in asked]
        finally:
            await connection.close()
            await connection.close()

    return asyncio.run(main())


both = pytest.mark.parametrize("ask", [blocking, in_loop])


@both
def test_a_session_is_as_a_lease_needs_it(ask: Ask, postgres_url: str) -> None:
    names = ("TimeZone", "lock_timeout", "statement_timeout", "application_name")
    (result,) = ask(postgres_url, "SELECT " + ", ".join(f"current_setting('{name}')" for name in names))
    assert result.rows == [("UTC", "1s", "1s", "holdfast leases")]


@both
def test_who_is_not_let_in_hears_that_and_not_that_the_server_is_away(ask: Ask, postgres_url: str) -> None:
    with pytest.raises(Forbidden) as refusal:
        ask(postgres_url.replace("secret", "wrong"))
    assert "wrong" not in str(refusal.value)
    with pytest.raises(BadTable, match="nowhere"):
        ask(postgres_url.rpartition("/")[0] + "/nowhere")


@both
def test_nobody_listening_is_unavailable(ask: Ask) -> None:
    with pytest.raises(DatabaseUnavailable):
        ask("postgres://u@127.0.0.1:1/d")


@both
def test_a_statement_that_takes_too_long_is_unavailable(ask: Ask, postgres_url: str) -> None:
    with pytest.raises(DatabaseUnavailable):
        ask(postgres_url, "SELECT pg_sleep(30)")


@both
def test_mistakes_are_told_apart_and_leave_the_connection(ask: Ask, postgres_url: str) -> None:
    with pytest.raises(StatementRefused):
        ask(postgres_url, "SELEC 1")
    with pytest.raises(BadTable):
        ask(postgres_url, "SELECT * FROM nothing_there")
    with pytest.raises(Clash):
        ask(postgres_url, "CREATE TEMPORARY TABLE t (k int PRIMARY KEY)", "INSERT INTO t VALUES (1), (1)")


@both
def test_a_connection_that_the_server_has_ended_is_over(ask: Ask, postgres_url: str) -> None:
    with pytest.raises(DatabaseUnavailable):
        ask(postgres_url, "SELECT pg_terminate_backend(pg_backend_pid())", "SELECT 1")


def test_what_psycopg_itself_refuses_is_not_the_fault_of_the_way() -> None:
    assert type(failed(psycopg.DataError("no NUL"), "p")) is StatementRefused
    assert type(failed(psycopg.OperationalError("gone"), "p")) is DatabaseUnavailable
    assert type(failed(TimeoutError(), "p")) is DatabaseUnavailable
