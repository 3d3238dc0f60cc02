"""The line protocol of dflockd as a client speaks it: three lines there, one line back, strictly in order.

Claims belong to the connection here, so whoever uses this keeps one connection for each; that is not decided here.
"""

import re
from collections import deque
from typing import Final

from holdfast.client.asks import (
    Acquire,
    Answer,
    Ask,
    End,
    Ended,
    Enqueue,
    Granted,
    Query,
    Queued,
    Refusal,
    Renew,
    Renewed,
    Seen,
    Wait,
    Want,
)
from holdfast.client.dialects.codec import Codec, Handle
from holdfast.errors import (
    BadPeer,
    BadRequest,
    Busy,
    Closed,
    Forbidden,
    HoldfastError,
    LeaseLost,
    LimitMismatch,
    NotHeld,
    TimedOut,
    TooMany,
    Unavailable,
)

SECOND: Final = 1_000_000_000
SECONDS_MAX: Final = 9_223_372_036
KEY_BYTES_MAX: Final = 256
LINE_BYTES_MAX: Final = 1 << 20
IN_FLIGHT_MAX: Final = 64  # well within the bytes that a server keeps of what is sent ahead
FENCE_DIGITS: Final = 16
WHITE: Final = b" \t\r\n"

_OK: Final = re.compile(rb"ok ([0-9a-f]{32}) ([0-9]{1,10})")
_ACQUIRED: Final = re.compile(rb"acquired ([0-9a-f]{32}) ([0-9]{1,10})")
_SECONDS: Final = re.compile(rb"[0-9]{1,10}")

REFUSALS: Final[dict[bytes, tuple[type[HoldfastError], str]]] = {
    b"error_max_locks": (TooMany, "the server has as many keys as it takes"),
    b"error_max_waiters": (TooMany, "as many wait for this key as the server lets"),
    b"error_limit_mismatch": (LimitMismatch, "the semaphore has another limit"),
    b"error_lease_expired": (LeaseLost, "the lease ran out before anybody waited for it"),
    b"error_not_enqueued": (NotHeld, "there is no place in the queue any more"),
    b"error_already_enqueued": (BadRequest, "this connection has a place in the queue already"),
    b"error_draining": (Closed, "the server is about to stop"),
    b"error_auth": (Forbidden, "the server wants another token"),
}


class DflockCodec(Codec):
    """One connection, which holds or waits for one claim."""

    def __init__(self, auth: str | None) -> None:
        super().__init__()
        if auth is not None and (not auth or any(byte in auth for byte in "\r\n")):
            raise BadRequest("the token must be one line of text that is not empty")
        self._auth = auth
        self.ready = auth is None
        self._rest = b""
        self._asked: deque[tuple[Handle, Ask]] = deque()

    def greeting(self) -> bytes:
        return b"" if self._auth is None else b"auth\n_\n%b\n" % self._auth.encode()

    def has_room(self) -> bool:
        return len(self._asked) < IN_FLIGHT_MAX

    def _unanswered(self) -> list[Handle]:
        return [handle for handle, _ in self._asked]

    def write(self, ask: Ask, handle: Handle) -> bytes:
        data = _spell(ask)
        self._asked.append((handle, ask))
        return data

    def _take_in(self, data: bytes, answers: list[tuple[Handle, Answer]]) -> None:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > LINE_BYTES_MAX:
            raise BadPeer(f"the server sent a line of more than {LINE_BYTES_MAX} bytes")
        if lines and not self.ready:
            self._greeted(lines.pop(0))
        for line in lines:
            if not self._asked:
                raise BadPeer(f"the server said {line[:80]!r} without being asked")
            handle, ask = self._asked[0]
            answers.append((handle, _read(ask, line)))
            self._asked.popleft()

    def _greeted(self, line: bytes) -> None:
        if line == b"error_draining":
            raise Closed("the server is about to stop")
        if line in (b"error_auth", b"error"):
            raise Forbidden("the server wants another token, or none")
        if line != b"ok":
            raise BadPeer(f"the server answered auth with {line[:80]!r}; does it speak dflockd's protocol?")
        self.ready = True


# --- spelling requests ---


def _spell(ask: Ask) -> bytes:
    if isinstance(ask, Acquire):
        return _frame(ask.want, "l", [_patience(ask.patience_ns), *_limit(ask.want), _lease(ask.want.lease_ns)])
    if isinstance(ask, Enqueue):
        return _frame(ask.want, "e", [*_limit(ask.want), _lease(ask.want.lease_ns)])
    if isinstance(ask, Wait):
        return _frame(ask.want, "w", [_patience(ask.patience_ns)])
    if isinstance(ask, Renew):
        assert len(ask.proofs) == 1  # this protocol renews one by one
        ((proof, lease_ns),) = ask.proofs
        return _frame(proof.want, "n", [proof.token, _lease(lease_ns)])
    if isinstance(ask, End):
        assert ask.proof is not None  # what only waits is ended by hanging up
        if ask.value is not None:
            raise BadRequest("dflock:// has no values; use holdfast://")
        return _frame(ask.want, "r", [ask.proof.token])
    if isinstance(ask, Query) and ask.op in ("ping", "stats"):
        return b"%b\n_\n_\n" % ask.op.encode()
    word = ask.op if isinstance(ask, Query) else type(ask).__name__.lower()
    raise BadRequest(f"dflock:// knows no {word}; use holdfast://")


def _frame(want: Want, command: str, fields: list[str]) -> bytes:
    check(want)
    key = want.key.encode()
    if not 0 < len(key) <= KEY_BYTES_MAX or any(byte in WHITE for byte in key):
        raise BadRequest(
            f"over dflock:// a key has 1 to {KEY_BYTES_MAX} bytes and no white space; {want.key!r} does not"
        )
    prefix = "" if want.limit is None else "s"
    return b"%b\n%b\n%b\n" % ((prefix + command).encode(), key, " ".join(fields).encode())


def check(want: Want) -> None:
    """Refuse what this protocol cannot say, rather than leave it out."""
    beyond = {
        "mode": want.mode != ("EX" if want.limit is None else "CW"),
        "units": want.units != 1,
        "on_contended": want.nudge,
        "deadlock": want.refuse_deadlock,
        "several keys at once": bool(want.members),
    }
    for what, asked in beyond.items():
        if asked:
            raise BadRequest(f"dflock:// cannot do this: {what}; use holdfast://")


def _limit(want: Want) -> list[str]:
    return [] if want.limit is None else [str(want.limit)]


def _patience(patience_ns: int | None) -> str:
    """Whole seconds, never less than what was asked: whoever asked hangs up when it is over."""
    return str(SECONDS_MAX if patience_ns is None else min(-(-patience_ns // SECOND), SECONDS_MAX))


def _lease(lease_ns: int) -> str:
    return str(min(max(1, -(-lease_ns // SECOND)), SECONDS_MAX))


# --- reading answers ---


def _read(ask: Ask, line: bytes) -> Answer:
    if isinstance(ask, (Acquire, Enqueue, Wait)):
        return _read_grant(ask, line)
    if isinstance(ask, Renew):
        return _read_renewal(ask, line)
    if line in REFUSALS:
        return _refusal(line)
    word, _, rest = line.partition(b" ")
    if isinstance(ask, End) and line in (b"ok", b"error"):
        return Ended(was_there=line == b"ok")
    if isinstance(ask, Query) and word == b"ok":
        return Seen({"stats": rest})
    raise _not_an_answer(ask, line)


def _read_renewal(ask: Renew, line: bytes) -> Answer:
    if line == b"error":
        return Renewed([False])
    if line in REFUSALS:
        return _refusal(line)
    word, _, seconds = line.partition(b" ")
    least = int(_lease(ask.proofs[0][1]))
    # Some servers do not say for how long. None may renew for less than what is going to be believed here.
    if line == b"ok" or (word == b"ok" and _SECONDS.fullmatch(seconds) is not None and int(seconds) >= least):
        return Renewed([True])
    raise _not_an_answer(ask, line)


def _read_grant(ask: Acquire | Enqueue | Wait, line: bytes) -> Answer:
    grant = (_ACQUIRED if isinstance(ask, Enqueue) else _OK).fullmatch(line)
    if grant is not None and 1 <= int(grant[2]) <= SECONDS_MAX:
        return _granted(ask.want, grant[1].decode(), int(grant[2]))
    if line == b"queued" and isinstance(ask, Enqueue):
        return Queued()
    if line == b"timeout" and not isinstance(ask, Enqueue):
        if isinstance(ask, Acquire) and ask.patience_ns == 0:
            return Refusal(Busy("somebody else holds the key, or waits for it"))
        return Refusal(TimedOut("nobody gave it back in time"))
    if line == b"error":
        # It is said when the server stops, and when it has no fence to give; both may pass.
        return Refusal(Unavailable("the server could not grant it"))
    if line in REFUSALS:
        return _refusal(line)
    raise _not_an_answer(ask, line)


def _not_an_answer(ask: Ask, line: bytes) -> BadPeer:
    return BadPeer(f"the server answered {type(ask).__name__} with {line[:80]!r}")


def _refusal(line: bytes) -> Refusal:
    kind, detail = REFUSALS[line]
    return Refusal(kind(detail))


def _granted(want: Want, token: str, lease: int) -> Granted:
    return Granted(
        ticket=want.ticket,
        key=want.key,
        kind=want.kind,
        mode=want.mode,
        fence=int(token[:FENCE_DIGITS], 16),
        token=token,
        lease_ns=lease * SECOND,
    )
