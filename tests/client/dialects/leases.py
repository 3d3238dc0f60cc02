"""What tests of LockServer's protocol share: one claim, and what a server says of it.

No expectation lives here.
"""

import json
from typing import Any

from holdfast.client.asks import Acquire, End, Granted, Query, Renew
from holdfast.client.dialects.lockserver import LockServerCodec
from tests.client.dialects.codecs import SECOND, TICKET, WANT, proof

ACQUIRE = Acquire(WANT, 0)
RENEW = Renew([(proof(), 30 * SECOND)])
END = End(WANT, proof())
RECOVER = Query("recover", {"want": WANT})


def fresh(auth: str | None = None) -> LockServerCodec:
    return LockServerCodec("locks:8080", auth, "me@host:1")


OWNER = fresh().owner_of(WANT)
LEASE = {
    "acquired": True,
    "lock_name": "job",
    "owner_id": OWNER,
    "lease_id": "one-lease",
    "fencing_token": 7,
    "lease_expiry_ms": 1_700_000_000_000,
}
GRANTED = Granted(
    ticket=TICKET,
    key="job",
    kind="lock",
    mode="EX",
    fence=7,
    token="one-lease",
    lease_ns=30 * SECOND,
    lease_id="one-lease",
    owner=OWNER,
)
HELD = {"acquired": False, "lock_name": "job", "current_owner_id": "other", "reason": "HELD"}


def reply(status: int, body: Any, *headers: str) -> bytes:
    """Spell an answer of a server."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode() + b"\n"
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {len(text)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + text
