"""Leases in PostgreSQL beside what else goes on there: time zones, locked rows, tables of others, bells."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.leases.backend import DatabaseBackend
from holdfast.leases.drivers.port import Times
from holdfast.leases.drivers.postgres import PostgresDriver
from holdfast.leases.errors import BadTable, DatabaseUnavailable
from holdfast.leases.opening import open_backend
from holdfast.leases.postgres import BELL, bell_of
from holdfast.leases.url import place_of
from holdfast.leases.words import Taken
from tests.leases.asking import LEASE_US, SECOND_US, ask, gone, hold_of, statement
from tests.leases.servers import DATABASE, PostgresServer


@pytest.fixture
def beside(postgres: PostgresServer, postgres_url: str) -> Iterator[Any]:
    """A connection of somebody else."""
    assert postgres_url
    with postgres.connect(DATABASE) as connection:
        yield connection


@pytest.fixture
def backend(postgres_url: str) -> Iterator[Any]:
    opened: Any = open_backend(postgres_url)
    yield opened
    opened.close()


def test_a_session_in_another_time_zone_steals_nothing(postgres_url: str, backend: Any) -> None:
    class Elsewhere(PostgresDriver):
        def connect(self, times: Any) -> Any:
            connection: Any = super().connect(times)
            connection.raw.execute("SET TimeZone = 'Asia/Tokyo'")
            return connection

    backend.prepare()
    held = ask()
    backend.acquire(held)
    elsewhere = DatabaseBackend(Elsewhere(place_of(postgres_url)))
    taken = elsewhere.acquire(ask())
    assert isinstance(taken, Taken)
    assert 50 * SECOND_US < taken.left_us <= LEASE_US
    assert elsewhere.refresh([hold_of(held)], LEASE_US) == [True]
    assert 50 * SECOND_US < backend.list()[0].left_us <= LEASE_US
    elsewhere.close()


def test_a_refresh_that_waits_for_a_row_fails_in_time_and_is_no_loss(postgres_url: str, beside: Any) -> None:
    quick = Times(statement_s=1, row_s=1)
    backend = DatabaseBackend(PostgresDriver(place_of(postgres_url)), quick=quick)
    backend.prepare()
    held, free = ask(b"t/held"), ask(b"t/free")
    backend.acquire(held)
    backend.acquire(free)
    statement(beside, "BEGIN")
    statement(beside, "SELECT * FROM cluster_locks WHERE lock_key = 't/held' FOR UPDATE")
    assert backend.refresh([hold_of(free)], LEASE_US) == [True]
    assert isinstance(backend.acquire(ask(b"t/held", again=True)), Taken)  # a look waits for nobody
    with pytest.raises(DatabaseUnavailable):
        backend.refresh([hold_of(held)], LEASE_US)
    statement(beside, "ROLLBACK")
    assert backend.refresh([hold_of(held)], LEASE_US) == [True]
    backend.close()


def test_a_database_whose_rule_is_to_serialize_makes_no_difference(backend: Any, beside: Any) -> None:
    statement(beside, f"ALTER DATABASE {DATABASE} SET default_transaction_isolation = 'serializable'")
    try:
        backend.prepare()
        held = ask()
        backend.acquire(held)
        with ThreadPoolExecutor(4) as callers:
            answers = list(callers.map(lambda _: backend.refresh([hold_of(held)], LEASE_US), range(40)))
        assert answers == [[True]] * 40
    finally:
        statement(beside, f"ALTER DATABASE {DATABASE} RESET default_transaction_isolation")


def test_a_bell_rings_for_each_lock_that_is_given_back_and_not_for_one_that_was_not_ours(
    backend: Any, beside: Any
) -> None:
    backend.prepare()
    first, second, third = ask(b"t/1"), ask(b"t/2"), ask(b"t/3")
    for asked in (first, second, third):
        backend.acquire(asked)
    statement(beside, f"LISTEN {BELL}")
    assert backend.release([hold_of(first), hold_of(second)]) == [True, True]
    assert not gone(backend, ask(b"t/3"))
    assert backend.clear([hold_of(third)]) == 1
    rung = [bell.payload for bell in beside.notifies(timeout=30, stop_after=3)]
    assert sorted(rung) == sorted(bell_of(asked.key) for asked in (first, second, third))


def test_many_may_prepare_an_empty_database_at_once(postgres_url: str) -> None:
    backends: list[Any] = [open_backend(postgres_url) for _ in range(4)]
    gate = threading.Barrier(4)

    def prepare(own: Any) -> None:
        gate.wait(30)
        own.prepare()
        own.verify()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(prepare, backends)) == [None] * 4
    for own in backends:
        own.close()


def test_a_table_that_only_has_the_name_is_left_alone(backend: Any, beside: Any) -> None:
    statement(beside, "CREATE TABLE cluster_locks (id int)")
    with pytest.raises(BadTable, match="it has no acquired_at, expires_at"):
        backend.prepare()


def test_a_table_of_another_version_is_refused_and_a_later_one_left_alone(backend: Any, beside: Any) -> None:
    with pytest.raises(BadTable, match="has not been prepared"):
        backend.acquire(ask())
    backend.prepare()
    statement(beside, "UPDATE holdfast_schema SET version = 4")
    with pytest.raises(BadTable, match="of version 4, and this release works with 5: run `holdfast leases init`"):
        backend.acquire(ask())
    statement(beside, "UPDATE holdfast_schema SET version = 6")
    for work in (backend.now, backend.prepare):
        with pytest.raises(BadTable, match="install a later release"):
            work()


def test_the_table_itself_refuses_a_key_that_is_too_long(backend: Any, beside: Any) -> None:
    backend.prepare()
    with pytest.raises(Exception, match="check constraint"):
        statement(beside, "INSERT INTO cluster_locks VALUES (%s, '{}', '', 1, '', 0, now(), 1, '')", b"k" * 1025)
