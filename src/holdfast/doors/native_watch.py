"""Who watches which keys, and who wants to hear of circles: connections of the native door that are told unasked.

A hint is all that they get; what is true of a key, they ask. Nothing is kept for whoever is not connected.
"""

from collections.abc import Callable
from typing import Final

from holdfast.doors.native_connection import NativeConnection
from holdfast.wire import native as wire
from holdfast.wire import native_answers as answers
from holdfast.wire import native_meaning as meaning

WATCHES_MAX: Final = 1000


class Watch:
    """What one connection watches."""

    __slots__ = ("deadlocks", "keys", "prefixes")

    def __init__(self) -> None:
        self.keys: set[bytes] = set()
        self.prefixes: set[bytes] = set()
        self.deadlocks = False

    def covers(self, key: bytes) -> bool:
        return key in self.keys or any(key.startswith(prefix) for prefix in self.prefixes)


class Watches:
    """All that watch. `listen` is called with whether there is anybody, whenever that changes."""

    def __init__(self, listen: Callable[[bool], None]) -> None:
        self._listen = listen
        self._watches: dict[NativeConnection, Watch] = {}

    @property
    def want_deadlocks(self) -> bool:
        return any(watch.deadlocks for watch in self._watches.values())

    def watch(self, connection: NativeConnection, ask: wire.Watch) -> None:
        """Take note of what a connection wants to hear; raises BadRequest."""
        keys, prefixes = meaning.watched(ask)
        watch = self._watches.get(connection, Watch())
        if len(watch.keys | keys) + len(watch.prefixes | prefixes) > WATCHES_MAX:
            connection.say(answers.refusal(ask.id, "too_many", f"a connection watches at most {WATCHES_MAX} keys"))
            return
        watch.keys |= keys
        watch.prefixes |= prefixes
        watch.deadlocks = watch.deadlocks or ask.deadlocks
        if not self._watches:
            self._listen(True)
        self._watches[connection] = watch
        connection.say(answers.answer(ask.id, b"ok"))

    def forget(self, connection: NativeConnection) -> None:
        """Tell a connection nothing more."""
        if self._watches.pop(connection, None) is not None and not self._watches:
            self._listen(False)

    def changed(self, key: bytes, what: str) -> None:
        """Tell whoever watches a key that something has happened to it."""
        line = b""
        for connection, watch in self._watches.items():
            if watch.covers(key):
                line = line or answers.changed(key, what)
                connection.say(line)

    def deadlocked(self, cycle: list[dict[str, object]]) -> None:
        """Tell whoever wants to hear of a circle."""
        line = answers.event(b"deadlock", {"cycle": cycle})
        for connection, watch in self._watches.items():
            if watch.deadlocks:
                connection.say(line)
