"""The HTTP door of a real server, with everything that a Config puts behind it: stores, metrics, readiness, tokens.

What single requests are answered is tested with the doors and codecs; here it is whether the parts belong together.
"""

import json
import socket
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.config import Config
from holdfast.errors import ConfigError
from holdfast.testing.line_peer import LinePeer
from holdfast.testing.process import ServerProcess
from holdfast.web import load_rights
from tests.conftest import Start
from tests.http_peer import HttpPeer

STORES = ["memory:", "sqlite:locks.db"]


@pytest.mark.parametrize("store", STORES)
def test_one_lock_whatever_the_door(start: Start, store: str) -> None:
    server = start("serve", "--store", store)
    with LinePeer(server.port) as line, HttpPeer(server.http_port) as http:
        _, token, _ = line.ask("l", "job", "0 30").split()
        refused = http.acquire("job")
        assert (refused.status, refused.json["reason"]) == (409, "HELD")
        assert refused.json["current_owner_id"].startswith("session/")
        assert line.ask("r", "job", token) == "ok"
        lease = http.acquire("job").json
        assert lease["fencing_token"] > int(token[:16], 16)
        assert line.ask("l", "job", "0 30") == "timeout"
        # The token of the line is made of what HTTP shows.
        assert http.release(lease).json == {"released": True}
        _, later, _ = line.ask("l", "job", "0 30").split()
        assert int(later[:16], 16) > lease["fencing_token"]


@pytest.mark.parametrize("store", STORES)
def test_those_who_wait_are_served_in_their_order_whatever_their_door(start: Start, store: str) -> None:
    server = start("serve", "--store", store)
    with LinePeer(server.port) as holder, LinePeer(server.port) as second, HttpPeer(server.http_port) as looker:
        _, token, _ = holder.ask("l", "job", "0 30").split()
        answers: list[int] = []

        def wait_over_http() -> None:
            with HttpPeer(server.http_port) as first:
                lease = first.acquire("job", query="?wait_ms=20000").json
                answers.append(lease["fencing_token"])
                assert first.release(lease).json == {"released": True}

        waiting = threading.Thread(target=wait_over_http)
        waiting.start()
        while looker.get("/v1/locks").json["locks"][0]["waiters"] < 1:
            pass
        second.say("l", "job", "20 30")
        while looker.get("/v1/locks").json["locks"][0]["waiters"] < 2:
            pass
        assert holder.ask("r", "job", token) == "ok"
        _, last, _ = second.hear().split()
        waiting.join()
        assert int(token[:16], 16) < answers[0] < int(last[:16], 16)


def test_sessions_leases_and_the_line_share_their_keys(start: Start) -> None:
    server = start("serve")
    with LinePeer(server.port) as line, HttpPeer(server.http_port) as http:
        session = http.ask("POST", "/v1/sessions").json["session_id"]
        grant = http.ask("POST", "/v1/locks/job", {"acquire_timeout_s": 0}, X_Dflockd_Session=session).json
        assert grant["status"] == "ok"
        assert line.ask("l", "job", "0") == "timeout"
        assert http.acquire("job").status == 409
        assert http.ask("DELETE", f"/v1/sessions/{session}").status == 204
        assert http.acquire("job").status == 200


def test_a_lease_is_held_after_kill_and_restart_and_found_again_by_its_key(start: Start, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/locks.db"
    server = start("serve", "--store", store)
    with HttpPeer(server.http_port) as http:
        lease = http.acquire("job", Idempotency_Key="one").json
        other = http.acquire("other").json
    server.kill()
    server = start("serve", "--store", store)
    with HttpPeer(server.http_port) as http:
        assert http.acquire("job", owner="w2").json["current_owner_id"] == "w1"
        assert http.acquire("job", Idempotency_Key="one").json == lease
        assert http.renew(other).json["renewed"] is True
        assert http.release(lease).json == {"released": True}
        assert http.acquire("job").json["fencing_token"] == 2


def test_metrics_count_what_happened_on_both_doors(start: Start) -> None:
    server = start("serve")
    with LinePeer(server.port) as line, HttpPeer(server.http_port) as http:
        lease = http.acquire("job").json
        assert http.acquire("job", owner="w2").status == 409
        assert http.renew(lease).status == 200
        assert line.ask("l", "other", "0").startswith("ok ")
        assert http.metric('lock_acquire_total{result="success"}') == 1
        assert http.metric('lock_acquire_total{result="fail"}') == 1
        assert http.metric('lock_renew_total{result="success"}') == 1
        assert http.metric('lock_op_latency_ms_count{op="renew"}') == 1
        assert http.metric("locks_held") == 2
        assert http.metric("holdfast_grants_total") == 2
        assert http.metric('holdfast_connections{door="line"}') == 1
        assert http.metric("holdfast_commit_batch_size_count") >= 3
        assert http.metric("holdfast_store_ready") == 1


def test_every_lease_that_runs_out_is_counted_and_told_in_the_log(start: Start) -> None:
    server = start("serve", "--log-operations", "all", "--log-format", "json")
    with HttpPeer(server.http_port) as http:
        for name in ("a", "b"):
            assert http.acquire(name, ttl_ms=1).status == 200
        while http.metric("lock_expired_total") < 2:
            pass
        assert http.metric("locks_held") == 0
        assert http.get("/v1/locks/a").json == {"lock_name": "a", "held": False}
    while '"expire_sweep"' not in server.log:
        pass
    swept = [json.loads(line) for line in server.log.splitlines() if '"expire_sweep"' in line]
    assert all(line["held"] >= 0 and line["latency_ms"] >= 0 for line in swept)


def test_readiness_turns_red_when_the_file_is_gone_and_nothing_is_granted(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "locks.db"
    server = start("serve", "--store", f"sqlite:{file}")
    with LinePeer(server.port) as line, HttpPeer(server.http_port) as http:
        assert http.get("/readyz").json == {"status": "ok"}
        moved = tmp_path / "moved.db"
        file.rename(moved)
        assert http.acquire("job").status == 500
        assert line.ask("l", "job", "0") == "error"
        red = http.get("/readyz")
        assert (red.status, "cannot be seen" in red.json["error"]) == (503, True)
        assert http.get("/livez").status == 200
        assert http.metric("holdfast_store_ready") == 0
        assert http.metric("holdfast_store_failures_total") >= 2
        moved.rename(file)
        assert http.get("/readyz").status == 200
        assert http.acquire("job").json["fencing_token"] == 1


def test_another_process_that_keeps_the_file_makes_callers_wait_and_then_come_again(
    start: Start, tmp_path: Path
) -> None:
    file = tmp_path / "locks.db"
    server = start("serve", "--store", f"sqlite:{file}", "--store-busy-timeout", "1")
    with HttpPeer(server.http_port) as http:
        lease = http.acquire("job").json
        other = sqlite3.connect(file, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            busy = http.acquire("free").json
            assert busy == {
                "acquired": False,
                "lock_name": "free",
                "recommended_retry_ms": 50,
                "reason": "BUSY_RETRY",
            }
            assert http.release(lease).json == {"released": False, "reason": "BUSY_RETRY"}
            assert http.get("/v1/locks/job").json["held"] is True
            other.execute("ROLLBACK")
        finally:
            other.close()
        assert http.metric('lock_db_busy_total{op="acquire"}') == 1
        assert http.metric('lock_db_busy_total{op="release"}') == 1
        assert http.release(lease).json == {"released": True}
        assert http.acquire("free").json["fencing_token"] == 1


def test_metrics_can_be_read_while_another_process_keeps_the_file(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "locks.db"
    server = start("serve", "--store", f"sqlite:{file}", "--store-busy-timeout", "3600")
    with LinePeer(server.port) as line, HttpPeer(server.http_port) as http:
        assert http.acquire("job").status == 200
        assert http.metric("locks_held") == 1
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            line.say("l", "free", "0")
            assert http.metric("locks_held") == 1
            assert http.metric("holdfast_grants_total") == 1
        assert line.hear().startswith("ok ")


def test_tokens_have_rights_for_each_prefix(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    rights = {"ci/": ["read", "hold"], "": ["read"]}
    file.write_text(json.dumps({"tokens": [{"name": "ci", "token": "geheim", "rights": rights}]}))
    server = start("serve", "--http-tokens-file", str(file))
    with HttpPeer(server.http_port) as http:
        assert http.acquire("ci:job").status == 401
        shown = {"Authorization": "Bearer geheim"}
        assert http.get("/v1/locks/job", **shown).status == 200
        assert http.acquire("job", **shown).status == 403
        assert http.get("/healthz").status == 200


def test_a_file_of_tokens_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="http_tokens_file: cannot read"):
        load_rights(Config(http_tokens_file=str(tmp_path / "none")))
    bad = tmp_path / "bad"
    bad.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="http_tokens_file: cannot read"):
        load_rights(Config(http_tokens_file=str(bad)))


def test_one_interface_alone_does_not_know_the_paths_of_the_other(start: Start) -> None:
    leases, sessions = start("serve", "--http-api", "leases"), start("serve", "--http-api", "sessions")
    with HttpPeer(leases.http_port) as http:
        assert http.ask("POST", "/v1/sessions").status == 404
        assert http.acquire("job").status == 200
    with HttpPeer(sessions.http_port) as http:
        assert http.acquire("job").status == 404
        assert http.ask("POST", "/v1/sessions").status == 200
        assert http.get("/metrics").status == 200


def test_a_rate_is_kept_for_each_address(start: Start) -> None:
    server = start("serve", "--http-rate-per-address", "1", "--http-rate-burst", "2")
    with HttpPeer(server.http_port) as http:
        statuses = [http.get("/v1/locks").status for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert http.get("/healthz").status == 200


def test_a_stop_answers_what_has_been_asked_and_takes_no_more(start: Start) -> None:
    server = start("serve")
    with HttpPeer(server.http_port) as waiting, HttpPeer(server.http_port) as http:
        assert http.acquire("job").status == 200
        replies = []
        asked = threading.Thread(target=lambda: replies.append(waiting.acquire("job", "w2", query="?wait_ms=20000")))
        asked.start()
        while http.get("/v1/locks").json["locks"][0]["waiters"] < 1:
            pass
        server.stop()
        asked.join()
        assert replies[0].status == 503
        assert server.wait() == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.http_port))


def test_a_port_that_is_taken_is_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Exception, match=f"exit code 1: holdfast: http: cannot listen on {address}"):
            ServerProcess("serve", "--http", address, log=tmp_path / "log")


def test_without_an_http_door_there_is_none(start: Start) -> None:
    server = start("serve", "--http", "off")
    assert server.http_port == 0
    with LinePeer(server.port) as line:
        assert line.ask("l", "job", "0").startswith("ok ")
