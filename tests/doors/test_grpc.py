"""The gRPC door from outside, with real clients of gRPC: who is let in, how failures leave, health, tools, the end.

What calls mean is tested in test_grpc_leases.py, TLS with a whole server in tests/test_rpc.py.
"""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from holdfast.doors.grpc import GrpcDoor, GrpcSettings, peer_of
from holdfast.doors.rights import Rights
from holdfast.errors import ConfigError
from holdfast.wire import grpc_leases as wire
from holdfast.wire.grpc_leases import ORIGINAL_SERVICE, SERVICE
from holdfast.wire.protobuf import encode
from tests.doors.grpc_house import WAIT_S_MAX, GrpcHouse, call

PATH = f"/{SERVICE}/{wire.ACQUIRE}"


@pytest.fixture
def house() -> Iterator[GrpcHouse]:
    with GrpcHouse() as house:
        yield house


def claim(id_: str = "one", **more: Any) -> wire.ClusterLockRequest:
    return wire.ClusterLockRequest("cluster", lock_data=json.dumps({"id": id_, "node": "n", "pid": 1}), **more)


def refusal_of(error: grpc.RpcError) -> tuple[str, str]:
    """Give the status of a call that failed, and the code beside it."""
    codes = [value for key, value in error.trailing_metadata() or () if key == wire.CODE_KEY]
    return error.code().name, codes[0] if codes else ""


def waiting(house: GrpcHouse, channel: Any, id_: str) -> Any:
    """Ask for a lock that somebody has, and wait until that stands in the queue."""
    under_way = channel.unary_unary(PATH).future(encode(claim(id_, wait_ms=60_000)), timeout=WAIT_S_MAX)
    while not house.memory.table.resources[b"lock:cluster/"].waiting:
        assert not under_way.done()
        house.do(asyncio.sleep(0))
    return under_way


def test_the_calls_are_served_under_both_names(house: GrpcHouse) -> None:
    channel = house.channel()
    assert call(channel, wire.ACQUIRE, claim()).fence == 1
    assert not call(channel, wire.ACQUIRE, claim("two"), ORIGINAL_SERVICE).acquired
    assert call(channel, wire.HOLDER, wire.ClusterGetLockHolderRequest("cluster"), ORIGINAL_SERVICE).held
    for path in (f"/{ORIGINAL_SERVICE}/{wire.TIME}", f"/{ORIGINAL_SERVICE}/GetInstance", "/x.Y/Z"):
        with pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary(path)(b"", timeout=WAIT_S_MAX)
        assert refusal_of(refused.value) == ("UNIMPLEMENTED", "")


def test_leases_belong_to_no_connection(house: GrpcHouse) -> None:
    channel = house.channel()
    call(channel, wire.ACQUIRE, claim())
    channel.close()
    refreshed = house.ask(wire.REFRESH, wire.ClusterRefreshLockRequest("cluster", lock_id="one"))
    assert (refreshed.success, refreshed.fence) == (True, 1)


def test_a_lock_of_another_door_is_busy_here_and_the_reverse(house: GrpcHouse) -> None:
    async def by_line() -> Any:
        caller = house.line_caller()
        return caller, caller.acquire(key=b"lock:cluster/")

    caller, held = house.do(by_line())
    assert house.ask(wire.ACQUIRE, claim()).outcome == wire.Outcome.BUSY

    async def release() -> None:
        caller.release(held)

    house.do(release())
    assert house.ask(wire.ACQUIRE, claim()).fence == 2


@pytest.mark.parametrize("rubbish", [b"\xff", b"\x0a\x05ab", b"\x0a\x02\xc3\x28", b"", bytes(1000)])
def test_rubbish_is_refused_by_name(house: GrpcHouse, rubbish: bytes) -> None:
    channel = house.channel()
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(PATH)(rubbish, timeout=WAIT_S_MAX)
    assert refusal_of(refused.value) == ("INVALID_ARGUMENT", "bad_request")
    assert call(channel, wire.ACQUIRE, claim()).acquired
    assert house.bugs == []


def test_a_request_that_is_too_long_is_not_read(house: GrpcHouse) -> None:
    channel = house.channel()
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(PATH)(bytes(2 << 20), timeout=WAIT_S_MAX)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert call(channel, wire.ACQUIRE, claim()).acquired


def test_whatever_fails_in_here_is_no_answer() -> None:
    async def broken(request: Any, caller: Any) -> Any:
        raise KeyError("secret")

    with GrpcHouse(**{wire.REFRESH: broken}) as house:
        with pytest.raises(grpc.RpcError) as failed:
            house.ask(wire.REFRESH, wire.ClusterRefreshLockRequest("cluster", lock_id="one"))
        assert refusal_of(failed.value) == ("INTERNAL", "internal")
        assert "secret" not in failed.value.details()
        assert [type(bug) for bug in house.bugs] == [KeyError]


def test_a_token_comes_in_the_metadata() -> None:
    with GrpcHouse(rights=Rights.load(None, auth_token="geheim")) as house:
        channel = house.channel()
        good = ("authorization", "Bearer geheim")
        for shown in ((), (("authorization", "Bearer x"),), (good, good), (("authorization-bin", b"Bearer geheim"),)):
            with pytest.raises(grpc.RpcError) as refused:
                call(channel, wire.ACQUIRE, claim(), metadata=shown)
            assert refusal_of(refused.value) == ("UNAUTHENTICATED", "unauthorized")
        assert call(channel, wire.ACQUIRE, claim(), metadata=(good,)).acquired
        # Whoever watches over us need not be able to hold locks.
        assert HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=WAIT_S_MAX).status == 1


def test_no_more_calls_are_served_at_once_than_there_may_be() -> None:
    with GrpcHouse(calls_max=1) as house:
        channel = house.channel()
        call(channel, wire.ACQUIRE, claim())
        under_way = waiting(house, channel, "two")
        with pytest.raises(grpc.RpcError) as refused:
            call(channel, wire.ACQUIRE, claim("three"))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        under_way.cancel()


def test_who_hangs_up_while_it_waits_leaves_the_queue(house: GrpcHouse) -> None:
    channel = house.channel()
    call(channel, wire.ACQUIRE, claim())
    under_way = waiting(house, channel, "two")
    under_way.cancel()
    while house.memory.table.resources[b"lock:cluster/"].waiting:
        house.do(asyncio.sleep(0))
    release = wire.ClusterReleaseLockRequest("cluster", lock_data='{"id":"one"}')
    assert call(channel, wire.RELEASE, release).success
    assert not call(channel, wire.HOLDER, wire.ClusterGetLockHolderRequest("cluster")).held


def test_a_waiter_is_granted_when_a_lease_runs_out(house: GrpcHouse) -> None:
    channel = house.channel()
    call(channel, wire.ACQUIRE, claim(lease_ms=20))
    assert call(channel, wire.ACQUIRE, claim("two", wait_ms=60_000)).fence == 2


def test_tools_see_what_is_served(house: GrpcHouse) -> None:
    database = ProtoReflectionDescriptorDatabase(house.channel())
    assert set(database.get_services()) >= {SERVICE, ORIGINAL_SERVICE, "grpc.health.v1.Health"}
    described = database.FindFileContainingSymbol(ORIGINAL_SERVICE)
    assert described.package == "shakenfist.protos"
    assert [method.name for method in described.service[0].method] == list(wire.ORIGINAL_METHODS)


def test_whoever_waits_is_sent_home_at_the_end_and_whoever_only_watches_does_not_hold_it_up(house: GrpcHouse) -> None:
    channel = house.channel()
    watch = HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=SERVICE), timeout=WAIT_S_MAX)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    call(channel, wire.ACQUIRE, claim())
    under_way = waiting(house, channel, "two")
    assert house.door.calls == 1

    async def stop() -> None:
        house.desk.drain(house.clock())
        await house.door.stop(None)

    with ThreadPoolExecutor(1) as others:
        stopping = others.submit(house.do, stop())
        with pytest.raises(grpc.RpcError) as refused:
            under_way.result(WAIT_S_MAX)
        assert refusal_of(refused.value) == ("UNAVAILABLE", "closed")
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        stopping.result(WAIT_S_MAX)
    assert house.door.calls == 0
    with pytest.raises(grpc.RpcError) as gone:
        house.ask(wire.ACQUIRE, claim("three"))
    assert gone.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_port_that_is_taken_is_refused(house: GrpcHouse) -> None:
    async def open_again() -> None:
        door = GrpcDoor(house.door._api, GrpcSettings(house.door.address, None), house.bugs.append)
        try:
            await door.start()
        finally:
            await door.stop(1)

    with pytest.raises(ConfigError, match="grpc: cannot listen on"):
        house.do(open_again())


def test_a_door_that_never_opened_can_be_closed(house: GrpcHouse) -> None:
    async def close() -> None:
        await GrpcDoor(house.door._api, GrpcSettings("127.0.0.1:0", None), house.bugs.append).stop(1)

    house.do(close())
    assert house.bugs == []


@pytest.mark.parametrize(
    ("told", "peer"),
    [("ipv4:127.0.0.1:5", "127.0.0.1:5"), ("ipv6:%5B::1%5D:5", "[::1]:5"), ("unix:/tmp/x", ""), ("", "")],
)
def test_a_peer_is_spelled_as_at_other_doors(told: str, peer: str) -> None:
    assert peer_of(told) == peer
