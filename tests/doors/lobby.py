"""The session API with all that stands behind it, and callers that send it requests by hand.

No expectation lives here; time is moved by hand, and there is no network.
"""

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.doors.asker import Asker
from holdfast.doors.http_sessions import SessionsApi, SessionsSettings
from holdfast.doors.rights import Rights
from holdfast.testing.mint import secret_of
from holdfast.wire.http import HttpReply, HttpRequest
from holdfast.words import SECOND
from tests.office import Office

NOBODY = "f" * 32


class CountingDice:
    """Gives bytes that anybody can predict, never the same twice."""

    def __init__(self) -> None:
        self.rolled = 0

    def roll(self, count: int) -> bytes:
        self.rolled += 1
        return self.rolled.to_bytes(count, "big")


class Lobby:
    """The session API with all that stands behind it."""

    def __init__(
        self,
        *,
        idle_s: int = 20,
        sessions_max: int = 0,
        per_address_max: int = 0,
        rights: Rights | None = None,
        **office: Any,
    ) -> None:
        self.office = Office(**office)
        self.pauses: list[int] = []
        self.api = SessionsApi(
            self.office.desk,
            self.office.clock,
            CountingDice(),
            SessionsSettings(
                idle_ns=idle_s * SECOND,
                sessions_max=sessions_max,
                sessions_per_address_max=per_address_max,
                lease_default_ns=33 * SECOND,
            ),
            visitor=Asker(self.office.desk, self.office.clock, resident=True),
            rights=rights or Rights.load(None),
            version="1.2.3",
            pause=self._pause,
        )

    async def _pause(self, duration_ns: int) -> None:
        self.pauses.append(duration_ns)

    async def ask(
        self, method: str, path: str, body: object = None, session: str | None = None, **headers: str
    ) -> HttpReply:
        if session is not None:
            headers["x-dflockd-session"] = session
        return await self.api.handle(
            HttpRequest(
                method=method,
                path=path,
                raw_path=path,
                headers=headers,
                body=b"" if body is None else json.dumps(body).encode(),
                peer="127.0.0.1",
            )
        )

    async def open(self) -> str:
        reply = await self.ask("POST", "/v1/sessions")
        assert reply.status == 200
        return str(json.loads(reply.body)["session_id"])

    async def call(self, session: str, path: str, **body: object) -> tuple[int, Any]:
        """Send a call of a session, and give the status and what was told."""
        return told(await self.ask("POST", path, body, session))

    async def begin(self, session: str, path: str, **body: object) -> "asyncio.Task[tuple[int, Any]]":
        """Send a call that is going to wait."""
        task = asyncio.create_task(self.call(session, path, **body))
        await settle()
        assert not task.done()
        return task

    async def leave(self, session: str) -> HttpReply:
        return await self.ask("DELETE", f"/v1/sessions/{session}")

    async def ping(self, session: str) -> int:
        return (await self.ask("POST", f"/v1/sessions/{session}/ping")).status

    def sweep(self) -> None:
        self.api.sweep(self.office.clock.now)


async def settle() -> None:
    """Let everything run that can run now."""
    for _ in range(20):
        await asyncio.sleep(0)


def told(reply: HttpReply) -> tuple[int, Any]:
    return reply.status, json.loads(reply.body) if reply.body else None


def code(outcome: tuple[int, Any]) -> tuple[int, str]:
    return outcome[0], outcome[1]["error"]


def token(fence: int) -> str:
    return secret_of(fence)[:32].decode()


def grant(fence: int, lease_s: int = 33, status: str = "ok") -> tuple[int, Any]:
    return 200, {"status": status, "token": token(fence), "lease_ttl_s": lease_s}


GONE = (410, "session_gone")
TIMEOUT = (200, {"status": "timeout"})
JOB = "/v1/locks/job"


def played(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of a story that awaits things."""

    @functools.wraps(story)
    def play(*args: Any, **kwargs: Any) -> None:
        asyncio.run(story(*args, **kwargs))

    return play
