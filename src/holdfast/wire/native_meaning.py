"""The native protocol, as it is meant: what requests ask for in the words of the service.

Pure text work; raises BadRequest, and names the field. No lock rule, no connection and no clock here.
"""

import binascii
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec
from msgspec import Struct

from holdfast.wire import native
from holdfast.wire.native import LOOK_MAX, Acquire, BadRequest, Enqueue, Hello, check_text
from holdfast.words import (
    CW,
    EX,
    FOREVER,
    KEY_BYTES_MAX,
    UNLIMITED,
    VALUE_BYTES_MAX,
    Claim,
    Group,
    Look,
    Mode,
    Renew,
    member_ticket,
)

LOCK: Final = b"lock:"
SEMAPHORE: Final = b"sem:"
MILLISECOND: Final = 1_000_000
ABOUT_BYTES_MAX: Final = 1024

MODES: Final[dict[str, int]] = {mode.name: int(mode) for mode in Mode}

_ENCODER: Final = msgspec.json.Encoder()


def key_of(name: str, kind: str | None, field: str = "key") -> bytes:
    """Give the key of a name."""
    raw = name.encode()
    if not 0 < len(raw) <= KEY_BYTES_MAX:
        raise BadRequest(f"{field}: has {len(raw)} bytes; a key has 1 to {KEY_BYTES_MAX}")
    return (SEMAPHORE if kind == "semaphore" else LOCK) + raw


def proof_of(name: str | None, token: str | None, kind: str | None) -> tuple[bytes, bytes]:
    """Read what proves a claim where no ticket does."""
    for field, given in (("key", name), ("token", token)):
        if given is None:
            raise BadRequest(f"{field}: missing, as there is no ticket")
    assert name is not None
    assert token is not None
    return key_of(name, kind), token.encode()


def renewal_of(one: native.Renewal, number: int, lease_default_ns: int) -> Renew:
    """Make one renewal of a batch."""
    lease_ns = lease_default_ns if one.lease_ms is None else span_ns(one.lease_ms)
    return Renew(key_of(one.key, one.kind, f"claims[{number}].key"), one.token.encode(), lease_ns)


def look_at(ask: native.Look) -> Look:
    """Make a look at one key, with all who wait for it."""
    assert ask.key is not None
    check_absent(ask, "key", "prefix", "held", "after", "count")
    return Look(key=key_of(ask.key, ask.kind), deep=True)


def looks_over(ask: native.Look) -> list[Look]:
    """Make the looks over many keys, one for each kind; one key more than is shown tells whether there are more."""
    after = b"" if ask.after is None else read_cursor(ask.after)
    prefix = b"" if ask.prefix is None else ask.prefix.encode()
    count = (ask.count or LOOK_MAX) + 1
    return [Look(prefix=space + prefix, after=after, count=count, held=ask.held) for space in spaces_of(ask.kind)]


def watched(ask: native.Watch) -> tuple[set[bytes], set[bytes]]:
    """Give the keys to watch, and the beginnings of keys."""
    if ask.key is not None:
        check_absent(ask, "key", "prefix")
        return {key_of(ask.key, ask.kind)}, set()
    if ask.prefix is not None:
        return set(), {space + ask.prefix.encode() for space in spaces_of(ask.kind)}
    if not ask.deadlocks:
        raise BadRequest("key: missing; or a prefix, or deadlocks")
    return set(), set()


def spaces_of(kind: str | None) -> list[bytes]:
    """Give the spaces of the keys of a kind, or all."""
    return [LOCK, SEMAPHORE] if kind is None else [SEMAPHORE if kind == "semaphore" else LOCK]


def cursor_of(key: bytes) -> str:
    """Spell a place between two keys, to be shown again."""
    return quote_from_bytes(key, safe=":/")


def read_cursor(text: str) -> bytes:
    """Read what `cursor_of` spelled."""
    key = unquote_to_bytes(text)
    if not key.startswith((LOCK, SEMAPHORE)):
        raise BadRequest("after: is not what next was")
    return key


def check_absent(request: Struct, beside: str, *fields: str) -> None:
    """Refuse fields that mean nothing beside another one."""
    for field in fields:
        if getattr(request, field) is not None:
            raise BadRequest(f"{field}: means nothing beside {beside}")


def span_ns(milliseconds: int | None) -> int:
    """Read a time; for ever where there is none."""
    return FOREVER if milliseconds is None else milliseconds * MILLISECOND


def value_of(text: str | None) -> bytes | None:
    """Read what is to be left in the value block."""
    if text is None:
        return None
    try:
        value = binascii.a2b_base64(text.encode(), strict_mode=True)
    except ValueError:
        raise BadRequest("value: not base64") from None
    if len(value) > VALUE_BYTES_MAX:
        raise BadRequest(f"value: has {len(value)} bytes; at most {VALUE_BYTES_MAX} are kept")
    return value


class Who:
    """Whoever said hello, as others are shown it, and the claims that it asks for."""

    __slots__ = ("_facts", "_owner", "about", "owner")

    def __init__(self, hello: Hello) -> None:
        pid = "?" if hello.pid is None else hello.pid
        told = hello.client or hello.host or hello.pid is not None
        self._owner = f"{hello.client or '?'}@{hello.host or '?'}:{pid}" if told else ""
        facts = {"client": hello.client, "host": hello.host, "pid": hello.pid, "door": "native"}
        self._facts = {name: fact for name, fact in facts.items() if fact is not None}
        self.owner = self._owner.encode()
        self.about = _ENCODER.encode(self._facts)

    def introduce(self, meta: native.About | None) -> tuple[bytes, bytes]:
        """Give the owner of a claim, and what is told of it."""
        if meta is None:
            return self.owner, self.about
        told = {name: text for name in meta.__struct_fields__ if (text := getattr(meta, name)) is not None}
        for name, text in told.items():
            check_text(f"meta.{name}", text)
        about = _ENCODER.encode({**self._facts, **told})
        if len(about) > ABOUT_BYTES_MAX:
            raise BadRequest(f"meta: with client and host, at most {ABOUT_BYTES_MAX} bytes as JSON")
        part = meta.task or meta.thread
        return ("/".join(filter(None, (self._owner, part))).encode() if part else self.owner), about


def claim_of(ask: Acquire | Enqueue, who: Who, lease_default_ns: int) -> Claim | Group:
    """Make the claim that is asked for, or the claims of a group."""
    owner, about = who.introduce(ask.meta)
    lease_ns = lease_default_ns if ask.lease_ms is None else ask.lease_ms * MILLISECOND
    patience_ns = span_ns(ask.patience_ms) if isinstance(ask, Acquire) else FOREVER
    tracked = isinstance(ask, Enqueue)
    refuses = ask.deadlock is not None
    ticket = ask.ticket.encode()
    if ask.keys is not None:
        claims = [_member(ask, number, lease_ns, patience_ns, tracked) for number in range(len(ask.keys))]
        _check_group(ask, claims)
        made: Claim | Group = Group(ticket, claims, patience_ns, patience_ns > 0, tracked, refuses)
    elif ask.key is not None:
        claims = [_claim("", ask.key, ask.mode, ask.limit, ask.units, lease_ns, patience_ns, tracked)]
        claims[0].ticket = ticket
        made = claims[0]
    else:
        raise BadRequest("key: missing")
    for claim in claims:
        claim.owner = owner
        claim.about = about
        claim.refuses = refuses
    return made


def _member(ask: Acquire | Enqueue, number: int, lease_ns: int, patience_ns: int, tracked: bool) -> Claim:
    assert ask.keys is not None
    one = ask.keys[number]
    claim = _claim(f"keys[{number}].", one.key, one.mode, one.limit, one.units, lease_ns, patience_ns, tracked)
    claim.ticket = member_ticket(ask.ticket.encode(), number)
    return claim


def _check_group(ask: Acquire | Enqueue, claims: list[Claim]) -> None:
    for field, given in (("key", ask.key), ("mode", ask.mode), ("limit", ask.limit)):
        if given is not None:
            raise BadRequest(f"{field}: belongs to the members of keys")
    if ask.units != 1:
        raise BadRequest("units: belongs to the members of keys")
    if len({claim.key for claim in claims}) < len(claims):
        raise BadRequest("keys: each may be named once")
    if "#" in ask.ticket:
        raise BadRequest("ticket: of a group, without #")


def _claim(
    place: str,
    name: str,
    mode: str | None,
    limit: int | None,
    units: int,
    lease_ns: int,
    patience_ns: int,
    tracked: bool,
) -> Claim:
    """Make one claim. With no patience at all it is a try, which leaves nothing behind.

    All of them listen: a session wants to hear how its claims end, however that comes about.
    """
    if limit is None:
        if units != 1:
            raise BadRequest(f"{place}units: only where there is a limit")
        key, want, seats = key_of(name, "lock", f"{place}key"), EX if mode is None else MODES[mode], UNLIMITED
    else:
        key, want, seats = key_of(name, "semaphore", f"{place}key"), CW if mode is None else MODES[mode], limit
    return Claim(key, want, units, seats, lease_ns, patience_ns, queue=patience_ns > 0, tracked=tracked, listens=True)
