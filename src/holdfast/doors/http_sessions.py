"""The session API: sessions that callers open over HTTP, what each call comes to, and when a silent session ends.

What a path or a body means is in wire/dflock_http.py, what is granted is decided below the desk.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from holdfast.desk import Desk
from holdfast.doors.asker import Asker, Outcome
from holdfast.doors.rights import ALLOWED, UNAUTHORIZED, Right, Rights
from holdfast.doors.whois import about_peer
from holdfast.observe.logs import get_logger
from holdfast.ports import Clock, Dice
from holdfast.wire import dflock_http as wire
from holdfast.wire import dflock_openapi
from holdfast.wire.dflock_http import Command, Refusal, Route, Verb
from holdfast.wire.http import HttpReply, HttpRequest
from holdfast.wire.line import stats_json
from holdfast.words import SECOND, Look

SESSION_ID_BYTES: Final = 16
SWEEP_INTERVAL_NS_MAX: Final = 30 * SECOND
AUTH_COOL_DOWN_NS: Final = SECOND // 10

log = get_logger(door="http")

# Lets nanoseconds pass.
Pause = Callable[[int], Awaitable[None]]


async def pause(duration_ns: int) -> None:
    await asyncio.sleep(duration_ns / SECOND)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsSettings:
    """What an operator may decide about sessions."""

    idle_ns: int  # 0: a session may be silent for ever
    sessions_max: int  # 0: no limit
    sessions_per_address_max: int  # 0: no limit
    lease_default_ns: int


class HttpSession:
    """One caller, who comes back with an id."""

    __slots__ = ("address", "asker", "calls", "id", "over", "seen", "turn")

    def __init__(self, id_: str, address: str, asker: Asker, now: int) -> None:
        self.id = id_
        self.address = address
        self.asker = asker
        self.turn = asyncio.Lock()  # one call about a key at a time, in the order in which they came
        self.calls = 0  # that are served or wait for their turn
        self.seen = now
        self.over = False


class SessionsApi:
    """Serves the session API. `visitor` looks at things for those who have no session."""

    def __init__(
        self,
        desk: Desk,
        clock: Clock,
        dice: Dice,
        settings: SessionsSettings,
        *,
        visitor: Asker,
        rights: Rights,
        version: str,
        pause: Pause = pause,
    ) -> None:
        self._desk = desk
        self._clock = clock
        self._dice = dice
        self._settings = settings
        self._visitor = visitor
        self._rights = rights
        self._pause = pause
        self._codec = wire.Codec(settings.lease_default_ns)
        self._document = HttpReply(
            status=200, body=dflock_openapi.document(version), headers=(dflock_openapi.CACHE_FOR_A_MINUTE,)
        )
        self._sessions: dict[str, HttpSession] = {}
        self._addresses: Counter[str] = Counter()

    @property
    def sessions(self) -> int:
        """Count the sessions."""
        return len(self._sessions)

    async def handle(self, request: HttpRequest) -> HttpReply:
        """Serve one request. If its caller goes away, cancel this: what it waited for is withdrawn."""
        try:
            return await self._serve(request)
        except Refusal as refusal:
            return refusal.reply

    async def _serve(self, request: HttpRequest) -> HttpReply:
        route = wire.route(request)
        if route.verb is Verb.HEALTH:
            return wire.OK
        if route.verb is Verb.READY:
            return wire.NOT_READY if self._desk.draining else wire.OK
        if route.verb is Verb.DOCUMENT:
            return self._document
        await self._check_rights(request, route)
        match route.verb:
            case Verb.OPEN:
                return self._open(request.peer)
            case Verb.CLOSE:
                return self._close(wire.check_session_id(route.name))
            case Verb.PING:
                self._find(wire.check_session_id(route.name))
                return wire.NO_CONTENT
            case Verb.STATS:
                return await self._stats()
            case _:
                return await self._call(request, route)

    async def _check_rights(self, request: HttpRequest, route: Route) -> None:
        status = self._rights.allows(
            request.headers.get("authorization"),
            _right_for(route),
            route.name.decode("utf-8", "surrogateescape"),
        )
        if status == ALLOWED:
            return
        if status == UNAUTHORIZED:
            log.info("authentication failed", peer=request.peer, request_id=request.id)
            await self._pause(AUTH_COOL_DOWN_NS)
            raise Refusal(wire.unauthorized())
        raise Refusal(wire.forbidden())

    # --- sessions ---

    def _open(self, address: str) -> HttpReply:
        settings = self._settings
        if self._desk.draining:
            return wire.draining()
        if settings.sessions_max and len(self._sessions) >= settings.sessions_max:
            return wire.max_sessions()
        if settings.sessions_per_address_max and self._addresses[address] >= settings.sessions_per_address_max:
            return wire.max_sessions_per_ip()
        id_ = self._dice.roll(SESSION_ID_BYTES).hex()
        assert id_ not in self._sessions
        asker = Asker(self._desk, self._clock, about=about_peer("http", address))
        self._sessions[id_] = HttpSession(id_, address, asker, self._clock())
        self._addresses[address] += 1
        return wire.opened(id_, settings.idle_ns)

    def _close(self, id_: str) -> HttpReply:
        session = self._find(id_)
        self._forget(session)
        session.asker.dismiss()
        return wire.NO_CONTENT

    def _find(self, id_: str) -> HttpSession:
        """Look a session up, which is a sign of life of its caller."""
        session = self._sessions.get(id_)
        if session is None:
            raise Refusal(wire.session_gone())
        session.seen = self._clock()
        return session

    def _forget(self, session: HttpSession) -> None:
        session.over = True
        del self._sessions[session.id]
        self._addresses[session.address] -= 1
        if not self._addresses[session.address]:
            del self._addresses[session.address]

    def close_all(self) -> None:
        """End all sessions, as the server stops; what they hold fares as what closed connections hold."""
        for session in list(self._sessions.values()):
            self._forget(session)
            session.asker.close()

    @property
    def sweep_interval_ns(self) -> int:
        """Say how often `sweep` should come; 0 for never."""
        return min(self._settings.idle_ns, SWEEP_INTERVAL_NS_MAX)

    def sweep(self, now: int) -> None:
        """End the sessions whose callers have been silent for too long; a call that is being served is no silence."""
        if not self._settings.idle_ns:
            return
        for session in list(self._sessions.values()):
            if not session.calls and now - session.seen > 2 * self._settings.idle_ns:
                log.info("session expired", session=session.asker.session.id)
                self._forget(session)
                session.asker.close()

    # --- calls about keys ---

    async def _call(self, request: HttpRequest, route: Route) -> HttpReply:
        wire.check_key(route.name)
        session = self._find(wire.session_header(request))
        # The body is judged before the session is kept busy with it.
        command = self._codec.command(route, request.body)
        answer, claim = await self._ask(session, command)
        return wire.reply_to(command, answer, claim)

    async def _ask(self, session: HttpSession, command: Command) -> Outcome:
        """Ask when it is this call's turn. A session that ends meanwhile has taken back whatever it was granted."""
        session.calls += 1
        try:
            async with session.turn:
                self._check_alive(session)
                outcome = await session.asker.ask(command)
            self._check_alive(session)
            return outcome
        finally:
            session.calls -= 1
            session.seen = self._clock()

    @staticmethod
    def _check_alive(session: HttpSession) -> None:
        if session.over:
            raise Refusal(wire.session_gone())

    async def _stats(self) -> HttpReply:
        if self._desk.draining:
            return wire.draining()
        views = await self._visitor.look(Look())
        return wire.stats(stats_json(views, self._desk.connections, self._clock()))


def _right_for(route: Route) -> Right | None:
    """Name the right that a call needs; for one about a session alone, a known token will do."""
    if route.namespace:
        return "hold"
    return "read" if route.verb is Verb.STATS else None
