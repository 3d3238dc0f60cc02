"""What servers that do not speak our own protocol tell about their keys: dflockd by `stats`, LockServer by its list.

It is brought into the form in which our own servers tell it; what they do not tell is left out.
"""

import http.client
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

from holdfast.cli.calling import url_of
from holdfast.client.url import Target, shard_of, targets_of
from holdfast.errors import BadPeer, BadRequest, Forbidden, HoldfastError, Unavailable

TIMEOUT_S = 10.0
BODY_BYTES_MAX = 64 * 1024 * 1024
PAGE = 1000
DATE_AGE_MS_MAX = 1999
UNDERSTOOD_NOT = "tells of its keys in a way that is not understood"


def targets(server: str | None) -> list[Target]:
    """Name the servers that are meant."""
    return targets_of(url_of(server), auth=None, tls=None)


def views_of_stats(told: Iterable[dict[str, Any]], prefix: str, kind: str | None) -> list[dict[str, Any]]:
    """Read what servers answer to `stats`."""
    with reading("the server"):
        found = sorted((view for figures in told for view in _views_of_stats(figures)), key=lambda view: view["key"])
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


class Uninvited(Forbidden):
    """No token, or one that is nobody's; one that is somebody's may still not be good for everything."""


@contextmanager
def reading(who: str) -> Iterator[None]:
    """Say who it is that tells something in another form than those whom we know."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise BadPeer(f"{who} {UNDERSTOOD_NOT}: {error!r}") from error


def views_over_http(server: str | None, prefix: str, kind: str | None) -> list[dict[str, Any]]:
    """Ask for what begins so: for locks by their list, for semaphores by the numbers that a server of ours tells."""
    found: list[dict[str, Any]] = []
    for target in targets(server):
        found += [] if kind == "semaphore" else leases(target, prefix)
        found += [] if kind == "lock" else semaphores(target, prefix, certain=kind is not None)
    return found


def leases(target: Target, prefix: str) -> list[dict[str, Any]]:
    """Walk through the list of locks, a page at a time."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        path = f"/v1/locks?limit={PAGE}&prefix={spelled(prefix)}"
        page, now_ms = fetch(target, f"{path}&cursor={spelled(cursor)}" if cursor else path)
        with reading(str(target.address)):
            found += [view_of_lease(lock, now_ms) for lock in page.get("locks", ())]
            cursor = str(page.get("next_cursor", ""))
        if not cursor:
            return found


def semaphores(target: Target, prefix: str, *, certain: bool) -> list[dict[str, Any]]:
    """Ask for semaphores, which LockServer has none of. Who may not know is told so if they are all that is wanted."""
    try:
        told, _ = fetch(target, "/v1/stats")
    except BadRequest:
        return []
    except Forbidden:
        if certain:
            raise
        return []
    return views_of_stats([told], prefix, "semaphore")


def view_over_http(server: str | None, key: str, kind: str) -> dict[str, Any] | None:
    """Ask for one key. Where there is no list of locks, nobody tells how many wait for one."""
    path = f"/v1/locks?limit=1&prefix={spelled(key)}"
    among = targets(server)
    target = among[shard_of(key, among)]
    if kind == "semaphore":
        return next((view for view in semaphores(target, key, certain=True) if view["key"] == key), None)
    try:
        page, now_ms = fetch(target, path)  # in which the shortest of those that begin so comes first
    except BadRequest:
        lock, now_ms = fetch(target, f"/v1/locks/{spelled(key)}")
        page = {"locks": [lock]}
    with reading(str(target.address)):
        return next((view_of_lease(lock, now_ms) for lock in page.get("locks", ()) if lock["lock_name"] == key), None)


def spelled(name: str) -> str:
    """Spell a name for a path."""
    try:
        return quote(name, safe="")
    except UnicodeError:
        raise BadRequest(f"{name!r} cannot be written in UTF-8") from None


def view_of_lease(lock: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Read one lock of that list; its times are instants of the server's clock, as is `now_ms`."""
    holders = []
    if lock.get("held"):
        left_ms = max(0, lock["lease_expiry_ms"] - now_ms)
        holder = {"owner": lock["owner_id"], "mode": "EX", "units": 1, "left_ms": left_ms}
        holders = [holder | {"fence": lock["fencing_token"]}]
    waiting = {"waiting": lock["waiters"]} if "waiters" in lock else {}
    return {"key": lock["lock_name"], "kind": "lock", **waiting, "holders": holders}


def fetch(target: Target, path: str, *, timeout_s: float = TIMEOUT_S) -> tuple[dict[str, Any], int]:
    """Get JSON; tells also what time it is, by the server's own clock where it says so."""
    headers = {} if target.auth is None else {"Authorization": f"Bearer {target.auth}".encode()}
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
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def now_of(date: str | None) -> int:
    """Read a header that tells the time, in milliseconds; without one, our own clock must do.

    It has whole seconds, and may have been spelled a second ago: what has passed since then our own clock says, as far
    as it can be believed.
    """
    ours_ms = time.time_ns() // 1_000_000
    try:
        began_ms = int(parsedate_to_datetime(date or "").timestamp() * 1000)
    except ValueError:
        return ours_ms
    return min(max(ours_ms, began_ms), began_ms + DATE_AGE_MS_MAX)


def refusal(status: int, path: str, told: dict[str, Any] | None) -> HoldfastError:
    """Make an error of a status, and of what was said with it."""
    bare = path.partition("?")[0]
    if status == http.client.UNAUTHORIZED:
        return Uninvited(f"{bare} wants another token (HTTP {status}); it goes into the URL, as in http://:TOKEN@host")
    if status == http.client.FORBIDDEN:
        return Forbidden(f"{bare} is not for this token (HTTP {status})")
    # LockServer sends whoever asks for a list somewhere else, where there is none either.
    if status in (301, 404, 405):
        return BadRequest(f"this server has no {bare} (HTTP {status})")
    told = told or {}
    why = f": {told.get('detail', told.get('error'))}" if told.keys() & {"detail", "error"} else ""
    if status == http.client.BAD_REQUEST:
        return BadRequest(f"{bare} was refused (HTTP {status}){why}")
    return Unavailable(f"{bare} was answered with HTTP {status}{why}")
