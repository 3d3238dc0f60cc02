"""The native door: a dialect of the line door, in which sessions outlive their connections.

It keeps the sessions and their time, and sees to it that they hear of deadlocks, whichever doors those go through.
What a session asks for is served in native_session.py.
"""

import asyncio
import hmac
from collections.abc import Callable
from typing import Final

from holdfast import __version__
from holdfast.desk import Desk
from holdfast.doors.dialect import Dialect, Greeting
from holdfast.doors.native_changes import Changes
from holdfast.doors.native_connection import NativeConnection, NativeSettings
from holdfast.doors.native_session import NativeSession
from holdfast.doors.native_watch import Watches
from holdfast.doors.wakes import Wakes
from holdfast.doors.whois import introduce
from holdfast.observe.deadlocks import Deadlocks
from holdfast.observe.logs import get_logger
from holdfast.ports import Alarm, Clock, Dice
from holdfast.wire import native as wire
from holdfast.wire import native_answers as answers
from holdfast.words import FOREVER, Census, Look, View

# The first part of the name of a session finds it; the rest is what nobody else can know.
PUBLIC_DIGITS: Final = 16

# Calls somebody when all that has arrived together has been taken in.
Soon = Callable[[Callable[[], None]], object]

log = get_logger(door="native")


class NativeDoor(Dialect):
    """Makes the connections of this dialect, and keeps the sessions that they belong to."""

    def __init__(
        self,
        desk: Desk,
        clock: Clock,
        alarm: Alarm,
        dice: Dice,
        settings: NativeSettings,
        soon: Soon | None = None,  # None: answers are written as they come
    ) -> None:
        self.desk = desk
        self.clock = clock
        self.settings = settings
        self.marks: dict[bytes, str] = {}
        self.watches = Watches(self._listen, clock)
        self.deadlocks = Deadlocks(self._look, clock, alarm)
        self.deadlocks.heard = self.watches.deadlocked
        desk.queued = self.deadlocks.somebody_waits
        self.sessions: dict[str, NativeSession] = {}  # by the public part of their names
        self.connections: dict[int, NativeConnection] = {}
        self._dice = dice
        self._soon = soon
        self._wakes = Wakes(alarm)
        self._connections_so_far = 0

    # --- who comes and goes ---

    def greet(self, text: bytes) -> "NativeGreeting":
        return NativeGreeting(self, text)

    def find(self, name: str | None) -> NativeSession | None:
        """Find a session by its name. It is a secret, so that comparing must not tell how much of it is right."""
        if name is None or not name.isascii():
            return None
        session = self.sessions.get(name[:PUBLIC_DIGITS])
        return session if session is not None and hmac.compare_digest(session.name, name) else None

    def is_full(self) -> bool:
        return 0 < self.settings.sessions_max <= len(self.sessions)

    def begin(self, hello: wire.Hello) -> tuple[NativeSession, bool]:
        """Find the session that is asked for, or open one; say whether it was there."""
        session = self.find(hello.join)
        resumed = session is not None
        if session is None:
            session = NativeSession(self, self._dice.roll(wire.SESSION_DIGITS // 2).hex())
            self.sessions[session.name[:PUBLIC_DIGITS]] = session
        if hello.on_disconnect is not None:
            session.releases = hello.on_disconnect == "release"
        return session, resumed

    def connect(
        self, hello: wire.Hello, transport: asyncio.Transport, said: bytes, rest: bytes, left: Callable[[], None]
    ) -> NativeConnection:
        """Go on with a connection that has said hello."""
        session, resumed = self.begin(hello)
        self._connections_so_far += 1
        number = self._connections_so_far

        def gone() -> None:
            del self.connections[number]
            left()

        connection = NativeConnection(number, session, hello, self.settings, self.clock, self._wakes, self._soon, gone)
        self.connections[number] = connection
        session.attach(connection)
        grace_ns, lease_ns = self.settings.session_grace_ns, self.settings.lease_default_ns
        welcome = answers.greet(
            f"holdfast {__version__}", session.name, resumed=resumed, grace_ns=grace_ns, lease_ns=lease_ns
        )
        connection.take_over(transport, said + welcome, rest)
        return connection

    def orphaned(self, session: NativeSession, now: int) -> None:
        """The last connection of a session is gone; there is some time to come back."""
        self._wakes.watch(session, now + self.settings.session_grace_ns)

    def over(self, session: NativeSession) -> None:
        session.wake = FOREVER
        del self.sessions[session.name[:PUBLIC_DIGITS]]

    def _listen(self, anybody: bool) -> None:
        """Have the desk tell what happens to keys, while anybody watches some."""
        self.desk.observer = Changes(self.watches.changed) if anybody else None

    def _look(self, then: Callable[[list[View]], None]) -> None:
        """Show all keys that a deadlock could go over."""

        def seen(views: list[View]) -> None:
            then(introduce(self.desk, views))

        self.desk.look(Look(deep=True, reach=True), seen, self.clock())

    # --- the service ---

    def stats(self, census: Census) -> dict[str, object]:
        """Tell what is counted here and elsewhere."""
        return {
            "server": f"holdfast {__version__}",
            "sessions": len(self.sessions),
            "connections": self.desk.connections - len(self.sessions) + len(self.connections),
            "keys": census.keys,
            "held": census.held,
            "waiting": census.waiting,
            "seats_held": census.seats_held,
            "seats_waiting": census.seats_waiting,
            "grants": self.desk.grants,
            "expired": self.desk.expired,
            "deadlocks": len(self.deadlocks.cycles),
            "deadlocks_found": self.deadlocks.found,
            "draining": self.desk.draining,
        }

    def drain(self, left_ns: int) -> None:
        """Say that the server is about to stop; the desk is told next, and sends home whoever waits."""
        for session in list(self.sessions.values()):
            session.drain(left_ns)

    def close(self) -> None:
        """Cut whoever is still here, in the order in which they came."""
        for connection in list(self.connections.values()):
            connection.abort()

    def next_deadline(self) -> int:
        return min(self._wakes.next_deadline(), self.deadlocks.next_deadline())

    def tick(self, now: int) -> None:
        """End sessions that nobody has come back for, close connections that took too long, look for deadlocks."""
        self._wakes.tick(now)
        self.deadlocks.tick(now)


class NativeGreeting(Greeting):
    """A `hello`, read or not."""

    def __init__(self, door: NativeDoor, text: bytes) -> None:
        self._door = door
        self._bad: str | None = None
        self._connection: NativeConnection
        self._hello = wire.Hello(version=wire.VERSION)
        try:
            self._hello = wire.read_hello(text)
        except wire.BadRequest as bad:
            self._bad = bad.detail
        super().__init__((self._hello.auth or "").encode())

    def refusal(self) -> bytes:
        door = self._door
        if self._bad is not None:
            log.debug("bad hello", detail=self._bad)
            return answers.turn_away("bad_request", self._bad)
        if door.desk.draining:
            return answers.turn_away("closed", "the server is about to stop")
        if door.is_full() and door.find(self._hello.join) is None:
            sessions_max = door.settings.sessions_max
            return answers.turn_away("too_many", f"{sessions_max} sessions are open (connections_max)")
        return b""

    def take_over(self, transport: asyncio.Transport, said: bytes, rest: bytes, left: Callable[[], None]) -> None:
        self._connection = self._door.connect(self._hello, transport, said, rest, left)

    def hear_end(self) -> None:
        if not self._connection.eof_received():
            self._connection.close()
