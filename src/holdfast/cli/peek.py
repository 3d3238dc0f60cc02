"""What servers that do not speak our own protocol tell about their keys: dflockd by `stats`, LockServer by its list.

It is brought into the form in which our own servers tell it; what they do not tell is left out.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from holdfast.cli.calling import opened, scheme_of, url_of
from holdfast.errors import BadPeer, BadRequest, Forbidden, Unavailable

TIMEOUT_S = 10.0
BODY_BYTES_MAX = 64 * 1024 * 1024
PAGE = 1000


def views_elsewhere(server: str | None, prefix: str, kind: str | None) -> list[dict[str, Any]]:
    """Ask for the keys that begin so."""
    url = url_of(server)
    if scheme_of(url) == "dflock":
        with opened(server) as client:
            found = [view for told in client.stats().values() for view in views_of_stats(told)]
        found = [view for view in found if view["key"].startswith(prefix)]
    else:
        found = [view for one in url.split(",") for view in _leases(one.strip(), prefix)]
    return [view for view in found if kind in (None, view["kind"])]


def views_of_stats(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Read the answer to `stats`."""
    for lock in told.get("locks", ()):
        holder = {"owner": f"connection {lock['owner_conn_id']}", "mode": "EX", "units": 1}
        holder["left_ms"] = int(lock["lease_expires_in_s"] * 1000)
        held = [holder] if lock["owner_conn_id"] else []
        yield {"key": lock["key"], "kind": "lock", "waiting": lock["waiters"], "holders": held}
    for semaphore in told.get("semaphores", ()):
        # Only their number is told.
        seats = [{"units": 1}] * semaphore["holders"]
        view = {"key": semaphore["key"], "kind": "semaphore", "limit": semaphore["limit"]}
        yield view | {"waiting": semaphore["waiters"], "holders": seats}
    for kind, name in (("lock", "idle_locks"), ("semaphore", "idle_semaphores")):
        for idle in told.get(name, ()):
            yield {"key": idle["key"], "kind": kind, "waiting": 0, "holders": []}


def _leases(url: str, prefix: str) -> Iterator[dict[str, Any]]:
    """Walk through the list of locks, a page at a time."""
    cursor = ""
    while True:
        wish = f"/v1/locks?limit={PAGE}&prefix={quote(prefix, safe='')}" + (
            f"&cursor={quote(cursor)}" if cursor else ""
        )
        page, now_ms = fetch(url, wish)
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


def fetch(url: str, path: str) -> tuple[dict[str, Any], int]:
    """Get JSON; tells also what time it is, by the server's own clock where it says so."""
    parts = urlsplit(url)
    request = urllib.request.Request(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}")
    if parts.password:
        request.add_header("Authorization", f"Bearer {unquote(parts.password)}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            body = answer.read(BODY_BYTES_MAX)
            date = answer.headers.get("Date")
    except urllib.error.HTTPError as error:
        with error:
            raise refusal(error.code, path) from None
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise Unavailable(f"{parts.hostname} does not answer: {getattr(error, 'reason', error)}") from None
    try:
        told = json.loads(body)
    except ValueError:
        raise BadPeer(f"{parts.hostname} answers {path} with something that is no JSON") from None
    # The header has whole seconds, and the server may have been anywhere within that one.
    now_ms = int(parsedate_to_datetime(date).timestamp() * 1000) if date else time.time_ns() // 1_000_000
    return told, now_ms


def refusal(status: int, path: str) -> Exception:
    """Make an error of a status."""
    if status in (401, 403):
        return Forbidden(f"{path} is not for us (HTTP {status}); a token goes into the URL, as in http://:TOKEN@host")
    if status in (404, 405):
        return BadRequest(f"this server has no {path.partition('?')[0]}: it cannot list its locks (HTTP {status})")
    return Unavailable(f"{path} was answered with HTTP {status}")
