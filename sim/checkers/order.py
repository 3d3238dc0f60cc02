"""First come, first served: of all who were granted a key, whoever asked first was granted first.

The order of grants is the order of their fences, the order of arrival that in which the server took up the requests.
"""

from collections.abc import Iterator

from sim.checkers.asks import ENQUEUE, WAIT
from sim.checkers.talks import Finding, Request, Talks


def check_order(talks: Talks) -> Iterator[Finding]:
    last: dict[tuple[int, str], Request] = {}
    for request, grant in _arrivals(talks):
        where = request.run, request.ask.key
        before = last.get(where)
        if before is not None and before.fence > grant.fence:
            yield Finding("order", grant.reply_step, f"{grant} was granted before {before}, who had come first")
        if before is None or before.fence < grant.fence:
            last[where] = grant


def _arrivals(talks: Talks) -> Iterator[tuple[Request, Request]]:
    """Give all requests that led to a grant, as they arrived, with the request that was answered with it."""
    outcome: dict[int, Request] = {}
    enqueued: dict[tuple[int, str], Request] = {}
    for request in talks.requests:
        where = request.peer, request.ask.key
        if request.ask.verb == ENQUEUE and (request.token or request.reply == b"queued"):
            enqueued[where] = request
        if request.token:
            arrival = enqueued.get(where, request) if request.ask.verb == WAIT else request
            outcome[arrival.place] = request
    for request in talks.requests:
        if request.place in outcome:
            yield request, outcome[request.place]
