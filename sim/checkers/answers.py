"""Every request gets one reply, in order, of a kind that fits it; and nothing is said that nobody asked for.

What the right reply is, in the state of things, is the ledger's business.
"""

import re
from collections.abc import Iterator

from sim.checkers.asks import ACQUIRE, AUTH, BAD, ENQUEUE, PING, RELEASE, RENEW, STATS, WAIT
from sim.checkers.ends import first_ends
from sim.checkers.talks import Finding, Request, Talk, Talks
from sim.history import Cut, Event, Wrote

GRANT = rb"[0-9a-f]{32} [1-9][0-9]*"
COMMON = rb"error|error_draining"
FULL = rb"error_max_locks|error_max_waiters"

KINDS = {
    ACQUIRE: rb"ok %b|timeout|error_limit_mismatch|%b|%b" % (GRANT, FULL, COMMON),
    ENQUEUE: rb"acquired %b|queued|error_already_enqueued|error_limit_mismatch|%b|%b" % (GRANT, FULL, COMMON),
    WAIT: rb"ok %b|timeout|error_not_enqueued|error_lease_expired|%b" % (GRANT, COMMON),
    RELEASE: rb"ok|" + COMMON,
    RENEW: rb"ok [1-9][0-9]*|" + COMMON,
    PING: rb"ok|error_draining",
    STATS: rb"ok \{.*\}|error_draining",
    AUTH: rb"error",
    BAD: rb"error",
}
PATTERNS = {verb: re.compile(kinds, re.DOTALL) for verb, kinds in KINDS.items()}

# These may have to wait for others; everything else is answered on the spot.
BLOCKING = (ACQUIRE, WAIT)


def check_answers(talks: Talks) -> Iterator[Finding]:
    ends = first_ends(talks.events)
    for place, event in enumerate(talks.raw.events):
        if isinstance(event, Wrote) and not event.data.endswith(b"\n"):
            yield Finding("answers", event.step, f"peer {event.peer} got half a line: {event.data!r}")
        if isinstance(event, Wrote) and talks.raw.answered.get(place) is None:
            yield Finding("answers", event.step, f"peer {event.peer} got {event.data!r} out of nowhere")
    for request in talks.requests:
        yield from _check_request(request, ends.get(request.peer))
    for talk in talks.by_peer.values():
        yield from _check_surplus(talks.raw, talk)


def _check_request(request: Request, end: Event | None) -> Iterator[Finding]:
    verb, reply = request.ask.verb, request.reply
    if reply is None:
        if end is None or (verb not in BLOCKING and end.step > request.step):
            yield Finding("answers", request.step, f"{request} was never answered")
        return
    if not PATTERNS[verb].fullmatch(reply):
        yield Finding("answers", request.reply_step, f"{request} was answered {reply!r}")
    elif verb not in BLOCKING and request.reply_step != request.step:
        yield Finding("answers", request.reply_step, f"{request} had to wait for its answer")
    elif verb == RENEW and reply.startswith(b"ok") and int(reply[3:]) * 1_000_000_000 != request.ask.lease_ns:
        yield Finding("answers", request.reply_step, f"{request} was answered {reply!r}")
    elif verb in (ACQUIRE, ENQUEUE) and request.token and request.granted_lease_ns != request.ask.lease_ns:
        yield Finding("answers", request.reply_step, f"{request} was given another lease: {reply!r}")


def _check_surplus(talks: Talks, talk: Talk) -> Iterator[Finding]:
    """A connection may end with one line that answers no request, and says why it ends."""
    if talk.greeting not in (None, b"ok", b"error_auth"):
        yield Finding("answers", talks.events[0].step, f"peer {talk.peer} was greeted with {talk.greeting!r}")
    for number, (place, line) in enumerate(talk.surplus):
        step = talks.events[place].step
        cut = any(
            isinstance(event, Cut) and event.peer == talk.peer and event.step == step
            for event in talks.events[place : place + 50]
        )
        if number or line != b"error" or not cut:
            yield Finding("answers", step, f"peer {talk.peer} got {line!r}, which answers nothing")
