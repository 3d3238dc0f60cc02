"""What a frame of the line protocol asks for, read from the protocol's description and not from the service's codec.

It knows enough for what the simulator's callers send. No state and no judgement lives here.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

SECOND = 1_000_000_000
SECONDS_MAX = 9_223_372_036
NUMBER = re.compile(rb"[+-]?[0-9]{1,18}")

# A plain lock has one seat; a semaphore with one seat is another key all the same.
LOCK_LIMIT = 1

ACQUIRE, ENQUEUE, WAIT, RELEASE, RENEW = "acquire", "enqueue", "wait", "release", "renew"
PING, STATS, AUTH, BAD = "ping", "stats", "auth", "bad"

VERBS = {b"l": ACQUIRE, b"e": ENQUEUE, b"w": WAIT, b"r": RELEASE, b"n": RENEW}


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, understood."""

    verb: str
    key: str = ""  # with its namespace
    limit: int = LOCK_LIMIT
    patience_ns: int = 0
    lease_ns: int = 0
    token: bytes = b""


class BadAskError(Exception):
    """The frame asks for nothing that there is."""


@lru_cache(maxsize=10_000)
def read(command: bytes, key: bytes, arg: bytes, lease_default_ns: int) -> Ask:
    """Read a frame; whatever is no request comes out as BAD."""
    try:
        return _read(command, key, arg, lease_default_ns)
    except BadAskError:
        return Ask(BAD)


def _read(command: bytes, key: bytes, arg: bytes, lease_default_ns: int) -> Ask:
    if command in (b"ping", b"stats", b"auth"):
        return Ask(command.decode())
    seat = command[:1] == b"s"
    verb = VERBS.get(command[1:] if seat else command)
    if verb is None or not key or re.search(rb"\s", key):
        raise BadAskError
    name = f"{'semaphore' if seat else 'lock'} {key.decode()}"
    words = arg.split()
    if verb == RELEASE:
        if not words:
            raise BadAskError
        return Ask(verb, name, token=arg.strip())
    return _read_words(verb, name, words, seat, lease_default_ns)


def _read_words(verb: str, name: str, words: list[bytes], seat: bool, lease_default_ns: int) -> Ask:
    """Read the words behind the key: token or patience, limit, lease, as the verb has them."""
    token, patience_ns, limit, lease_ns = b"", 0, LOCK_LIMIT, lease_default_ns
    rest = list(reversed(words))
    if verb == RENEW:
        token = _next(rest)
    if verb in (ACQUIRE, WAIT):
        patience_ns = SECOND * _number(_next(rest), 0, SECONDS_MAX)
    if verb in (ACQUIRE, ENQUEUE) and seat:
        limit = _number(_next(rest), 1, 1 << 62)
    if verb != WAIT and rest:
        lease_ns = SECOND * _number(_next(rest), 1, SECONDS_MAX)
    if rest:
        raise BadAskError
    return Ask(verb, name, limit, patience_ns, lease_ns, token)


def _next(rest: list[bytes]) -> bytes:
    if not rest:
        raise BadAskError
    return rest.pop()


def _number(text: bytes, least: int, most: int) -> int:
    if not NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise BadAskError
    return int(text)
