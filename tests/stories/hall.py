"""A hall with two doors over one store: some callers speak the line protocol, others HTTP, in one story.

The doors, the desk and the store are the real ones; only the network, the clock and the moment of a commit are ours.
What must happen is for the story to say.
"""

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from holdfast.desk import Desk
from holdfast.doors.asker import Asker
from holdfast.doors.http import HttpDoor
from holdfast.doors.http_lockserver import LockServerApi, LockServerSettings
from holdfast.doors.line import LineDoor, LineSettings
from holdfast.engine.invariants import check_table
from holdfast.stores.fence import DenseMint
from holdfast.stores.memory import MemoryStore
from holdfast.stores.shelf import Shelf
from holdfast.stores.sqlite import SqliteBackend
from holdfast.system import SystemDice
from holdfast.testing.clock import HandClock
from holdfast.testing.hand_runner import HandRunner
from holdfast.testing.line_stage import LINE_SETTINGS, LineCaller
from holdfast.testing.mint import CountingMint
from holdfast.testing.story import Action, Do, Elapse, Happening
from holdfast.words import RESIDENT, SECOND
from tests.stories.test_line_stories import Told, seconds

LIMITS = {"keys_max": 1024, "waiters_max": 0, "idle_max_ns": 60 * SECOND}
TTL_MS_MAX = 600_000
WAIT_MAX_NS = 2_000_000 * SECOND
ROUNDS = 20  # of the loop until everything that can happen now has happened


class HttpCaller:
    """One caller of the HTTP door, and the one request that it may be waiting for."""

    def __init__(self, hall: "Hall", who: str) -> None:
        self._hall = hall
        self._who = who
        self._proofs: dict[bytes, dict[str, Any]] = {}
        self._asked: asyncio.Task[tuple[int, dict[str, Any]]] | None = None
        self._doing: Do | None = None

    def ask(self, do: Do) -> None:
        self._doing = do
        path, body = {"acquire": self._acquire, "try": self._acquire, "renew": self._renew, "release": self._release}[
            do.verb
        ](do)
        self._asked = self._hall.loop.create_task(self._hall.request("POST", path, body))

    def _acquire(self, do: Do) -> tuple[str, dict[str, Any]]:
        patience_ns = 0 if do.verb == "try" else min(do.span_ns("patience"), WAIT_MAX_NS)
        query = f"?wait_ms={patience_ns // 1_000_000}" if patience_ns else ""
        ttl_ms = min(do.span_ns("lease") // 1_000_000, TTL_MS_MAX)
        return f"/v1/locks/{self._name(do)}/acquire{query}", {"owner_id": self._who, "ttl_ms": ttl_ms}

    def _renew(self, do: Do) -> tuple[str, dict[str, Any]]:
        extend_ms = min(do.span_ns("lease") // 1_000_000, TTL_MS_MAX)
        return f"/v1/locks/{self._name(do)}/renew", {**self._proof(do), "extend_by_ms": extend_ms}

    def _release(self, do: Do) -> tuple[str, dict[str, Any]]:
        return f"/v1/locks/{self._name(do)}/release", self._proof(do)

    def _name(self, do: Do) -> str:
        return do.key.decode().replace("/", ":")

    def _proof(self, do: Do) -> dict[str, Any]:
        nothing = {"owner_id": self._who, "lease_id": "00000000-0000-4000-8000-000000000000", "fencing_token": 1}
        return self._proofs.get(do.key, nothing)

    @property
    def waits(self) -> bool:
        return self._asked is not None

    def take(self) -> Happening | None:
        """Tell what has been answered, if it has."""
        if self._asked is None or not self._asked.done():
            return None
        status, reply = self._asked.result()
        self._asked = None
        assert self._doing is not None
        return self._meaning(self._doing, status, reply)

    def _meaning(self, do: Do, status: int, reply: dict[str, Any]) -> Happening:
        if do.verb == "renew":
            assert status == (200 if reply["renewed"] else 409)
            return Happening(do.who, ("renewed" if reply["renewed"] else "not_held",))
        if do.verb == "release":
            assert status == 200
            return Happening(do.who, ("ended" if reply["released"] else "not_held",))
        if status == 409:
            assert reply["reason"] == "HELD"
            return Happening(do.who, ("busy",) if do.verb == "try" else ("timed_out",))
        assert status == 200
        self._proofs[do.key] = {name: reply[name] for name in ("owner_id", "lease_id", "fencing_token")}
        return self._hall.granted(do, reply["fencing_token"])


class Hall:
    """One store, one desk, two doors. `speaks` says which caller comes through which door."""

    def __init__(self, store: str, folder: Path, speaks: dict[str, str]) -> None:
        self.clock = HandClock()
        self.loop = asyncio.new_event_loop()
        self._runner = HandRunner()
        self._speaks = speaks
        self._store = self._make_memory() if store == "memory" else self._make_sqlite(folder / "hall.db")
        self.desk = Desk(self._store, release_on_disconnect=True, tickets=self.clock.now)
        self._store.sink = self.desk
        self.door = LineDoor(self.desk, self.clock, self._alarm, LineSettings(**LINE_SETTINGS))
        settings = LockServerSettings(name_bytes_max=255, wait_max_ns=WAIT_MAX_NS, lease_ids_shown=False)
        asker = Asker(self.desk, self.clock, resident=True)
        leases = LockServerApi(asker, self.clock, settings, version="0")
        self._http = HttpDoor(leases, None, self.clock, body_bytes_max=65_536, make_id=lambda: "id")
        self._heard: list[tuple[str, str]] = []
        self._callers: dict[str, LineCaller | HttpCaller] = {}
        self._doing: dict[str, Do] = {}
        self._tokens: dict[tuple[str, bytes], str] = {}
        self._first_fence = 0

    def _alarm(self, when: int) -> None:
        """Nobody has to be woken: time passes by hand."""

    def _make_memory(self) -> MemoryStore:
        return MemoryStore(CountingMint(), self._alarm, **LIMITS)

    def _make_sqlite(self, path: Path) -> Shelf:
        backend = SqliteBackend(str(path), 1.0)
        backend.open()
        mint = DenseMint(SystemDice())
        shelf = Shelf(backend, self._runner, self.clock, mint, self._alarm, batch_max=100, resident=RESIDENT, **LIMITS)
        shelf.open()
        return shelf

    def close(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self._settle()
        self._store.close()
        self.loop.close()

    # --- what a story asks for ---

    def play(self, action: Action) -> list[Happening]:
        if isinstance(action, Elapse):
            self._elapse(action)
            return self._take()
        assert isinstance(action, Do)
        if action.verb == "hangup":
            caller = self._callers[action.who]
            assert isinstance(caller, LineCaller)
            self._doing.pop(action.who, None)
            caller.vanish()
            del self._callers[action.who]
            return self._take()
        self._ask(action)
        happened = self._take()
        if not any(told.who == action.who for told in happened):
            happened.insert(0, Happening(action.who, ("waiting",)))
        return happened

    def _ask(self, do: Do) -> None:
        caller = self._callers.get(do.who)
        if caller is None:
            through_line = self._speaks[do.who] == "line"
            caller = LineCaller(self, Told(do.who, self._heard)) if through_line else HttpCaller(self, do.who)  # type: ignore[arg-type]
            self._callers[do.who] = caller
        if isinstance(caller, HttpCaller):
            caller.ask(do)
        else:
            self._doing[do.who] = do
            caller.send(self._frame(do))

    def _frame(self, do: Do) -> bytes:
        token = self._tokens.get((do.who, do.key), "none")
        command, fields = {
            "acquire": ("l", [seconds(do, "patience"), seconds(do, "lease")]),
            "try": ("l", ["0", seconds(do, "lease")]),
            "renew": ("n", [token, seconds(do, "lease")]),
            "release": ("r", [token]),
        }[do.verb]
        return f"{command}\n{do.key.decode().replace('/', ':')}\n{' '.join(fields)}\n".encode()

    def _elapse(self, elapse: Elapse) -> None:
        until = self.clock.now + elapse.span_ns
        while elapse.ticks == "due" and (due := self._store.next_deadline()) <= until:
            self.clock.advance_to(max(due, self.clock.now))
            self._store.tick(self.clock.now)
            self._settle()
        self.clock.advance_to(until)
        if elapse.ticks == "late":
            self._store.tick(self.clock.now)

    # --- what came of it ---

    def _take(self) -> list[Happening]:
        self._settle()
        happened = [self._meaning(self._doing.pop(who), reply) for who, reply in self._heard]
        self._heard.clear()
        for caller in self._callers.values():
            if isinstance(caller, HttpCaller) and (told := caller.take()) is not None:
                happened.append(told)
        return happened

    def _meaning(self, do: Do, reply: str) -> Happening:
        word, *fields = reply.split()
        if word == "ok" and len(fields) == 2:
            self._tokens[do.who, do.key] = fields[0]
            return self.granted(do, int(fields[0][:16], 16))
        if word == "ok":
            return Happening(do.who, ("renewed",) if fields else ("ended",))
        if word == "timeout":
            return Happening(do.who, ("busy",) if do.verb == "try" else ("timed_out",))
        assert word == "error"
        return Happening(do.who, ("not_held",))

    def granted(self, do: Do, fence: int) -> Happening:
        self._first_fence = self._first_fence or fence
        return Happening(do.who, ("granted",), {"fence": str(fence - self._first_fence + 1), "key": do.key.decode()})

    # --- how it runs ---

    async def request(self, method: str, target: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Ask the HTTP door as its server would."""
        path, _, query = target.partition("?")
        sent = json.dumps(body).encode()
        messages: list[Any] = [{"type": "http.request", "body": sent, "more_body": False}]
        replies: list[Any] = []

        async def receive() -> Any:
            if messages:
                return messages.pop()
            return await asyncio.Event().wait()  # the caller stays until it is answered

        async def send(message: Any) -> None:
            replies.append(message)

        scope = {
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"content-length", b"%d" % len(sent))],
            "client": ("127.0.0.1", 1),
        }
        await self._http(scope, receive, send)
        return replies[0]["status"], json.loads(replies[1]["body"])

    def settle(self) -> None:
        """Let connections that are over say farewell."""
        for caller in self._callers.values():
            if isinstance(caller, LineCaller):
                caller.transport.farewell()

    def _settle(self) -> None:
        """Let everything happen that can happen now, commits included."""

        async def turn() -> None:
            await asyncio.sleep(0)

        for _ in range(ROUNDS):
            self._run(turn())
            self._runner.finish()
            self.settle()
        if isinstance(self._store, MemoryStore):
            check_table(self._store.table, self.clock.now)

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(coroutine)
