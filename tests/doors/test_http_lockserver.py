"""Leases from request to reply: every outcome, waiting, coming back, looking, and what goes wrong.

Bodies, paths and spelling are tested with the codec; tokens, pages and counting in test_http_lockserver_about.py.
"""

import asyncio
from typing import Any

import pytest

from holdfast.observe.operations import ALL, OperationLog
from holdfast.wire.http import HttpRequest
from holdfast.wire.problems import PROBLEM_JSON
from holdfast.words import Answer
from tests.doors.refusing import RefusingStore
from tests.doors.shop import LEASE_ID, Shop, found, play, turns


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
        RefusingStore(shop.office.desk, answer, lambda _command: True)
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
