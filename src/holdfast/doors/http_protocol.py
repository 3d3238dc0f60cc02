"""HTTP/1.1 connections: uvicorn's protocol in our loop, with limits on time and size.

Requests are answered one after the other, in their order. What is answered is the business of the ASGI callable.
"""

import asyncio
import logging
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final, cast
from urllib.parse import unquote

import httptools
from uvicorn._types import ASGI3Application, HTTPScope
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from holdfast.doors.http_exchange import Exchange, refusal
from holdfast.doors.listener import Left
from holdfast.ports import Clock
from holdfast.words import FOREVER, SECOND

HEAD_BYTES_MAX: Final = 65_536
HEAD_TOO_LONG: Final = f"the head of a request has at most {HEAD_BYTES_MAX} bytes"
# The parser cannot make sense of a longer target, and takes offence before the head has been measured.
TARGET_BYTES_MAX: Final = 65_535
# How many requests may lie behind the one that is being served before nothing more is read.
QUEUED_MAX: Final = 16

ASGI: Final = {"version": "3.0", "spec_version": "2.3"}

# What uvicorn would log is either reported to the loop or no news.
_silent: Final = logging.getLogger("holdfast.silent")
_silent.setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """What an operator may decide about connections."""

    read_timeout_ns: int  # for a head and for a body each, and for an answer to be read
    idle_timeout_ns: int  # between requests


class HttpConnection(HttpToolsProtocol):
    """One connection. Its time is kept by `tick`."""

    def __init__(self, http: "HttpServer", left: Left) -> None:
        super().__init__(http.config, http.state, {}, http.loop)
        self.logger = _silent
        self.http = http
        self._left = left
        self.url = b""
        self._running: Exchange | None = None
        self._head_open = False  # some of a head has arrived, and not all of it
        self._head_bytes = 0
        self._slice_bytes = 0
        self._arriving = False  # some of a request has arrived, and not all of it
        self._deaf = False  # what still arrives is thrown away
        self._last_words = b""  # what to say when all that came before has been answered
        self._deadline = FOREVER  # for what is to arrive next
        self._stalled_by = FOREVER  # for what has been written to be read
        self._parting_by = FOREVER  # for the last answer to be read, and the connection to end

    # --- from the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._deadline = self.http.clock() + self.http.settings.read_timeout_ns

    def connection_lost(self, exc: Exception | None) -> None:
        for exchange in self._unanswered():
            exchange.leave()
        self.pipeline.clear()
        self._deaf = True
        super().connection_lost(exc)
        self._left()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whoever says no more may still listen: those who only have to be answered are, those who wait are gone."""
        if self._running is None or self._arriving or self.scheme == "https":
            return False
        self._deaf = True
        for exchange in self._unanswered():
            exchange.gone = True
            exchange.message_event.set()
        self.cycle.keep_alive = False
        return True

    def data_received(self, data: bytes) -> None:
        # In slices, so that no head can be much longer than it may be.
        for at in range(0, len(data), HEAD_BYTES_MAX):
            if self._deaf:
                return
            self._feed(data if len(data) <= HEAD_BYTES_MAX else data[at : at + HEAD_BYTES_MAX])

    def _feed(self, data: bytes) -> None:
        self._slice_bytes = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            if len(self.url) > TARGET_BYTES_MAX:
                self._refuse(431, HEAD_TOO_LONG)
            else:
                self._refuse(400, "this is not HTTP")
        except httptools.HttpParserUpgrade:
            # No other protocol is spoken here; the request itself is served, and what follows is none.
            self._deaf = True
            self.cycle.keep_alive = False
        if self._head_open and not self._deaf:
            self._head_bytes += self._slice_bytes
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(431, HEAD_TOO_LONG)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_by = self.http.clock() + self.http.settings.read_timeout_ns

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_by = FOREVER

    # --- from the parser ---

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._head_open = self._arriving = True
        self._head_bytes = -self._slice_bytes  # where in the slice it begins is not known, and nothing is lost by that
        self._deadline = self.http.clock() + self.http.settings.read_timeout_ns

    def on_headers_complete(self) -> None:
        self._head_open = False
        self._deadline = self.http.clock() + self.http.settings.read_timeout_ns
        exchange = self._exchange()
        self.headers = []  # fields behind a body are none of the head's
        self.cycle = exchange
        if self._running is None:
            self._start(exchange)
        else:
            self.pipeline.appendleft((exchange, self.app))
            if len(self.pipeline) >= QUEUED_MAX:
                self.flow.pause_reading()

    def _exchange(self) -> Exchange:
        parser = self.parser
        version = parser.get_http_version()
        url = httptools.parse_url(self.url)
        raw_path = url.path or b"/"
        path = raw_path.decode("ascii")
        scope = {
            "type": "http",
            "asgi": ASGI,
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": parser.get_method().decode("ascii"),
            "root_path": "",
            "path": unquote(path, errors="surrogateescape") if "%" in path else path,
            "raw_path": raw_path,
            "query_string": url.query or b"",
            "headers": self.headers,
        }
        exchange = Exchange(
            scope=cast(HTTPScope, scope),
            transport=self.transport,
            flow=self.flow,
            logger=_silent,
            access_logger=_silent,
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version == "1.1" and parser.should_keep_alive() and not self.http.closing,
            on_response=self.on_response_complete,
        )
        exchange.connection = self
        return exchange

    def on_message_complete(self) -> None:
        self._arriving = False
        self._deadline = FOREVER
        self.cycle.more_body = False
        self.cycle.message_event.set()

    # --- one after the other ---

    def _start(self, exchange: Exchange) -> None:
        self._running = exchange
        task = self.loop.create_task(self.app(exchange.scope, exchange.receive, exchange.send))
        self.tasks.add(task)
        task.add_done_callback(exchange.over)

    def on_response_complete(self) -> None:
        """Go on with what came behind the request that has just been answered."""
        exchange, self._running = self._running, None
        assert exchange is not None
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if not exchange.keep_alive or exchange.more_body:
            self._part()
        elif self.pipeline:
            self._start(cast(Exchange, self.pipeline.pop()[0]))
        elif self._last_words:
            self.transport.write(self._last_words)
            self._part()
        else:
            settings = self.http.settings
            self._deadline = self.http.clock() + (
                settings.read_timeout_ns if self._arriving else settings.idle_timeout_ns
            )

    def _refuse(self, status: int, detail: str) -> None:
        """Read no more, and say why; not before all that came earlier has been answered."""
        self._deaf = True
        words = refusal(status, detail, self.http.date_line)
        broken = cast(Exchange, self.cycle)
        if broken is not None and broken.more_body and not broken.response_complete:
            # The request whose body this was will never be whole.
            broken.leave()
            if broken is self._running:
                self._running = None
            else:
                self.pipeline.popleft()
        if self._running is None:
            self.transport.write(words)
            self._part()
        else:
            self._last_words = words

    def _part(self) -> None:
        """Say no more. What still arrives is thrown away for a while: cut off in the middle of it, the peer would lose
        the last answer too."""
        self.pipeline.clear()
        self.flow.resume_reading()
        self._deaf = True
        self._deadline = FOREVER
        self._parting_by = self.http.clock() + self.http.settings.read_timeout_ns
        if self._arriving and self.transport.can_write_eof():
            self.transport.write_eof()
        elif not self._arriving:
            self.transport.close()

    def _unanswered(self) -> list[Exchange]:
        queued = [cast(Exchange, exchange) for exchange, _ in self.pipeline]
        return queued if self._running is None else [self._running, *queued]

    # --- from the server ---

    def tick(self, now: int) -> None:
        """Act on what has taken too long."""
        if self._parting_by <= now or self._stalled_by <= now:
            self.transport.abort()
        elif self._deadline <= now:
            if self.flow.read_paused:
                self._deadline = now + self.http.settings.read_timeout_ns  # it is we who do not read
            elif self._arriving:
                self._refuse(408, "the request took too long to arrive")
            else:
                self._deaf = True
                self._part()

    def shutdown(self) -> None:
        """Answer what has been asked, and what is being asked, but nothing after that."""
        if self._running is not None:
            self.cycle.keep_alive = False
        elif not self._arriving:
            self._part()


class HttpServer:
    """All connections of the HTTP door."""

    def __init__(
        self, app: ASGI3Application, clock: Clock, settings: HttpSettings, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.config = Config(
            app,
            interface="asgi3",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
        )
        self.config.load()
        self.state = ServerState()
        self.clock = clock
        self.settings = settings
        self.loop = loop
        self.closing = False
        self.date_line = b""
        self._set_date(clock())

    @property
    def connections(self) -> set[HttpConnection]:
        return cast(set[HttpConnection], self.state.connections)

    def connect(self, left: Left) -> HttpConnection:
        """Make a connection; `left` is called once when it is over."""
        return HttpConnection(self, left)

    def tick(self, now: int) -> None:
        """Set the Date header, and deal with who took too long; to be called about once a second."""
        self._set_date(now)
        for connection in tuple(self.connections):
            connection.tick(now)

    def _set_date(self, now: int) -> None:
        self.date_line = f"date: {formatdate(now // SECOND, usegmt=True)}\r\n".encode()

    def close(self) -> None:
        """Let those go who want nothing, and the others when they have been answered."""
        self.closing = True
        for connection in tuple(self.connections):
            connection.shutdown()

    def abort(self) -> None:
        """Cut whoever is still here."""
        for connection in tuple(self.connections):
            connection.transport.abort()
