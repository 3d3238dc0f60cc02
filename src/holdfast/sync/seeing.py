# Made from aio/seeing.py by tools/faces.py: change that one, and run `python -m tools.faces`.

"""Looking into servers: who holds what, who waits for whom, what happens to keys; and taking a lock away from others.

Nothing here takes a lock, and how it is shown to people is the command line's affair.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from holdfast.client.asks import LOCK, Query
from holdfast.client.core import Asking
from holdfast.client.options import check_key
from holdfast.client.url import shard_of
from holdfast.errors import BadPeer, Closed
from holdfast.sync.server import Server
from holdfast.sync.waiting import Channel

SECOND: Final = 1_000_000_000
# How many keys one answer shows.
PAGE: Final = 1000


class Seeing:
    """The part of a client that looks, at all of its servers."""

    _servers: list[Server]
    _watching: set[Channel]

    def _server_of(self, key: str) -> Server:
        return self._servers[shard_of(check_key(key), self._servers)]

    def keys(self, prefix: str = "", *, kind: str | None = None, held: bool | None = None) -> Iterator[dict[str, Any]]:
        """Go through the keys that begin so: who holds each, and how many wait. `held`: only those, or only others."""
        for server in self._servers:
            after: str | None = None
            while True:
                fields = {"prefix": prefix, "kind": kind, "held": held, "after": after, "count": PAGE}
                seen = _ask(server, "look", fields)
                views: list[dict[str, Any]] = seen["keys"]
                yield from views
                after = seen.get("next")
                if after is None:
                    break

    def show(self, key: str, *, kind: str = LOCK) -> dict[str, Any]:
        """Look at one key: who holds it, and who waits in which order."""
        seen = _ask(self._server_of(key), "look", {"key": key, "kind": kind})
        nobody: dict[str, Any] = {"key": key, "kind": kind, "waiting": 0, "held": 0, "holders": [], "queue": []}
        return seen["keys"][0] if seen["keys"] else nobody

    def explain(self, key: str, *, kind: str = LOCK) -> dict[str, Any]:
        """Tell why a key is not to be had: who is in the way, what those wait for, and whether that is a circle."""
        seen = _ask(self._server_of(key), "explain", {"key": key, "kind": kind})
        explanation: dict[str, Any] = seen["explanation"]
        return explanation

    def deadlocks(self) -> list[list[dict[str, Any]]]:
        """List the circles of callers that wait for each other; of each, who waits for which key behind whom."""
        found: list[list[dict[str, Any]]] = []
        for server in self._servers:
            found += (_ask(server, "deadlocks"))["cycles"]
        return found

    def watch(
        self, *, key: str | None = None, prefix: str = "", kind: str | None = None, deadlocks: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Go through what happens to keys from now on, as it happens, without an end.

        {"event": "missed"} comes among the events where some may have been lost, after a broken connection.
        """
        servers = self._servers if key is None or deadlocks else [self._server_of(key)]
        fields: dict[str, Any] = {"key": key} if key is not None else {"prefix": prefix}
        fields = {"deadlocks": True} if deadlocks else fields | ({} if kind is None else {"kind": kind})
        for server in servers:
            server.needs_native("watch")
            _ask(server, "ping")  # whoever is refused hears of it here
        channel = Channel(servers[0].place)
        watchers = [server.watch(fields, channel.put) for server in servers]
        self._watching.add(channel)
        try:
            while True:
                event = channel.get()
                if event is channel:
                    raise Closed("the client is closed")
                yield {"event": "missed"} if event is None else event
        finally:
            self._watching.discard(channel)
            for server, watcher in zip(servers, watchers, strict=True):
                server.unwatch(watcher)

    def break_(self, key: str, *, reason: str, kind: str = LOCK, token: str | None = None) -> int:
        """Take a lock away from all who hold it, or from the one with this token; say from how many.

        They hear of it, and of the reason, as far as they can be reached; it does not stop what they do.
        """
        fields = {"key": key, "reason": reason, "kind": kind, "token": token}
        return int((_ask(self._server_of(key), "break", fields))["ended"])

    def stats(self) -> dict[str, dict[str, Any]]:
        """Tell what each server counts, by its address."""
        told = {}
        for server in self._servers:
            stats = (_ask(server, "stats"))["stats"]
            told[str(server.target.address)] = _object(stats) if isinstance(stats, bytes) else stats
        return told

    def ping(self) -> dict[str, float]:
        """Tell after how many seconds each server answers, by its address; the first answer includes to connect."""
        took = {}
        for server in self._servers:
            began = server.clock()
            _ask(server, "ping")
            took[str(server.target.address)] = (server.clock() - began) / SECOND
        return took


def _ask(server: Server, op: str, fields: dict[str, Any] | None = None) -> dict[str, Any]:
    asking = Asking(server.rules, Query(op, fields or {}))
    if op not in ("ping", "stats"):
        server.needs_native(op)
    server.run(asking)
    return asking.fields


def _object(text: bytes) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise BadPeer(f"the server told of itself what is no JSON object: {text[:80]!r}")
    return told
