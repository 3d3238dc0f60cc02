"""Frames: what a peer sent is cut into threes of lines just so, however it arrived; and who is cut off has earned it.

The server's own idea of a frame is what it takes up; here the same bytes are cut once more, slowly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sim.checkers.asks import ACQUIRE, WAIT
from sim.checkers.sleep import Sleep
from sim.checkers.talks import Finding, Talk, Talks
from sim.history import (
    Came,
    CameEnd,
    Cleared,
    Connected,
    Cut,
    Event,
    Flowed,
    HungUp,
    Lost,
    Rules,
    Stalled,
    Stopped,
    Taken,
    Torn,
    Wrote,
)

LINE_BYTES_MAX = 256
AUTH_BYTES_MAX = 65_536

Frame = tuple[bytes, bytes, bytes]


@dataclass(slots=True)
class _Stream:
    """One connection, as far as it has come."""

    talk: Talk
    rules: Rules
    moved_at: int  # when a whole line came last, or the server did something for this peer
    frames: list[Frame] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)  # of the frame that has begun
    rest: bytes = b""
    too_long: bool = False
    taken: int = 0
    replied: int = 0
    said: list[bytes] = field(default_factory=list)
    moved_before: int = 0  # the same, as it was before the last reply
    line_at: int = 0  # when the line that has begun did so
    ended: bool = False  # by the peer
    over: bool = False  # by the server
    hung_up: bool = False
    stalled_at: int | None = None

    @property
    def greeting(self) -> int:
        """Count the frames that are about the connection's token and are not taken up as requests."""
        return 0 if self.rules.auth_token is None else 1

    @property
    def was_turned_away(self) -> bool:
        return self.said[-1:] == [b"error_auth"]

    @property
    def is_blocked(self) -> bool:
        requests = self.talk.requests
        if not 0 < self.taken <= len(requests):
            return False
        last = requests[self.taken - 1]
        return (last.handed or last.ask.verb in (ACQUIRE, WAIT)) and self.replied < self.taken + self.greeting

    def take_in(self, data: bytes, now: int) -> None:
        """Cut what arrived into lines, and lines into frames; behind a line that is too long there are none."""
        if not self.rest and not self.lines:
            self.line_at = now
        *whole, self.rest = (self.rest + data).split(b"\n")
        for line in whole:
            if self.too_long:
                return
            self.moved_at = self.line_at = now
            self.lines.append(line)
            self.too_long = self._is_too_long(line)
            if len(self.lines) == 3 and not self.too_long:
                command, key, arg = (line.rstrip(b"\r") for line in self.lines)
                self.frames.append((command, key, arg))
                self.lines = []

    def _is_too_long(self, line: bytes) -> bool:
        is_token = len(self.lines) == 3 and self.lines[0].rstrip(b"\r") == b"auth"
        return len(line) > (AUTH_BYTES_MAX if is_token else LINE_BYTES_MAX)


def check_framing(talks: Talks) -> Iterator[Finding]:
    talks = talks.raw
    sleep = Sleep(talks.events)
    streams: dict[int, _Stream] = {}
    stirred: set[int] = set()
    step = 0
    cleared = False
    for event in talks.events:
        if event.step != step:
            for peer in stirred:
                yield from _check_rest(streams[peer], step)
            stirred.clear()
            step = event.step
        match event:
            case Connected():
                talk = talks.by_peer[event.peer]
                streams[event.peer] = _Stream(talk, talk.rules, event.at)
            case Stopped():
                streams.clear()
                stirred.clear()
                cleared = False
            case Cleared():
                cleared = True
            case Cut():
                if not cleared:
                    yield from _check_cut(streams[event.peer], event)
                streams[event.peer].over = True
            case Came() | CameEnd() | Taken() | Wrote() | Stalled() | Flowed() | HungUp() | Lost() | Torn():
                stream = streams[event.peer]
                if isinstance(event, (Came, Flowed)):
                    yield from _check_pace(stream, event, sleep)
                yield from _follow(stream, event)
                stirred.add(event.peer)


def _follow(stream: _Stream, event: Event) -> Iterator[Finding]:
    match event:
        case Came():
            stream.take_in(event.data, event.at)
        case CameEnd():
            stream.ended = True
        case Taken():
            place = stream.taken + stream.greeting
            frame = (event.command, event.key, event.arg)
            if place >= len(stream.frames) or stream.frames[place] != frame:
                due = stream.frames[place] if place < len(stream.frames) else "nothing"
                yield Finding("framing", event.step, f"the server took {frame} from peer {event.peer} instead of {due}")
            stream.taken += 1
        case Wrote():
            stream.said = event.data.split(b"\n")[:-1]
            stream.replied += len(stream.said)
            stream.moved_before = stream.moved_at
            stream.moved_at = stream.line_at = event.at
        case Stalled():
            stream.stalled_at = event.at
        case Flowed():
            stream.stalled_at = None
            stream.moved_at = stream.line_at = event.at
        case Lost() | Torn():
            stream.over = True
        case HungUp():
            stream.hung_up = True


def _check_rest(stream: _Stream, step: int) -> Iterator[Finding]:
    """A server that could go on with a connection has done so."""
    if stream.hung_up and not stream.over:
        yield Finding("framing", step, f"peer {stream.talk.peer} was given up, and its connection was not cut")
    if stream.over or stream.was_turned_away or stream.stalled_at is not None or stream.is_blocked:
        return
    left = len(stream.frames) - stream.greeting - stream.taken
    if left > 0:
        yield Finding("framing", step, f"peer {stream.talk.peer} has sent {left} requests that nobody took up")
    elif stream.too_long and left <= 0:
        yield Finding("framing", step, f"peer {stream.talk.peer} sent a line that is too long, and nobody minded")


def _check_pace(stream: _Stream, event: Event, sleep: Sleep) -> Iterator[Finding]:
    """Nobody may take longer over one line than was set; that is noticed at the latest when more of it comes."""
    peer, write_timeout_ns = stream.talk.peer, stream.rules.write_timeout_ns
    unread_since = stream.stalled_at if write_timeout_ns else None
    if unread_since is not None and event.at > sleep.wake_after(unread_since + write_timeout_ns):
        yield Finding("framing", event.step, f"peer {peer} read nothing for too long, and nobody minded")
    if stream.over or stream.was_turned_away or stream.stalled_at is not None or stream.is_blocked:
        return
    latest = sleep.wake_after(stream.line_at + stream.rules.read_timeout_ns)
    if (stream.rest or stream.lines) and event.at > latest:
        yield Finding("framing", event.step, f"peer {peer} took too long over a line, and nobody minded")


def _check_cut(stream: _Stream, event: Cut) -> Iterator[Finding]:
    """The server may end a connection for a few reasons, and for no other."""
    if not any(_reasons(stream, event)):
        yield Finding("framing", event.step, f"the server cut off peer {event.peer} ({event.how}) for no reason")


def _reasons(stream: _Stream, event: Cut) -> Iterator[bool]:
    rules = stream.rules
    last = stream.said[-1] if stream.said else b""
    if event.how == "abort":
        yield stream.ended and stream.is_blocked
        waits = stream.is_blocked or stream.stalled_at is not None
        yield waits and _unserved_bytes(stream) > rules.pending_bytes_max
        stalled_at = stream.stalled_at
        yield stalled_at is not None and 0 < rules.write_timeout_ns <= event.at - stalled_at
        return
    yield stream.ended
    yield last == b"error_draining"
    yield last == b"error" and stream.too_long
    yield last == b"error" and not stream.is_blocked and _took_too_long(stream, event.at)
    yield stream.was_turned_away


def _unserved_bytes(stream: _Stream) -> int:
    """Count what has come and cannot have been served: all behind the frames that were taken up."""
    behind = stream.frames[stream.taken + stream.greeting :]
    lines = [line for frame in behind for line in frame] + stream.lines
    # Carriage returns are gone from whole frames; each line may have had one.
    return sum(len(line) + 2 for line in lines) + len(stream.rest)


def _took_too_long(stream: _Stream, now: int) -> bool:
    """A line has to arrive in time; between requests that counts only where it was set so."""
    begun = bool(stream.rest or stream.lines)
    greeted = stream.greeting == 0 or stream.replied > 0
    runs = begun or stream.rules.idle_timeout or not greeted
    return runs and now - stream.moved_before >= stream.rules.read_timeout_ns
