"""Sessions over HTTP: how they begin and end, what their calls come to, and who may send them.

A real desk and store stand behind. Callers who go away and time that goes by are tested in the file beside this one.
"""

import asyncio
import json

import pytest

from holdfast.doors import http_sessions
from holdfast.doors.rights import Rights
from holdfast.wire.http import HttpReply, HttpRequest
from holdfast.words import SECOND
from tests.doors.lobby import GONE, JOB, NOBODY, TIMEOUT, Lobby, code, grant, played, token, told
from tests.office import Caller


@pytest.fixture
def lobby() -> Lobby:
    return Lobby()


@played
async def test_the_description_needs_no_token_and_may_be_kept_for_a_minute() -> None:
    lobby = Lobby(rights=Rights.load(None, auth_token="known"))
    for path in ("/v1/openapi.json", "/openapi.json"):
        reply = await lobby.ask("GET", path)
        assert (reply.status, json.loads(reply.body)["info"]["version"]) == (200, "1.2.3")
        assert reply.headers == (("Cache-Control", "public, max-age=60"),)


# --- opening and ending ---


@played
async def test_a_session_is_opened_with_an_id_that_the_dice_gave(lobby: Lobby) -> None:
    reply = await lobby.ask("POST", "/v1/sessions", {"anything": "at all"})
    assert told(reply) == (200, {"session_id": f"{1:032x}", "idle_timeout_s": 20})
    assert lobby.api.sessions == 1
    assert lobby.office.desk.connections == 1  # the visitor is there in any case, and not counted


@played
async def test_a_session_that_ends_gives_back_what_it_holds(lobby: Lobby) -> None:
    first, second = await lobby.open(), await lobby.open()
    assert await lobby.call(first, JOB) == grant(1)
    waiting = await lobby.begin(second, JOB, acquire_timeout_s=10)
    assert told(await lobby.leave(first)) == (204, None)
    assert await waiting == grant(2)
    assert lobby.api.sessions == 1


@played
async def test_a_session_that_ends_gives_back_even_where_a_cut_connection_would_not() -> None:
    lobby = Lobby(release_on_disconnect=False)
    first, second = await lobby.open(), await lobby.open()
    await lobby.call(first, JOB)
    await lobby.leave(first)
    assert await lobby.call(second, JOB) == grant(2)


@played
async def test_a_session_that_ends_takes_its_places_in_queues_with_it(lobby: Lobby) -> None:
    holder, queued, behind = await lobby.open(), await lobby.open(), await lobby.open()
    await lobby.call(holder, JOB)
    assert await lobby.call(queued, JOB + "/enqueue") == (200, {"status": "queued"})
    waiting = await lobby.begin(behind, JOB, acquire_timeout_s=10)
    await lobby.leave(queued)
    await lobby.call(holder, JOB + "/release", token=token(1))
    assert await waiting == grant(2)


@played
async def test_a_blocked_call_is_told_that_its_session_has_ended(lobby: Lobby) -> None:
    holder, other = await lobby.open(), await lobby.open()
    await lobby.call(holder, JOB)
    blocked = await lobby.begin(other, JOB, acquire_timeout_s=10)
    behind = await lobby.begin(other, "/v1/locks/free")
    await lobby.leave(other)
    assert (code(await blocked), code(await behind)) == (GONE, GONE)
    assert code(await lobby.call(other, "/v1/locks/free")) == GONE


@played
async def test_what_is_granted_as_the_session_ends_is_held_by_nobody(lobby: Lobby) -> None:
    holder, other, third = await lobby.open(), await lobby.open(), await lobby.open()
    await lobby.call(holder, JOB)
    blocked = await lobby.begin(other, JOB, acquire_timeout_s=10)
    leaving = asyncio.create_task(lobby.leave(other))
    await lobby.call(holder, JOB + "/release", token=token(1))  # grants it to the one who leaves
    await leaving
    assert code(await blocked) == GONE
    assert await lobby.call(third, JOB) == grant(3)


@pytest.mark.parametrize("id_", ["", "1", "A" * 32, "g" * 32, f"{1:033x}"])
@played
async def test_an_id_in_a_path_has_to_look_like_one(lobby: Lobby, id_: str) -> None:
    await lobby.open()
    assert (await lobby.leave(id_)).status == 400
    assert await lobby.ping(id_) == 400


@played
async def test_a_session_that_nobody_knows_is_gone(lobby: Lobby) -> None:
    assert code(told(await lobby.leave(NOBODY))) == GONE
    assert await lobby.ping(NOBODY) == 410
    assert code(await lobby.call(NOBODY, JOB)) == GONE
    assert code(await lobby.call("no id at all", JOB)) == GONE


@played
async def test_there_are_no_more_sessions_than_allowed() -> None:
    lobby = Lobby(sessions_max=2)
    first, _ = await lobby.open(), await lobby.open()
    assert code(told(await lobby.ask("POST", "/v1/sessions"))) == (503, "max_sessions")
    await lobby.leave(first)
    await lobby.open()


@played
async def test_an_address_has_no_more_sessions_than_allowed() -> None:
    lobby = Lobby(per_address_max=1)

    async def from_(peer: str) -> HttpReply:
        return await lobby.api.handle(HttpRequest(method="POST", path="/v1/sessions", peer=peer))

    first = await from_("10.0.0.1")
    assert code(told(await from_("10.0.0.1"))) == (503, "max_sessions_per_ip")
    assert (await from_("10.0.0.2")).status == 200
    await lobby.leave(json.loads(first.body)["session_id"])
    assert (await from_("10.0.0.1")).status == 200


# --- locks and semaphores ---


@played
async def test_a_lock_is_taken_renewed_and_given_back(lobby: Lobby) -> None:
    session = await lobby.open()
    assert await lobby.call(session, JOB, lease_ttl_s=30) == grant(1, 30)
    assert await lobby.call(session, JOB + "/renew", token=token(1), lease_ttl_s=60) == (200, {"remaining_s": 60})
    assert await lobby.call(session, JOB + "/renew", token=token(1)) == (200, {"remaining_s": 33})
    assert await lobby.call(session, JOB + "/release", token=token(1)) == (204, None)
    assert code(await lobby.call(session, JOB + "/release", token=token(1))) == (404, "not_held")
    assert code(await lobby.call(session, JOB + "/renew", token=token(1))) == (404, "not_held")


@played
async def test_the_token_proves_it_from_any_session(lobby: Lobby) -> None:
    first, second = await lobby.open(), await lobby.open()
    await lobby.call(first, JOB)
    assert await lobby.call(second, JOB + "/release", token=token(1)) == (204, None)


@played
async def test_a_lock_that_is_held_is_a_timeout(lobby: Lobby) -> None:
    first, second = await lobby.open(), await lobby.open()
    await lobby.call(first, JOB, lease_ttl_s=60)
    assert await lobby.call(second, JOB) == TIMEOUT
    waiting = await lobby.begin(second, JOB, acquire_timeout_s=5)
    lobby.office.after(5)
    assert await waiting == TIMEOUT


@played
async def test_a_semaphore_has_its_seats_and_a_name_of_its_own(lobby: Lobby) -> None:
    session, other = await lobby.open(), await lobby.open()
    seats = "/v1/semaphores/job"
    assert await lobby.call(session, JOB) == grant(1)
    assert await lobby.call(session, seats, limit=2) == grant(2)
    assert await lobby.call(other, seats, limit=2, lease_ttl_s=5) == grant(3, 5)
    assert await lobby.call(other, seats, limit=2) == TIMEOUT
    assert code(await lobby.call(other, seats, limit=3)) == (409, "limit_mismatch")
    assert await lobby.call(other, seats + "/release", token=token(3)) == (204, None)
    assert await lobby.call(other, seats + "/enqueue", limit=2) == grant(4, status="acquired")


@played
async def test_a_place_in_the_queue_first_and_the_wait_later(lobby: Lobby) -> None:
    first, second = await lobby.open(), await lobby.open()
    assert await lobby.call(first, JOB + "/enqueue", lease_ttl_s=30) == grant(1, 30, "acquired")
    assert told(await lobby.ask("POST", JOB + "/enqueue", None, second)) == (200, {"status": "queued"})
    assert code(await lobby.call(second, JOB + "/enqueue")) == (409, "already_enqueued")
    waiting = await lobby.begin(second, JOB + "/wait", timeout_s=10)
    await lobby.call(first, JOB + "/release", token=token(1))
    assert await waiting == grant(2)
    assert code(await lobby.call(second, JOB + "/wait", timeout_s=10)) == (409, "not_enqueued")


@played
async def test_a_place_whose_lease_ran_out_unseen_is_told_so(lobby: Lobby) -> None:
    session = await lobby.open()
    await lobby.call(session, JOB + "/enqueue", lease_ttl_s=1)
    lobby.office.after(2)
    assert code(await lobby.call(session, JOB + "/wait")) == (409, "lease_expired")


@played
async def test_callers_on_the_line_wait_in_the_same_queue(lobby: Lobby) -> None:
    session, line = await lobby.open(), Caller(lobby.office)
    held = line.acquire()
    waiting = await lobby.begin(session, JOB, acquire_timeout_s=10)
    late = Caller(lobby.office)
    late.acquire()
    line.release(held)
    assert await waiting == grant(2)
    assert late.answers == []


@played
async def test_limits_and_a_lack_of_fences_are_told() -> None:
    lobby = Lobby(keys_max=1, waiters_max=1)
    first, second, third = await lobby.open(), await lobby.open(), await lobby.open()
    await lobby.call(first, JOB)
    assert code(await lobby.call(second, "/v1/locks/other")) == (503, "max_locks")
    await lobby.begin(second, JOB, acquire_timeout_s=10)
    assert code(await lobby.call(third, JOB, acquire_timeout_s=10)) == (503, "max_waiters")
    await lobby.leave(second)
    await lobby.call(first, JOB + "/release", token=token(1))
    lobby.office.mint.dry = True
    assert code(await lobby.call(third, JOB)) == (503, "fence_persistence")


# --- what is judged first ---


@played
async def test_a_call_is_judged_from_the_path_to_the_body(lobby: Lobby) -> None:
    session = await lobby.open()
    bad_key = "/v1/locks/two%20words"
    assert code(told(await lobby.ask("POST", "/v1/lock/job"))) == (404, "not_found")
    assert code(told(await lobby.ask("GET", bad_key))) == (405, "method_not_allowed")
    assert "key" in told(await lobby.ask("POST", bad_key, {"x": 1}))[1]["detail"]
    assert "X-Dflockd-Session" in told(await lobby.ask("POST", JOB, {"x": 1}))[1]["detail"]
    assert code(told(await lobby.ask("POST", JOB, {"x": 1}, NOBODY))) == GONE
    assert code(told(await lobby.ask("POST", JOB, {"x": 1}, session))) == (400, "bad_request")


@played
async def test_a_bad_body_is_refused_while_the_session_is_busy(lobby: Lobby) -> None:
    holder, session = await lobby.open(), await lobby.open()
    await lobby.call(holder, JOB)
    await lobby.begin(session, JOB, acquire_timeout_s=10)
    assert (await lobby.call(session, JOB + "/release"))[0] == 400


# --- the service ---


@played
async def test_the_service_tells_that_it_is_well(lobby: Lobby) -> None:
    for path in ("/health", "/ready"):
        assert told(await lobby.ask("GET", path)) == (200, {"status": "ok"})


@played
async def test_stats_need_no_session_and_count_all_doors(lobby: Lobby) -> None:
    session, _ = await lobby.open(), Caller(lobby.office)
    await lobby.call(session, JOB, lease_ttl_s=30)
    reply = await lobby.ask("GET", "/v1/stats")
    assert reply.body.endswith(b"\n")
    status, stats = told(reply)
    assert status == 200
    assert list(stats) == ["connections", "locks", "semaphores", "idle_locks", "idle_semaphores"]
    assert stats["connections"] == 2
    (lock,) = stats["locks"]
    assert (lock["key"], lock["lease_expires_in_s"], lock["waiters"]) == ("job", 30, 0)


# --- rights ---

TOKENS = json.dumps(
    {"tokens": [{"name": "ci", "token": "sesame", "rights": {"": ["read"], "ci/": ["hold"], "jobs": []}}]}
)
SESAME = "Bearer sesame"


@played
async def test_a_wrong_token_is_refused_after_a_moment() -> None:
    lobby = Lobby(rights=Rights.load(TOKENS))
    for path in ("/v1/sessions", JOB, f"/v1/sessions/{NOBODY}/ping"):
        for headers in ({}, {"authorization": "Bearer wrong"}):
            assert code(told(await lobby.ask("POST", path, **headers))) == (401, "unauthorized")
    assert lobby.pauses == [SECOND // 10] * 6
    assert lobby.api.sessions == 0


@played
async def test_a_token_is_judged_after_the_path_and_before_the_key() -> None:
    lobby = Lobby(rights=Rights.load(TOKENS))
    assert (await lobby.ask("GET", JOB)).status == 405
    assert (await lobby.ask("POST", "/v1/locks/two%20words")).status == 401


@played
async def test_health_is_nobodys_secret() -> None:
    lobby = Lobby(rights=Rights.load(TOKENS))
    assert [(await lobby.ask("GET", path)).status for path in ("/health", "/ready")] == [200, 200]


@played
async def test_rights_hang_on_the_prefix_of_the_key() -> None:
    lobby = Lobby(rights=Rights.load(TOKENS))
    opened = await lobby.ask("POST", "/v1/sessions", authorization=SESAME)
    session = json.loads(opened.body)["session_id"]

    async def status(method: str, path: str) -> int:
        return (await lobby.ask(method, path, {}, session, authorization=SESAME)).status

    assert await status("POST", "/v1/locks/ci%2Fbuild") == 200
    assert await status("POST", "/v1/semaphores/ci%2Fbuild/wait") == 409
    assert await status("POST", JOB) == 403
    assert await status("GET", "/v1/stats") == 200
    assert await status("DELETE", f"/v1/sessions/{session}") == 204
    assert lobby.pauses == []


@played
async def test_stats_show_all_keys_and_need_the_right_to_read_them() -> None:
    lobby = Lobby(rights=Rights.load('{"tokens":[{"name":"a","token":"a","rights":{"ci/":["read"]}}]}'))
    assert (await lobby.ask("GET", "/v1/stats", authorization="Bearer a")).status == 403


@played
async def test_the_pause_of_a_real_server_takes_its_time_from_the_loop() -> None:
    await http_sessions.pause(0)
