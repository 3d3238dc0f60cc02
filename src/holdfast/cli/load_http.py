"""A caller at the HTTP door: as much of HTTP/1.1 and of LockServer's interface as it takes to acquire and release.

Nothing but the fields of the original is sent, so that the original can be put under the same load.
"""

import asyncio
import json
from typing import Any
from urllib.parse import quote

from holdfast.cli.load_caller import ANSWER_BYTES_MAX, BadAnswer, Caller, Grant, Refusal

MILLISECOND = 1_000_000
STATUS_OK = 200
STATUS_CONFLICT = 409


class HttpCaller(Caller):
    """Acquires and releases with POST requests over one connection that is kept alive."""

    async def acquire(self, lock: str, ttl_ns: int) -> Grant | Refusal:
        body = {"owner_id": self.owner, "ttl_ms": max(1, ttl_ns // MILLISECOND)}
        status, answer = await self._post(lock, "acquire", body)
        if status == STATUS_OK and answer.get("acquired") is True:
            return Grant(_whole(answer, "fencing_token"), _text(answer, "lease_id"))
        if status == STATUS_CONFLICT and answer.get("acquired") is False:
            return Refusal(_hint_ns(answer), answer.get("reason") == "BUSY_RETRY")
        raise BadAnswer(f"acquire: {status} {answer}")

    async def release(self, lock: str, grant: Grant) -> bool:
        body = {"owner_id": self.owner, "lease_id": grant.proof, "fencing_token": grant.token}
        status, answer = await self._post(lock, "release", body)
        released = answer.get("released")
        if status != STATUS_OK or not isinstance(released, bool):
            raise BadAnswer(f"release: {status} {answer}")
        return released

    async def _post(self, lock: str, action: str, fields: dict[str, object]) -> tuple[int, dict[str, Any]]:
        body = json.dumps(fields).encode()
        status, headers, answer = await self.ask(self._request(lock, action, body), read_response)
        if headers.get("connection", "").lower() == "close":
            self.close()
        try:
            value = json.loads(answer)
        except ValueError as error:
            raise BadAnswer(f"{action}: {status} and no JSON: {answer[:100]!r}") from error
        if not isinstance(value, dict):
            raise BadAnswer(f"{action}: {status} and no object: {answer[:100]!r}")
        return status, value

    def _request(self, lock: str, action: str, body: bytes) -> bytes:
        head = (
            f"POST /v1/locks/{quote(lock, safe='')}/{action} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("ascii") + body


async def read_response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Read one response: its status, its headers in lower case, its body of a length that was said beforehand."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise BadAnswer(f"no HTTP: {first[:100]!r}")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    length = headers.get("content-length", "")
    if not length.isdecimal() or int(length) > ANSWER_BYTES_MAX:
        raise BadAnswer(f"{rest[:3]} with the length {length!r}")
    return int(rest[:3]), headers, await reader.readexactly(int(length))


def _hint_ns(answer: dict[str, Any]) -> int | None:
    hint_ms = answer.get("recommended_retry_ms")
    return hint_ms * MILLISECOND if isinstance(hint_ms, int) and hint_ms > 0 else None


def _whole(answer: dict[str, Any], name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadAnswer(f"{name} is no whole number: {answer}")
    return value


def _text(answer: dict[str, Any], name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str):
        raise BadAnswer(f"{name} is no text: {answer}")
    return value
