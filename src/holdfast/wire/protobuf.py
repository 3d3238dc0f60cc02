"""Messages of Protocol Buffers as bytes, in both directions: a message is a dataclass whose fields know their numbers.

Only as much of the format is here as our messages need. Which messages there are is said elsewhere; gRPC is not known.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Final, TypeVar

from holdfast.errors import BadRequest

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

VARINT_BYTES_MAX: Final = 10
TAG_MAX: Final = (1 << 32) - 1

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class BadMessage(BadRequest):
    """These bytes are no such message."""


class Type(Enum):
    """What stands in a field; the value is its name in a .proto file."""

    TEXT = "string"
    TRUTH = "bool"
    NUMBER = "int64"
    SMALL_NUMBERS = "repeated int32"
    MESSAGES = "repeated"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field stands in a message."""

    number: int
    holds: Type
    of: type[Any] | None = None  # which messages


@dataclass(slots=True)
class Message:
    """What all messages have in common: nothing but that they are some."""


def text(number: int) -> str:
    return _placed(Place(number, Type.TEXT), str)


def truth(number: int) -> bool:
    return _placed(Place(number, Type.TRUTH), bool)


def whole(number: int) -> int:
    return _placed(Place(number, Type.NUMBER), int)


def small_numbers(number: int) -> list[int]:
    return _placed(Place(number, Type.SMALL_NUMBERS), list)


M = TypeVar("M", bound=Message)
T = TypeVar("T")


def messages(number: int, of: type[M]) -> list[M]:
    return _placed(Place(number, Type.MESSAGES, of), list)


def _placed(place: Place, empty: Callable[[], T]) -> T:
    made: T = field(default_factory=empty, metadata={"place": place})
    return made


def places(kind: type[Any]) -> dict[str, Place]:
    """Tell by name where the fields of a message stand, in the order of their numbers."""
    known = _places.get(kind)
    if known is None:
        known = _places[kind] = _find_places(kind)
    return known


_places: Final[dict[type[Any], dict[str, Place]]] = {}


def _find_places(kind: type[Any]) -> dict[str, Place]:
    found = {item.name: item.metadata["place"] for item in fields(kind)}
    return dict(sorted(found.items(), key=lambda item: item[1].number))


# --- writing ---


def encode(message: Message) -> bytes:
    """Write a message; what is empty, false or zero takes no bytes."""
    written = bytearray()
    for name, place in places(type(message)).items():
        value = getattr(message, name)
        if place.holds is Type.MESSAGES:
            for one in value:
                written += _with_length(place.number, encode(one))
        elif value:
            written += _field(place, value)
    return bytes(written)


def _field(place: Place, value: Any) -> bytes:
    if place.holds is Type.TEXT:
        # Half a surrogate pair, which JSON can smuggle in, has no bytes in UTF-8.
        return _with_length(place.number, _SURROGATE.sub("\ufffd", value).encode())
    if place.holds is Type.SMALL_NUMBERS:
        return _with_length(place.number, b"".join(map(_varint, value)))
    return _varint(place.number << 3 | VARINT) + _varint(int(value))


def _with_length(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


# --- reading ---


def decode(kind: type[M], data: bytes) -> M:
    """Read a message; fields that are not known, or are of another type here, are passed over."""
    message = kind()
    by_number = {place.number: (name, place) for name, place in places(kind).items()}
    for number, wire_type, value in _fields(data):
        if number in by_number:
            name, place = by_number[number]
            _take(message, name, place, wire_type, value)
    return message


def _take(message: Message, name: str, place: Place, wire_type: int, value: int | bytes) -> None:
    if isinstance(value, bytes):
        if wire_type == BYTES:
            _take_bytes(message, name, place, value)
    elif place.holds is Type.TRUTH:
        setattr(message, name, value != 0)
    elif place.holds is Type.NUMBER:
        setattr(message, name, _signed(value, 64))
    elif place.holds is Type.SMALL_NUMBERS:
        getattr(message, name).append(_signed(value, 32))


def _take_bytes(message: Message, name: str, place: Place, value: bytes) -> None:
    if place.holds is Type.TEXT:
        try:
            setattr(message, name, value.decode())
        except UnicodeDecodeError:
            raise BadMessage(f"{name}: not UTF-8") from None
    elif place.holds is Type.SMALL_NUMBERS:
        at = 0
        while at < len(value):
            number, at = _read_varint(value, at)
            getattr(message, name).append(_signed(number, 32))
    elif place.holds is Type.MESSAGES:
        assert place.of is not None
        getattr(message, name).append(decode(place.of, value))


def _fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Take a message apart: numbers, wire types, and what stands there."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag > TAG_MAX:
            raise BadMessage("a field has a number that none can have")
        if wire_type == VARINT:
            value, at = _read_varint(data, at)
            yield number, wire_type, value
            continue
        if wire_type == BYTES:
            size, at = _read_varint(data, at)
        elif wire_type in SIZES:
            size = SIZES[wire_type]
        else:
            raise BadMessage(f"field {number} is of the wire type {wire_type}, which is not read here")
        if size > len(data) - at:
            raise BadMessage(f"field {number} ends before its end")
        yield number, wire_type, data[at : at + size]
        at += size


SIZES: Final = {FIXED64: 8, FIXED32: 4}


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(VARINT_BYTES_MAX):
        if at >= len(data):
            raise BadMessage("a number ends before its end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), at
    raise BadMessage(f"a number takes more than {VARINT_BYTES_MAX} bytes")


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
