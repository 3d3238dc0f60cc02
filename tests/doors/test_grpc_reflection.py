"""What tools are told of our services: the same as is served, under both names."""

import pytest

from holdfast.doors.grpc_reflection import file_of, messages_of, pool
from holdfast.wire.grpc_leases import METHODS, ORIGINAL_METHODS, ORIGINAL_SERVICE, SERVICE, SERVICES, ClusterLockEntry


@pytest.mark.parametrize(("service", "methods"), [(SERVICE, METHODS), (ORIGINAL_SERVICE, ORIGINAL_METHODS)])
def test_every_call_is_described_with_its_messages(service: str, methods: dict[str, object]) -> None:
    described = pool().FindServiceByName(service)
    assert [method.name for method in described.methods] == list(methods)
    acquire = described.FindMethodByName("AcquireLock")
    assert {field.name: field.number for field in acquire.input_type.fields}["lease_ms"] == 100
    existing = described.FindMethodByName("GetExistingLocks").output_type.fields_by_name["locks"]
    assert existing.is_repeated
    assert existing.message_type.fields_by_name["key"].number == 1


def test_messages_within_messages_are_described_too() -> None:
    assert ClusterLockEntry in messages_of(METHODS)
    package, methods = SERVICES[SERVICE]
    names = [message.name for message in file_of(SERVICE, package, methods).message_type]
    assert len(names) == len(set(names))


def test_tools_find_health_and_reflection_in_the_same_place() -> None:
    made = pool()
    assert made.FindServiceByName("grpc.health.v1.Health").name == "Health"
    assert made.FindServiceByName("grpc.reflection.v1alpha.ServerReflection").name == "ServerReflection"
