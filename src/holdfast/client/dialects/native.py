"""The native protocol as a client speaks it: JSON Lines after a hello, many requests in flight, events in between.

Requests are spelled by `wire/native.py`, as the server reads them; what is asked, and again, is not decided here.
"""

import binascii
import json
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from holdfast.client.asks import (
    Acquire,
    Answer,
    Ask,
    Convert,
    End,
    Ended,
    Enqueue,
    Granted,
    GrantedAll,
    News,
    Query,
    Queued,
    Refusal,
    Renew,
    Renewed,
    Seen,
    Wait,
    Want,
    kind_of,
)
from holdfast.client.dialects.codec import Codec, Handle, error_of
from holdfast.errors import BadPeer, BadRequest, Closed, Forbidden, HoldfastError
from holdfast.wire import native as wire

MILLISECOND: Final = 1_000_000
# A server may send long lines where it is asked to show much.
ANSWER_BYTES_MAX: Final = 64 << 20
IN_FLIGHT_MAX: Final = wire.IN_FLIGHT_MAX
RENEWALS_MAX: Final = wire.RENEWALS_MAX


class Session:
    """The session that the connections of one client share; the server names it, and may forget it."""

    __slots__ = ("grace_ns", "hello", "name")

    def __init__(self, *, client: str, host: str, pid: int, auth: str | None) -> None:
        self.name: str | None = None
        self.grace_ns = 0
        self.hello: dict[str, Any] = {"client": client, "host": host, "pid": pid, "auth": auth}


class _Grant(msgspec.Struct):
    """What tells of a grant, in an answer, in a group and in an event."""

    ticket: str
    key: str
    kind: wire.Kind
    mode: wire.ModeName
    fence: Annotated[int, Meta(ge=1)]
    token: wire.Token
    lease_ms: wire.LeaseMs
    left_ms: Annotated[int, Meta(ge=0)]
    value: str | None = None
    value_valid: bool = False


class _Line(msgspec.Struct):
    """Any line from the server, as far as it has to be read quickly."""

    id: int | str | None = None
    answer: str | None = None
    error: str | None = None
    detail: str = ""
    event: str | None = None
    renewed: list[bool | None] | None = None
    claims: list[_Grant] | None = None


class _Greeting(msgspec.Struct):
    session: str
    grace_ms: Annotated[int, Meta(ge=0)]
    line_bytes_max: Annotated[int, Meta(ge=1)]
    in_flight_max: Annotated[int, Meta(ge=1)]
    resumed: bool = False


class _Refused(msgspec.Struct):
    error: str
    detail: str = ""


_LINE: Final = msgspec.json.Decoder(_Line)
_GRANT: Final = msgspec.json.Decoder(_Grant)
_GREETING: Final = msgspec.json.Decoder(_Greeting)
_REFUSED: Final = msgspec.json.Decoder(_Refused)
_BROKEN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class NativeCodec(Codec):
    """One connection of a session."""

    def __init__(self, session: Session, *, events: bool) -> None:
        super().__init__()
        self.session = session
        self.resumed = False
        self.joined: str | None = None  # the session that this connection is in
        self.line_bytes_max = wire.LINE_BYTES_MAX
        self._events = events
        self._in_flight_max = IN_FLIGHT_MAX
        self._rest = b""
        self._last_id = 0
        self._asked: dict[int, tuple[Handle, Ask]] = {}

    def greeting(self) -> bytes:
        hello = wire.Hello(version=wire.VERSION, join=self.session.name, events=self._events, **self.session.hello)
        return b"hello\n_\n" + wire.write_request(hello) + b"\n"

    def has_room(self) -> bool:
        return len(self._asked) < self._in_flight_max

    def _unanswered(self) -> list[Handle]:
        return [handle for handle, _ in self._asked.values()]

    @property
    def asked(self) -> list[Ask]:
        """List what has no answer yet."""
        return [ask for _, ask in self._asked.values()]

    # --- out ---

    def write(self, ask: Ask, handle: Handle) -> bytes:
        id_ = self._last_id + 1
        try:
            line = wire.write_request(_spell(ask, id_))
        except UnicodeEncodeError as error:
            raise BadRequest(f"the request has a text that cannot be written in UTF-8: {error.object!r}") from None
        if len(line) > self.line_bytes_max:
            raise BadRequest(f"the request has {len(line)} bytes; the server takes {self.line_bytes_max}")
        self._last_id = id_
        self._asked[id_] = (handle, ask)
        return line + b"\n"

    # --- in ---

    def _take_in(self, data: bytes, answers: list[tuple[Handle, Answer]]) -> None:
        if self._rest:
            data = self._rest + data
        lines = data.split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > ANSWER_BYTES_MAX:
            raise BadPeer(f"the server sent a line of more than {ANSWER_BYTES_MAX} bytes")
        if lines and not self.ready:
            self._greeted(lines.pop(0))
        for text in lines:
            self._take(text, answers)

    def _greeted(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        try:
            if word == b"ok":
                greeting = _GREETING.decode(rest)
            elif word == b"error" and rest:
                refused = _REFUSED.decode(rest)
                raise error_of(refused.error, refused.detail)
            else:
                raise _not_greeted(line)
        except _BROKEN as error:
            raise BadPeer(f"hello was answered with what is no greeting: {error}") from error
        self.session.grace_ns = greeting.grace_ms * MILLISECOND
        self.session.name = self.joined = greeting.session
        self.resumed = greeting.resumed
        self.line_bytes_max = greeting.line_bytes_max
        self._in_flight_max = greeting.in_flight_max
        self.ready = True

    def _take(self, text: bytes, answers: list[tuple[Handle, Answer]]) -> None:
        try:
            line = _LINE.decode(text)
            if line.event is not None:
                self.news.append(News(line.event, _fields(text)))
                return
            id_ = line.id
            if not isinstance(id_, int) or id_ not in self._asked:
                raise BadPeer(f"the server answered what nobody asked: {line.detail or line.answer!r}")
            handle, ask = self._asked[id_]
            answers.append((handle, _read(ask, line, text)))
            del self._asked[id_]
        except _BROKEN as error:
            raise BadPeer(f"the server sent a line that cannot be read: {error}") from error


def _not_greeted(line: bytes) -> HoldfastError:
    """Say what a server means that does not say ok to hello."""
    if line == b"error_auth":
        return Forbidden("the server wants another token; give it as auth=, or in the URL as holdfast://:TOKEN@HOST")
    if line == b"error_draining":
        return Closed("the server is about to stop")
    if line == b"error":
        return BadPeer("the server does not speak the native protocol; dflock:// may do for it")
    return BadPeer(f"the server answered hello with {line[:80]!r}; is it a Holdfast?")


# --- spelling requests ---


def _ms(span_ns: int | None) -> int | None:
    """Spell a time; what is not nothing must not become nothing."""
    return None if span_ns is None else min(-(-span_ns // MILLISECOND), wire.MS_MAX)


def lease_ms(lease_ns: int) -> int:
    """Spell a lease, never shorter than what is going to be believed here."""
    return max(1, -(-lease_ns // MILLISECOND))


def _spell(ask: Ask, id_: int) -> wire.Request:
    if isinstance(ask, Acquire):
        return wire.Acquire(id=id_, patience_ms=_ms(ask.patience_ns), **_want(ask.want))
    if isinstance(ask, End):
        value = None if ask.value is None else binascii.b2a_base64(ask.value, newline=False).decode()
        if ask.proof is None or not ask.proof.token:
            return wire.End(id=id_, ticket=ask.want.ticket, value=value)
        return wire.End(id=id_, key=ask.want.key, kind=_kind(ask.want), token=ask.proof.token, value=value)
    if isinstance(ask, Renew):
        return wire.Renew(
            id=id_,
            claims=[
                wire.Renewal(key=proof.want.key, token=proof.token, kind=_kind(proof.want), lease_ms=lease_ms(lease_ns))
                for proof, lease_ns in ask.proofs
            ],
        )
    if isinstance(ask, Enqueue):
        return wire.Enqueue(id=id_, **_want(ask.want))
    if isinstance(ask, Wait):
        return wire.Wait(id=id_, ticket=ask.want.ticket, patience_ms=_ms(ask.patience_ns))
    if isinstance(ask, Convert):
        value = None if ask.value is None else binascii.b2a_base64(ask.value, newline=False).decode()
        mode: Any = ask.mode
        patience_ms, ticket = _ms(ask.patience_ns), ask.want.ticket
        return wire.Convert(id=id_, ticket=ticket, mode=mode, patience_ms=patience_ms, value=value)
    return _query(ask, id_)


def _query(ask: Query, id_: int) -> wire.Request:
    if ask.op not in _QUERIES:
        raise BadRequest(f"holdfast:// knows no {ask.op}")
    request: wire.Request = _QUERIES[ask.op](id=id_, **ask.fields)
    return request


_QUERIES: Final[dict[str, Any]] = {
    "look": wire.Look,
    "explain": wire.Explain,
    "deadlocks": wire.Deadlocks,
    "watch": wire.Watch,
    "unwatch": wire.Unwatch,
    "break": wire.Break,
    "stats": wire.Stats,
    "ping": wire.Ping,
    "bye": wire.Bye,
}


def _kind(want: Want) -> Any:
    return want.kind


def _want(want: Want) -> dict[str, Any]:
    fields: dict[str, Any] = {"ticket": want.ticket, "lease_ms": lease_ms(want.lease_ns)}
    if want.members:
        fields["keys"] = [
            wire.Member(key=member.key, mode=member.mode, limit=member.limit, units=member.units)  # type: ignore[arg-type]
            for member in want.members
        ]
    else:
        fields |= {"key": want.key, "mode": want.mode, "limit": want.limit, "units": want.units, "nudge": want.nudge}
    if want.about:
        fields["meta"] = wire.About(**want.about)
    if want.refuse_deadlock:
        fields["deadlock"] = "refuse"
    return fields


# --- reading answers ---


def _fields(text: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(text)
    return fields


def _read(ask: Ask, line: _Line, text: bytes) -> Answer:
    if line.error is not None:
        if isinstance(ask, End) and line.error in ("not_held", "lease_lost"):
            return Ended(was_there=False)
        return Refusal(error_of(line.error, line.detail))
    word = line.answer
    if word == "granted" and isinstance(ask, (Acquire, Enqueue, Wait, Convert)):
        return _read_grant(ask, line, text)
    if word == "ended" and isinstance(ask, End):
        return Ended(was_there=True)
    if word == "renewed" and isinstance(ask, Renew) and line.renewed is not None:
        if len(line.renewed) != len(ask.proofs):
            raise BadPeer(f"{len(ask.proofs)} renewals got {len(line.renewed)} answers")
        return Renewed(list(line.renewed))
    if word == "queued" and isinstance(ask, Enqueue):
        return Queued()
    if word in ("seen", "ok", "ended") and isinstance(ask, Query):
        return Seen(_fields(text))
    raise BadPeer(f"the server answered {type(ask).__name__} with {word!r}")


def _read_grant(ask: Acquire | Enqueue | Wait | Convert, line: _Line, text: bytes) -> Answer:
    """Believe a grant only if it is of what was asked for."""
    want = ask.want
    if want.members:
        grants = line.claims or []
        wanted = [
            (f"{want.ticket}#{number}", member.key, kind_of(member.limit), member.mode)
            for number, member in enumerate(want.members)
        ]
    else:
        grants = [_GRANT.decode(text)]
        wanted = [(want.ticket, want.key, want.kind, ask.mode if isinstance(ask, Convert) else want.mode)]
    if [(grant.ticket, grant.key, grant.kind, grant.mode) for grant in grants] != wanted:
        raise BadPeer(f"the server granted something else than {want.key!r}, which was asked for")
    return GrantedAll([granted(grant) for grant in grants]) if want.members else granted(grants[0])


def granted(grant: _Grant) -> Granted:
    """Tell of a grant as every protocol does."""
    value = None
    if grant.value is not None:
        try:
            value = binascii.a2b_base64(grant.value, strict_mode=True)
        except ValueError as error:
            raise BadPeer(f"the value of {grant.key!r} is no base64: {error}") from error
    return Granted(
        ticket=grant.ticket,
        key=grant.key,
        kind=grant.kind,
        mode=grant.mode,
        fence=grant.fence,
        token=grant.token,
        lease_ns=grant.lease_ms * MILLISECOND,
        left_ns=grant.left_ms * MILLISECOND,
        value=value,
        value_valid=grant.value_valid,
    )


def granted_in(fields: dict[str, Any]) -> Granted:
    """Read a grant that came as an event."""
    try:
        return granted(msgspec.convert(fields, _Grant))
    except msgspec.ValidationError as error:
        raise BadPeer(f"the server told of a grant that cannot be read: {error}") from error


def cost_bytes(want: Want) -> int:
    """Say how much of a line a renewal of this takes, at most."""
    return len(json.dumps(want.key, ensure_ascii=False).encode()) + 120
