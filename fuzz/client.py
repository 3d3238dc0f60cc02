"""Whatever a server says, a client's codec raises nothing but our errors, and believes no grant of something else.

However its bytes are cut, the answers are the same; whoever asked is answered once, or goes on waiting.
"""

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fuzz.frames import MUTATIONS
from fuzz.line import BrokenError
from holdfast.client.asks import (
    Acquire,
    Answer,
    Ask,
    Convert,
    End,
    Enqueue,
    Granted,
    GrantedAll,
    Member,
    Proof,
    Query,
    Renew,
    Wait,
    Want,
)
from holdfast.client.dialects.codec import Codec
from holdfast.client.dialects.dflock import REFUSALS, DflockCodec
from holdfast.client.dialects.lockserver import LockServerCodec
from holdfast.client.dialects.native import NativeCodec, Session
from holdfast.errors import BadRequest, HoldfastError

SECOND = 1_000_000_000
TOKEN = f"{7:016x}{1:016x}"
TICKET = "ticket-of-a-0001"
WANT = Want(key="job", ticket=TICKET, lease_ns=30 * SECOND)
GROUP = Want(key="a + b", ticket=TICKET, lease_ns=30 * SECOND, members=(Member("a"), Member("b", "PR")))
PROOF = Proof(WANT, TOKEN, 7, "one-lease", "me/1")
CLAIM = (Acquire(WANT, 0), Acquire(WANT, None), Renew([(PROOF, 30 * SECOND)]), End(WANT, PROOF), Query("ping"))
QUEUE = (Enqueue(WANT), Wait(WANT, SECOND))
OTHERS = (Convert(WANT, "PR", None), Acquire(GROUP, 0), Renew([(PROOF, SECOND)] * 2), Query("look", {"key": "job"}))


# --- what servers say ---


def dflock_line(dice: random.Random) -> bytes:
    grant = f"{TOKEN} {dice.choice((30, 30, 1, 0, 9_223_372_037))}".encode()
    plain = (b"ok", b"ok 30", b"ok " + grant, b"acquired " + grant, b"queued", b"timeout", b"error", b'ok {"a":1}')
    return dice.choice((*plain, *plain, *REFUSALS)) + b"\n"


def native_line(dice: random.Random) -> bytes:
    odd: tuple[Any, ...] = (None, True, 0, -1, 1.5, 1 << 70, "", "x", [], {}, [True], "PR", "a", "AA==", "\ud800")
    grant = {"ticket": TICKET, "key": "job", "kind": "lock", "mode": "EX", "fence": 7, "token": TOKEN}
    grant |= {"lease_ms": 30_000, "left_ms": 30_000, "value": None, "value_valid": True}
    claims = [
        grant | {"ticket": f"{TICKET}#0", "key": "a"},
        grant | {"ticket": f"{TICKET}#1", "key": "b", "mode": "PR"},
    ]
    line: dict[str, Any] = dice.choice(
        (
            {"answer": "granted"} | grant,
            {"answer": "granted"} | grant | {"mode": "PR"},
            {"answer": "granted", "ticket": TICKET, "claims": claims},
            {"answer": "queued", "ticket": TICKET, "key": "job", "kind": "lock"},
            {"answer": "renewed", "renewed": dice.choice(([True], [False, True], [None], []))},
            {"answer": dice.choice(("ended", "ok", "seen", "what"))},
            {"error": dice.choice(("busy", "not_held", "closed", "unknown", "bad_peer", "x")), "detail": "why"},
            {"event": "granted"} | grant,
            {"event": dice.choice(("ended", "draining", "eclipse")), "ticket": TICKET},
        )
    )
    if "event" not in line:
        line["id"] = dice.randint(1, 8)
    if dice.random() < 0.15:
        line[dice.choice(list(line))] = dice.choice(odd)
    return json.dumps(line).encode() + b"\n"


def http_answer(dice: random.Random) -> bytes:
    lease = {"acquired": True, "lock_name": "job", "lease_id": "one-lease", "fencing_token": 7}
    held = {"acquired": False, "reason": dice.choice(("HELD", "BUSY_RETRY")), "recommended_retry_ms": 50}
    said: Any = dice.choice(
        (lease, lease, held, {"renewed": True}, {"released": True}, {"error": "why"}, {}, [], None, 5)
    )
    body = json.dumps(said).encode()
    status = 200 if dice.random() < 0.5 else dice.choice((409, 409, 500, 503, 100, 204, 400))
    head = f"HTTP/1.1 {status} X\r\n".encode()
    if dice.random() < 0.2:
        head += b"Transfer-Encoding: chunked\r\n"
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    elif dice.random() < 0.9:
        head += b"Content-Length: %d\r\n" % len(body)
    if dice.random() < 0.1:
        head += b"Connection: close\r\n"
    return head + b"\r\n" + body


@dataclass(frozen=True, slots=True)
class Dialect:
    """A protocol: a codec that has been greeted, what can be asked, and what a server says."""

    codec: Callable[[], Codec]
    asks: tuple[Ask, ...]
    at_once: int  # how many requests a connection carries
    says: Callable[[random.Random], bytes]


def _greeted() -> Codec:
    codec = NativeCodec(Session(client="fuzz", host="here", pid=1, auth=None), events=True)
    codec.read(b'ok {"session":"s","grace_ms":1,"line_bytes_max":65536,"in_flight_max":64}\n')
    return codec


DIALECTS = {
    "dflock": Dialect(lambda: DflockCodec(None), CLAIM + QUEUE, 8, dflock_line),
    "native": Dialect(_greeted, CLAIM + QUEUE + OTHERS, 8, native_line),
    "http": Dialect(lambda: LockServerCodec("here", None, "me"), CLAIM, 1, http_answer),
}


def stream(dice: random.Random, dialect: Dialect) -> bytes:
    """Make what a server might say: a few answers, and some of the time something that went wrong with them."""
    data = b"".join(dialect.says(dice) for _ in range(dice.randint(1, dialect.at_once)))
    for _ in range(dice.choice((0, 0, 1, 2))):
        data = dice.choice(MUTATIONS)(dice, data)
    return data


# --- what a client makes of it ---


@dataclass(slots=True)
class Heard:
    """What came of some bytes: who was answered what, and why the connection was given up, if it was."""

    answers: list[tuple[int, Answer]]
    why: HoldfastError | None = None


def hear(dialect: Dialect, asks: Iterable[Ask], parts: Iterable[bytes]) -> Heard:
    """Ask, and let the server say bytes, so cut, and then close."""
    codec = dialect.codec()
    asked = dict(enumerate(asks))
    for handle, ask in asked.items():
        codec.write(ask, handle)
    heard = Heard([])
    try:
        for part in parts:
            heard.answers += codec.read(part)
        heard.answers += codec.end()
    except HoldfastError as error:
        heard.why = error
    _check_books(codec, asked, heard)
    return heard


def _check_books(codec: Codec, asked: dict[int, Ask], heard: Heard) -> None:
    answered = [handle for handle, _ in heard.answers]
    _check(sorted([*answered, *codec.waiting]) == sorted(asked), "somebody was answered twice, or forgotten", heard)
    for handle, answer in heard.answers:
        _check(_fits(asked[handle], answer), f"{asked[handle]} was answered {answer}", heard)
    if heard.why is None and codec.has_room():
        try:
            codec.write(Query("ping"), len(asked))
        except BadRequest:
            raise BrokenError("a connection with room takes no request") from None


def _fits(ask: Ask, answer: Answer) -> bool:
    """Say whether a grant is one of what was asked for; with all other answers nothing is believed to be held."""
    if isinstance(answer, GrantedAll):
        wanted = [(member.key, member.mode) for member in GROUP.members]
        return isinstance(ask, Acquire) and [(grant.key, grant.mode) for grant in answer.grants] == wanted
    if not isinstance(answer, Granted):
        return True
    mode = ask.mode if isinstance(ask, Convert) else WANT.mode
    grants = isinstance(ask, (Acquire, Enqueue, Wait, Convert))
    return grants and (answer.key, answer.ticket, answer.mode) == (WANT.key, TICKET, mode) and answer.lease_ns > 0


def check(dialect: Dialect, asks: list[Ask], data: bytes, cuts: list[bytes]) -> None:
    """Let a server say the same bytes whole, cut, and one by one."""
    whole = hear(dialect, asks, [data])
    ways = {"cut": cuts, "byte by byte": [data[at : at + 1] for at in range(len(data))]}
    for way, parts in ways.items():
        heard = hear(dialect, asks, parts)
        if whole.why is None and heard.why is None:
            _check(repr(heard.answers) == repr(whole.answers), f"{way}, the answers are other ones", (whole, heard))
        elif whole.why is not None:
            _check(heard.why is not None, f"{way}, nonsense is none", (whole, heard))
        else:  # what comes behind an answer over HTTP is nonsense only to who has read that answer before
            _check(dialect.at_once == 1, f"{way}, nonsense was found", (whole, heard))
            _check(repr(heard.answers) == repr(whole.answers), f"{way}, the answers are other ones", (whole, heard))


def try_dialects(dice: random.Random, cut: Callable[[random.Random, bytes], list[bytes]]) -> None:
    """Make what servers of each protocol might say, and see what clients make of it."""
    for dialect in DIALECTS.values():
        asks = [dice.choice(dialect.asks) for _ in range(dialect.at_once)]
        data = stream(dice, dialect)
        try:
            check(dialect, asks, data, cut(dice, data))
        except Exception as error:
            error.add_note(f"the server said {data!r} to {asks}")
            raise


def _check(holds: bool, what: str, evidence: object) -> None:
    if not holds:
        raise BrokenError(f"{what}: {evidence}")
