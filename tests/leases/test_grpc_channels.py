"""Channels under failures, against a real door behind a proxy: cut, silent, gone and back, closed by others.

Which status leads to what is tested with the rounds.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from holdfast.errors import BadPeer, ConfigError
from holdfast.leases import grpc_calls
from holdfast.leases.cluster_lock import ClusterLock
from holdfast.leases.errors import DatabaseUnavailable
from holdfast.leases.grpc_backend import AsyncGrpcBackend
from holdfast.leases.grpc_calls import Calls
from holdfast.leases.grpc_channels import AsyncChannel, Channel, is_broken
from holdfast.leases.grpc_url import grpc_place_of
from holdfast.leases.words import Got, Taken
from holdfast.wire import grpc_leases as wire
from tests.doors.grpc_house import GrpcHouse
from tests.leases.asking import LEASE_US, Blocking, InLoop, ask, hold_of
from tests.leases.proxy import Proxy

both_faces = pytest.mark.parametrize("how", [Blocking, InLoop])


@pytest.fixture
def house() -> Iterator[GrpcHouse]:
    with GrpcHouse() as house:
        yield house


@pytest.fixture
def proxy(house: GrpcHouse) -> Iterator[Proxy]:
    with Proxy(int(house.door.address.rpartition(":")[2])) as proxy:
        yield proxy


@both_faces
def test_a_cut_connection_is_made_anew_and_nothing_is_lost(proxy: Proxy, how: Any) -> None:
    with how(f"grpc://127.0.0.1:{proxy.port}") as face:
        asked = ask()
        for _ in range(3):
            assert face.acquire(asked) == Got(1)
            proxy.cut()
        assert face.refresh([hold_of(asked)], LEASE_US) == [True]
        assert proxy.accepted >= 4


@both_faces
def test_an_answer_that_is_lost_is_asked_for_again_and_the_lock_is_ours(proxy: Proxy, how: Any) -> None:
    with how(f"grpc://127.0.0.1:{proxy.port}") as face:
        face.verify()
        asked = ask(lease_us=6_000_000)
        proxy.stall_answers()
        with ThreadPoolExecutor(1) as others:
            asking = others.submit(face.acquire, asked)
            while not _is_held(proxy, asked.key):
                assert not asking.done()
            proxy.cut()
            proxy.restore()
            assert asking.result(30) == Got(1)
        assert face.release([hold_of(asked)]) == [True]
        assert face.release([hold_of(asked)]) == [True]


def _is_held(proxy: Proxy, key: bytes) -> bool:
    host, port = proxy._target
    with Blocking(f"grpc://{host}:{port}") as face:
        return any(row.key == key for row in face.list())


@both_faces
def test_a_server_that_is_gone_is_unavailable_within_a_share_of_the_lease(
    proxy: Proxy, how: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_calls, "ANSWER_S_LEAST", 0.1)
    with how(f"grpc://127.0.0.1:{proxy.port}") as face:
        asked = ask()
        face.acquire(asked)
        for trouble in (proxy.refuse, proxy.stall):
            trouble()
            with pytest.raises(DatabaseUnavailable):
                face.refresh([hold_of(asked)], 900_000)
            proxy.restore()
        assert face.refresh([hold_of(asked)], LEASE_US) == [True]


def test_a_failure_of_the_server_leaves_the_channel_as_it_is() -> None:
    asked = 0

    async def busy_at_first(request: Any, caller: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise wire.Refusal("store_busy", "another process keeps the store to itself")
        return wire.StatusReply(outcome=wire.Outcome.LOST)

    with (
        GrpcHouse(**{wire.REFRESH: busy_at_first}) as house,
        Proxy(int(house.door.address.rpartition(":")[2])) as between,
        Blocking(f"grpc://127.0.0.1:{between.port}") as face,
    ):
        assert face.refresh([hold_of(ask())], LEASE_US) == [False]
        assert (asked, between.accepted) == (3, 1)


@both_faces
def test_a_call_that_is_under_way_survives_a_close_of_the_channel(house: GrpcHouse, how: Any) -> None:
    with how(house.url) as face:
        face.verify()
        with ThreadPoolExecutor(4) as others:
            calls = [others.submit(face.acquire, ask(b"t/%d" % number)) for number in range(100)]
            for _ in range(5):
                face.close()
            assert {call.result(30) for call in calls} == {Got(1)}


def test_a_task_that_is_cancelled_is_cancelled_and_not_asked_again(proxy: Proxy) -> None:
    async def story() -> None:
        channel = AsyncChannel(grpc_place_of(f"grpc://127.0.0.1:{proxy.port}"))
        backend = AsyncGrpcBackend(grpc_place_of("grpc://127.0.0.1:1"), channel)
        await backend.verify()
        proxy.stall()
        asking = asyncio.ensure_future(backend.verify())
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        proxy.restore()
        await backend.verify()
        await channel.close()

    asyncio.run(story())


def test_a_server_that_is_not_ours_is_told_apart_from_one_that_is_gone() -> None:
    with GrpcHouse() as house, Blocking(f"{house.url}?service=shakenfist") as theirs:
        assert theirs.acquire(ask()) == Got(0)
        assert isinstance(theirs.acquire(ask()), Taken)
        asked = ask(b"t/1")
        theirs.acquire(asked)
        assert theirs.refresh([hold_of(asked)], LEASE_US) == [True]
        assert theirs.release([hold_of(asked)]) == [True]
        channel = Channel(grpc_place_of(f"{house.url}?service=shakenfist"))
        with pytest.raises(BadPeer):  # there is no such call
            channel.call(Calls(wire.TIME, [wire.TimeRequest()], 1.0))
        channel.close()


def test_after_a_fork_nothing_of_the_parent_is_used(house: GrpcHouse) -> None:
    channel = Channel(grpc_place_of(house.url))
    first = channel._open()
    channel._lock.acquire()  # as another thread of the parent may have
    channel.after_fork()
    second = channel._open()
    assert second is not first
    channel.close()
    first.close()


def test_credentials_that_cannot_be_read_are_a_mistake_of_the_url() -> None:
    with pytest.raises(ConfigError, match="ca: cannot read"):
        Channel(grpc_place_of("grpcs://h:1?ca=/no/such/file"))


def test_what_is_broken_is_told_from_what_the_server_says() -> None:
    class Failed:
        def __init__(self, status: grpc.StatusCode, metadata: Any) -> None:
            self.code = lambda: status
            self.trailing_metadata = lambda: metadata

    assert is_broken(Failed(grpc.StatusCode.UNAVAILABLE, None))
    assert not is_broken(Failed(grpc.StatusCode.UNAVAILABLE, ((wire.CODE_KEY, "store_busy"),)))
    assert not is_broken(Failed(grpc.StatusCode.RESOURCE_EXHAUSTED, ()))


def test_a_cluster_lock_lives_at_a_server(house: GrpcHouse) -> None:
    lock = ClusterLock("cluster", backend=house.url, op="Cluster maintenance")
    with lock:
        assert lock.fence == 1
        assert not lock.lost_event.is_set()
        with Blocking(house.url) as other:
            (row,) = other.list()
            assert (row.key, row.holder["operation"]) == (b"cluster/", "Cluster maintenance")
            assert isinstance(other.acquire(ask()), Taken)
    with ClusterLock("cluster", backend=house.url) as again:
        assert again.fence == 2
