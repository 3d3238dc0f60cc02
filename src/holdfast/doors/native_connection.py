"""One connection of the native protocol, from `hello` to its end: lines in and out, limits, time and back-pressure.

What a line means is in wire/native.py; what comes of it, in native_session.py, which several connections may share.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, cast

from holdfast.doors.wakes import Wakes
from holdfast.observe.logs import get_logger
from holdfast.ports import Clock
from holdfast.wire import native as wire
from holdfast.wire import native_answers as answers
from holdfast.wire.native_meaning import Who
from holdfast.words import FOREVER

# Answers to one read leave in one write, unless they are as long as this.
WRITE_BYTES_MAX: Final = 262_144
# What may lie unread for a peer before it is cut, however patient we are with it.
UNREAD_BYTES_MAX: Final = 8_388_608

log = get_logger(door="native")


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSettings:
    """What an operator may decide about this door."""

    read_timeout_ns: int
    write_timeout_ns: int  # 0: none
    pending_bytes_max: int
    lease_default_ns: int
    session_grace_ns: int
    sessions_max: int  # 0: no limit


class Server(Protocol):
    """Whoever serves the requests of a connection: its session."""

    def serve(self, connection: "NativeConnection", request: wire.Request, now: int) -> None:
        """Take a request; its answer is said to the connection, now or later."""

    def detach(self, connection: "NativeConnection", now: int) -> None:
        """Hear that a connection is over."""


class NativeConnection:
    """One caller. Requests are handed on as they come; each is answered when there is an answer."""

    def __init__(
        self,
        number: int,
        server: Server,
        hello: wire.Hello,
        settings: NativeSettings,
        clock: Clock,
        wakes: Wakes,
        soon: Callable[[Callable[[], None]], object] | None,
        left: Callable[[], None],
    ) -> None:
        self.number = number
        self.who = Who(hello)
        self.events = hello.events
        self.in_flight = 0  # requests that are not answered
        self.waiting = 0  # of these, how many wait for somebody else
        self.looking = 0  # of these, how many look at what may be a lot
        self.wake = FOREVER
        self.closing = False  # nothing that still arrives matters
        self._server = server
        self._settings = settings
        self._clock = clock
        self._wakes = wakes
        self._soon = soon
        self._left = left
        self._transport: asyncio.Transport
        self._rest = bytearray()  # bytes that are not yet a line, or that wait for a peer that does not read
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._pumping = False  # lines are being served right now: answers go out together at the end
        self._called = False  # somebody will write what there is to say
        self._paused = False  # the peer does not read
        self._ended = False  # the peer sends no more, and wants to read what it has coming
        self._skipping = False  # the rest of an oversize line is being thrown away
        self._read_deadline = FOREVER
        self._write_deadline = FOREVER

    # --- from the transport ---

    def take_over(self, transport: asyncio.Transport, said: bytes, rest: bytes) -> None:
        """Begin: the transport has spoken another protocol so far."""
        self._transport = transport
        transport.set_protocol(cast(asyncio.BaseProtocol, self))
        self._say_later(said)
        self._rest += rest
        self._pump(self._clock())

    def data_received(self, data: bytes) -> None:
        if self.closing:
            return
        if self._skipping:
            if b"\n" in data:
                self._refuse_long_line()
            return
        self._rest += data
        if self._paused:
            if len(self._rest) > wire.LINE_BYTES_MAX + self._settings.pending_bytes_max:
                self.abort()  # whoever sends without end and reads nothing has no claim to an answer
        elif b"\n" in data:
            self._pump(self._clock())
        else:
            self._await_more(self._clock(), fresh=False)

    def eof_received(self) -> bool:
        """A caller that stops talking while it waits for others is gone, whatever it may still want to read.

        One that only waits for the store to answer gets its answers; until then the connection is kept.
        """
        if not self.in_flight or self.waiting or self.closing:
            return False
        self._ended = True
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        self.wake = self._read_deadline = self._write_deadline = FOREVER
        self._rest.clear()
        self._out.clear()
        self._server.detach(self, self._clock())
        self._left()

    def pause_writing(self) -> None:
        self._paused = True
        self._transport.pause_reading()
        if self._settings.write_timeout_ns:
            self._write_deadline = self._clock() + self._settings.write_timeout_ns
            self._wakes.watch(self, self._write_deadline)

    def resume_writing(self) -> None:
        self._paused = False
        self._write_deadline = FOREVER
        self._transport.resume_reading()
        if not (self.closing or self._pumping or self._skipping):
            self._read_deadline = FOREVER  # the time of a line that has begun meanwhile starts now
            self._pump(self._clock())

    def abort(self) -> None:
        """Cut the connection."""
        self.closing = True
        self._transport.abort()

    def tick(self, now: int) -> None:
        """Act on what has taken too long, or come back later."""
        # Nothing is read, and so no line can be late, for a peer that does not read.
        read_deadline = FOREVER if self._paused or self.closing else self._read_deadline
        if self._write_deadline <= now:
            self.abort()
        elif read_deadline <= now:
            log.debug("request too slow", connection=self.number)
            seconds = self._settings.read_timeout_ns / 1_000_000_000
            self._give_up(f"a request has to arrive within {seconds:g} s (line_read_timeout)")
        else:
            self._wakes.watch(self, min(self._write_deadline, read_deadline))

    # --- lines in ---

    def _pump(self, now: int) -> None:
        """Serve the whole lines that have arrived, and write all that is answered at once."""
        lines = bytes(self._rest).split(b"\n")
        last = len(lines) - 1
        at = 0
        self._pumping = True
        while at < last:
            line = lines[at]
            at += 1
            if len(line) > wire.LINE_BYTES_MAX:
                self._refuse_long_line()
            else:
                self._serve(line, now)
            if self._out_bytes > WRITE_BYTES_MAX:
                self.flush()
            if self._paused or self.closing:
                break
        self._pumping = False
        self._rest = bytearray(lines[last] if at == last else b"\n".join(lines[at:]))
        if not self.closing:
            self._await_more(now, fresh=at > 0)
        self.flush()

    def _await_more(self, now: int, *, fresh: bool) -> None:
        """Judge the line that has begun: it must not be too long, nor take too long."""
        if not self._rest:
            self._read_deadline = FOREVER
            return
        if len(self._rest) > wire.LINE_BYTES_MAX and b"\n" not in self._rest:
            # It is refused when its end has come by, as the peer is still writing; until then it takes no room.
            self._skipping = True
            self._rest.clear()
        if fresh or self._read_deadline == FOREVER:
            self._read_deadline = now + self._settings.read_timeout_ns
            self._wakes.watch(self, self._read_deadline)

    def _serve(self, line: bytes, now: int) -> None:
        try:
            request = wire.read_request(line)
        except wire.BadRequest as bad:
            log.debug("bad request", detail=bad.detail, connection=self.number)
            self._say_later(answers.refusal(bad.id, "bad_request", bad.detail))
            if bad.fatal:
                self.close()
            return
        if self.in_flight >= wire.IN_FLIGHT_MAX:
            detail = f"{wire.IN_FLIGHT_MAX} requests of this connection are unanswered (in_flight_max)"
            self._say_later(answers.refusal(request.id, "too_many", detail))
            return
        self._server.serve(self, request, now)

    def _refuse_long_line(self) -> None:
        self._give_up(f"a line has at most {wire.LINE_BYTES_MAX} bytes")

    def _give_up(self, detail: str) -> None:
        """Stop listening to a peer whose lines cannot be told apart any more."""
        self._say_later(answers.refusal(None, "bad_request", detail))
        self.close()

    # --- lines out ---

    def say(self, line: bytes) -> None:
        """Say a line: with all else that is said now."""
        if self.closing:
            return
        self._say_later(line)
        if self._pumping or self._called:
            return
        if self._soon is None:
            self.flush()
        else:
            self._called = True
            self._soon(self._flush_as_called)

    def _say_later(self, line: bytes) -> None:
        self._out.append(line)
        self._out_bytes += len(line)

    def _flush_as_called(self) -> None:
        self._called = False
        if not self.closing:
            self.flush()

    def flush(self) -> None:
        out = self._out
        if not out:
            return
        self._out = []
        self._out_bytes = 0
        self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        if self._paused and self._transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self.abort()

    def close(self) -> None:
        """Say what there is to say, and close; whatever still arrives is ignored."""
        if not self.closing:
            self.closing = True
            self.flush()
            self._transport.close()

    # --- requests under way; they count themselves ---

    def finish(self) -> None:
        """A request has been answered: whoever listens for nothing else has been told everything."""
        if self._ended and not self.in_flight and not self._pumping:
            self.close()

    def wait(self) -> None:
        """A request has to wait for somebody else."""
        self.waiting += 1
        if self._ended:
            self.abort()
