"""Fences rise: with each grant of a key, and over restarts where there is a fence file. No fence is given out twice.

Whether somebody should have been granted at all is judged elsewhere.
"""

from collections.abc import Iterator

from sim.checkers.asks import WAIT
from sim.checkers.talks import Finding, Request, Talks
from sim.history import Minted, Started


def check_fences(talks: Talks) -> Iterator[Finding]:
    if any(isinstance(event, Started) and event.rules.durable for event in talks.events):
        yield from _check_dense(talks)
        return
    yield from _check_minted(talks)
    yield from _check_tokens(talks)
    yield from _check_order(talks)


def _check_dense(talks: Talks) -> Iterator[Finding]:
    """Where every key counts for itself, no fence of it is given to two claims, nor a lower one later; ever."""
    last: dict[str, Request] = {}
    owners: dict[tuple[str, int], bytes] = {}
    for request in sorted(talks.grants(), key=lambda request: request.reply_place):
        key = request.ask.key
        if owners.setdefault((key, request.fence), request.token) != request.token:
            yield Finding("fences", request.reply_step, f"{request} got the fence of another claim")
        if request.ask.verb == WAIT:
            continue
        before = last.get(key)
        if before is not None and before.reply_step < request.reply_step and before.fence >= request.fence:
            yield Finding("fences", request.reply_step, f"{request} got a lower fence than was given before")
        last[key] = request


def _check_minted(talks: Talks) -> Iterator[Finding]:
    """All fences of one server rise, and with a fence file those of all servers after another."""
    last = 0
    for event in talks.events:
        if isinstance(event, Started) and not event.rules.fence_file:
            last = 0
        elif isinstance(event, Minted):
            if event.fence <= last:
                yield Finding("fences", event.step, f"fence {event.fence} came after fence {last}")
            last = max(last, event.fence)


def _check_tokens(talks: Talks) -> Iterator[Finding]:
    """A token is one claim's own, and its fence was made by the server that granted it."""
    minted: set[int] = set()
    owners: dict[int, tuple[bytes, int, str]] = {}
    for place, event in enumerate(talks.events):
        if isinstance(event, Started):
            minted.clear()
            owners.clear()
        elif isinstance(event, Minted):
            minted.add(event.fence)
        for request in talks.answered.get(place, ()):
            if not request.token:
                continue
            owner = (request.token, request.peer, request.ask.key)
            if owners.setdefault(request.fence, owner) != owner:
                yield Finding("fences", request.reply_step, f"{request} got the fence of another claim")
            if request.fence not in minted:
                yield Finding("fences", request.reply_step, f"{request} got a fence that was never made")


def _check_order(talks: Talks) -> Iterator[Finding]:
    """Whoever is told of a grant in a later step has the higher fence, unless it had been granted unseen before."""
    last: dict[tuple[int, str], Request] = {}
    grants = (request for request in talks.grants() if request.ask.verb != WAIT)
    for request in sorted(grants, key=lambda request: request.reply_place):
        where = request.run, request.ask.key
        before = last.get(where)
        if before is not None and before.reply_step < request.reply_step and before.fence >= request.fence:
            yield Finding("fences", request.reply_step, f"{request} got a lower fence than was given before")
        last[where] = request
