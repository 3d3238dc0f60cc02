"""What a caller who asks for stats must be told of the keys in the book, to the last digit.

Field by field as the protocol has them; the order of the keys is left open.
"""

import json

from sim.checkers.book import Book, Key

SECOND = 1_000_000_000

Row = dict[str, str | int | float]


def wrong_in_stats(text: bytes, book: Book, connections: int, sessions: dict[int, int], now: int) -> str | None:
    """Say what is wrong with an answer; `sessions` has the numbers of the connections."""
    told = json.loads(text)
    _resolve_vague(told, book, now)
    due = _spell(book, sessions, now)
    if list(told) != ["connections", *due]:
        return f"of {list(told)}"
    if told["connections"] != connections:
        return f"of {told['connections']} connections instead of {connections}"
    for kind, rows in due.items():
        if sorted(map(str, told[kind])) != sorted(map(str, rows)):
            return f"of {kind} {told[kind]} instead of {rows}"
    return None


def _resolve_vague(told: dict[str, list[Row]], book: Book, now: int) -> None:
    """Where it was not known whether the server has forgotten a key, what it tells settles that."""
    rows = [(kind, row) for kind in ("locks", "semaphores") for row in told.get(f"idle_{kind}", [])]
    for key in book.keys.values():
        sure = _kind(key), _idle_row(key, now)
        if key.is_idle and not key.vague and sure in rows:
            rows.remove(sure)
    for key in [key for key in book.keys.values() if key.vague]:
        found = next(((kind, row) for kind, row in rows if (kind, row["key"]) == (_kind(key), key.title)), None)
        if found is None:
            book.drop(key)
            continue
        rows.remove(found)
        key.touched = now - round(float(found[1]["idle_s"]) * SECOND)
        key.vague = False


def _kind(key: Key) -> str:
    """Say where a key is listed: the number of seats decides, not the namespace."""
    return "locks" if key.limit == 1 else "semaphores"


def _idle_row(key: Key, now: int) -> Row:
    return {"key": key.title, "idle_s": (now - key.touched) / SECOND}


def _spell(book: Book, sessions: dict[int, int], now: int) -> dict[str, list[Row]]:
    lists: dict[str, list[Row]] = {"locks": [], "semaphores": [], "idle_locks": [], "idle_semaphores": []}
    for key in book.keys.values():
        kind, name = _kind(key), key.title
        if key.is_idle:
            lists[f"idle_{kind}"].append(_idle_row(key, now))
        elif key.limit == 1:
            lists[kind].append({"key": name, **_owner(key, sessions, now), "waiters": len(key.queue)})
        else:
            row: Row = {"key": name, "limit": key.limit, "holders": len(key.held), "waiters": len(key.queue)}
            lists[kind].append(row)
    return lists


def _owner(key: Key, sessions: dict[int, int], now: int) -> Row:
    if not key.held:
        return {"owner_conn_id": 0, "lease_expires_in_s": 0}
    holder = key.held[0]
    return {"owner_conn_id": sessions[holder.peer], "lease_expires_in_s": max(0, holder.due - now) / SECOND}
