"""The line door: one connection of the line protocol, from its first byte to its last.

Framing, order, time limits and back-pressure live here; what a line means is in wire/line.py, what is granted below.
"""

import asyncio
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, cast

from holdfast.desk import Desk, Session
from holdfast.doors.dialect import Dialect, Greeting
from holdfast.doors.whois import about_peer
from holdfast.observe.logs import get_logger
from holdfast.ports import Alarm, Clock, Face
from holdfast.wire import line as wire
from holdfast.words import DRAINING, FOREVER, SECOND, Answer, Claim, Effect, Look, Request, View

AUTH_COOL_DOWN_NS: Final = SECOND // 10

LINE_BYTES_MAX: Final = wire.LINE_BYTES_MAX
CARRIAGE_RETURN: Final = 13
TLS_BUFFER_BYTES: Final = 65_536
# How much of looks, which may be long, is made for one peer before others have a turn.
SHOWN_BYTES_MAX: Final = 65_536
# How many wakes of connections that are gone may lie about.
WAKES_SPARE: Final = 1000

log = get_logger(door="line")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSettings:
    """What an operator may decide about this door."""

    read_timeout_ns: int
    idle_timeout: bool  # whether the read timeout also runs between requests
    write_timeout_ns: int  # 0: none
    pending_bytes_max: int
    lease_default_ns: int
    auth_token: bytes | None


class LineDoor:
    """Makes the connections of this door and keeps their time."""

    def __init__(
        self,
        desk: Desk,
        clock: Clock,
        alarm: Alarm,
        settings: LineSettings,
        dialect: Dialect | None = None,
        *,
        soon: Callable[[Callable[[], None]], object] | None = None,  # None: nobody else has to get a turn
    ) -> None:
        assert settings.auth_token != b""  # whoever sent nothing would have sent the right thing
        self.desk = desk
        self.dialect = dialect  # what `hello` changes to
        self.clock = clock
        self.settings = settings
        self.soon = soon
        self.codec = wire.LineCodec(settings.lease_default_ns)
        self.connections: set[LineConnection] = set()
        self._alarm = alarm
        self._wakes: list[tuple[int, int, LineConnection]] = []
        self._wakes_so_far = 0

    def connect(self, left: Callable[[], None]) -> "LineConnection":
        """Make a connection; `left` is called once when it is over."""
        return LineConnection(self, left)

    def close(self) -> None:
        """Cut whoever is still here, in the order in which they came."""
        for connection in sorted(self.connections, key=LineConnection.number):
            connection.abort()

    def next_deadline(self) -> int:
        return self._wakes[0][0] if self._wakes else FOREVER

    def tick(self, now: int) -> None:
        """Close those who took too long."""
        while self._wakes and self._wakes[0][0] <= now:
            when, _, connection = heappop(self._wakes)
            if connection.wake == when:
                connection.wake = FOREVER
                connection.tick(now)

    def watch(self, connection: "LineConnection", deadline: int) -> None:
        """Come back to a connection no later than `deadline`."""
        connection.wake = deadline
        self._wakes_so_far += 1
        heappush(self._wakes, (deadline, self._wakes_so_far, connection))
        if len(self._wakes) > 2 * len(self.connections) + WAKES_SPARE:
            self._forget_the_gone()
        self._alarm(deadline)

    def _forget_the_gone(self) -> None:
        """Drop the wakes of connections that are over, so that many short ones do not add up until their time."""
        self._wakes = [wake for wake in self._wakes if wake[2].wake == wake[0] and wake[2] in self.connections]
        heapify(self._wakes)


class LineConnection(Face):
    """One caller. Requests are served one after the other; a blocked one holds up those behind it."""

    def __init__(self, door: LineDoor, left: Callable[[], None]) -> None:
        self._door = door
        self._desk = door.desk
        self._codec = door.codec
        self._clock = door.clock
        self._left = left
        self._transport: asyncio.Transport
        self._write: Callable[[bytes], None]
        self._session: Session
        self._rest = b""  # bytes that are not yet a whole frame, or that wait behind a busy one
        self._out: list[bytes] = []
        self._busy = False  # a request is with the desk
        self._pumping = False  # frames are being served right now: answers go out together at the end
        self._paused = False  # the peer does not read, or others have their turn
        self._resting = False  # others have their turn
        self._shown = 0  # bytes of looks since others last had a turn
        self._closing = False  # nothing that still arrives matters
        self._ended = False  # the peer sends no more, and wants to read what it has coming
        self._draining_line = False  # the rest of an oversize line is being thrown away
        self._greeting: Greeting | None = None  # of the dialect that takes over when what has been read is served
        self._authenticated = door.settings.auth_token is None
        self._idle_timeout = door.settings.idle_timeout
        self._read_timeout_ns = door.settings.read_timeout_ns
        self._partial = 0  # lines of the unfinished frame, the unfinished one included
        self._deadline = FOREVER  # for the line that is being read
        self._write_deadline = FOREVER
        self.wake = FOREVER

    # --- from the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is none by descent
        self._write = transport.write
        # With no room in the buffer, the first answer that the peer does not take is noticed at once. Behind TLS the
        # end of the handshake may still lie there, and must not pass for such an answer.
        transport.set_write_buffer_limits(high=TLS_BUFFER_BYTES if transport.get_extra_info("sslcontext") else 0)
        self._session = self._desk.open(self)
        self._door.connections.add(self)
        if self._idle_timeout or not self._authenticated:
            self._read_by(self._clock() + self._read_timeout_ns)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._rest:
            data = self._rest + data
        self._rest = data
        if self._draining_line:
            self._drain_line(data)
        elif self._busy or self._paused:
            if len(data) > self._door.settings.pending_bytes_max:
                self.abort()  # whoever pipelines without end behind a blocked request has no claim to an answer
        else:
            self._pump(self._clock())

    def eof_received(self) -> bool:
        """A caller that stops talking while blocked is gone, whatever it may still want to read.

        One that only waits for the store to answer gets its answer; until then the connection is kept.
        """
        if not (self._busy or self._resting) or self._closing:
            return False
        if self._session.awaited:
            self.abort()
            return False
        self._ended = True
        return True

    def waits(self, request: Request) -> None:
        if self._ended:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._deadline = self._write_deadline = FOREVER
        self._rest = b""
        self._out.clear()
        self._door.connections.discard(self)
        self._desk.close(self._session, self._clock())
        self._left()

    def pause_writing(self) -> None:
        self._paused = True
        self._transport.pause_reading()
        timeout_ns = self._door.settings.write_timeout_ns
        if timeout_ns:
            self._write_deadline = self._clock() + timeout_ns
            self._watch(self._write_deadline)

    def resume_writing(self) -> None:
        self._paused = False
        self._write_deadline = FOREVER
        self._transport.resume_reading()
        self._carry_on()

    def _rest_a_turn(self, soon: Callable[[Callable[[], None]], object]) -> None:
        """Let others have their turn before more is served."""
        self._paused = self._resting = True
        self._transport.pause_reading()
        soon(self._rested)

    def _rested(self) -> None:
        self._resting = False
        if not (self._closing or self._transport.is_closing()):
            self.resume_writing()
            if self._ended and not (self._busy or self._paused or self._closing):
                self._transport.close()

    def number(self) -> int:
        """Tell how many came before."""
        return self._session.id

    def abort(self) -> None:
        """Cut the connection. It is hung up at once, so that nothing is granted to it on the way out."""
        self._closing = True
        self._desk.close(self._session, self._clock())
        self._transport.abort()

    def tick(self, now: int) -> None:
        """Act on what has taken too long, or come back later."""
        # Nothing is read, and so no line can be late, behind a busy request or for a peer that does not read.
        deadline = FOREVER if self._busy or self._paused else self._deadline
        if self._write_deadline <= now:
            self.abort()
        elif self._closing:
            self._linger(now)
        elif deadline <= now:
            self._refuse(wire.READ_TIMEOUT, now)
        else:
            self._watch(min(self._write_deadline, deadline))

    def _linger(self, now: int) -> None:
        """Close when the cool-down is over; the last reply still has the time that any reply has."""
        if self._deadline <= now:
            self._deadline = FOREVER
            self._transport.close()
        self._watch(min(self._write_deadline, self._deadline))

    # --- frames in ---

    def _carry_on(self) -> None:
        """Go on with what waited behind a busy request or a peer that did not read."""
        if not (self._busy or self._paused or self._closing or self._pumping):
            self._partial = 0  # the time of a line that has begun meanwhile starts now
            self._pump(self._clock())

    def _pump(self, now: int) -> None:
        """Serve the whole frames that have arrived, as far as nothing blocks, and write all answers at once."""
        data = self._rest
        lines = data.split(b"\n")
        whole = len(lines) - 1
        plain = len(data) <= LINE_BYTES_MAX and CARRIAGE_RETURN not in data  # none too long, none to trim
        at = 0
        self._pumping = True
        while whole - at >= 3:
            if plain:
                self._serve(lines[at], lines[at + 1], lines[at + 2], now)
            else:
                self._serve_raw(lines[at : at + 3], now)
            at += 3
            if self._busy or self._paused or self._closing:
                break
        self._pumping = False
        self._rest = lines[whole] if at == whole else b"\n".join(lines[at:])
        if not (self._busy or self._paused or self._closing):
            self._await_more(lines, at, now)
        elif self._greeting is not None:
            self._hand_over(self._greeting, now)
        if self._out:
            self._flush()

    def _await_more(self, lines: list[bytes], at: int, now: int) -> None:
        """Set the time by which the next line has to be here."""
        if self._rest:
            self._read_on(lines[at:], at > 0, now)
            return
        self._partial = 0
        self._deadline = FOREVER
        if self._idle_timeout or self._draining_line:
            self._read_by(now + self._read_timeout_ns)

    def _read_on(self, partial: list[bytes], served: bool, now: int) -> None:
        """Judge the frame that has begun: its lines so far must not be too long, nor take too long."""
        if wire.too_long(partial[:-1]):
            self._refuse(wire.LINE_TOO_LONG, now)
            return
        if wire.too_long(partial):
            # It is refused when its end has come by, as the peer is still writing; until then it takes no room.
            self._draining_line = True
            self._rest = b""
        if served or len(partial) != self._partial or self._deadline == FOREVER:
            self._partial = len(partial)
            self._read_by(now + self._read_timeout_ns)

    def _drain_line(self, data: bytes) -> None:
        self._rest = b""
        if b"\n" in data:
            self._refuse(wire.LINE_TOO_LONG, self._clock())

    def _serve_raw(self, frame: list[bytes], now: int) -> None:
        if wire.too_long(frame):
            self._refuse(wire.LINE_TOO_LONG, now)
        else:
            self._serve(frame[0].rstrip(b"\r"), frame[1].rstrip(b"\r"), frame[2].rstrip(b"\r"), now)

    def _serve(self, command: bytes, key: bytes, arg: bytes, now: int) -> None:
        if not self._authenticated:
            if command == b"hello" and self._door.dialect is not None:
                self._greet(self._door.dialect.greet(arg), now)
            else:
                self._authenticate(wire.trim(arg) if command == b"auth" else b"", now)
            return
        try:
            request = self._codec.decode(command, key, arg)
        except wire.BadLine as bad:
            if command == b"hello" and self._door.dialect is not None:
                self._greet(self._door.dialect.greet(arg), now)
                return
            log.debug("bad request", code=bad.code, detail=bad.detail, connection=self._session.id)
            self._out.append(wire.ERROR)
            return
        if isinstance(request, (wire.Ping, wire.Stats, wire.Auth)):
            self._serve_here(request, now)
        else:
            self._busy = True
            self._desk.submit(self._session, request, now)

    def _serve_here(self, request: wire.Ping | wire.Stats | wire.Auth, now: int) -> None:
        """Serve what is about the connection or the service, and not about a key."""
        if isinstance(request, wire.Auth):
            self._out.append(wire.ERROR)  # also when it has been given before: one token serves the whole connection
        elif isinstance(request, wire.Stats):
            self._busy = True
            self._desk.submit(self._session, Look(), now)
        elif self._desk.draining:
            self._say_goodbye(wire.REPLIES[DRAINING])
        else:
            self._out.append(wire.OK)

    def _authenticate(self, token: bytes, now: int) -> None:
        if self._knows(token, now):
            self._out.append(wire.OK)

    def _knows(self, token: bytes, now: int) -> bool:
        """Compare in constant time, also a token that was never sent: the time must not tell what was wrong."""
        expected = self._door.settings.auth_token
        assert expected is not None
        self._authenticated = hmac.compare_digest(token, expected)
        if not self._authenticated:
            log.info("authentication failed", connection=self._session.id)
            self._say_goodbye(wire.AUTH_ERROR, linger_until=now + AUTH_COOL_DOWN_NS)
        return self._authenticated

    # --- another dialect ---

    def _greet(self, greeting: Greeting, now: int) -> None:
        """Somebody says hello in a dialect: nothing more is served here, unless it is refused there."""
        if not self._authenticated and not self._knows(greeting.auth, now):
            return
        refusal = greeting.refusal()
        if refusal:
            self._out.append(refusal)
        else:
            self._greeting = greeting
            self._closing = True

    def _hand_over(self, greeting: Greeting, now: int) -> None:
        """Leave the transport to the dialect, with what has been said and heard and not been dealt with."""
        said, rest = b"".join(self._out), self._rest
        self._out.clear()
        self._rest = b""
        self._greeting = None
        self._deadline = FOREVER
        self._door.connections.discard(self)
        self._desk.dismiss(self._session, now)
        greeting.take_over(self._transport, said, rest, self._left)
        if self._ended:
            greeting.hear_end()

    # --- answers out ---

    def answer(self, request: Request, answer: Answer, claim: Claim | None) -> None:
        self._busy = False
        self._out.append(wire.reply_to(request, answer, claim))
        if answer is DRAINING:
            self._say_goodbye()
        elif not self._pumping:
            self._go_on()

    def seen(self, views: list[View]) -> None:
        self._busy = False
        line = wire.stats_line(views, self._desk.connections, self._clock())
        self._out.append(line)
        if not self._pumping:
            self._go_on()
            return
        self._shown += len(line)
        if self._shown < SHOWN_BYTES_MAX:
            return
        self._shown = 0
        self._flush()  # a peer that does not read is noticed before more is made for it
        if self._door.soon is not None and not (self._paused or self._transport.is_closing()):
            self._rest_a_turn(self._door.soon)

    def _go_on(self) -> None:
        self._carry_on()
        if self._out:
            self._flush()
        if self._ended and not self._busy and not self._closing:
            self._transport.close()

    def news(self, effect: Effect) -> None:
        """This protocol has no way to tell; whoever wants to know asks."""

    def about(self) -> bytes:
        return about_peer("line", self._transport.get_extra_info("peername"))

    def _flush(self) -> None:
        out = self._out
        self._out = []
        self._write(out[0] if len(out) == 1 else b"".join(out))

    def _refuse(self, code: int, now: int) -> None:
        """Give up on a peer whose framing cannot be trusted any more."""
        log.debug("connection refused", code=code, connection=self._session.id)
        if self._authenticated:
            self._say_goodbye(wire.ERROR)
        else:
            self._authenticate(b"", now)

    def _say_goodbye(self, reply: bytes = b"", linger_until: int = 0) -> None:
        """Send a last reply and close, now or after a cool-down; whatever still arrives is ignored."""
        self._out.append(reply)
        self._flush()
        self._closing = True
        if linger_until:
            self._read_by(linger_until)
        else:
            self._transport.close()

    # --- time ---

    def _read_by(self, deadline: int) -> None:
        self._deadline = deadline
        if deadline < self.wake:
            self._door.watch(self, deadline)

    def _watch(self, deadline: int) -> None:
        if deadline < self.wake:
            self._door.watch(self, deadline)
