"""What is read of servers that are not ours: dflockd's numbers, LockServer's locks, and answers that make no sense."""

import time
from email.utils import formatdate

import pytest

from holdfast.cli.peek import (
    Uninvited,
    fetch,
    leases,
    now_of,
    refusal,
    semaphores,
    spelled,
    targets,
    view_of_lease,
    view_over_http,
    views_of_stats,
    views_over_http,
)
from holdfast.errors import BadPeer, BadRequest, Forbidden, Unavailable
from tests.cli.look_stage import NOWHERE, foreign, holdfast

STATS = {
    "connections": 2,
    "locks": [
        {"key": "z", "owner_conn_id": 7, "lease_expires_in_s": 9.5, "waiters": 1},
        {"key": "queue", "owner_conn_id": 0, "lease_expires_in_s": 0, "waiters": 2},
        {"key": "lease", "owner_conn_id": 0, "lease_expires_in_s": 1, "waiters": 0},
    ],
    "semaphores": [{"key": "pool", "limit": 3, "holders": 2, "waiters": 4}],
    "idle_locks": [{"key": "a", "idle_s": 3}],
    "idle_semaphores": [{"key": "b", "idle_s": 3}],
}
LEASE = {
    "lock_name": "job",
    "held": True,
    "owner_id": "me",
    "lease_id": "x",
    "fencing_token": 3,
    "lease_expiry_ms": 9_000,
}


def target_of(url):
    (target,) = targets(url)
    return target


def test_dflockd_tells_by_its_numbers():
    views = {view["key"]: view for view in views_of_stats([STATS], "", None)}
    assert list(views) == ["a", "b", "lease", "pool", "queue", "z"]
    held = {"mode": "EX", "units": 1, "left_ms": 9_500, "owner": "connection 7"}
    assert views["z"] == {"key": "z", "kind": "lock", "waiting": 1, "holders": [held]}
    assert views["lease"]["holders"] == [{"mode": "EX", "units": 1, "left_ms": 1_000}]
    assert (views["queue"]["holders"], views["queue"]["waiting"]) == ([], 2)
    assert views["pool"]["holders"] == [{"units": 1}] * 2
    assert (views["b"]["kind"], views["b"]["holders"]) == ("semaphore", [])


def test_numbers_are_told_of_what_is_wanted_only():
    assert [view["key"] for view in views_of_stats([STATS, STATS], "p", "semaphore")] == ["pool", "pool"]
    assert views_of_stats([STATS], "p", "lock") == []


@pytest.mark.parametrize(
    "told",
    [
        {"locks": [{}]},
        {"locks": [7]},
        {"locks": 7},
        {"locks": [{"key": "a", "owner_conn_id": 1, "lease_expires_in_s": float("inf"), "waiters": 0}]},
        {"semaphores": [{"key": "a", "limit": 1, "holders": "some", "waiters": 0}]},
        {"idle_locks": [{"key": 7}, {"key": "a"}]},
    ],
)
def test_numbers_that_make_no_sense_are_the_mistake_of_who_tells_them(told):
    with pytest.raises(BadPeer, match="not understood"):
        views_of_stats([told], "", None)


def test_a_lease_has_as_long_as_the_clock_of_its_server_says():
    held = {"owner": "me", "mode": "EX", "units": 1, "left_ms": 1_000, "fence": 3}
    assert view_of_lease(LEASE, 8_000) == {"key": "job", "kind": "lock", "holders": [held]}
    assert view_of_lease(LEASE, 10_000)["holders"][0]["left_ms"] == 0
    assert view_of_lease({"lock_name": "job", "held": False, "waiters": 2}, 0) == {
        "key": "job",
        "kind": "lock",
        "waiting": 2,
        "holders": [],
    }


def test_the_clock_of_a_server_has_whole_seconds_and_ours_the_rest():
    ours_ms = time.time_ns() // 1_000_000
    assert ours_ms <= now_of(formatdate(ours_ms // 1000, usegmt=True)) <= time.time_ns() // 1_000_000
    for ahead_s in (-3_600, 3_600):
        told_ms = (ours_ms // 1000 + ahead_s) * 1000
        assert told_ms <= now_of(formatdate(told_ms // 1000, usegmt=True)) < told_ms + 2_000


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_where_a_server_does_not_tell_the_time_ours_has_to_do(date):
    assert abs(now_of(date) - time.time_ns() // 1_000_000) < 60_000


def test_a_list_is_walked_through_page_by_page(monkeypatch):
    first = "/v1/locks?limit=1000&prefix=p%20q"
    pages = {
        first: {"locks": [{"lock_name": "a", "held": False}], "next_cursor": "a/b&c"},
        f"{first}&cursor=a%2Fb%26c": {"locks": [{"lock_name": "d", "held": False}], "next_cursor": ""},
    }
    monkeypatch.setattr("holdfast.cli.peek.fetch", lambda target, path: (pages[path], 0))
    assert [view["key"] for view in leases(target_of("http://there"), "p q")] == ["a", "d"]


def test_a_lockserver_has_no_list_and_says_so():
    with foreign({"/v1/locks": (301, b"")}) as url:
        result = holdfast("ls", server=url)
        assert result.stderr == "holdfast: this server has no /v1/locks (HTTP 301)\n"
        assert result.exit_code == 64


def test_a_lockserver_shows_one_lock_and_does_not_tell_who_waits():
    with foreign({"/v1/locks": (301, b""), "/v1/locks/job": (200, LEASE)}) as url:
        view = view_over_http(url, "job", "lock")
        assert holdfast("show", "job", server=url).stdout.startswith("lock job: held\n")
    assert (view["holders"][0]["owner"], "waiting" in view) == ("me", False)


def test_a_lockserver_has_no_semaphores():
    with foreign({"/v1/locks": (200, {"locks": [LEASE]})}) as url:
        assert [view["key"] for view in views_over_http(url, "", None)] == ["job"]
        assert views_over_http(url, "", "semaphore") == []
        assert view_over_http(url, "job", "semaphore") is None


def test_only_the_very_name_is_shown():
    with foreign({"/v1/locks": (200, {"locks": [LEASE | {"lock_name": "job/longer"}]})}) as url:
        assert view_over_http(url, "job", "lock") is None


def test_who_may_see_locks_only_sees_locks_and_is_told_when_asking_for_more():
    with foreign({"/v1/locks": (200, {"locks": [LEASE]}), "/v1/stats": (403, {})}) as url:
        assert [view["key"] for view in views_over_http(url, "", None)] == ["job"]
        assert semaphores(target_of(url), "", certain=False) == []
        with pytest.raises(Forbidden, match="not for this token"):
            views_over_http(url, "", "semaphore")


@pytest.mark.parametrize(
    "locks", [[{"held": False}], [7], [{"lock_name": "a", "held": True}], 7, [LEASE | {"lease_expiry_ms": "soon"}]]
)
def test_locks_that_make_no_sense_are_the_mistake_of_who_tells_them(locks):
    with foreign({"/v1/locks": (200, {"locks": locks})}) as url:
        with pytest.raises(BadPeer, match="not understood"):
            views_over_http(url, "", "lock")
        assert holdfast("ls", server=url).exit_code == 76


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_object_in_json_is_refused(body):
    with foreign({"/healthz": (200, body)}) as url, pytest.raises(BadPeer, match="no JSON"):
        fetch(target_of(url), "/healthz")


def test_where_nobody_is_nobody_answers():
    with pytest.raises(Unavailable, match=f"{NOWHERE} does not answer: .*refused"):
        fetch(target_of(f"http://{NOWHERE}"), "/healthz")


def test_who_does_not_speak_http_is_told_apart(urls):
    url = urls.native.replace("holdfast://", "http://")
    with pytest.raises(BadPeer, match="does not answer as HTTP"):
        fetch(target_of(url), "/healthz")


@pytest.mark.parametrize(
    ("status", "told", "kind", "why"),
    [
        (401, None, Uninvited, "another token"),
        (403, None, Forbidden, "not for this token"),
        (404, None, BadRequest, "has no /v1/x"),
        (405, {"detail": "no"}, BadRequest, "has no /v1/x"),
        (400, {"error": "too long"}, BadRequest, "HTTP 400.: too long"),
        (503, {"detail": "draining"}, Unavailable, "HTTP 503: draining"),
        (500, {}, Unavailable, "HTTP 500$"),
    ],
)
def test_a_status_becomes_an_error(status, told, kind, why):
    error = refusal(status, "/v1/x?limit=1", told)
    assert type(error) is kind
    with pytest.raises(kind, match=why):
        raise error


def test_names_are_spelled_for_a_path():
    assert spelled("a/b c?é") == "a%2Fb%20c%3F%C3%A9"
    with pytest.raises(BadRequest, match="cannot be written in UTF-8"):
        spelled("\udcff")


def test_who_asks_under_tls_is_not_answered_without(urls):
    with pytest.raises(Unavailable, match="does not answer"):
        fetch(target_of(urls.http.replace("http://", "https://")), "/healthz")
