"""The native protocol, as it answers: grants, refusals, events, and what a look shows, each as one line of JSON.

Pure text work; what is asked is read in native.py. No lock rule, no connection and no clock here.
"""

import binascii
from typing import Final

import msgspec
from msgspec import Struct

from holdfast import errors
from holdfast.wire.native import IN_FLIGHT_MAX, LINE_BYTES_MAX, VERSION
from holdfast.wire.native_meaning import MILLISECOND, SEMAPHORE, cursor_of
from holdfast.words import FOREVER, RESIDENT, UNLIMITED, Answer, Claim, Group, Holder, Mode, Reason, View, Waiter

QUEUE_SHOWN_MAX: Final = 1000
HOLDERS_SHOWN_MAX: Final = 1000

_ENCODER: Final = msgspec.json.Encoder()
_encode: Final = _ENCODER.encode

MODE_NAMES: Final = tuple(mode.name for mode in Mode)
REASONS: Final = {reason: reason.name.lower() for reason in Reason}

# When to ask again, by the code of the refusal.
RETRIES: Final = {
    kind.code: kind.retry.value
    for kind in (
        errors.BadRequest,
        errors.Busy,
        errors.Closed,
        errors.FenceUnavailable,
        errors.LeaseLost,
        errors.LimitMismatch,
        errors.NotHeld,
        errors.Refused,
        errors.StoreBusy,
        errors.StoreFailed,
        errors.TimedOut,
        errors.TooMany,
        errors.WouldDeadlock,
    )
}

# What a refusal is called, and what it says; `too_many` and others are told in more words by whoever knows them.
REFUSALS: Final[dict[Answer, tuple[str, str]]] = {
    Answer.BUSY: ("busy", "somebody else holds the key, or waits for it"),
    Answer.TIMED_OUT: ("timed_out", "the patience ran out"),
    Answer.NOT_HELD: ("not_held", "nothing is held or waits under this ticket or token"),
    Answer.NOT_ENQUEUED: ("not_held", "nothing is held or waits under this ticket"),
    Answer.LEASE_EXPIRED: ("lease_lost", "the lease ran out"),
    Answer.WOULD_DEADLOCK: ("would_deadlock", "it would wait for itself"),
    Answer.LIMIT_MISMATCH: ("limit_mismatch", "the semaphore is known with another limit, or has too few seats"),
    Answer.TOO_MANY_KEYS: ("too_many", "the server knows as many keys as it may (keys_max)"),
    Answer.TOO_MANY_WAITERS: ("too_many", "as many wait for this key as may (waiters_max)"),
    Answer.NO_FENCE: ("fence_unavailable", "no fence can be had that is safe; the log of the server says why"),
    Answer.DRAINING: ("closed", "the server is about to stop"),
    Answer.CLOSED: ("closed", "the server is about to stop, or the session is over"),
    Answer.CANCELLED: ("refused", "the claim was ended, or a later request has shown its ticket"),
    Answer.STORE_BUSY: ("store_busy", "another process keeps the store to itself; nothing was changed"),
    Answer.STORE_FAILED: ("store_failed", "the store could not keep it; the log of the server says why"),
}


class Greeting(Struct):
    """What `hello` is answered with."""

    version: int
    server: str
    session: str
    resumed: bool
    grace_ms: int
    lease_ms: int
    line_bytes_max: int = LINE_BYTES_MAX
    in_flight_max: int = IN_FLIGHT_MAX


class Grant(Struct):
    """What a holder may know."""

    ticket: str
    key: str
    kind: str
    mode: str
    units: int
    fence: int
    token: str
    lease_ms: int
    left_ms: int
    value: str | None
    value_valid: bool


class Grants(Struct):
    """What a group was granted."""

    ticket: str
    claims: list[Grant]


# --- names ---


def name_of(key: bytes) -> str:
    """Spell the name of a key for people; bytes that are not UTF-8 are escaped."""
    return key.partition(b":")[2].decode("utf-8", "backslashreplace")


def kind_of(key: bytes) -> str:
    return "semaphore" if key.startswith(SEMAPHORE) else "lock"


def ms(duration_ns: int) -> int:
    """Whole milliseconds, never more than there are."""
    return max(0, duration_ns) // MILLISECOND


# --- answers ---


def greet(server: str, session: str, *, resumed: bool, grace_ns: int, lease_ns: int) -> bytes:
    """Spell the answer to `hello`."""
    return b"ok " + _encode(Greeting(VERSION, server, session, resumed, ms(grace_ns), ms(lease_ns))) + b"\n"


def turn_away(code: str, detail: str) -> bytes:
    """Spell the refusal of `hello`."""
    return b"error " + _encode({"error": code, "retry": RETRIES[code], "detail": detail}) + b"\n"


def answer(id_: int | str, word: bytes, facts: object = None) -> bytes:
    """Spell an answer."""
    body = b"}" if facts is None else b"," + _encode(facts)[1:]
    return b'{"id":' + _encode(id_) + b',"answer":"' + word + b'"' + body + b"\n"


def refusal(id_: int | str | None, code: str, detail: str) -> bytes:
    """Spell an error."""
    return _encode({"id": id_, "error": code, "retry": RETRIES[code], "detail": detail}) + b"\n"


def event(word: bytes, facts: object) -> bytes:
    """Spell an event."""
    return b'{"event":"' + word + b'",' + _encode(facts)[1:] + b"\n"


def refused(id_: int | str, why: Answer, claim: Claim | None = None) -> bytes:
    """Spell an answer that says no; and who is in the way, where that is known."""
    code, detail = REFUSALS[why]
    rival = claim.rival if claim is not None else None
    if rival is not None and rival.owner:
        detail = f"{detail}; {rival.owner.decode('utf-8', 'backslashreplace')} holds it"
    return refusal(id_, code, detail)


def place_of(request: Claim | Group) -> dict[str, object]:
    """Tell which claim, and on what."""
    if isinstance(request, Group):
        return {"ticket": request.ticket.decode(), "claims": [place_of(claim) for claim in request.claims]}
    return {"ticket": ticket_of(request), "key": name_of(request.key), "kind": kind_of(request.key)}


def ticket_of(claim: Claim) -> str:
    assert isinstance(claim.ticket, bytes)
    return claim.ticket.decode()


def grant_of(claim: Claim, now: int) -> Grant:
    value, valid = claim.seen if claim.seen is not None else (None, True)
    return Grant(
        ticket_of(claim),
        name_of(claim.key),
        kind_of(claim.key),
        MODE_NAMES[claim.mode],
        claim.units,
        claim.fence,
        claim.token.decode(),
        claim.lease_ns // MILLISECOND,
        ms(claim.deadline - now),
        None if value is None else binascii.b2a_base64(value, newline=False).decode(),
        valid,
    )


def ended(claim: Claim, reason: Reason, detail: str | None) -> bytes:
    """Spell the event of an end."""
    facts = place_of(claim) | {"reason": REASONS[reason], "fence": claim.fence}
    if detail is not None:
        facts["detail"] = detail
    return event(b"ended", facts)


def stayed(claim: Claim, reason: Reason) -> bytes:
    """Spell the event of a conversion that is over without a grant."""
    return event(b"stayed", place_of(claim) | {"mode": MODE_NAMES[claim.mode], "reason": REASONS[reason]})


def nudged(claim: Claim, want: int) -> bytes:
    """Spell the event that somebody wants what a claim holds."""
    return event(b"nudged", place_of(claim) | {"want": MODE_NAMES[want]})


def changed(key: bytes, what: str, reason: Reason | None = None) -> bytes:
    """Spell the event that something has happened to a key."""
    facts = {"key": name_of(key), "kind": kind_of(key), "what": what}
    return event(b"changed", facts if reason is None else facts | {"reason": REASONS[reason]})


# --- what a look shows ---


def grants_of(group: Group, now: int) -> Grants:
    return Grants(group.ticket.decode(), [grant_of(claim, now) for claim in group.claims])


def keys_seen(views: list[View], count: int, now: int, *, deep: bool) -> dict[str, object]:
    """Show keys, `count` of them at most, and where to go on."""
    shown = [key_view(view, now, deep=deep) for view in views[:count]]
    return {"keys": shown, "next": cursor_of(views[count - 1].key) if len(views) > count else None}


def key_view(view: View, now: int, *, deep: bool) -> dict[str, object]:
    """Show one key; what is not known is left out, secrets and tickets among it."""
    shown: dict[str, object] = {"key": name_of(view.key), "kind": kind_of(view.key)}
    if view.limit != UNLIMITED:
        shown["limit"] = view.limit
    shown |= {"version": view.version, "waiting": view.waiters, "held": len(view.holders)}
    shown["holders"] = [holder_view(holder, now) for holder in view.holders[:HOLDERS_SHOWN_MAX]]
    if deep:
        shown["queue"] = [_waiter(waiter, now) for waiter in view.queue[:QUEUE_SHOWN_MAX]]
    return shown


def introduction(owner: bytes, about: bytes, session: int) -> dict[str, object]:
    """Tell who somebody says to be."""
    shown: dict[str, object] = {}
    if owner:
        shown["owner"] = owner.decode("utf-8", "backslashreplace")
    told = _read_about(about)
    for name in ("host", "pid", "client", "thread", "task", "operation", "traceparent", "door", "peer"):
        if name in told:
            shown[name] = told[name]
    if session == RESIDENT and "door" not in shown and owner:
        shown["door"] = "http"
    return shown


def _read_about(about: bytes) -> dict[str, object]:
    """Read what a claim tells of its caller. It may have been kept by another release; what cannot be read is not."""
    try:
        return msgspec.json.decode(about, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


def holder_view(holder: Holder, now: int) -> dict[str, object]:
    """Show one who holds."""
    shown = introduction(holder.owner, holder.about, holder.session)
    shown |= {
        "mode": MODE_NAMES[holder.mode],
        "units": holder.units,
        "fence": holder.fence,
        "since_ms": ms(now - holder.since),
        "left_ms": ms(holder.deadline - now),
    }
    if holder.converting is not None:
        shown["converting_to"] = MODE_NAMES[holder.converting]
    if holder.kept:
        shown["kept"] = True
    return shown


def _waiter(waiter: Waiter, now: int) -> dict[str, object]:
    shown = introduction(waiter.owner, waiter.about, waiter.session)
    shown |= {
        "want": MODE_NAMES[waiter.want],
        "units": waiter.units,
        "since_ms": ms(now - waiter.since),
        "left_ms": None if waiter.deadline >= FOREVER else ms(waiter.deadline - now),
    }
    if waiter.converting:
        shown["fence"] = waiter.fence
    if waiter.group:
        shown["group"] = waiter.group
    return shown
