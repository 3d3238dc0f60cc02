"""What surrounds leases over HTTP: rights, the pages about the service, counting and logging.

How leases themselves fare is tested in test_http_lockserver.py.
"""

import pytest

from holdfast.doors.rights import Rights
from holdfast.observe.operations import ALL, OperationLog
from tests.doors.shop import LEASE_ID, Shop, found, play

TOKENS = """{"tokens": [
    {"name": "reader", "token": "see", "rights": {"": ["read"]}},
    {"name": "worker", "token": "do", "rights": {"jobs/": ["hold"], "job": ["hold"]}}
]}"""


async def metrics() -> bytes:
    return b"m 1\n"


# --- rights ---


def test_tokens_decide_who_may_do_what() -> None:
    async def story() -> None:
        shop = Shop(rights=Rights.load(TOKENS), metrics=metrics)
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


def test_whether_the_process_lives_is_told_to_any_usual_method() -> None:
    async def story() -> None:
        shop = Shop()
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            reply = await shop.ask(method, "/healthz")
            assert (reply.status, found(reply)) == (200, {"status": "ok"})
        assert (await shop.ask("QUERY", "/healthz")).status == 405
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


def test_a_path_that_is_not_there_is_a_problem_for_those_who_want_problems() -> None:
    async def story() -> None:
        plain = await Shop().ask("GET", "/elsewhere")
        assert (plain.status, plain.media_type) == (404, "text/plain; charset=utf-8")
        problem = await Shop().ask("GET", "/elsewhere", accept="application/problem+json")
        assert (problem.status, problem.media_type) == (404, "application/problem+json")
        assert found(problem)["code"] == "not_found"

    play(story())


def test_version_document_and_metrics() -> None:
    async def story() -> None:
        shop = Shop(metrics=metrics)
        assert found(await shop.ask("GET", "/version")) == {"name": "holdfast", "version": "1.2.3"}
        document = await shop.ask("GET", "/openapi.json")
        assert found(document)["info"]["version"] == "1.2.3"
        # The other description is dflockd's, of sessions.
        assert (await shop.ask("GET", "/v1/openapi.json")).status == 404
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
