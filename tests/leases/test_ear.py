"""The thread that listens: who waits wakes at once, also after the database was away, and nobody is kept waiting."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.leases import ear as ears
from holdfast.leases.drivers.postgres import PostgresDriver
from holdfast.leases.ear import Ear
from holdfast.leases.opening import open_backend
from holdfast.leases.postgres import BELL
from holdfast.leases.url import place_of
from tests.client.forks import in_child
from tests.leases.pool_stage import through_a_proxy
from tests.leases.proxy import Proxy
from tests.leases.servers import DATABASE, PostgresServer

LONG_S = 60.0


@pytest.fixture
def staged(postgres_url: str) -> Iterator[tuple[Proxy, Ear]]:
    with through_a_proxy(postgres_url) as (proxy, led):
        ear = Ear(PostgresDriver(place_of(led)))
        yield proxy, ear
        ear.close()


@pytest.fixture
def ring(postgres: PostgresServer, postgres_url: str) -> Iterator[Callable[[], None]]:
    """Ring the bell `a`."""
    assert postgres_url
    with postgres.connect(DATABASE) as connection:
        yield lambda: connection.execute("SELECT pg_notify(%s, 'a')", (BELL,)) and None


def listens(ear: Ear) -> None:
    """Wait until it listens: then, whoever waits is woken once."""
    ear.wait("a", LONG_S)


def test_who_waits_is_woken_by_the_bell(staged: tuple[Proxy, Ear], ring: Callable[[], None]) -> None:
    _proxy, ear = staged
    listens(ear)
    with ThreadPoolExecutor(2) as waiters:
        waiting = [waiters.submit(ear.wait, "a", LONG_S) for _ in range(2)]
        until = time.monotonic() + 30
        while not all(one.done() for one in waiting) and time.monotonic() < until:
            ring()
        assert [one.result(1) for one in waiting] == [None, None]


def test_what_rang_since_the_last_try_is_not_waited_for(staged: tuple[Proxy, Ear], ring: Callable[[], None]) -> None:
    _proxy, ear = staged
    listens(ear)
    ear.bells.ask("a")
    ear.bells.ask("b")
    ring()
    ear.wait("a", LONG_S)


def test_a_wait_ends_without_a_bell_and_without_a_database(staged: tuple[Proxy, Ear]) -> None:
    proxy, ear = staged
    proxy.refuse()
    ear.wait("a", 0.01)


def test_it_listens_again_after_the_database_was_away(
    staged: tuple[Proxy, Ear], ring: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ears, "AGAIN_S", 0.01)
    proxy, ear = staged
    listens(ear)
    with ThreadPoolExecutor(1) as waiters:
        waiting = waiters.submit(ear.wait, "a", LONG_S)
        proxy.cut()
        until = time.monotonic() + 30
        while not waiting.done() and time.monotonic() < until:
            ring()
        assert waiting.result(1) is None


def test_it_does_not_listen_for_nobody(staged: tuple[Proxy, Ear], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ears, "IDLE_S", 0.01)
    _proxy, ear = staged
    listens(ear)
    thread = ear._thread
    if thread is not None:
        thread.join(30)
    assert ear._thread is None
    listens(ear)


def test_closing_wakes_who_waits_and_ends_the_thread(staged: tuple[Proxy, Ear]) -> None:
    _proxy, ear = staged
    listens(ear)
    with ThreadPoolExecutor(1) as waiters:
        waiting = waiters.submit(ear.wait, "a", LONG_S)
        until = time.monotonic() + 30
        while not waiting.done() and time.monotonic() < until:
            ear.close()
        assert waiting.result(1) is None
    ear.close()
    assert "holdfast-leases-ear" not in [thread.name for thread in threading.enumerate()]


def test_a_child_of_a_fork_listens_by_itself(staged: tuple[Proxy, Ear]) -> None:
    _proxy, ear = staged
    listens(ear)
    assert in_child(lambda: (ear.close(), listens(ear), ear.close())) == "(None, None, None)"


def test_a_waiter_gets_the_lock_as_soon_as_it_is_given_back(postgres_url: str) -> None:
    from tests.leases.asking import KEY, ask, gone

    holder: Any = open_backend(postgres_url)
    waiter: Any = open_backend(postgres_url)
    holder.prepare()
    held = ask()
    holder.acquire(held)
    tries = []
    tried_twice = threading.Event()

    def until_got() -> int:
        while not hasattr(got := waiter.acquire(ask(again=bool(tries))), "fence"):
            tries.append(got)
            if len(tries) == 2:
                tried_twice.set()
            waiter.wait(KEY, LONG_S)
        return int(got.fence)

    with ThreadPoolExecutor(1) as waiters:
        waiting = waiters.submit(until_got)
        assert tried_twice.wait(30)
        assert gone(holder, held)
        assert waiting.result(30) == 2
    holder.close()
    waiter.close()
