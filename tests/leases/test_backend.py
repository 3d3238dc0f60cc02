"""A backend that blocks, when answers are lost, and when servers go away: nothing is ever taken for a loss."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.leases.backend import DatabaseBackend
from holdfast.leases.drivers.port import Times
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.words import Got
from tests.client.forks import in_child
from tests.leases.asking import LEASE_US, Blocking, ask, gone, hold_of
from tests.leases.lost import losing_the_answer
from tests.leases.pool_stage import driver_of, through_a_proxy
from tests.leases.proxy import Proxy

Stage = tuple[Proxy, Any, Any]


@pytest.fixture(params=["mariadb", "postgres"])
def staged(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A proxy, a backend behind it, and one beside it."""
    url = request.getfixturevalue(f"{request.param}_url")
    with through_a_proxy(url) as (proxy, led), Blocking(url) as beside:
        # Patient enough never to give up before the connection is cut.
        backend = DatabaseBackend(driver_of(led), quick=Times())
        yield proxy, backend, beside
        backend.close()


def test_an_acquire_whose_answer_was_lost_is_asked_again_and_gets_the_same_fence(staged: Stage) -> None:
    proxy, backend, beside = staged
    before, asked = ask(), ask()
    backend.acquire(before)
    gone(backend, before)
    assert losing_the_answer(proxy, lambda: backend.acquire(asked), beside.list) == Got(2)
    assert backend.refresh([hold_of(asked)], LEASE_US) == [True]


def test_a_refresh_whose_answer_was_lost_is_asked_again_and_is_no_loss(staged: Stage) -> None:
    proxy, backend, beside = staged
    asked = ask(lease_us=LEASE_US // 2)
    backend.acquire(asked)
    backend.refresh([hold_of(asked)], LEASE_US // 2)
    assert losing_the_answer(
        proxy,
        lambda: backend.refresh([hold_of(asked)], LEASE_US),
        lambda: beside.list()[0].left_us > LEASE_US // 2,
    ) == [True]


def test_a_release_whose_answer_was_lost_says_so_and_may_be_asked_again(staged: Stage) -> None:
    proxy, backend, beside = staged
    asked = ask()
    backend.acquire(asked)
    with pytest.raises(DatabaseUnavailable):
        losing_the_answer(proxy, lambda: gone(backend, asked), lambda: not beside.list())
    assert gone(backend, asked)


def test_a_database_that_is_away_is_neither_busy_nor_a_loss(staged: Stage) -> None:
    proxy, backend, _beside = staged
    asked = ask()
    backend.acquire(asked)
    proxy.refuse()
    for work in (
        lambda: backend.acquire(ask()),
        lambda: backend.refresh([hold_of(asked)], LEASE_US),
        lambda: gone(backend, asked),
        backend.list,
        lambda: backend.clear([hold_of(asked)]),
        backend.now,
        backend.verify,
        backend.prepare,
    ):
        with pytest.raises(DatabaseUnavailable) as refusal:
            work()
        assert "secret" not in str(refusal.value)
    proxy.restore()
    assert backend.refresh([hold_of(asked)], LEASE_US) == [True]


def test_refreshing_waits_for_nothing_else(staged: Stage) -> None:
    """All connections of the backend are busy, and those who refresh do not notice."""
    _proxy, backend, _beside = staged
    narrow = DatabaseBackend(backend._driver, connections_max=1)
    asked = ask()
    narrow.acquire(asked)
    with ThreadPoolExecutor(1) as others, narrow._pool._seats:
        assert others.submit(narrow.refresh, [hold_of(asked)], LEASE_US).result(30) == [True]
    narrow.close()


def test_a_child_of_a_fork_asks_for_itself(staged: Stage) -> None:
    _proxy, backend, _beside = staged
    asked = ask()
    backend.acquire(asked)
    backend.refresh([hold_of(asked)], LEASE_US)
    other = ask(b"t/child")
    said = in_child(
        lambda: (backend.wait(b"t/x", 0.001), backend.acquire(other), gone(backend, other), backend.close())
    )
    assert said == "(None, Got(fence=1), True, None)"
    assert backend.refresh([hold_of(asked)], LEASE_US) == [True]
