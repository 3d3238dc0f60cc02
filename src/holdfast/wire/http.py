"""What every HTTP interface here has in common: a request that has arrived whole, a reply, and how JSON leaves.

Which paths there are and what they mean is said by the interfaces; no socket and no clock may live here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

JSON: Final = "application/json"

Headers = tuple[tuple[str, str], ...]

_encoder: Final = msgspec.json.Encoder()


@dataclass(slots=True, kw_only=True)  # not frozen: that would cost more than all else in making one
class HttpRequest:
    """One request, whole. Header names are lower case; the path is split at its slashes after decoding, as servers do
    that route on decoded paths, so that no segment has a slash in it."""

    method: str
    path: str  # decoded; bytes that are not UTF-8 are kept as surrogate escapes
    raw_path: str = ""  # as it was sent, still percent-encoded: for interfaces in whose segments a slash may stand
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    peer: str = ""  # the address it came from, without the port
    id: str = ""  # X-Request-ID, the caller's or ours


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """What goes back: headers are those beside Content-Type and Content-Length."""

    status: int
    body: bytes = b""
    media_type: str = JSON
    headers: Headers = ()


def spell(value: Any) -> bytes:
    """Write one JSON value and a newline, as all the originals do."""
    return _encoder.encode(value) + b"\n"


def reply(status: int, value: Any, *headers: tuple[str, str]) -> HttpReply:
    """Make a JSON reply."""
    return HttpReply(status=status, body=spell(value), headers=headers)
