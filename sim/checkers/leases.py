"""A token is good from its grant until it is given back, runs out or loses its connection; not shorter, not longer.

Judged from the answers to those who use tokens, whoever they are.
"""

from collections.abc import Iterator

from sim.checkers.asks import RELEASE, RENEW
from sim.checkers.talks import Finding, Request, Talks
from sim.history import Drained, HungUp, Lost, Rules, Started, Stopped


class _Good:
    """A token that is good."""

    __slots__ = ("doubtful", "peer", "until")

    def __init__(self, peer: int, until: int) -> None:
        self.peer = peer
        self.until = until
        self.doubtful = False


Tokens = dict[tuple[str, bytes], _Good]


def check_leases(talks: Talks) -> Iterator[Finding]:
    tokens: Tokens = {}
    known: set[tuple[str, bytes]] = set()
    rules = Rules()
    draining = False
    for place, event in enumerate(talks.events):
        match event:
            case Started():
                rules = event.rules
                draining = False
            case Drained():
                draining = True
            case Stopped():
                if not rules.durable:
                    tokens.clear()
            case Lost() | HungUp():
                if rules.release_on_disconnect:
                    _forget(event.peer, tokens)
        request = talks.taken.get(place)
        if request is not None and _counts(request, draining=draining):
            yield from _use(request, tokens)
        if request is not None and (request.ask.key, request.token) in tokens:
            _grant(request, tokens)  # the second phase of two, of a claim whose token was known before
        for answered in talks.answered.get(place, ()):
            if answered.token and (answered.ask.key, answered.token) not in known:
                known.add((answered.ask.key, answered.token))
                _grant(answered, tokens)


def _counts(request: Request, *, draining: bool) -> bool:
    """Say whether a token was used, and not only shown in vain."""
    turned_away = draining and not request.handed
    return request.ask.verb in (RELEASE, RENEW) and not turned_away and not request.failed


def _grant(request: Request, tokens: Tokens) -> None:
    tokens[request.ask.key, request.token] = _Good(request.peer, request.reply_at + request.granted_lease_ns)


def _forget(peer: int, tokens: Tokens) -> None:
    for name in [name for name, good in tokens.items() if good.peer == peer]:
        del tokens[name]


def _use(request: Request, tokens: Tokens) -> Iterator[Finding]:
    ask = request.ask
    good = tokens.get((ask.key, ask.token))
    if request.reply is None or (good is not None and good.doubtful):
        if good is not None:
            good.doubtful = True  # it may be done, although nobody could be told
        return
    accepted = request.reply.startswith(b"ok")
    if good is None or good.until <= request.at:
        if accepted:
            yield Finding("leases", request.step, f"{request} was accepted, and its token was not good")
    elif not accepted:
        yield Finding("leases", request.step, f"{request} was refused, and its token was good")
    elif ask.verb == RELEASE:
        del tokens[ask.key, ask.token]
    else:
        good.until = request.at + ask.lease_ns
