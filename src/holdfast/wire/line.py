"""The line protocol: three lines ask, one line answers. How every command, time-out and refusal is spelled.

Pure text work in both directions. No lock rule, no connection and no clock may live here.
"""

import json
import re
from collections.abc import Callable
from typing import Final, final

from holdfast.words import (
    CW,
    ENDED,
    EX,
    FOREVER,
    GRANTED,
    RENEWED,
    SECOND,
    TOKEN_BYTES,
    UNLIMITED,
    Answer,
    Claim,
    End,
    Renew,
    Request,
    View,
    WaitFor,
)

LINE_BYTES_MAX: Final = 256
AUTH_BYTES_MAX: Final = 65_536
HELLO_BYTES_MAX: Final = 4096
SECONDS_MAX: Final = 9_223_372_036  # whole seconds that fit an int64 of nanoseconds
INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1
CACHE_MAX: Final = 4096

LOCK: Final = b"lock:"
SEMAPHORE: Final = b"sem:"

_INTEGER = re.compile(rb"[+-]?[0-9]+")
_UNFIT_FOR_KEY = re.compile(rb"[ \t\r\n]")
# White space as the original's splitter sees it: the ASCII kinds, NEL and NBSP, and the Unicode ones in UTF-8.
_UNICODE_SPACE = re.compile(
    rb"(?:[ \t\n\v\f\r]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80)+"
)


class BadLine(Exception):
    """A frame that cannot be a command. The code goes to the log; the wire says `error` for all of them."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


UNKNOWN_COMMAND: Final = 3
NOT_AN_INTEGER: Final = 4
BAD_KEY: Final = 5
BAD_TIMEOUT: Final = 6
EMPTY_TOKEN: Final = 7
BAD_COUNT: Final = 8
BAD_LEASE: Final = 9
READ_TIMEOUT: Final = 10
LINE_TOO_LONG: Final = 12
BAD_LIMIT: Final = 13


@final
class Ping:
    """`ping`: keeps a connection alive."""

    __slots__ = ()


@final
class Stats:
    """`stats`: what the service knows, as JSON."""

    __slots__ = ()


@final
class Auth:
    """`auth`: a token for the whole connection."""

    __slots__ = ("token",)

    def __init__(self, token: bytes) -> None:
        self.token = token


Frame = Claim | End | Renew | WaitFor | Ping | Stats | Auth


# --- reading ---


def parse_integer(text: bytes) -> int:
    """Read a decimal int64: an optional sign, ASCII digits, nothing else."""
    if not _INTEGER.fullmatch(text):
        raise BadLine(NOT_AN_INTEGER, "not an integer")
    digits = text.lstrip(b"+-").lstrip(b"0") or b"0"  # any number of leading zeros is allowed
    value = int(digits) if len(digits) < 20 else INT64_MAX + 2  # int() of thousands of digits is not cheap
    if text.startswith(b"-"):
        value = -value
    if not INT64_MIN <= value <= INT64_MAX:
        raise BadLine(NOT_AN_INTEGER, "does not fit 64 bits")
    return value


def parse_timeout(text: bytes) -> int:
    seconds = parse_integer(text)
    if not 0 <= seconds <= SECONDS_MAX:
        raise BadLine(BAD_TIMEOUT, f"timeout must be 0 to {SECONDS_MAX} s")
    return seconds * SECOND


def parse_lease(text: bytes) -> int:
    seconds = parse_integer(text)
    if not 1 <= seconds <= SECONDS_MAX:
        raise BadLine(BAD_LEASE, f"lease must be 1 to {SECONDS_MAX} s")
    return seconds * SECOND


def parse_limit(text: bytes) -> int:
    limit = parse_integer(text)
    if limit <= 0:
        raise BadLine(BAD_LIMIT, "limit must be at least 1")
    return limit


def fields(arg: bytes) -> list[bytes]:
    """Split on runs of white space, as a splitter that knows Unicode does."""
    if arg.isascii():
        return arg.split()
    return [field for field in _UNICODE_SPACE.split(arg) if field]


def trim(arg: bytes) -> bytes:
    """Take white space off both ends; what is inside stays."""
    if arg.isascii():
        return arg.strip()
    found = _UNICODE_SPACE.match(arg)
    start = found.end() if found else 0
    end = len(arg)
    for run in _UNICODE_SPACE.finditer(arg, start):
        end = run.start() if run.end() == len(arg) else len(arg)
    return arg[start:end]


def check_key(key: bytes) -> bytes:
    if not key or _UNFIT_FOR_KEY.search(key):
        raise BadLine(BAD_KEY, "a key has 1 to 256 bytes and no white space")
    return key


@final
class AcquireArgs:
    """What the last line of `l` means."""

    __slots__ = ("lease_ns", "patience_ns")

    def __init__(self, patience_ns: int, lease_ns: int) -> None:
        self.patience_ns = patience_ns
        self.lease_ns = lease_ns


class LineCodec:
    """Turns frames into requests. Keys and arguments recur, so what they mean is remembered for a while."""

    def __init__(self, lease_default_ns: int) -> None:
        self.lease_default_ns = lease_default_ns
        self._acquire_args: dict[bytes, AcquireArgs] = {}
        self._lock_keys: dict[bytes, bytes] = {}
        self._decoders: dict[bytes, Callable[[bytes, bytes], Frame]] = {
            b"n": self._renew_lock,
            b"e": self._enqueue_lock,
            b"w": self._wait_lock,
            b"sl": self._seat,
            b"sr": self._release_seat,
            b"sn": self._renew_seat,
            b"se": self._enqueue_seat,
            b"sw": self._wait_seat,
            b"ping": lambda key, arg: PING,
            b"stats": lambda key, arg: STATS,
            b"auth": lambda key, arg: Auth(trim(arg)),
        }

    def decode(self, command: bytes, key: bytes, arg: bytes) -> Frame:
        """Read one frame, its line ends already removed; raises BadLine."""
        if command == b"l":
            return self._lock(key, arg)
        if command == b"r":
            return self._release_lock(key, arg)
        decoder = self._decoders.get(command)
        if decoder is None:
            raise BadLine(UNKNOWN_COMMAND, "unknown command")
        return decoder(key, arg)

    def _lock(self, key: bytes, arg: bytes) -> Claim:
        name = self._lock_keys.get(key) or self._lock_key(key)
        args = self._acquire_args.get(arg) or self._parse_acquire(arg)
        return Claim(name, EX, 1, UNLIMITED, args.lease_ns, args.patience_ns)

    def _lock_key(self, key: bytes) -> bytes:
        name = LOCK + check_key(key)
        if len(self._lock_keys) >= CACHE_MAX:
            self._lock_keys.clear()
        self._lock_keys[key] = name
        return name

    def _parse_acquire(self, arg: bytes) -> AcquireArgs:
        words = fields(arg)
        if not 1 <= len(words) <= 2:
            raise BadLine(BAD_COUNT, "expected: timeout [lease]")
        patience_ns = parse_timeout(words[0])
        lease_ns = parse_lease(words[1]) if len(words) == 2 else self.lease_default_ns
        if len(self._acquire_args) >= CACHE_MAX:
            self._acquire_args.clear()
        args = self._acquire_args[arg] = AcquireArgs(patience_ns, lease_ns)
        return args

    def _seat(self, key: bytes, arg: bytes) -> Claim:
        check_key(key)
        words = fields(arg)
        if not 2 <= len(words) <= 3:
            raise BadLine(BAD_COUNT, "expected: timeout limit [lease]")
        patience_ns = parse_timeout(words[0])
        limit = parse_limit(words[1])
        lease_ns = parse_lease(words[2]) if len(words) == 3 else self.lease_default_ns
        return Claim(SEMAPHORE + key, CW, 1, limit, lease_ns, patience_ns)

    def _enqueue_lock(self, key: bytes, arg: bytes) -> Claim:
        check_key(key)
        words = fields(arg)
        if len(words) > 1:
            raise BadLine(BAD_COUNT, "expected: [lease]")
        lease_ns = parse_lease(words[0]) if words else self.lease_default_ns
        return Claim(LOCK + key, EX, 1, UNLIMITED, lease_ns, FOREVER, tracked=True)

    def _enqueue_seat(self, key: bytes, arg: bytes) -> Claim:
        check_key(key)
        words = fields(arg)
        if not 1 <= len(words) <= 2:
            raise BadLine(BAD_COUNT, "expected: limit [lease]")
        limit = parse_limit(words[0])
        lease_ns = parse_lease(words[1]) if len(words) == 2 else self.lease_default_ns
        return Claim(SEMAPHORE + key, CW, 1, limit, lease_ns, FOREVER, tracked=True)

    def _release_lock(self, key: bytes, arg: bytes) -> End:
        name = self._lock_keys.get(key) or self._lock_key(key)
        return End(name, arg if len(arg) == TOKEN_BYTES else parse_token(arg))

    def _release_seat(self, key: bytes, arg: bytes) -> End:
        check_key(key)
        return End(SEMAPHORE + key, parse_token(arg))

    def _renew_lock(self, key: bytes, arg: bytes) -> Renew:
        return self._renew(LOCK, key, arg)

    def _renew_seat(self, key: bytes, arg: bytes) -> Renew:
        return self._renew(SEMAPHORE, key, arg)

    def _renew(self, namespace: bytes, key: bytes, arg: bytes) -> Renew:
        check_key(key)
        words = fields(arg)
        if not 1 <= len(words) <= 2:
            raise BadLine(BAD_COUNT, "expected: token [lease]")
        lease_ns = parse_lease(words[1]) if len(words) == 2 else self.lease_default_ns
        return Renew(namespace + key, words[0], lease_ns)

    def _wait_lock(self, key: bytes, arg: bytes) -> WaitFor:
        return WaitFor(LOCK + check_key(key), parse_timeout(trim(arg)))

    def _wait_seat(self, key: bytes, arg: bytes) -> WaitFor:
        return WaitFor(SEMAPHORE + check_key(key), parse_timeout(trim(arg)))


# The commands whose last line may be longer than others.
LONG_ARGUMENTS: Final = {b"auth": AUTH_BYTES_MAX, b"hello": HELLO_BYTES_MAX}

PING: Final = Ping()
STATS: Final = Stats()


def parse_token(arg: bytes) -> bytes:
    """Read the token of a release: the whole line, trimmed; only an empty one is a mistake of form."""
    token = trim(arg)
    if not token:
        raise BadLine(EMPTY_TOKEN, "empty token")
    return token


def too_long(frame: list[bytes]) -> bool:
    """Say whether a line is over its cap; the caps count what was sent, carriage returns included."""
    for line in frame:
        if len(line) > LINE_BYTES_MAX:
            cap = LONG_ARGUMENTS.get(frame[0].rstrip(b"\r"), 0)
            return not (line is frame[-1] and len(frame) == 3 and len(line) <= cap)
    return False


# --- writing ---

OK: Final = b"ok\n"
ERROR: Final = b"error\n"
AUTH_ERROR: Final = b"error_auth\n"

# What a refusal or a time-out looks like; grants and renewals carry fields and are spelled below.
REPLIES: Final[dict[Answer, bytes]] = {
    Answer.QUEUED: b"queued\n",
    Answer.BUSY: b"timeout\n",
    Answer.TIMED_OUT: b"timeout\n",
    Answer.ENDED: OK,
    Answer.NOT_HELD: ERROR,
    Answer.NOT_ENQUEUED: b"error_not_enqueued\n",
    Answer.ALREADY_ENQUEUED: b"error_already_enqueued\n",
    Answer.LEASE_EXPIRED: b"error_lease_expired\n",
    Answer.LIMIT_MISMATCH: b"error_limit_mismatch\n",
    Answer.TOO_MANY_KEYS: b"error_max_locks\n",
    Answer.TOO_MANY_WAITERS: b"error_max_waiters\n",
    Answer.NO_FENCE: ERROR,
    Answer.DRAINING: b"error_draining\n",
    Answer.CLOSED: ERROR,
    Answer.STORE_BUSY: ERROR,
    Answer.STORE_FAILED: ERROR,
}


# How leases end a line of grant; there are few of them, and formatting is dear.
_LEASES: Final[dict[int, bytes]] = {}


def _spell_lease(lease_ns: int) -> bytes:
    if len(_LEASES) >= CACHE_MAX:
        _LEASES.clear()
    text = _LEASES[lease_ns] = b" %d\n" % (lease_ns // SECOND)
    return text


def reply_to(request: Request, answer: Answer, claim: Claim | None) -> bytes:
    """Spell the answer to a request."""
    if answer is GRANTED:
        assert claim is not None
        # The first phase of two got the lock at once.
        word = b"acquired " if isinstance(request, Claim) and request.tracked else b"ok "
        return word + claim.token + (_LEASES.get(claim.lease_ns) or _spell_lease(claim.lease_ns))
    if answer is ENDED:
        return OK
    if answer is RENEWED:
        assert isinstance(request, Renew)
        return b"ok %d\n" % (request.lease_ns // SECOND)
    return REPLIES[answer]


def stats_line(views: list[View], connections: int, now: int) -> bytes:
    """Render the snapshot: one compact line, its fields in the original's order."""
    return b"ok %b\n" % stats_json(views, connections, now)


Row = dict[str, str | int | float]


def stats_json(views: list[View], connections: int, now: int) -> bytes:
    locks: list[Row] = []
    semaphores: list[Row] = []
    idle_locks: list[Row] = []
    idle_semaphores: list[Row] = []
    for view in views:
        name = view.key.partition(b":")[2].decode("utf-8", "replace")
        # The limit decides, not the namespace: a semaphore with one seat is listed as a lock.
        single = view.limit in (1, UNLIMITED)
        if not view.holders and not view.waiters:
            idle: Row = {"key": name, "idle_s": max(0, now - view.touched) / SECOND}
            (idle_locks if single else idle_semaphores).append(idle)
        elif single:
            owner = view.holders[0].session if view.holders else 0
            left = max(0, view.holders[0].deadline - now) / SECOND if view.holders else 0
            locks.append({"key": name, "owner_conn_id": owner, "lease_expires_in_s": left, "waiters": view.waiters})
        else:
            semaphores.append({"key": name, "limit": view.limit, "holders": len(view.holders), "waiters": view.waiters})
    snapshot = {
        "connections": connections,
        "locks": locks,
        "semaphores": semaphores,
        "idle_locks": idle_locks,
        "idle_semaphores": idle_semaphores,
    }
    return json.dumps(snapshot, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
