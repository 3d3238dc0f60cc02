"""Leases over gRPC on a real desk and store, with a clock that is moved by hand, and a caller's usual requests.

No expectation lives here.
"""

import json
from typing import Any

from holdfast.doors.asker import Asker
from holdfast.doors.grpc_leases import Caller, LeasesApi
from holdfast.doors.rights import Rights
from holdfast.observe.counters import OperationCounters
from holdfast.wire import grpc_leases as wire
from holdfast.words import Answer, Command
from tests.doors.refusing import RefusingStore
from tests.office import Office

ANYBODY = Caller(peer="10.0.0.9:1")


def lock_data(id_: str = "one", *, node: str = "sf-7", pid: int = 1) -> str:
    return json.dumps({"node": node, "pid": pid, "thread": 1, "line": "x:1", "operation": "o", "id": id_})


class Booth:
    """The calls, and everything behind them."""

    def __init__(self, *, late: bool = False, rights: Rights | None = None, **limits: int) -> None:
        self.office = Office(late=late, **limits)
        self.counters = OperationCounters()
        asker = Asker(self.office.desk, self.office.clock, resident=True)
        self.api = LeasesApi(self.office.desk, asker, self.office.clock, rights=rights, count=self.counters.count)
        self.caller = ANYBODY

    async def acquire(self, id_: str = "one", *, type_: str = "cluster", **more: Any) -> wire.ClusterLockReply:
        told = {name: more.pop(name) for name in ("node", "pid") if name in more}
        request = wire.ClusterLockRequest(type_, lock_data=lock_data(id_, **told), **more)
        return await self.api.acquire(request, self.caller)

    async def refresh(self, id_: str = "one", lease_ms: int = 0) -> wire.StatusReply:
        return await self.api.refresh(
            wire.ClusterRefreshLockRequest("cluster", lock_id=id_, lease_ms=lease_ms), self.caller
        )

    async def release(self, id_: str = "one", *, clears: bool = False) -> wire.StatusReply:
        request = wire.ClusterReleaseLockRequest("cluster", lock_data=json.dumps({"id": id_}), clears=clears)
        return await self.api.release(request, self.caller)

    async def holder(self, type_: str = "cluster") -> wire.ClusterLockHolderReply:
        return await self.api.holder(wire.ClusterGetLockHolderRequest(type_), self.caller)

    async def existing(self, prefix: str = "") -> list[wire.ClusterLockEntry]:
        return (await self.api.existing(wire.ClusterGetExistingLocksRequest(prefix), self.caller)).locks

    async def clear(self, node: str, *live: int) -> wire.StatusReply:
        return await self.api.clear_stale(wire.ClusterClearStaleLocksRequest(node, list(live)), self.caller)

    def answer_with(self, kind: type[Command], answer: Answer) -> None:
        """Let the store answer commands of a kind like this."""
        RefusingStore(self.office.desk, answer, lambda command: isinstance(command, kind))

    def counted(self) -> dict[str, dict[str, int]]:
        return {
            name: {result: count for result, count in operation.results.items() if count}
            for name, operation in self.counters.operations.items()
        }
