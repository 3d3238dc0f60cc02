"""LockServer's leases over HTTP as a client speaks them: the original's bodies, and what ours adds in head and query.

The original does not look at `wait_ms` and `Idempotency-Key`, so it is never relied on that they are heeded.
"""

import hashlib
import json
from typing import Any, Final
from urllib.parse import quote

from holdfast.client import http
from holdfast.client.asks import (
    LOCK,
    Acquire,
    Answer,
    Ask,
    End,
    Ended,
    Granted,
    Query,
    Refusal,
    Renew,
    Renewed,
    Seen,
    Want,
)
from holdfast.client.dialects.codec import Codec, Handle
from holdfast.errors import (
    BadPeer,
    BadRequest,
    Busy,
    Forbidden,
    HoldfastError,
    StoreBusy,
    TooMany,
    Unavailable,
    Unknown,
)

MILLISECOND: Final = 1_000_000
TTL_MS_MAX: Final = 600_000
# How long one request may wait at the server: shorter than what most proxies put up with. Whoever waits longer asks
# again, behind those who came meanwhile.
WAIT_MS_MAX: Final = 50_000
FENCE_MAX: Final = (1 << 64) - 1
ADVICE_MS_MAX: Final = 600_000
TEXT_CHARS_MAX: Final = 500  # of what a server says for people to read
RECOVER: Final = "recover"  # look whether a lease is ours whose grant was never heard


class LockServerCodec(Codec):
    """One connection, one request at a time."""

    def __init__(self, host: str, auth: str | None, owner: str) -> None:
        super().__init__()
        self.ready = True
        self.keeps = True  # whether it can carry another request
        self._owner = owner
        self._headers = {"Host": host, "Accept": "application/json", "User-Agent": "holdfast"}
        if auth is not None:
            self._headers["Authorization"] = f"Bearer {auth}"
        self._asked: tuple[Handle, Ask] | None = None
        self._reader = http.AnswerReader()

    def greeting(self) -> bytes:
        return b""

    def has_room(self) -> bool:
        return self._asked is None and self.keeps

    def _unanswered(self) -> list[Handle]:
        return [] if self._asked is None else [self._asked[0]]

    def write(self, ask: Ask, handle: Handle) -> bytes:
        assert self._asked is None
        data = self._spell(ask)
        self._asked = (handle, ask)
        self._reader = http.AnswerReader()
        return data

    def _take_in(self, data: bytes, answers: list[tuple[Handle, Answer]]) -> None:
        if self._asked is None:
            raise BadPeer("the server sent an answer that nobody asked for")
        answer = self._reader.feed(data)
        if answer is not None:
            answers.append(self._whole(answer))

    def end(self) -> list[tuple[Handle, Answer]]:
        if self._asked is None:
            return []
        try:
            return [self._whole(self._reader.end())]
        except (Unknown, BadPeer):
            return []  # it still waits, and nobody will answer it

    def _whole(self, answer: http.Answer) -> tuple[Handle, Answer]:
        assert self._asked is not None
        handle, ask = self._asked
        self.keeps = False  # unless the answer can be read
        read = self._read(ask, answer)
        self.keeps = answer.keeps
        self._asked = None
        return handle, read

    def owner_of(self, want: Want) -> str:
        """Name the owner of one claim: no other claim has the same, so whoever is told of it knows its own."""
        # An owner is shown to everybody and a ticket to nobody, so the one must not tell the other.
        return f"{self._owner}/{hashlib.blake2b(want.ticket.encode(), digest_size=6).hexdigest()}"

    # --- spelling requests ---

    def _spell(self, ask: Ask) -> bytes:
        if isinstance(ask, Acquire):
            check(ask.want)
            wait_ms = WAIT_MS_MAX if ask.patience_ns is None else min(-(-ask.patience_ns // MILLISECOND), WAIT_MS_MAX)
            body = {"owner_id": self.owner_of(ask.want), "ttl_ms": _ttl_ms(ask.want.lease_ns)}
            query = f"?wait_ms={wait_ms}" if wait_ms else ""
            return self._post(ask.want, f"acquire{query}", body, {"Idempotency-Key": ask.want.ticket})
        if isinstance(ask, Renew):
            ((proof, lease_ns),) = ask.proofs
            return self._post(proof.want, "renew", {**_proof(proof), "extend_by_ms": _ttl_ms(lease_ns)})
        if isinstance(ask, End):
            assert ask.proof is not None  # what is not known to be held is recovered first
            if ask.value is not None:
                raise BadRequest("http:// has no values; use holdfast://")
            return self._post(ask.want, "release", _proof(ask.proof))
        if isinstance(ask, Query) and ask.op == RECOVER:
            return http.request("GET", _path(ask.fields["want"]), self._headers)
        if isinstance(ask, Query) and ask.op == "ping":
            return http.request("GET", "/healthz", self._headers)
        word = ask.op if isinstance(ask, Query) else type(ask).__name__.lower()
        raise BadRequest(f"http:// knows no {word}; use holdfast://")

    def _post(self, want: Want, action: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> bytes:
        head = {**self._headers, "Content-Type": "application/json", **(headers or {})}
        return http.request("POST", f"{_path(want)}/{action}", head, json.dumps(body).encode())

    # --- reading answers ---

    def _read(self, ask: Ask, answer: http.Answer) -> Answer:
        if isinstance(ask, Query) and ask.op == "ping":
            return Seen({}) if answer.status == 200 else Refusal(_error_of(answer, {}))
        body = _object(answer)
        if answer.status == 200:
            return self._read_ok(ask, body)
        if answer.status == 409 and isinstance(ask, Acquire):
            return self._read_held(ask, body)
        reason = body.get("reason")
        if answer.status == 409 and isinstance(ask, Renew):
            # BUSY_RETRY: nothing was tried, so nothing is known.
            return Renewed([None if reason == "BUSY_RETRY" else False])
        return Refusal(_error_of(answer, body), _advice_ns(answer, body))

    def _read_ok(self, ask: Ask, body: dict[str, Any]) -> Answer:
        if isinstance(ask, Acquire):
            if body.get("acquired") is not True:
                raise BadPeer("the server answered 200 to acquire, and did not say that it was acquired")
            return self._granted(ask.want, body)
        if isinstance(ask, Renew):
            return Renewed([body.get("renewed") is True])
        if isinstance(ask, End):
            if body.get("reason") == "BUSY_RETRY":
                return Refusal(StoreBusy("the server did not get at its store"), 50 * MILLISECOND)
            return Ended(was_there=body.get("released") is True)
        assert isinstance(ask, Query)
        want: Want = ask.fields["want"]
        if body.get("owner_id") == self.owner_of(want) and "lease_id" in body:
            return self._granted(want, body)
        return Seen(body)

    def _read_held(self, ask: Acquire, body: dict[str, Any]) -> Answer:
        if body.get("reason") == "BUSY_RETRY":
            error: HoldfastError = StoreBusy("the server did not get at its store")
        else:
            error = Busy(f"{str(body.get('current_owner_id') or 'somebody else')[:TEXT_CHARS_MAX]} holds it")
        ours = body.get("current_owner_id") == self.owner_of(ask.want)
        return Refusal(error, _advice_ns(None, body), ours=ours)

    def _granted(self, want: Want, body: dict[str, Any]) -> Granted:
        fence, lease_id = body.get("fencing_token"), body.get("lease_id")
        if type(fence) is not int or not 0 < fence <= FENCE_MAX or not isinstance(lease_id, str) or not lease_id:
            raise BadPeer("the server granted without a fencing_token or a lease_id")
        owner = self.owner_of(want)
        if body.get("lock_name", want.key) != want.key or body.get("owner_id", owner) != owner:
            raise BadPeer(f"the server granted {want.key!r} in words that are meant for somebody else")
        return Granted(
            ticket=want.ticket,
            key=want.key,
            kind=LOCK,
            mode=want.mode,
            fence=fence,
            token=lease_id,
            lease_ns=_ttl_ms(want.lease_ns) * MILLISECOND,
            lease_id=lease_id,
            owner=owner,
        )


def check(want: Want) -> None:
    """Refuse what this protocol cannot say, rather than leave it out."""
    beyond = {
        "mode": want.mode != "EX",
        "semaphores": want.limit is not None,
        "units": want.units != 1,
        "on_contended": want.nudge,
        "deadlock": want.refuse_deadlock,
        "several keys at once": bool(want.members),
    }
    for what, asked in beyond.items():
        if asked:
            raise BadRequest(f"http:// has plain exclusive locks only, and cannot do this: {what}; use holdfast://")
    if want.key in ("", ".", "..") or "/" in want.key:
        raise BadRequest(f"over http:// a key is a text without / that is not empty, . or ..; {want.key!r} is not")


def _path(want: Want) -> str:
    return f"/v1/locks/{quote(want.key, safe='')}"


def _proof(proof: Any) -> dict[str, Any]:
    return {"owner_id": proof.owner, "lease_id": proof.lease_id, "fencing_token": proof.fence}


def _ttl_ms(lease_ns: int) -> int:
    ttl_ms = max(1, -(-lease_ns // MILLISECOND))
    if ttl_ms > TTL_MS_MAX:
        raise BadRequest(
            f"over http:// a lease has at most {TTL_MS_MAX // 1000} s; {lease_ns / 1e9:g} s were asked for"
        )
    return ttl_ms


def _object(answer: http.Answer) -> dict[str, Any]:
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):  # lists in lists without end among it
        body = None
    if not isinstance(body, dict):
        if answer.status in (200, 409):
            raise BadPeer(f"the server answered {answer.status} with what is no JSON object: {answer.body[:80]!r}")
        return {}  # a proxy, say, that speaks for itself
    return body


def _error_of(answer: http.Answer, body: dict[str, Any]) -> HoldfastError:
    detail = str(body.get("error", ""))[:TEXT_CHARS_MAX] or f"the server answered {answer.status}"
    if answer.status in (401, 403):
        return Forbidden(detail)
    if answer.status in (400, 409, 413, 422, 431):
        return BadRequest(detail)
    if answer.status == 429:
        return TooMany(detail)
    if answer.status in (408, 500, 502, 503, 504):
        # Whether a proxy that speaks of a server has passed the request on, nobody knows.
        return Unknown(detail) if answer.status in (500, 502, 504) else Unavailable(detail)
    return BadPeer(detail)


def _advice_ns(answer: http.Answer | None, body: dict[str, Any]) -> int:
    advice = body.get("recommended_retry_ms")
    if isinstance(advice, int):
        return min(max(0, advice), ADVICE_MS_MAX) * MILLISECOND
    after = "" if answer is None else answer.headers.get("retry-after", "")
    return int(after) * 1000 * MILLISECOND if after.isdecimal() and len(after) < 6 else 0
