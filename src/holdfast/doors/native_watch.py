"""Who watches which keys, and who wants to hear of circles: connections of the native door that are told unasked.

A hint is all that they get; what is true of a key, they ask. Nothing is kept for whoever is not connected.
"""

from collections.abc import Callable
from typing import Final

from holdfast.doors import native_graph as show
from holdfast.doors.native_connection import NativeConnection
from holdfast.engine.graph import Cycle
from holdfast.ports import Clock
from holdfast.wire import native as wire
from holdfast.wire import native_answers as answers
from holdfast.wire import native_meaning as meaning
from holdfast.words import Reason

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
    """All that watch. `listen` is called with whether anybody watches keys, whenever that changes."""

    def __init__(self, listen: Callable[[bool], None], clock: Clock) -> None:
        self._listen = listen
        self._clock = clock
        self._listening = False
        self._watches: dict[NativeConnection, Watch] = {}
        self._cycles: list[Cycle] = []  # that there are now

    def watch(self, connection: NativeConnection, ask: wire.Watch) -> None:
        """Take note of what a connection wants to hear; raises BadRequest."""
        keys, prefixes = meaning.watched(ask)
        watch = self._watches.get(connection, Watch())
        if len(watch.keys | keys) + len(watch.prefixes | prefixes) > WATCHES_MAX:
            connection.say(answers.refusal(ask.id, "too_many", f"a connection watches at most {WATCHES_MAX} keys"))
            return
        watch.keys |= keys
        watch.prefixes |= prefixes
        self._watches[connection] = watch
        self._listen_if_needed()
        connection.say(answers.answer(ask.id, b"ok"))
        if ask.deadlocks and not watch.deadlocks:
            watch.deadlocks = True
            for cycle in self._cycles:
                connection.say(self._spell(cycle))

    def forget(self, connection: NativeConnection) -> None:
        """Tell a connection nothing more."""
        if self._watches.pop(connection, None) is not None:
            self._listen_if_needed()

    def _listen_if_needed(self) -> None:
        needed = any(watch.keys or watch.prefixes for watch in self._watches.values())
        if needed is not self._listening:
            self._listening = needed
            self._listen(needed)

    def changed(self, key: bytes, what: str, reason: Reason | None) -> None:
        """Tell whoever watches a key that something has happened to it."""
        line = b""
        for connection, watch in list(self._watches.items()):
            if watch.covers(key):
                line = line or answers.changed(key, what, reason)
                connection.say(line)

    def deadlocked(self, cycles: list[Cycle], fresh: list[Cycle]) -> None:
        """Tell whoever wants to hear of circles of those that were not there before."""
        self._cycles = cycles
        for cycle in fresh:
            line = self._spell(cycle)
            for connection, watch in list(self._watches.items()):
                if watch.deadlocks:
                    connection.say(line)

    def _spell(self, cycle: Cycle) -> bytes:
        return answers.event(b"deadlock", {"cycle": show.cycle(cycle, self._clock())})
