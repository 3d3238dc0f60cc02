"""However bytes are cut, the answers are the same; the server never raises, and says nothing but whole lines of JSON.

Each is an answer, an error or an event; no id is answered twice. Nothing but BadRequest comes out of the codec.
"""

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from fuzz.line import AFTERWARDS_S, BrokenError, Heard
from holdfast.testing.line_stage import token
from holdfast.testing.native_stage import NativeStage, ticket
from holdfast.wire.native import OPS, BadRequest, read_hello, read_request, write_request

HELLO = b'hello\n_\n{"version":1,"client":"fuzz"}\n'

TICKETS = (ticket("a"), ticket("b"), ticket("c"), "short", ticket("a") + "#0", 'quote"' * 4, "")
KEYS = ("job", "pool", "a b", "", "ä", "k" * 1024, "k" * 1025, "\n", "lock:job")
VALUES: tuple[Any, ...] = (None, True, False, 0, 1, -1, 1.5, 10, 1 << 64, "", "x", [], {}, "PR", "EX", "AA==", "refuse")
IDS: tuple[Any, ...] = (0, 1, 2, 3, "a", "b", "x" * 65, None, 1.5, True)
FIELDS: dict[str, tuple[Any, ...]] = {
    "key": KEYS,
    "keys": (
        [{"key": "job"}, {"key": "two", "mode": "PR"}],
        [{"key": "pool", "limit": 2}, {"key": "job"}],
        [{"key": "a"}],
    ),
    "ticket": TICKETS,
    "mode": ("EX", "PR", "CW", "NL", "XX"),
    "limit": (2, 0, 3),
    "units": (1, 2, 0),
    "lease_ms": (1, 1000, 50_000, 0),
    "patience_ms": (0, 1, 1000, None, -1),
    "queue": (True, False),
    "nudge": (True, False),
    "meta": ({"thread": "t"}, {"operation": "o", "task": "x"}, {"colour": "red"}),
    "deadlock": ("refuse", "no"),
    "value": ("AAEC", "", "A", "AAEC" * 30),
    "token": (*map(token, range(1, 5)), "0", ""),
    "kind": ("lock", "semaphore", "x"),
    "claims": ([{"key": "job", "token": token(1)}, {"key": "pool", "token": token(2), "kind": "semaphore"}], []),
    "prefix": ("", "j"),
    "held": (True, False),
    "after": ("lock:a", "x"),
    "count": (1, 0),
    "reason": ("because", "\n"),
    "deadlocks": (True,),
    "events": (True,),
}  # fmt: skip
USUAL: dict[str, tuple[str, ...]] = {
    "acquire": (
        "key", "ticket", "mode", "limit", "units", "lease_ms", "patience_ms", "nudge", "meta", "deadlock", "keys",
    ),
    "enqueue": ("key", "ticket", "mode", "limit", "lease_ms", "nudge", "keys"),
    "wait": ("ticket", "patience_ms"),
    "convert": ("ticket", "mode", "patience_ms", "queue", "value"),
    "renew": ("ticket", "lease_ms", "key", "token", "kind", "claims"),
    "end": ("ticket", "value", "key", "token", "kind"),
    "look": ("key", "kind", "prefix", "held", "after", "count"),
    "explain": ("key", "kind"),
    "watch": ("key", "prefix", "kind", "deadlocks"),
    "break": ("key", "kind", "reason", "token"),
}  # fmt: skip
NEEDED = {"acquire": 2, "enqueue": 2, "wait": 1, "convert": 2, "renew": 1, "end": 1, "explain": 1, "break": 3}
NOISE = (
    b"\n",
    b"\r\n",
    b"{}",
    b"[]\n",
    b"null\n",
    b"\xff",
    b"\0",
    b'"',
    b"{",
    b"}",
    b",",
    b"hello\n_\n{}\n",
    b"\\ud800",
)


def line(dice: random.Random) -> bytes:
    """Make one request, valid more often than not."""
    op = dice.choice(OPS)
    usual = USUAL.get(op, ())
    needed = usual[: NEEDED.get(op, 0)]
    names = {*needed, *(name for name in usual if dice.random() < 0.25)}
    if dice.random() < 0.05:
        names.add(dice.choice(list(FIELDS)))
    if "keys" in names:
        names -= {"key", "mode", "limit", "units"}
    fields: dict[str, Any] = {"id": dice.choice(IDS if dice.random() < 0.1 else IDS[:6]), "op": op}
    for name in sorted(names):
        common = FIELDS[name][: 3 if dice.random() < 0.9 else None]
        fields[name] = dice.choice(VALUES) if dice.random() < 0.03 else dice.choice(common)
    return json.dumps(fields, ensure_ascii=dice.random() < 0.5).encode() + b"\n"


def stream(dice: random.Random) -> bytes:
    """Make what one caller might send after its hello."""
    parts = [line(dice) for _ in range(dice.randint(1, 10))]
    for _ in range(dice.choice((0, 0, 0, 1, 2))):
        parts.insert(dice.randint(0, len(parts)), dice.choice(NOISE))
    data = b"".join(parts)
    if data and dice.random() < 0.2:
        at = dice.randrange(len(data))
        data = data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]
    return data


def check_codec(text: bytes) -> None:
    """Read a line; what can be read can be written, and means the same."""
    try:
        read_hello(text)
    except BadRequest as bad:
        _check(bool(bad.detail), text)
    try:
        request = read_request(text)
    except BadRequest as bad:
        _check(bool(bad.detail), text)
        return
    _check(read_request(write_request(request)) == request, text)


def hear(parts: Iterable[bytes]) -> Heard:
    """Say hello and send bytes, so cut, where somebody else holds a lock already; listen at once, and after a while."""
    stage = NativeStage(pending_bytes_max=1 << 20, keys_max=4, waiters_max=2, native={"pending_bytes_max": 1 << 20})
    holder, caller = stage.client(), stage.caller()
    holder.call("acquire", key="job", ticket=ticket("h"), lease_ms=50_000, nudge=True)
    for part in parts:
        if part and caller.transport.is_reading():
            caller.transport.arrive(part)
    at_once = caller.transport.take()
    stage.settle()
    stage.after(AFTERWARDS_S)
    heard = Heard(at_once, caller.transport.take(), caller.closed)
    _check_lines(heard.at_once.partition(b"\n")[2] + heard.later)
    _check_lines(holder.transport.take())
    return heard


def _check_lines(said: bytes) -> None:
    if said and not said.endswith(b"\n"):
        raise BrokenError(f"the server said half a line: {said!r}")
    for text in said.split(b"\n")[:-1]:
        told = json.loads(text)
        kinds = [kind for kind in ("answer", "error", "event") if kind in told]
        _check(len(kinds) == 1, text)
        _check(kinds == ["event"] or "id" in told, text)


def check_door(data: bytes, cuts: Sequence[bytes]) -> None:
    """Send the same bytes whole, cut, and one by one; no id is answered more often than it was sent."""
    whole = hear([data])
    ways = {"cut": cuts, "byte by byte": [data[at : at + 1] for at in range(len(data))]}
    for way, parts in ways.items():
        heard = hear(parts)
        if heard != whole:
            raise BrokenError(f"{way}, the answer is {heard} instead of {whole}")
    _check_counts(data, whole)


def _check_counts(data: bytes, heard: Heard) -> None:
    sent: Counter[str] = Counter()
    for text in data.split(b"\n")[3:]:
        try:
            sent[repr(read_request(text).id)] += 1
        except BadRequest as bad:
            sent[repr(bad.id)] += 1
    said = (heard.at_once.partition(b"\n")[2] + heard.later).splitlines()
    answered = Counter(repr(told["id"]) for told in map(json.loads, said) if "id" in told)
    if not data.startswith(HELLO):
        return
    for id_, count in answered.items():
        _check(count <= sent[id_], f"{id_} is answered {count} times")


def _check(holds: bool, what: object) -> None:
    if not holds:
        raise BrokenError(f"this breaks it: {what!r}")
