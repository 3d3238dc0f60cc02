"""A backend for asyncio, when answers are lost, servers go away and tasks are cancelled: none of it is a loss."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.leases.async_backend import AsyncDatabaseBackend
from holdfast.leases.drivers.port import Times
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.words import Got, Taken
from tests.leases.asking import KEY, LEASE_US, Blocking, InLoop, ask, gone, hold_of
from tests.leases.lost import losing_the_answer
from tests.leases.pool_stage import driver_of, through_a_proxy
from tests.leases.proxy import Proxy

Stage = tuple[Proxy, Any, Any]


@pytest.fixture(params=["mariadb", "postgres"])
def staged(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A proxy, a backend behind it, and one beside it."""
    url = request.getfixturevalue(f"{request.param}_url")
    with (
        through_a_proxy(url) as (proxy, led),
        Blocking(url) as beside,
        InLoop(AsyncDatabaseBackend(driver_of(led), quick=Times())) as backend,
    ):
        yield proxy, backend, beside


def test_an_acquire_whose_answer_was_lost_is_asked_again_and_gets_the_same_fence(staged: Stage) -> None:
    proxy, backend, beside = staged
    before, asked = ask(), ask()
    backend.acquire(before)
    gone(backend, before)
    assert losing_the_answer(proxy, lambda: backend.acquire(asked), beside.list) == Got(2)
    assert backend.refresh([hold_of(asked)], LEASE_US) == [True]


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
        backend.verify,
        backend.prepare,
    ):
        with pytest.raises(DatabaseUnavailable) as refusal:
            work()
        assert "secret" not in str(refusal.value)
    proxy.restore()
    assert backend.refresh([hold_of(asked)], LEASE_US) == [True]


def test_a_try_that_is_cancelled_may_be_asked_again(staged: Stage) -> None:
    _proxy, backend, _beside = staged
    asked = ask()

    async def impatient() -> Any:
        trying = asyncio.create_task(backend.backend.acquire(asked))
        await asyncio.sleep(0)
        trying.cancel()
        await asyncio.wait({trying})
        return await backend.backend.acquire(asked)

    assert backend.do(impatient()) == Got(1)
    assert isinstance(backend.acquire(ask()), Taken)


def test_a_wait_that_is_cancelled_is_over(staged: Stage) -> None:
    _proxy, backend, _beside = staged

    async def impatient() -> bool:
        waiting = asyncio.create_task(backend.backend.wait(KEY, 60))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        return waiting.cancelled()

    assert backend.do(impatient())
