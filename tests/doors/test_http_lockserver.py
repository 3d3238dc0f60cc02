"""LockServer's API from request to reply, on a real desk and store with a clock that is moved by hand.

Bodies, paths and spelling are tested with the codec; what travels over sockets in test_http_protocol.py.
"""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast.doors.asker import Asker
from holdfast.doors.http_lockserver import LockServerApi, LockServerSettings
from holdfast.doors.rights import Rights
from holdfast.observe.counters import OperationCounters
from holdfast.observe.operations import ALL, OperationLog
from holdfast.wire.http import HttpReply, HttpRequest
from holdfast.wire.problems import PROBLEM_JSON
from holdfast.words import SECOND, Answer, Claim, Command, End, Look, Renew
from tests.office import Office

LEASE_ID = "00000000-0000-4000-8000-000000000000"  # the one that a counting mint makes

TOKENS = """{"tokens": [
    {"name": "reader", "token": "see", "rights": {"": ["read"]}},
    {"name": "worker", "token": "do", "rights": {"jobs/": ["hold"], "job": ["hold"]}}
]}"""


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


def test_a_lease_from_acquire_to_release() -> None:
    async def story() -> None:
        shop = Shop()
        start_ms = shop.office.clock.now // 1_000_000
        reply = await shop.acquire()
        assert reply.status == 200
        assert found(reply) == {
            "acquired": True,
            "lock_name": "job",
            "owner_id": "w1",
            "lease_id": LEASE_ID,
            "fencing_token": 1,
            "lease_expiry_ms": start_ms + 3000,
        }
        reply = await shop.acquire()  # nobody holds a lock twice, not even its owner
        assert (reply.status, found(reply)["reason"], found(reply)["current_owner_id"]) == (409, "HELD", "w1")
        assert found(await shop.renew(ms=1)) == {"renewed": True, "lease_expiry_ms": start_ms + 3000}
        assert found(await shop.renew()) == {"renewed": True, "lease_expiry_ms": start_ms + 60_000}
        assert (await shop.get())["version"] == 3
        assert found(await shop.release()) == {"released": True}
        reply = await shop.release()
        assert (reply.status, found(reply)) == (200, {"released": False, "reason": "NOT_OWNER"})
        assert await shop.get() == {"lock_name": "job", "held": False}
        assert found(await shop.acquire("w2"))["fencing_token"] == 2

    play(story())


@pytest.mark.parametrize("wrong", [{"owner": "w2"}, {"fence": 2}, {"lease_id": "x"}, {"lease_id": LEASE_ID[:-1] + "1"}])
def test_half_a_proof_is_none(wrong: dict[str, Any]) -> None:
    async def story() -> None:
        shop = Shop()
        await shop.acquire()
        reply = await shop.renew(**wrong)
        assert (reply.status, found(reply)) == (409, {"renewed": False, "reason": "NOT_OWNER_OR_EXPIRED"})
        reply = await shop.release(**wrong)
        assert (reply.status, found(reply)) == (200, {"released": False, "reason": "NOT_OWNER"})
        assert (await shop.get())["held"]

    play(story())


def test_a_lease_that_is_over_can_neither_be_renewed_nor_released() -> None:
    async def story() -> None:
        shop = Shop()
        await shop.acquire()
        shop.office.clock.advance(3)  # nobody has swept it up yet
        assert await shop.get() == {"lock_name": "job", "held": False}
        assert (await shop.renew()).status == 409
        assert found(await shop.release())["released"] is False

    play(story())


# --- waiting ---


def test_who_waits_is_granted_when_the_holder_is_done() -> None:
    async def story() -> None:
        shop = Shop()
        await shop.acquire()
        waiting = asyncio.ensure_future(shop.acquire("w2", query="?wait_ms=1000"))
        await turns()
        assert not waiting.done()
        await shop.release()
        reply = await waiting
        assert (reply.status, found(reply)["owner_id"]) == (200, "w2")

    play(story())


def test_who_waits_in_vain_is_told_who_holds() -> None:
    async def story() -> None:
        shop = Shop()
        await shop.acquire()
        waiting = asyncio.ensure_future(shop.acquire("w2", query="?wait_ms=1000"))
        await turns()
        shop.office.after(1)
        reply = await waiting
        assert (reply.status, found(reply)["reason"], found(reply)["current_owner_id"]) == (409, "HELD", "w1")
        assert found(reply)["recommended_retry_ms"] == 500

    play(story())


def test_only_who_might_wait_is_watched() -> None:
    api = Shop().api
    assert not api.waits(HttpRequest(method="POST", path="/v1/locks/a/acquire"))
    assert api.waits(HttpRequest(method="POST", path="/v1/locks/a/acquire", query={"wait_ms": "1"}))
    assert api.waits(HttpRequest(method="POST", path="/v1/locks/a/acquire", headers={"idempotency-key": "1"}))


# --- Idempotency-Key ---


def test_a_request_that_is_sent_again_gets_the_same_lease() -> None:
    async def story() -> None:
        shop = Shop()
        first = await shop.acquire(idempotency_key="one")
        again = await shop.acquire(idempotency_key="one")
        assert (again.status, again.body) == (200, first.body)
        assert (await shop.acquire(idempotency_key="two")).status == 409

    play(story())


def test_when_its_lease_is_over_a_key_begins_anew() -> None:
    async def story() -> None:
        shop = Shop()
        await shop.acquire(idempotency_key="one")
        await shop.release()
        assert found(await shop.acquire(idempotency_key="one"))["fencing_token"] == 2

    play(story())


@pytest.mark.parametrize("body", [{"owner_id": "w2", "ttl_ms": 3000}, {"owner_id": "w1", "ttl_ms": 3001}])
def test_a_key_is_for_one_request_only(body: dict[str, Any]) -> None:
    async def story() -> None:
        shop = Shop()
        await shop.acquire(idempotency_key="one")
        reply = await shop.ask("POST", "/v1/locks/job/acquire", body, idempotency_key="one")
        assert reply.status == 422
        assert LEASE_ID not in reply.body.decode()

    play(story())


def test_who_comes_again_waits_on_in_place_of_the_first() -> None:
    async def story() -> None:
        shop = Shop()
        await shop.acquire()
        waiting = []
        for _ in range(2):
            asking = shop.acquire("w2", query="?wait_ms=1000", idempotency_key="one")
            waiting.append(asyncio.ensure_future(asking))
            await turns()
        reply = await waiting[0]
        assert (reply.status, found(reply)["reason"]) == (409, "BUSY_RETRY")
        await shop.release()
        assert (await waiting[1]).status == 200

    play(story())


# --- looking ---


def test_a_lease_id_is_shown_to_who_shows_it() -> None:
    async def story() -> None:
        shop = Shop()
        await shop.acquire()
        assert "lease_id" not in await shop.get()
        assert "lease_id" not in await shop.get(x_lease_id="x")
        assert (await shop.get(x_lease_id=LEASE_ID))["lease_id"] == LEASE_ID
        shop = Shop(lease_ids_shown=True)
        await shop.acquire()
        assert (await shop.get())["lease_id"] == LEASE_ID

    play(story())


def test_a_holder_of_another_door_is_told_by_its_session() -> None:
    async def story() -> None:
        shop = Shop()
        caller = shop.office.caller()
        caller.acquire()
        owner = f"session/{caller.session.id}"
        assert (await shop.get())["owner_id"] == owner
        assert found(await shop.acquire())["current_owner_id"] == owner

    play(story())


def test_locks_are_listed_page_by_page() -> None:
    async def story() -> None:
        shop = Shop()
        for name in ("b", "a2", "a1", "a3"):
            await shop.acquire(name=name)
        await shop.ask("POST", "/v1/locks/a3/release", {"owner_id": "w1", "lease_id": LEASE_ID, "fencing_token": 4})
        first = found(await shop.ask("GET", "/v1/locks?prefix=a&limit=2"))
        assert [lock["lock_name"] for lock in first["locks"]] == ["a1", "a2"]
        assert not any("lease_id" in lock for lock in first["locks"])
        rest = found(await shop.ask("GET", f"/v1/locks?prefix=a&limit=2&cursor={first['next_cursor']}"))
        assert rest == {"locks": [{"lock_name": "a3", "held": False, "waiters": 0}]}
        held = found(await shop.ask("GET", "/v1/locks?held=true"))
        assert [lock["lock_name"] for lock in held["locks"]] == ["a1", "a2", "b"]

    play(story())


# --- what goes wrong ---


def test_wrong_requests_are_refused() -> None:
    async def story() -> None:
        shop = Shop()
        assert (await shop.acquire(name="x" * 21)).status == 400
        assert (await shop.ask("POST", "/v1/locks/job/acquire", b"")).status == 400
        assert (await shop.acquire(query="?wait_ms=x")).status == 400
        assert (await shop.ask("PUT", "/v1/locks/job")).headers == (("Allow", "GET"),)
        assert (await shop.ask("GET", "/v1//locks/job")).status == 301
        reply = await shop.ask("GET", "/nothing")
        assert (reply.status, reply.media_type) == (404, "text/plain; charset=utf-8")
        assert reply.headers == (("X-Content-Type-Options", "nosniff"),)
        assert (await shop.ask("GET", "/v1/locksmith")).status == 404
        assert shop.counted() == {"acquire": {}, "renew": {}, "release": {}}

    play(story())


def test_who_asks_for_problems_gets_them() -> None:
    async def story() -> None:
        reply = await Shop().ask("GET", "/v1/locks/", accept=PROBLEM_JSON)
        assert (reply.media_type, found(reply)["code"]) == (PROBLEM_JSON, "bad_request")

    play(story())


class Refusing:
    """Stands behind the desk and refuses everything in one way."""

    def __init__(self, shop: Shop, answer: Answer) -> None:
        self.desk, self.answer = shop.office.desk, answer
        shop.office.desk.store = self  # type: ignore[assignment]

    def submit(self, command: Command, now: int) -> None:
        assert isinstance(command, (Claim, Renew, End, Look))
        self.desk.answer(command, self.answer, None)


@pytest.mark.parametrize(
    ("answer", "statuses"),
    [
        (Answer.STORE_BUSY, (409, 409, 200, 503)),
        (Answer.STORE_FAILED, (500, 500, 500, 500)),
        (Answer.NO_FENCE, (500, 500, 500, 500)),
        (Answer.TOO_MANY_KEYS, (503, 503, 503, 503)),
    ],
)
def test_what_the_store_cannot_do_is_told(answer: Answer, statuses: tuple[int, ...]) -> None:
    async def story() -> None:
        shop = Shop(log=OperationLog(ALL, lambda: 0))
        Refusing(shop, answer)
        get = await shop.ask("GET", "/v1/locks/job")
        replies = (await shop.acquire(), await shop.renew(), await shop.release(), get)
        assert tuple(reply.status for reply in replies) == statuses
        busy = {"busy": 1} if answer is Answer.STORE_BUSY else {}
        assert shop.counted() == {"acquire": busy, "renew": busy, "release": busy}

    play(story())


def test_a_server_that_stops_sends_everybody_away() -> None:
    async def story() -> None:
        shop = Shop()
        await shop.acquire()
        waiting = asyncio.ensure_future(shop.acquire("w2", query="?wait_ms=1000"))
        await turns()
        shop.office.desk.drain(shop.office.clock.now)
        for reply in (await waiting, await shop.renew(), await shop.ask("GET", "/v1/locks/job")):
            assert (reply.status, reply.headers) == (503, (("Retry-After", "1"),))

    play(story())


def test_a_full_table_names_its_limit() -> None:
    async def story() -> None:
        shop = Shop(limits={"keys_max": 1, "waiters_max": 1})
        await shop.acquire()
        reply = await shop.acquire(name="other")
        assert (reply.status, "keys_max" in found(reply)["error"]) == (503, True)
        waiting = asyncio.ensure_future(shop.acquire("w2", query="?wait_ms=1000"))
        await turns()
        reply = await shop.acquire("w3", query="?wait_ms=1000")
        assert (reply.status, "waiters_max" in found(reply)["error"]) == (503, True)
        waiting.cancel()

    play(story())


# --- rights ---


def test_tokens_decide_who_may_do_what() -> None:
    async def story() -> None:
        shop = Shop(rights=Rights.load(TOKENS), metrics=lambda: b"m 1\n")
        read, hold = "Bearer see", "Bearer do"
        assert (await shop.acquire()).status == 401
        assert (await shop.acquire(authorization="Bearer x")).headers == (("WWW-Authenticate", "Bearer"),)
        assert (await shop.acquire(authorization=read)).status == 403
        assert (await shop.acquire(authorization=hold)).status == 200
        assert (await shop.acquire(authorization=hold, name="other")).status == 403
        for path in ("/v1/locks/job", "/v1/locks", "/metrics"):
            assert (await shop.ask("GET", path)).status == 401
            assert (await shop.ask("GET", path, authorization=hold)).status == 403
            assert (await shop.ask("GET", path, authorization=read)).status == 200
        for path in ("/healthz", "/livez", "/readyz", "/version", "/openapi.json"):
            assert (await shop.ask("GET", path)).status == 200

    play(story())


# --- the service itself ---


def test_whether_the_process_lives_is_told_to_any_method() -> None:
    async def story() -> None:
        shop = Shop()
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            reply = await shop.ask(method, "/healthz")
            assert (reply.status, found(reply)) == (200, {"status": "ok"})
        assert (await shop.ask("GET", "/healthz/")).status == 404
        assert (await shop.ask("GET", "/livez")).status == 200
        reply = await shop.ask("POST", "/livez")
        assert (reply.status, reply.headers) == (405, (("Allow", "GET, HEAD"),))

    play(story())


def test_a_server_that_cannot_serve_says_why() -> None:
    async def ready() -> str | None:
        return "the disk is full"

    async def story() -> None:
        reply = await Shop(ready=ready).ask("GET", "/readyz")
        assert (reply.status, found(reply)) == (503, {"error": "the disk is full"})
        assert (await Shop().ask("GET", "/readyz")).status == 200

    play(story())


def test_version_document_and_metrics() -> None:
    async def story() -> None:
        shop = Shop(metrics=lambda: b"m 1\n")
        assert found(await shop.ask("GET", "/version")) == {"name": "holdfast", "version": "1.2.3"}
        document = await shop.ask("GET", "/openapi.json")
        assert found(document)["info"]["version"] == "1.2.3"
        assert (await shop.ask("GET", "/v1/openapi.json")).body == document.body
        reply = await shop.ask("GET", "/metrics")
        assert (reply.body, reply.media_type) == (b"m 1\n", "text/plain; version=0.0.4; charset=utf-8")
        assert (await Shop().ask("GET", "/metrics")).status == 404

    play(story())


# --- counting and logging ---


def test_every_outcome_is_counted() -> None:
    async def story() -> None:
        shop = Shop()
        await shop.acquire()
        await shop.acquire()
        await shop.renew()
        await shop.renew(fence=9)
        await shop.release()
        await shop.release()
        assert shop.counted() == {
            "acquire": {"success": 1, "fail": 1},
            "renew": {"success": 1, "fail": 1},
            "release": {"success": 1, "fail": 1},
        }

    play(story())


def test_operations_are_logged_with_the_id_of_their_request(capsys: pytest.CaptureFixture[str]) -> None:
    async def story() -> None:
        shop = Shop(log=OperationLog(ALL, lambda: 0))
        await shop.acquire()
        await shop.acquire("w2")
        await shop.renew()
        await shop.release()
        await shop.release()

    play(story())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all("r-1" in line for line in lines)
    assert not any(LEASE_ID in line for line in lines)
