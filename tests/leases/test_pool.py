"""Connections that block: they are used again, replaced when they are over, and left alone in a child of a fork."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.leases import pool as pools
from holdfast.leases.errors import BadKey, DatabaseUnavailable
from holdfast.leases.pool import Pool
from holdfast.leases.steps import Statement, Steps
from tests.client.forks import in_child
from tests.leases.pool_stage import SHORT, driver_of, through_a_proxy
from tests.leases.proxy import Proxy

IDS = {"mariadb": "SELECT CONNECTION_ID()", "postgres": "SELECT pg_backend_pid()"}


@pytest.fixture(params=["mariadb", "postgres"])
def staged(request: pytest.FixtureRequest) -> Iterator[tuple[Proxy, Pool]]:
    url = request.getfixturevalue(f"{request.param}_url")
    with through_a_proxy(url) as (proxy, led):
        pool = Pool(driver_of(led), SHORT, 2)
        yield proxy, pool
        pool.close()


def whose(dialect: Any) -> Steps[int]:
    """Ask which connection it is."""
    return int((yield Statement(IDS[dialect.name])).rows[0][0])


def test_a_connection_that_rests_is_used_again(staged: tuple[Proxy, Pool]) -> None:
    proxy, pool = staged
    assert pool.run(whose, again=True) == pool.run(whose, again=True)
    assert proxy.accepted == 1


def test_one_that_was_cut_while_it_rested_is_replaced_unseen(staged: tuple[Proxy, Pool]) -> None:
    proxy, pool = staged
    first = pool.run(whose, again=True)
    proxy.cut()
    assert pool.run(whose, again=True) != first
    assert proxy.accepted == 2


def test_what_must_not_be_asked_twice_is_not(staged: tuple[Proxy, Pool]) -> None:
    proxy, pool = staged
    pool.run(whose, again=True)
    proxy.cut()
    with pytest.raises(DatabaseUnavailable):
        pool.run(whose, again=False)
    assert pool.run(whose, again=False)


def test_one_that_has_rested_for_a_while_is_asked_first_whether_it_is_there(
    staged: tuple[Proxy, Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, pool = staged
    monkeypatch.setattr(pools, "DOUBT_S", -1.0)
    first = pool.run(whose, again=False)
    assert pool.run(whose, again=False) == first
    proxy.cut()
    assert pool.run(whose, again=False) != first


def test_one_that_has_rested_for_long_is_not_kept(staged: tuple[Proxy, Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, pool = staged
    monkeypatch.setattr(pools, "REST_S_MAX", -1.0)
    assert pool.run(whose, again=False) != pool.run(whose, again=False)
    assert proxy.accepted == 2


def test_a_server_that_is_away_is_unavailable_and_comes_back(staged: tuple[Proxy, Pool]) -> None:
    proxy, pool = staged
    pool.run(whose, again=True)
    proxy.refuse()
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            pool.run(whose, again=True)
    proxy.restore()
    assert pool.run(whose, again=True)


def test_a_server_that_has_fallen_silent_is_unavailable_before_long(staged: tuple[Proxy, Pool]) -> None:
    proxy, pool = staged
    pool.run(whose, again=True)
    proxy.stall()
    with pytest.raises(DatabaseUnavailable):
        pool.run(whose, again=False)
    proxy.restore()
    assert pool.run(whose, again=True)


def test_our_own_mistakes_leave_the_connection_as_it_was(staged: tuple[Proxy, Pool]) -> None:
    proxy, pool = staged

    def mistaken(_dialect: Any) -> Steps[int]:
        raise BadKey("no such key")
        yield Statement("")

    with pytest.raises(BadKey):
        pool.run(mistaken, again=True)
    with pytest.raises(BadKey):
        pool.run(mistaken, again=True)
    assert proxy.accepted == 1


def test_one_that_was_broken_off_in_the_middle_is_not_used_again(staged: tuple[Proxy, Pool]) -> None:
    proxy, pool = staged

    def broken(dialect: Any) -> Steps[int]:
        yield Statement(IDS[dialect.name])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.run(broken, again=True)
    pool.run(whose, again=True)
    assert proxy.accepted == 2


def test_there_are_no_more_connections_than_were_allowed(staged: tuple[Proxy, Pool]) -> None:
    proxy, pool = staged
    with ThreadPoolExecutor(8) as callers:
        seen = list(callers.map(lambda _: pool.run(whose, again=True), range(40)))
    assert len(set(seen)) <= 2
    assert proxy.accepted <= 2


def test_who_finds_no_seat_in_time_hears_that_all_are_in_use(staged: tuple[Proxy, Pool]) -> None:
    _proxy, pool = staged
    seated, leave = threading.Barrier(3), threading.Event()

    def sit(dialect: Any) -> Steps[int]:
        seated.wait(30)
        leave.wait(30)
        return (yield from whose(dialect))

    with ThreadPoolExecutor(2) as callers:
        sitting = [callers.submit(pool.run, sit, again=True) for _ in range(2)]
        seated.wait(30)
        with pytest.raises(DatabaseUnavailable, match="all 2 connections"):
            pool.run(whose, again=True)
        leave.set()
        assert all(one.result(30) for one in sitting)


def test_what_is_in_use_while_all_is_closed_is_closed_after_it(staged: tuple[Proxy, Pool]) -> None:
    proxy, pool = staged

    def closing(dialect: Any) -> Steps[int]:
        pool.close()
        return (yield from whose(dialect))

    first = pool.run(closing, again=True)
    assert pool.run(whose, again=True) != first
    assert proxy.accepted == 2


def test_a_child_of_a_fork_connects_by_itself_and_leaves_the_parents_connection_alone(
    staged: tuple[Proxy, Pool],
) -> None:
    _proxy, pool = staged
    mine = pool.run(whose, again=False)
    childs = in_child(lambda: (pool.close(), pool.run(whose, again=False), pool.close())[1])
    assert int(childs) != mine
    assert pool.run(whose, again=False) == mine
