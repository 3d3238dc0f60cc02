"""However bytes are cut, the answers are the same; the server never raises, and says nothing but whole, known lines.

And nothing but BadLine comes out of the codec. What bytes there are to try is decided in `frames.py`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.testing.line_stage import LineStage
from holdfast.wire.line import SECONDS_MAX, BadLine, LineCodec
from holdfast.words import FOREVER, SECOND, TOKEN_BYTES, Claim, End, Renew, WaitFor

GRANT = rb"[0-9a-f]{%d} [1-9][0-9]*" % TOKEN_BYTES
KNOWN = re.compile(
    rb"ok|ok [1-9][0-9]*|(?:ok|acquired) " + GRANT + rb"|ok \{.*\}|queued|timeout|error"
    rb"|error_(?:max_locks|max_waiters|limit_mismatch|already_enqueued|not_enqueued|lease_expired|draining|auth)",
)

# Longer than any wait that the streams ask for in earnest, and than the time for a line.
AFTERWARDS_S = 120

AUTH_TOKEN = b"open sesame"
GREETING = b"auth\n_\n%b\n" % AUTH_TOKEN


class BrokenError(Exception):
    """One of the sentences at the top of this file is not true."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a caller heard, and whether it was cut off."""

    at_once: bytes
    later: bytes
    closed: bool


def check_codec(codec: LineCodec, command: bytes, key: bytes, arg: bytes) -> None:
    """Decode one frame twice: what is remembered must not change what it means."""
    first, second = _decode(codec, command, key, arg), _decode(codec, command, key, arg)
    if first != second:
        raise BrokenError(f"{(command, key, arg)} is {first} and then {second}")


def _decode(codec: LineCodec, command: bytes, key: bytes, arg: bytes) -> object:
    try:
        request = codec.decode(command, key, arg)
    except BadLine as bad:
        return bad.code
    facts = {name: getattr(request, name) for name in type(request).__slots__ if name not in UNMARKED}
    if isinstance(request, (Claim, Renew)):
        _check(SECOND <= request.lease_ns <= SECONDS_MAX * SECOND, request)
    if isinstance(request, (Claim, WaitFor)):
        patience_ns = request.patience_ns
        _check(0 <= patience_ns <= SECONDS_MAX * SECOND or patience_ns == FOREVER, request)
    if isinstance(request, (Claim, Renew, End, WaitFor)):
        name = request.key.partition(b":")[2]
        _check(bool(name) and not set(name) & set(b" \t\r\n"), request)
    if isinstance(request, Claim):
        _check(request.limit >= 1, request)
    return type(request), facts


# What a fresh claim does not have yet.
UNMARKED = ("book",)


def _check(holds: bool, request: object) -> None:
    if not holds:
        raise BrokenError(f"the codec made {request!r}")


def hear(parts: Iterable[bytes], *, authenticated: bool) -> Heard:
    """Send bytes, so cut, to a server where somebody holds a lock already; listen at once, and after a while."""
    stage = LineStage(
        pending_bytes_max=1 << 20, keys_max=4, waiters_max=2, auth_token=AUTH_TOKEN if authenticated else None
    )
    holder, caller = stage.caller(), stage.caller()
    holder.send((GREETING if authenticated else b"") + b"l\njob\n0 50\nse\npool\n2 50\n")
    for part in parts:
        if part and caller.transport.is_reading():
            caller.transport.arrive(part)
    at_once = caller.transport.take()
    stage.settle()
    stage.after(AFTERWARDS_S)
    heard = Heard(at_once, caller.transport.take(), caller.closed)
    for said in (heard.at_once, heard.later, holder.transport.take()):
        _check_lines(said)
    return heard


def _check_lines(said: bytes) -> None:
    if said and not said.endswith(b"\n"):
        raise BrokenError(f"the server said half a line: {said!r}")
    for line in said.split(b"\n")[:-1]:
        if not KNOWN.fullmatch(line):
            raise BrokenError(f"the server said {line!r}")


def check_door(data: bytes, cuts: list[bytes], *, authenticated: bool = False) -> None:
    """Send the same bytes whole, cut, and one by one."""
    whole = hear([data], authenticated=authenticated)
    ways = {"cut": cuts, "byte by byte": [data[at : at + 1] for at in range(len(data))]}
    for way, parts in ways.items():
        heard = hear(parts, authenticated=authenticated)
        if heard != whole:
            raise BrokenError(f"{way}, the answer is {heard} instead of {whole}")
