"""The server seen from inside its process: its one timer, and what it does when something of ours breaks.

What users see of it is tested in test_server.py.
"""

import asyncio
import gc
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import structlog
import uvloop
from structlog.testing import capture_logs

from holdfast.config import Config
from holdfast.doors.listener import Listener
from holdfast.errors import ConfigError, FenceFileError
from holdfast.server import (
    EXIT_BUG,
    EXIT_OK,
    SLEEP_NS_MAX,
    Server,
    fastest_loop,
    line_settings,
    run,
    tls_context,
)
from holdfast.system import SystemClock
from holdfast.testing.clock import HandClock
from holdfast.words import EX, FOREVER, GONE, SECOND, UNLIMITED, Claim
from tests.certificates import Authority

LOOPS = [asyncio, uvloop]
WAIT_S_MAX = 20


class Open(Server):
    """A server whose listeners a test can reach, and whose chores it can replace."""

    chore: Callable[[], None] | None = None

    def _open(self) -> list[Listener]:
        self.listeners = super()._open()
        return self.listeners

    def _sweep_store(self) -> None:
        if self.chore is None:
            super()._sweep_store()
        else:
            self.chore()

    @property
    def port(self) -> int:
        return int(self.listeners[0].address.rpartition(":")[2])


def config(**settings: object) -> Config:
    return Config(
        **(
            {
                "store": "memory:",
                "http": "off",
                "line": "127.0.0.1:0",
                "gc_interval_ns": SECOND // 100,
                "shutdown_timeout_ns": SECOND,
            }
            | settings
        )
    )


def serving(
    loop: ModuleType, story: Callable[[Open], Awaitable[None]], **settings: object
) -> tuple[int, list[dict[str, object]]]:
    """Run a server and a story beside it; answer the exit code and the log."""
    server = Open(config(**settings), SystemClock().now)

    async def both() -> int:
        served = asyncio.ensure_future(server.serve(loop.__name__))
        await asyncio.sleep(0)
        await asyncio.wait_for(story(server), WAIT_S_MAX)
        return await asyncio.wait_for(served, WAIT_S_MAX)

    with capture_logs() as events, asyncio.Runner(loop_factory=loop.new_event_loop) as runner:
        code = runner.run(both())
    return code, [dict(event) for event in events]


def bugs(events: list[dict[str, object]]) -> list[dict[str, object]]:
    return [event for event in events if event["event"] == "bug"]


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.readline()
    finally:
        writer.close()


# --- when something of ours breaks ---


@pytest.mark.parametrize("loop", LOOPS)
def test_a_failed_assertion_stops_the_server_with_its_evidence(loop: ModuleType) -> None:
    def fail() -> None:
        raise AssertionError("this cannot be")

    async def story(server: Open) -> None:
        asyncio.get_running_loop().call_soon(fail)

    code, events = serving(loop, story)
    assert code == EXIT_BUG
    (bug,) = bugs(events)
    assert str(bug["exc_info"]) == "this cannot be"


@pytest.mark.parametrize("loop", LOOPS)
def test_any_other_fault_is_logged_and_the_server_goes_on(loop: ModuleType) -> None:
    def fail() -> None:
        raise LookupError("odd")

    async def story(server: Open) -> None:
        asyncio.get_running_loop().call_soon(fail)
        assert await ask(server.port, b"ping\n_\n_\n") == b"ok\n"
        server._stop("test")

    code, events = serving(loop, story)
    assert code == EXIT_OK
    (bug,) = bugs(events)
    assert str(bug["exc_info"]) == "odd"


@pytest.mark.parametrize("loop", LOOPS)
def test_a_chore_that_fails_stops_the_server(loop: ModuleType) -> None:
    # It would have failed in silence, and nobody would have swept up ever after.
    async def story(server: Open) -> None:
        server.chore = fail

    def fail() -> None:
        raise LookupError("nothing to sweep with")

    code, events = serving(loop, story)
    assert code == EXIT_BUG
    (bug,) = bugs(events)
    assert str(bug["exc_info"]) == "nothing to sweep with"


@pytest.mark.parametrize("loop", LOOPS)
def test_a_listener_that_breaks_stops_the_server(loop: ModuleType) -> None:
    async def story(server: Open) -> None:
        server.listeners[0]._sock.shutdown(socket.SHUT_RDWR)

    code, events = serving(loop, story)
    assert code == 1
    assert [event["event"] for event in events if event["log_level"] == "error"] == ["listener broken"]


@pytest.mark.parametrize("loop", LOOPS)
def test_chores_are_done_again_and_again(loop: ModuleType) -> None:
    async def story(server: Open) -> None:
        done = asyncio.Event()
        calls: list[int] = []

        def chore() -> None:
            calls.append(len(calls))
            if len(calls) == 3:
                done.set()

        server.chore = chore
        await done.wait()
        server._stop("test")

    assert serving(loop, story, gc_interval_ns=SECOND // 100)[0] == EXIT_OK


@pytest.mark.parametrize("loop", LOOPS)
def test_the_sweeps_are_among_the_chores(loop: ModuleType) -> None:
    async def story(server: Open) -> None:
        assert (await ask(server.port, b"e\njob\n1\n")).startswith(b"acquired ")
        while server._store.table.resources:  # noqa: ASYNC110  a sweep sets no event
            await asyncio.sleep(0.001)
        server._stop("test")

    assert serving(loop, story, gc_interval_ns=SECOND // 100, gc_idle_max_ns=0)[0] == EXIT_OK


# --- the timer ---


class SlowLoop:
    """A loop that writes down when it was asked to call, and calls nobody."""

    def __init__(self) -> None:
        self.delays_s: list[float] = []
        self.cancelled = 0

    def call_later(self, delay_s: float, call: object) -> "SlowLoop":
        self.delays_s.append(delay_s)
        return self

    def cancel(self) -> None:
        self.cancelled += 1


def timed() -> tuple[Server, HandClock, SlowLoop]:
    clock = HandClock()
    server = Server(config(), clock)
    loop = SlowLoop()
    server._loop = loop  # type: ignore[assignment]
    return server, clock, loop


def test_the_timer_is_set_for_the_earliest_alarm() -> None:
    server, clock, loop = timed()
    for seconds in (30, 40, 20, 20, 25):
        server._alarm(clock.now + seconds * SECOND)
    assert loop.delays_s == [30, 20]
    assert loop.cancelled == 1
    server._alarm(FOREVER)
    assert loop.delays_s == [30, 20]


@pytest.mark.parametrize(("delay_ns", "delay_s"), [(1, 0.001), (1_000_000, 0.001), (1_000_001, 0.002), (0, 0), (-5, 0)])
def test_the_timer_never_comes_early(delay_ns: int, delay_s: float) -> None:
    server, clock, loop = timed()
    server._alarm(clock.now + delay_ns)
    assert loop.delays_s == [delay_s]


def test_the_timer_comes_by_now_and_then_when_nothing_is_due_for_long() -> None:
    server, clock, loop = timed()
    claim = Claim(b"lock:job", EX, 1, UNLIMITED, SLEEP_NS_MAX * 5 // 2, FOREVER)
    server._store.submit(claim, clock.now)
    assert loop.delays_s == [SLEEP_NS_MAX / SECOND]
    for _ in range(2):
        clock.advance_to(clock.now + SLEEP_NS_MAX)
        server._tick()
    assert loop.delays_s == [3600, 3600, 1800]
    clock.advance_to(claim.deadline)
    server._tick()
    assert claim.state is GONE
    assert len(loop.delays_s) == 3


# --- starting ---


def test_uvloop_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fastest_loop() is uvloop
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert fastest_loop() is asyncio


@pytest.fixture
def _as_before() -> Iterator[None]:
    """Take back what `run` does to the whole process."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    structlog.reset_defaults()


@pytest.mark.usefixtures("_as_before")
def test_a_run_lasts_until_a_signal_and_warns_of_what_is_risky(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    stopper = threading.Thread(target=stop_when_open, args=(port,))
    stopper.start()
    try:
        assert run(config(line=f"*:{port}", log_format="json")) == EXIT_OK
    finally:
        stopper.join()
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in events if event["level"] == "info"] == ["serving", "stopping", "stopped"]
    assert any("no auth_token" in event["detail"] for event in events if event["event"] == "caution")


def stop_when_open(port: int) -> None:
    """Send our own process a signal as soon as the port takes connections."""
    limit = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < limit:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            time.sleep(0.005)
        else:
            os.kill(os.getpid(), signal.SIGTERM)
            return


def test_settings_of_the_door_come_from_the_config() -> None:
    settings = line_settings(config(auth_token="schl\xfcssel\udcff", line_idle_timeout=True))
    assert settings.auth_token == b"schl\xc3\xbcssel\xff"
    assert settings.idle_timeout
    assert line_settings(config()).auth_token is None


def test_without_a_certificate_there_is_no_tls() -> None:
    assert tls_context(config()) is None


def test_with_a_certificate_there_is_and_clients_may_have_to_show_theirs(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    certificate, key = (str(path) for path in authority.sign("server"))
    context = tls_context(config(tls_cert=certificate, tls_key=key))
    assert context is not None
    assert (context.minimum_version, context.verify_mode) == (ssl.TLSVersion.TLSv1_2, ssl.CERT_NONE)
    context = tls_context(config(tls_cert=certificate, tls_key=key, tls_client_ca=str(authority.certificate)))
    assert context is not None
    assert context.verify_mode == ssl.CERT_REQUIRED
    with pytest.raises(ConfigError, match="TLS: "):
        tls_context(config(tls_cert=key, tls_key=key))


def test_a_server_without_a_door_or_with_one_that_is_taken_does_not_start() -> None:
    async def story(server: Open) -> None:
        """Never comes to anything."""

    with pytest.raises(ConfigError, match="no door open"):
        serving(asyncio, story, line="off")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="in use"):
            serving(asyncio, story, line=f"127.0.0.1:{port}")


def test_a_fence_file_is_held_while_the_server_lives_and_let_go_afterwards(tmp_path: Path) -> None:
    store = f"memory:?fence={tmp_path / 'fences'}"

    async def story(server: Open) -> None:
        with pytest.raises(FenceFileError):
            Server(config(store=store), SystemClock().now)
        assert (await ask(server.port, b"l\njob\n0 1\n")).startswith(b"ok ")
        server._stop("test")

    for _ in range(2):
        assert serving(asyncio, story, store=store)[0] == EXIT_OK
