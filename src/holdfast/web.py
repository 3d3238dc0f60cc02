"""The HTTP door of one server, put together: its interfaces, limits, metrics and operation log, from a Config.

What a request means is in `wire/` and `doors/`; when the server starts and stops is in `server.py`.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import cast
from uuid import uuid4

from uvicorn._types import ASGI3Application

from holdfast import __version__
from holdfast.config import Config
from holdfast.desk import Desk
from holdfast.doors.asker import Asker
from holdfast.doors.http import HttpDoor
from holdfast.doors.http_limits import Cors, RateLimit
from holdfast.doors.http_lockserver import LockServerApi, LockServerSettings
from holdfast.doors.http_protocol import HttpServer, HttpSettings
from holdfast.doors.http_sessions import SessionsApi, SessionsSettings
from holdfast.doors.rights import Rights
from holdfast.errors import ConfigError
from holdfast.observe.counters import Counters, Snapshot
from holdfast.observe.deadlocks import Deadlocks
from holdfast.observe.metrics import Metrics
from holdfast.observe.operations import OperationLog
from holdfast.ports import Clock, Dice, Store
from holdfast.stores.shelf import Shelf
from holdfast.words import Census, Claim, End, Renew

TOKENS_FILE_BYTES_MAX = 1_048_576
CENSUS_S_MAX = 2

# What the operations that metrics know are to the desk.
KINDS = {"acquire": Claim, "renew": Renew, "release": End}


class Web:
    """Everything behind the HTTP listener."""

    def __init__(
        self,
        config: Config,
        desk: Desk,
        store: Store,
        clock: Clock,
        dice: Dice,
        *,
        line_connections: Callable[[], int],
        deadlocks: Deadlocks,
    ) -> None:
        self.counters = Counters()
        self._config = config
        self._desk = desk
        self._store = store
        self._clock = clock
        self._line_connections = line_connections
        self._deadlocks = deadlocks
        self._started_at = clock()
        self._expired_before = 0
        self._census = Census(0, 0, 0, 0, 0)
        self._metrics = Metrics(self.counters, self._snapshot, version=__version__)
        self._log = OperationLog(config.log_operations, clock)
        self._rights = load_rights(config)
        self._asker = Asker(desk, clock, resident=True)
        self._sessions = self._make_sessions(dice)
        self._server: HttpServer | None = None
        desk.handed_over = self._on_hand_over
        if isinstance(store, Shelf):
            store.tally.observe = self.counters.store.committed

    def start(self, loop: asyncio.AbstractEventLoop) -> HttpServer:
        """Make ready to take connections in this loop."""
        config = self._config
        settings = HttpSettings(
            read_timeout_ns=config.http_read_timeout_ns, idle_timeout_ns=config.http_idle_timeout_ns
        )
        # Our callable is one by its shape; uvicorn's types want theirs by name.
        self._server = HttpServer(cast(ASGI3Application, self._make_door()), self._clock, settings, loop)
        return self._server

    def _make_door(self) -> HttpDoor:
        config = self._config
        return HttpDoor(
            self._make_leases(),
            self._sessions if config.http_api != "leases" else None,
            self._clock,
            body_bytes_max=config.http_body_bytes_max,
            make_id=lambda: str(uuid4()),
            cors=Cors(config.http_cors_origins),
            rate=self._make_rate(),
            served=self.counters.http.count,
            sessions_only=config.http_api == "sessions",
        )

    def _make_rate(self) -> RateLimit | None:
        config = self._config
        if not config.http_rate_per_address:
            return None
        return RateLimit(config.http_rate_per_address, config.http_rate_burst, self._clock)

    def _make_leases(self) -> LockServerApi:
        config = self._config
        return LockServerApi(
            self._asker,
            self._clock,
            LockServerSettings(
                name_bytes_max=config.http_name_bytes_max,
                wait_max_ns=config.http_wait_max_ns,
                lease_ids_shown=config.http_lease_ids_shown,
            ),
            version=__version__,
            rights=self._rights,
            ready=self._why_not_ready,
            metrics=self._exposition,
            count=self.counters.operations.count,
            log=None if config.log_operations == "off" else self._log,
        )

    def _make_sessions(self, dice: Dice) -> SessionsApi:
        config = self._config
        settings = SessionsSettings(
            idle_ns=config.http_session_idle_ns,
            sessions_max=config.http_sessions_max,
            sessions_per_address_max=config.http_sessions_per_address_max,
            lease_default_ns=config.lease_default_ns,
        )
        return SessionsApi(
            self._desk, self._clock, dice, settings, visitor=self._asker, rights=self._rights, version=__version__
        )

    # --- what the server calls ---

    def tick(self) -> None:
        """Do what is due about once a second: dates, slow peers, silent sessions."""
        now = self._clock()
        if self._server is not None:
            self._server.tick(now)
        self._sessions.sweep(now)

    def monitor(self) -> None:
        """Say in the operation log how many leases have run out since the last time; they were handed on at once."""
        started = self._clock()
        cleared = self._desk.expired - self._expired_before
        self._expired_before += cleared
        if cleared:
            self._store.count(lambda census: self._log_sweep(census, cleared, started))

    def _log_sweep(self, census: Census, cleared: int, started: int) -> None:
        self._log.swept(held=census.held, cleared=cleared, latency_ns=self._clock() - started)

    def drain(self) -> None:
        """Answer what has been asked, and nothing more."""
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        """Cut whoever is still here, and end all sessions."""
        if self._server is not None:
            self._server.abort()
        self._sessions.close_all()

    @property
    def asker(self) -> Asker:
        """The caller in whose session all leases live that are bound to no connection."""
        return self._asker

    @property
    def connections(self) -> int:
        return len(self._server.connections) if self._server is not None else 0

    # --- what can be seen from outside ---

    async def _why_not_ready(self) -> str | None:
        """Try the store out, unless we are on the way out anyway."""
        if self._desk.draining:
            return "the service is shutting down"
        told: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._store.probe(told.set_result)
        return await told

    async def _exposition(self) -> bytes:
        """Show what has been counted; who holds and who waits as last known, where the store takes its time to tell.

        A store that is kept busy is when somebody wants to see these pages.
        """
        counted = asyncio.Event()

        def take(census: Census) -> None:
            self._census = census
            counted.set()

        self._store.count(take)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CENSUS_S_MAX):
                await counted.wait()
        return self._metrics.exposition()

    def _snapshot(self) -> Snapshot:
        census, desk = self._census, self._desk
        self.counters.desk.grants = desk.grants
        self.counters.desk.no_fences = desk.no_fences
        self.counters.desk.deadlocks = self._deadlocks.found
        self.counters.operations.expired = desk.expired
        for operation, kind in KINDS.items():
            self.counters.operations.db_busy[operation] = desk.busy[kind]
        if isinstance(self._store, Shelf):
            self.counters.store.busy = self._store.tally.busy
            self.counters.store.failures = self._store.tally.failures
        fault = self._store.fault
        return Snapshot(
            locks_held=census.held,
            lock_waiters=census.waiting,
            semaphore_holders=census.seats_held,
            semaphore_waiters=census.seats_waiting,
            claims_held=census.held + census.seats_held,
            claims_waiting=census.waiting + census.seats_waiting,
            deadlocks=len(self._deadlocks.cycles),
            keys=census.keys,
            sessions=desk.connections,
            http_sessions=self._sessions.sessions,
            connections={"line": self._line_connections(), "http": self.connections},
            ready=not desk.draining and fault is None,
            store_ready=fault is None,
            uptime_ns=self._clock() - self._started_at,
        )

    def _on_hand_over(self, granted_at: int) -> None:
        self.counters.desk.handed_off(max(0, self._clock() - granted_at))


def load_rights(config: Config) -> Rights:
    """Read the file of tokens; raises ConfigError."""
    if config.http_tokens_file is None:
        return Rights.load(None, auth_token=config.auth_token)
    try:
        with Path(config.http_tokens_file).open("rb") as file:
            text = file.read(TOKENS_FILE_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"http_tokens_file: cannot read {config.http_tokens_file!r}: {error}") from error
    return Rights.load(text, auth_token=config.auth_token)
