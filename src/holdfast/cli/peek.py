"""What servers that do not speak our own protocol tell about their keys: dflockd by `stats`, LockServer by its list.

It is brought into the form in which our own servers tell it; what they do not tell is left out.
"""

import http.client
import json
import time
from collections.abc import Iterable, Iterator
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

from holdfast.cli.calling import url_of
from holdfast.client.url import Target, targets_of
from holdfast.errors import BadPeer, BadRequest, Forbidden, HoldfastError, Unavailable

TIMEOUT_S = 10.0
BODY_BYTES_MAX = 64 * 1024 * 1024
PAGE = 1000


def targets(server: str | None) -> list[Target]:
    """Name the servers that are meant."""
    return targets_of(url_of(server), auth=None, tls=None)


def views_of_stats(told: Iterable[dict[str, Any]], prefix: str, kind: str | None) -> list[dict[str, Any]]:
    """Read what servers answer to `stats`."""
    found = [view for figures in told for view in _views_of_stats(figures)]
    return [view for view in found if view["key"].startswith(prefix) and kind in (None, view["kind"])]


def _views_of_stats(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for lock in told.get("locks", ()):
        owner, left_ms = lock["owner_conn_id"], int(lock["lease_expires_in_s"] * 1000)
        holder = {"mode": "EX", "units": 1, "left_ms": left_ms} | ({"owner": f"connection {owner}"} if owner else {})
        # Who holds without a connection has no number, and a lease all the same.
        held = [holder] if owner or left_ms else []
        yield {"key": lock["key"], "kind": "lock", "waiting": lock["waiters"], "holders": held}
    for semaphore in told.get("semaphores", ()):
        # Only their number is told.
        seats = [{"units": 1}] * semaphore["holders"]
        view = {"key": semaphore["key"], "kind": "semaphore", "limit": semaphore["limit"]}
        yield view | {"waiting": semaphore["waiters"], "holders": seats}
    for kind, name in (("lock", "idle_locks"), ("semaphore", "idle_semaphores")):
        for idle in told.get(name, ()):
            yield {"key": idle["key"], "kind": kind, "waiting": 0, "holders": []}


def leases(server: str | None, prefix: str, kind: str | None) -> list[dict[str, Any]]:
    """Ask for the locks that begin so."""
    return [] if kind == "semaphore" else [view for target in targets(server) for view in _leases(target, prefix)]


def _leases(target: Target, prefix: str) -> Iterator[dict[str, Any]]:
    """Walk through the list of locks, a page at a time."""
    cursor = ""
    while True:
        path = f"/v1/locks?limit={PAGE}&prefix={quote(prefix, safe='')}"
        page, now_ms = fetch(target, f"{path}&cursor={quote(cursor, safe='')}" if cursor else path)
        for lock in page.get("locks", ()):
            yield view_of_lease(lock, now_ms)
        cursor = page.get("next_cursor", "")
        if not cursor:
            return


def view_of_lease(lock: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Read one lock of that list; its times are instants of the server's clock, as is `now_ms`."""
    holders = []
    if lock.get("held"):
        left_ms = max(0, lock["lease_expiry_ms"] - now_ms)
        holder = {"owner": lock["owner_id"], "mode": "EX", "units": 1, "left_ms": left_ms}
        holders = [holder | {"fence": lock["fencing_token"]}]
    return {"key": lock["lock_name"], "kind": "lock", "waiting": lock.get("waiters", 0), "holders": holders}


def fetch(target: Target, path: str, *, timeout_s: float = TIMEOUT_S) -> tuple[dict[str, Any], int]:
    """Get JSON; tells also what time it is, by the server's own clock where it says so."""
    headers = {} if target.auth is None else {"Authorization": f"Bearer {target.auth}"}
    connection = _connection(target, timeout_s)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read(BODY_BYTES_MAX)
    except http.client.HTTPException as error:
        raise BadPeer(f"{target.address} does not answer as HTTP: {error or type(error).__name__}") from None
    except OSError as error:
        raise Unavailable(f"{target.address} does not answer: {error or type(error).__name__}") from None
    finally:
        connection.close()
    told = read_json(body)
    if answer.status != http.client.OK:
        raise refusal(answer.status, path, told)
    if told is None:
        raise BadPeer(f"{target.address} answers {path} with something that is no JSON")
    return told, now_of(answer.headers.get("Date"))


def _connection(target: Target, timeout_s: float) -> http.client.HTTPConnection:
    address = target.address
    if address.tls is None:
        return http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)
    return http.client.HTTPSConnection(address.host, address.port, timeout=timeout_s, context=address.tls)


def read_json(body: bytes) -> dict[str, Any] | None:
    """Read an object; anything else is None."""
    try:
        told = json.loads(body)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def now_of(date: str | None) -> int:
    """Read a header that tells the time, in milliseconds; it has whole seconds. Without one, our own clock must do."""
    try:
        return int(parsedate_to_datetime(date or "").timestamp() * 1000)
    except ValueError:
        return time.time_ns() // 1_000_000


def refusal(status: int, path: str, told: dict[str, Any] | None) -> HoldfastError:
    """Make an error of a status, and of what was said with it."""
    if status in (401, 403):
        return Forbidden(f"{path} is not for us (HTTP {status}); a token goes into the URL, as in http://:TOKEN@host")
    if status in (404, 405):
        return BadRequest(f"this server has no {path.partition('?')[0]} (HTTP {status})")
    why = f": {told['detail']}" if told is not None and "detail" in told else ""
    return Unavailable(f"{path} was answered with HTTP {status}{why}")
