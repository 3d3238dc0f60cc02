"""What gRPC tools ask a server about itself: our services and their messages, as descriptors made from their fields.

Nothing is served here, and no message is written down a second time.
"""

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from holdfast.wire.grpc_leases import SERVICES, Method
from holdfast.wire.protobuf import Message, Place, Type, places

TYPES = {
    Type.TEXT: FieldDescriptorProto.TYPE_STRING,
    Type.TRUTH: FieldDescriptorProto.TYPE_BOOL,
    Type.NUMBER: FieldDescriptorProto.TYPE_INT64,
    Type.SMALL_NUMBERS: FieldDescriptorProto.TYPE_INT32,
    Type.MESSAGES: FieldDescriptorProto.TYPE_MESSAGE,
}
REPEATED = (Type.SMALL_NUMBERS, Type.MESSAGES)


def pool() -> DescriptorPool:
    """Make a pool with all that the server offers; it is no other's, so that nobody's names can clash with it."""
    made = DescriptorPool()
    for other in (health_pb2, reflection_pb2):
        made.AddSerializedFile(other.DESCRIPTOR.serialized_pb)
    for service, (package, methods) in SERVICES.items():
        made.Add(file_of(service, package, methods))
    return made


def file_of(service: str, package: str, methods: dict[str, Method]) -> FileDescriptorProto:
    """Describe a service with its messages as a file."""
    file = FileDescriptorProto(name=f"{package.replace('.', '/')}/leases.proto", package=package, syntax="proto3")
    for kind in messages_of(methods):
        described = file.message_type.add(name=kind.__name__)
        for name, place in places(kind).items():
            described.field.append(_field(package, name, place))
    served = file.service.add(name=service.removeprefix(f"{package}."))
    for name, method in methods.items():
        served.method.add(
            name=name,
            input_type=f".{package}.{method.request.__name__}",
            output_type=f".{package}.{method.reply.__name__}",
        )
    return file


def messages_of(methods: dict[str, Method]) -> list[type[Message]]:
    """List the messages of some methods, and those in them."""
    found: dict[type[Message], None] = {}
    for method in methods.values():
        for kind in (method.request, method.reply):
            found[kind] = None
            found.update(dict.fromkeys(place.of for place in places(kind).values() if place.of is not None))
    return list(found)


def _field(package: str, name: str, place: Place) -> FieldDescriptorProto:
    field = FieldDescriptorProto(name=name, number=place.number, type=TYPES[place.holds])
    field.label = FieldDescriptorProto.LABEL_OPTIONAL
    if place.holds in REPEATED:
        field.label = FieldDescriptorProto.LABEL_REPEATED
    if place.of is not None:
        field.type_name = f".{package}.{place.of.__name__}"
    return field
