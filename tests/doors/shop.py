"""LockServer's API on a real desk and store, with a clock that is moved by hand, and a caller's usual requests.

No expectation lives here.
"""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

from holdfast.doors.asker import Asker
from holdfast.doors.http_lockserver import LockServerApi, LockServerSettings
from holdfast.observe.counters import OperationCounters
from holdfast.wire.http import HttpReply, HttpRequest
from holdfast.words import SECOND
from tests.office import Office

LEASE_ID = "00000000-0000-4000-8000-000000000000"  # the one that a counting mint makes


class Shop:
    """The API, and everything behind it."""

    def __init__(self, *, lease_ids_shown: bool = False, late: bool = False, limits: Any = None, **more: Any) -> None:
        self.office = Office(late=late, **(limits or {}))
        self.counters = OperationCounters()
        settings = LockServerSettings(name_bytes_max=20, wait_max_ns=60 * SECOND, lease_ids_shown=lease_ids_shown)
        self.api = LockServerApi(
            Asker(self.office.desk, self.office.clock, resident=True),
            self.office.clock,
            settings,
            version="1.2.3",
            count=self.counters.count,
            **more,
        )

    async def ask(self, method: str, path: str, body: Any = None, /, **headers: str) -> HttpReply:
        path, _, query = path.partition("?")
        return await self.api.handle(
            HttpRequest(
                method=method,
                path=path,
                query=dict(pair.split("=", 1) for pair in query.split("&") if pair),
                headers={name.replace("_", "-"): value for name, value in headers.items()},
                body=body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b"",
                id="r-1",
            )
        )

    async def acquire(self, owner: str = "w1", name: str = "job", query: str = "", **headers: str) -> HttpReply:
        body = {"owner_id": owner, "ttl_ms": 3000}
        return await self.ask("POST", f"/v1/locks/{name}/acquire{query}", body, **headers)

    async def renew(self, owner: str = "w1", fence: int = 1, ms: int = 60_000, lease_id: str = LEASE_ID) -> HttpReply:
        body = {"owner_id": owner, "lease_id": lease_id, "fencing_token": fence, "extend_by_ms": ms}
        return await self.ask("POST", "/v1/locks/job/renew", body)

    async def release(self, owner: str = "w1", fence: int = 1, lease_id: str = LEASE_ID) -> HttpReply:
        body = {"owner_id": owner, "lease_id": lease_id, "fencing_token": fence}
        return await self.ask("POST", "/v1/locks/job/release", body)

    async def get(self, name: str = "job", **headers: str) -> Any:
        return found(await self.ask("GET", f"/v1/locks/{name}", **headers))

    def counted(self) -> dict[str, dict[str, int]]:
        return {
            name: {result: count for result, count in operation.results.items() if count}
            for name, operation in self.counters.operations.items()
        }


def found(reply: HttpReply) -> Any:
    assert reply.body.endswith(b"\n")
    return json.loads(reply.body)


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 10))


async def turns() -> None:
    """Let everybody go on who can."""
    for _ in range(5):
        await asyncio.sleep(0)
