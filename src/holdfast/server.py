"""The running server: builds the parts from a Config, keeps their time with one timer, and shuts down in order.

Everything below is handed its clock, dice and sockets from here; no request passes through this file.
"""

import asyncio
import contextlib
import gc
import signal
import ssl
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from holdfast import __version__, words
from holdfast.config import Config, cautions, split_address
from holdfast.desk import Desk
from holdfast.doors.line import LineConnection, LineDoor, LineSettings
from holdfast.doors.listener import Gate, Left, Listener, bind
from holdfast.doors.native import NativeDoor
from holdfast.doors.native_connection import NativeSettings
from holdfast.errors import ConfigError
from holdfast.observe.logs import configure, get_logger
from holdfast.ports import Clock
from holdfast.stores.opening import open_store
from holdfast.system import SystemClock, SystemDice
from holdfast.words import FOREVER, SECOND

if TYPE_CHECKING:
    from holdfast.doors.grpc import GrpcDoor
    from holdfast.web import Web

MILLISECOND = 1_000_000

EXIT_OK = 0
EXIT_BUG = 70

# The event loop cannot sleep longer than this in one go; it just wakes up and looks again.
SLEEP_NS_MAX = 3600 * SECOND

log = get_logger(part="server")


def run(config: Config) -> int:
    """Serve until a signal says stop; answer the exit code."""
    configure(config.log_level, config.log_format, sys.stderr)
    for caution in cautions(config):
        log.warning("caution", detail=caution)
    # What lives by now lives for ever; and claims come and go without cycles, so looking for some can be rare.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    loop_module = fastest_loop()
    runner = asyncio.Runner(loop_factory=loop_module.new_event_loop)
    with runner:
        return runner.run(Server(config, SystemClock().now).serve(loop_module.__name__))


def fastest_loop() -> ModuleType:
    """uvloop where it is installed, asyncio's own loop otherwise."""
    try:
        import uvloop
    except ImportError:
        return asyncio
    return uvloop


class Server:
    """The parts of one server, and its one timer."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = FOREVER
        self._exit_code = EXIT_OK
        self._opened = open_store(config, clock, self._alarm, SystemDice())
        self._clock = clock = self._opened.clock
        self._store = self._opened.store
        # No ticket of a former run, which the store may still know, is above the time.
        self._desk = Desk(self._store, release_on_disconnect=config.release_on_disconnect, tickets=clock())
        self._opened.join(self._desk)
        self._native = NativeDoor(
            self._desk, clock, self._alarm, SystemDice(), native_settings(config), soon=self._soon
        )
        self._line = LineDoor(self._desk, clock, self._alarm, line_settings(config), self._native, soon=self._soon)
        self._gate = Gate(config.connections_max, config.connections_per_address_max)
        self._web: Web | None = None
        if config.http != "off":
            self._web = self._make_web()
        self._web_gate = Gate(config.connections_max, config.http_connections_per_address_max)
        self._grpc: GrpcDoor | None = None

    # --- life ---

    async def serve(self, loop_name: str) -> int:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._stopping = asyncio.Event()
        self._somebody_left = asyncio.Event()
        loop.set_exception_handler(self._on_bug)
        self._opened.start(loop)
        try:
            self._alarm(self._store.next_deadline())
            # Before the first listener: whoever could reach us may also want to stop us.
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._stop, signal.Signals(number).name)
            line, http = self._open(), self._open_web(loop)
            listeners = line + http
            grpc = await self._open_grpc()
            log.info(
                "serving",
                version=__version__,
                store=self._config.store,
                line=[listener.address for listener in line],
                http=[listener.address for listener in http],
                **grpc,
                loop=loop_name,
                compiled=not words.__file__.endswith(".py"),
            )
            chores = [loop.create_task(self._every(*chore)) for chore in self._chores()]
            for chore in chores:
                chore.add_done_callback(self._on_chore_over)
            await self._stopping.wait()
            for listener in listeners:
                listener.close()
            await self._drain()
            for chore in chores:
                chore.cancel()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._opened.close()
        log.info("stopped", exit_code=self._exit_code)
        return self._exit_code

    def _open(self) -> list[Listener]:
        if self._config.line == "off":
            if self._config.http == self._config.grpc == "off":
                raise ConfigError("line: off, http: off leave no door open; nothing could reach this server")
            return []
        return self._listen("line", self._config.line, self._connect, self._gate, self._config.line_read_timeout_ns)

    def _open_web(self, loop: asyncio.AbstractEventLoop) -> list[Listener]:
        if self._web is None:
            return []
        http = self._web.start(loop)

        def connect(left: Left) -> object:
            return http.connect(self._and_note(left))

        return self._listen("http", self._config.http, connect, self._web_gate, self._config.http_read_timeout_ns)

    async def _open_grpc(self) -> dict[str, list[str]]:
        """Answer where it listens, for the log."""
        if self._config.grpc == "off":
            return {}
        # It brings gRPC with it, which few servers need.
        from holdfast.doors.asker import Asker
        from holdfast.rpc import make_door
        from holdfast.web import load_rights

        tls_context(self._config)  # which says better than gRPC what is wrong with the files
        self._grpc = make_door(
            self._config,
            self._desk,
            Asker(self._desk, self._clock, resident=True) if self._web is None else self._web.asker,
            self._clock,
            rights=load_rights(self._config),
            bug=lambda error: self._on_bug(self._loop, {"message": "a call failed", "exception": error}),
            count=None if self._web is None else self._web.counters.operations.count,
        )
        await self._grpc.start()
        return {"grpc": [self._grpc.address]}

    def _listen(
        self, door: str, address: str, connect: Callable[[Left], object], gate: Gate, handshake_timeout_ns: int
    ) -> list[Listener]:
        tls = tls_context(self._config)
        try:
            sockets = bind(*split_address(address))
        except OSError as error:
            raise ConfigError(f"{door}: cannot listen on {address}: {error.strerror or error}") from error
        return [
            Listener(
                sock,
                connect,
                gate,
                tls=tls,
                handshake_timeout_s=handshake_timeout_ns / SECOND,
                broken=self._on_broken_listener,
            )
            for sock in sockets
        ]

    def _make_web(self) -> "Web":
        # It brings uvicorn and the metrics with it; a server without an HTTP door starts without them.
        from holdfast.web import Web

        return Web(
            self._config,
            self._desk,
            self._store,
            self._clock,
            SystemDice(),
            line_connections=lambda: len(self._line.connections) + len(self._native.connections),
            deadlocks=self._native.deadlocks,
        )

    def _chores(self) -> list[tuple[int, Callable[[], None]]]:
        chores: list[tuple[int, Callable[[], None]]] = [
            (self._config.sweep_interval_ns, self._desk.sweep),
            (self._config.gc_interval_ns, self._sweep_store),
        ]
        if self._web is not None:
            chores += [(SECOND, self._web.tick), (self._config.sweep_interval_ns, self._web.monitor)]
        return chores

    def _connect(self, left: Left) -> LineConnection:
        return self._line.connect(self._and_note(left))

    def _and_note(self, left: Left) -> Left:
        def gone() -> None:
            left()
            self._somebody_left.set()

        return gone

    def _stop(self, signal_name: str) -> None:
        log.info("stopping", signal=signal_name, connections=self._gate.inside + self._web_gate.inside)
        self._stopping.set()

    async def _drain(self) -> None:
        """Let those inside finish: whoever asks again is sent away, whoever lingers too long is cut."""
        limit_ns = self._config.shutdown_timeout_ns
        self._native.drain(limit_ns)  # first: whoever is sent home may hang up at once, and has to know why
        self._desk.drain(self._clock())
        if self._web is not None:
            self._web.drain()
        calls = None
        if self._grpc is not None:
            calls = self._loop.create_task(self._grpc.stop(limit_ns / SECOND if limit_ns else None))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_ns / SECOND if limit_ns else None):
                while self._line.connections or self._native.connections or (self._web and self._web.connections):
                    self._somebody_left.clear()
                    await self._somebody_left.wait()
        if calls is not None:
            await calls
        self._line.close()
        self._native.close()
        if self._web is not None:
            self._web.close()

    def _on_broken_listener(self, error: OSError) -> None:
        log.error("listener broken", error=str(error))
        self._exit_code = 1
        self._stopping.set()

    def _on_bug(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """A failed assertion means that the state cannot be trusted: stop, and leave the evidence in the log."""
        error = context.get("exception")
        known = error if isinstance(error, BaseException) else None
        log.error("bug", detail=context.get("message"), exc_info=known)
        if isinstance(error, AssertionError):
            self._exit_code = EXIT_BUG
            self._stopping.set()

    def _on_chore_over(self, chore: "asyncio.Task[None]") -> None:
        """A chore ends by being cancelled, or because it failed: then nobody would do it any more."""
        if not chore.cancelled():
            log.error("bug", detail="a chore failed", exc_info=chore.exception())
            self._exit_code = EXIT_BUG
            self._stopping.set()

    # --- time ---

    def _alarm(self, when: int) -> None:
        """Have `_tick` called no later than `when`."""
        if when >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        delay_ns = min(max(when - self._clock(), 0), SLEEP_NS_MAX)
        # Event loops count whole milliseconds: waking up before the time would only mean waking up twice.
        delay_ms = -(-delay_ns // MILLISECOND)
        self._timer = self._loop.call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = FOREVER
        now = self._clock()
        self._store.tick(now)
        self._line.tick(now)
        self._native.tick(now)
        deadlines = (self._store.next_deadline(), self._line.next_deadline(), self._native.next_deadline())
        self._alarm(min(deadlines))

    def _soon(self, act: Callable[[], None]) -> None:
        self._loop.call_soon(act)

    async def _every(self, interval_ns: int, chore: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(interval_ns / SECOND)
            chore()

    def _sweep_store(self) -> None:
        self._store.sweep(self._clock())


def line_settings(config: Config) -> LineSettings:
    token = config.auth_token
    return LineSettings(
        read_timeout_ns=config.line_read_timeout_ns,
        idle_timeout=config.line_idle_timeout,
        write_timeout_ns=config.line_write_timeout_ns,
        pending_bytes_max=config.line_pending_bytes_max,
        lease_default_ns=config.lease_default_ns,
        auth_token=None if token is None else token.encode("utf-8", "surrogateescape"),
    )


def native_settings(config: Config) -> NativeSettings:
    return NativeSettings(
        read_timeout_ns=config.line_read_timeout_ns,
        write_timeout_ns=config.line_write_timeout_ns,
        pending_bytes_max=config.line_pending_bytes_max,
        lease_default_ns=config.lease_default_ns,
        session_grace_ns=config.session_grace_ns,
        sessions_max=config.connections_max,
    )


def tls_context(config: Config) -> ssl.SSLContext | None:
    """Make the TLS side of the doors, or None; raises ConfigError when a file does not do."""
    if config.tls_cert is None or config.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # No password, rather than a question on the terminal that nobody would answer.
        context.load_cert_chain(config.tls_cert, config.tls_key, password="")
        if config.tls_client_ca is not None:
            context.load_verify_locations(config.tls_client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        files = [file for file in (config.tls_cert, config.tls_key, config.tls_client_ca) if file is not None]
        raise ConfigError(f"TLS: {', '.join(files)}: {error}") from error
    return context
