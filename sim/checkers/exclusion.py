"""Mutual exclusion, as the callers see it: who was told that they hold, and for how long, never clash.

Only what was told counts here: a grant from its reply on, until it was given back, ran out or its connection ended.
"""

from collections.abc import Iterator

from sim.checkers.asks import ENQUEUE, LOCK_LIMIT, RELEASE, RENEW, WAIT
from sim.checkers.talks import Finding, Request, Talks
from sim.history import HungUp, Lost, Rules, Started, Stopped


class _Hold:
    """What one caller believes."""

    __slots__ = ("limit", "peer", "until")

    def __init__(self, peer: int, limit: int, until: int) -> None:
        self.peer = peer
        self.limit = limit
        self.until = until


Holds = dict[str, dict[bytes, _Hold]]
Limits = dict[tuple[int, str], int]


def check_exclusion(talks: Talks) -> Iterator[Finding]:
    holds: Holds = {}
    limits: Limits = {}
    step = 0
    granted: list[Request] = []  # in this step; whoever gave way in the same step did so first
    released: set[bytes] = set()
    rules = Rules()
    for place, event in enumerate(talks.events):
        if event.step != step:
            for request in granted:
                if request.token not in released:
                    yield from _note_grant(request, holds, limits)
            step = event.step
            granted.clear()
            released.clear()
        if place in talks.taken:
            _note_request(talks.taken[place], holds, limits, released)
        for request in talks.answered.get(place, ()):
            if request.token and request.token not in holds[request.ask.key]:
                granted.append(request)
        match event:
            case Started():
                rules = event.rules
            case Stopped():
                if not rules.durable:
                    holds.clear()
                    granted.clear()
            case Lost() | HungUp():
                if rules.release_on_disconnect:
                    _forget(event.peer, holds)
                    granted = [request for request in granted if request.peer != event.peer]


def _forget(peer: int, holds: Holds) -> None:
    for held in holds.values():
        for token in [token for token, hold in held.items() if hold.peer == peer]:
            del held[token]


def _note_request(request: Request, holds: Holds, limits: Limits, released: set[bytes]) -> None:
    ask = request.ask
    held = holds.setdefault(ask.key, {})
    if request.token in held:  # the second phase of two, of a claim whose token was known before
        held[request.token].until = request.reply_at + request.granted_lease_ns
    elif ask.verb == ENQUEUE:
        limits[request.peer, ask.key] = ask.limit
    elif ask.verb == RELEASE and request.reply in (b"ok", None):  # it may be done, although nobody could be told
        released.add(ask.token)
        held.pop(ask.token, None)
    elif ask.verb == RENEW and ask.token in held:
        _note_renewal(request, held[ask.token])


def _note_renewal(request: Request, hold: _Hold) -> None:
    """One that could not be answered may have made the lease shorter."""
    until = request.at + request.ask.lease_ns
    if request.reply is None:
        hold.until = min(hold.until, until)
    elif request.reply.startswith(b"ok"):
        hold.until = until


def _note_grant(request: Request, holds: Holds, limits: Limits) -> Iterator[Finding]:
    ask = request.ask
    now = request.reply_at
    held = holds.setdefault(ask.key, {})
    limit = limits.get((request.peer, ask.key), ask.limit) if ask.verb == WAIT else ask.limit
    for token in [token for token, hold in held.items() if hold.until <= now]:
        del held[token]
    held[request.token] = _Hold(request.peer, limit, now + request.granted_lease_ns)
    if len(held) > min(hold.limit for hold in held.values()):
        peers = ", ".join(str(hold.peer) for hold in held.values())
        seats = "at once" if limit == LOCK_LIMIT else f"on {limit} seats"
        yield Finding("exclusion", request.reply_step, f"peers {peers} hold {ask.key} {seats}")
