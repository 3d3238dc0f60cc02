"""The native protocol, as it is asked: every request as a type, with its fields and their limits.

Pure text work: what requests mean is in native_meaning.py, answers are spelled in native_answers.py.
"""

import re
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from holdfast.words import GROUP_KEYS_MAX

VERSION: Final = 1
HELLO_BYTES_MAX: Final = 4096
LINE_BYTES_MAX: Final = 65_536
IN_FLIGHT_MAX: Final = 4096
SESSION_DIGITS: Final = 48
TICKET_CHARS_MIN: Final = 16
TICKET_CHARS_MAX: Final = 64
GROUP_MAX: Final = GROUP_KEYS_MAX
RENEWALS_MAX: Final = 1000
LOOK_MAX: Final = 1000
MS_MAX: Final = 9_223_372_036_000  # some 292 years, which in nanoseconds still fits 64 bits
LIMIT_MAX: Final = 1_000_000_000
ID_MAX: Final = 1 << 53


Id = Annotated[int, Meta(ge=-ID_MAX, le=ID_MAX)] | Annotated[str, Meta(max_length=64)]
Kind = Literal["lock", "semaphore"]
ModeName = Literal["NL", "CR", "CW", "PR", "PW", "EX"]
Ticket = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.:~+/=@-]{16,64}(#[0-9]{1,2})?\Z")]
Token = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
LeaseMs = Annotated[int, Meta(ge=1, le=MS_MAX)]
PatienceMs = Annotated[int, Meta(ge=0, le=MS_MAX)]
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX)]

# How many bytes of each text may be shown to whoever looks.
TEXTS_MAX: Final = {
    "client": 64,
    "host": 128,
    "thread": 128,
    "task": 128,
    "operation": 256,
    "traceparent": 64,
    "reason": 256,
}

_WHERE = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$\.?(.*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*?)`(?: - at `\$\.?(.*)`)?", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class BadRequest(Exception):
    """A line that is no request. `fatal`: what follows cannot be trusted to be one either."""

    def __init__(self, detail: str, id_: int | str | None = None, *, fatal: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.id = id_
        self.fatal = fatal


# --- the requests ---


class Hello(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The third line of `hello`."""

    version: int
    client: str | None = None
    host: str | None = None
    pid: Annotated[int, Meta(ge=0, le=ID_MAX)] | None = None
    auth: str | None = None
    join: str | None = None
    events: bool = True
    on_disconnect: Literal["keep", "release"] | None = None


class About(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What a claim tells of whoever asks for it."""

    thread: str | None = None
    task: str | None = None
    operation: str | None = None
    traceparent: str | None = None


class Member(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One key of a group."""

    key: str
    mode: ModeName | None = None
    limit: Limit | None = None
    units: Limit = 1


class Ask(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What every request has."""

    id: Id


class Asking(Ask, tag_field="op"):
    """What `acquire` and `enqueue` have in common."""

    ticket: Ticket
    key: str | None = None
    keys: Annotated[list[Member], Meta(min_length=2, max_length=GROUP_MAX)] | None = None
    mode: ModeName | None = None
    limit: Limit | None = None
    units: Limit = 1
    lease_ms: LeaseMs | None = None
    nudge: bool = False
    meta: About | None = None
    deadlock: Literal["refuse"] | None = None


class Acquire(Asking, tag_field="op", tag="acquire"):
    patience_ms: PatienceMs | None = None


class Enqueue(Asking, tag_field="op", tag="enqueue"):
    pass


class Wait(Ask, tag_field="op", tag="wait"):
    ticket: Ticket
    patience_ms: PatienceMs | None = None


class Convert(Ask, tag_field="op", tag="convert"):
    ticket: Ticket
    mode: ModeName
    patience_ms: PatienceMs | None = None
    queue: bool = True
    value: str | None = None
    deadlock: Literal["refuse"] | None = None


class Renewal(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One claim of a batch of renewals."""

    key: str
    token: Token
    kind: Kind = "lock"
    lease_ms: LeaseMs | None = None


class Renew(Ask, tag_field="op", tag="renew"):
    ticket: Ticket | None = None
    key: str | None = None
    token: Token | None = None
    kind: Kind | None = None
    lease_ms: LeaseMs | None = None
    claims: Annotated[list[Renewal], Meta(min_length=1, max_length=RENEWALS_MAX)] | None = None


class End(Ask, tag_field="op", tag="end"):
    ticket: Ticket | None = None
    key: str | None = None
    token: Token | None = None
    kind: Kind | None = None
    value: str | None = None


class Look(Ask, tag_field="op", tag="look"):
    key: str | None = None
    prefix: str | None = None
    kind: Kind | None = None
    held: bool | None = None
    after: str | None = None
    count: Annotated[int, Meta(ge=1, le=LOOK_MAX)] | None = None


class Explain(Ask, tag_field="op", tag="explain"):
    key: str
    kind: Kind = "lock"


class Deadlocks(Ask, tag_field="op", tag="deadlocks"):
    pass


class Watch(Ask, tag_field="op", tag="watch"):
    key: str | None = None
    prefix: str | None = None
    kind: Kind | None = None
    deadlocks: bool = False


class Unwatch(Ask, tag_field="op", tag="unwatch"):
    pass


class Break(Ask, tag_field="op", tag="break"):
    key: str
    reason: str
    kind: Kind = "lock"
    token: Token | None = None


class Stats(Ask, tag_field="op", tag="stats"):
    pass


class Ping(Ask, tag_field="op", tag="ping"):
    pass


class Bye(Ask, tag_field="op", tag="bye"):
    pass


Request = (
    Acquire
    | Enqueue
    | Wait
    | Convert
    | Renew
    | End
    | Look
    | Explain
    | Deadlocks
    | Watch
    | Unwatch
    | Break
    | Stats
    | Ping
    | Bye
)
OPS: Final = (
    "acquire", "enqueue", "wait", "convert", "renew", "end", "look", "explain", "deadlocks", "watch", "unwatch",
    "break", "stats", "ping", "bye",
)  # fmt: skip


class _Named(Struct):
    """The little that has to be there so that a refusal can be answered to somebody."""

    id: Id | None = None


_HELLO: Final = msgspec.json.Decoder(Hello)
_REQUEST: Final = msgspec.json.Decoder(Request)
_NAMED: Final = msgspec.json.Decoder(_Named)
_ENCODER: Final = msgspec.json.Encoder()

# What JSON can be wrong about; texts that are not UTF-8 and lists in lists without end included.
_NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

T = TypeVar("T")


# --- reading ---


def read_hello(text: bytes) -> Hello:
    """Read the third line of `hello`; raises BadRequest."""
    hello = _read(_HELLO, text)
    if hello.version != VERSION:
        raise BadRequest(f"version: {hello.version} is not known here; this server speaks {VERSION}")
    for name in ("client", "host"):
        check_text(name, getattr(hello, name))
    return hello


def read_request(line: bytes) -> Request:
    """Read one line; raises BadRequest, which knows whose request it was, if that can be known."""
    try:
        request: Request = _read(_REQUEST, line)
    except BadRequest as bad:
        if not bad.fatal:
            bad.id = _id_of(line)
        raise
    return request


def write_request(request: Request | Hello) -> bytes:
    """Spell a request as a client does, without a line feed."""
    return _ENCODER.encode(request)


def _read(decoder: "msgspec.json.Decoder[T]", text: bytes) -> T:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        detail = say_what_is_wrong(str(error))
        raise BadRequest(detail, fatal=detail.startswith("a line is an object")) from None
    except _NOT_JSON:
        raise BadRequest("not a line of JSON", fatal=True) from None


def _id_of(line: bytes) -> int | str | None:
    try:
        return _NAMED.decode(line).id
    except (msgspec.ValidationError, *_NOT_JSON):
        return None  # it had an id of a kind that there is not; or is no JSON behind the field that was wrong


def say_what_is_wrong(error: str) -> str:
    """Put the name of the field first."""
    for pattern, what in ((_UNKNOWN, "unknown field"), (_MISSING, "missing")):
        if found := pattern.fullmatch(error):
            name, place = found.groups()
            return f"{place}.{name}: {what}" if place else f"{name}: {what}"
    found = _WHERE.fullmatch(error)
    if found is None:
        return f"a line is an object: {_lower(error)}"
    return f"{found[2]}: {_lower(found[1])}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def check_text(field: str, text: str | None) -> None:
    """Refuse what would not look well where it is shown; raises BadRequest."""
    if text is None:
        return
    most = TEXTS_MAX[field.rpartition(".")[2]]
    if len(text.encode()) > most:
        raise BadRequest(f"{field}: at most {most} bytes")
    if _CONTROL.search(text):
        raise BadRequest(f"{field}: no control characters")
