"""What tests of the native protocol share: a greeting, a grant, and a connection that has been greeted.

No expectation lives here.
"""

import json
from typing import Any

from holdfast.client.dialects.native import NativeCodec, Session
from tests.client.dialects.codecs import SECOND, TICKET, TOKEN, hear, proof

GREETING: dict[str, Any] = {"version": 1, "session": "s" * 48, "resumed": False, "grace_ms": 30_000, "lease_ms": 33_000}
GREETING |= {"line_bytes_max": 65_536, "in_flight_max": 4096}
GRANT: dict[str, Any] = {
    "answer": "granted",
    "ticket": TICKET,
    "key": "job",
    "kind": "lock",
    "mode": "EX",
    "units": 1,
    "fence": 7,
}
GRANT |= {"token": TOKEN, "lease_ms": 30_000, "left_ms": 29_000, "value": None, "value_valid": True}
RENEWAL = (proof(), 30 * SECOND)


def session(auth: str | None = None) -> Session:
    return Session(client="billing", host="web-1", pid=4711, auth=auth)


def bare() -> NativeCodec:
    return NativeCodec(session(), events=True)


def fresh(**greeting: Any) -> NativeCodec:
    codec = bare()
    hear(codec, b"ok " + text(GREETING | greeting))
    return codec


def text(line: Any) -> bytes:
    return json.dumps(line).encode() + b"\n"
