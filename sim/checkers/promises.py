"""What a store of transactions promises: nobody is told of what is not kept, and nothing that it was handed is lost.

Judged from what came in, what the file said, and what went out; what the answers have to be is not known here.
"""

import re
from collections.abc import Iterator

from sim.checkers.asks import ACQUIRE, ENQUEUE, RELEASE, RENEW, WAIT
from sim.checkers.talks import Finding, Request, Talks
from sim.history import Began, Committed, Failed, Handed, Performing, Started, Stopped, Told, Work, Wrote

# What a caller may build upon.
PROMISES = {
    ACQUIRE: re.compile(rb"ok .*"),
    ENQUEUE: re.compile(rb"acquired .*"),
    WAIT: re.compile(rb"ok .*"),
    RELEASE: re.compile(rb"ok"),
    RENEW: re.compile(rb"ok .*"),
}
# A store that has failed does these again; everything else that it was handed is answered that it failed.
OWED = ("hangup", "cancel")


def check_promises(talks: Talks) -> Iterator[Finding]:
    raw = talks.raw
    if any(isinstance(event, Started) and event.rules.durable for event in raw.events):
        yield from _check_kept(raw)
        yield from _check_done(raw)


def _check_kept(talks: Talks) -> Iterator[Finding]:
    """An answer leaves when the transaction behind it is told; one that promises something, if that was committed."""
    told = Told(-1, 0)
    performed_at = committed_at = -1
    committed = False
    served: set[int] = set()  # the places of the requests that the store has turned to
    last: dict[int, Request] = {}
    for place, event in enumerate(talks.events):
        match event:
            case Performing():
                performed_at, committed = event.at, False
                served.update(last[peer].place for peer, what in event.works if what == "request" and peer in last)
            case Began():
                performed_at = event.at
            case Committed():
                committed_at, committed = event.at, True
            case Told():
                told = event
            case Wrote():
                for request in filter(_is_handed, talks.answered[place]):
                    # A second phase in the same instant as the grant changes nothing that would have to be kept.
                    kept = committed or (request.ask.verb == WAIT and committed_at == performed_at)
                    if told.step != event.step or request.place not in served:
                        yield _finding(request, "before the transaction was over")
                    elif _promises(request) and not kept:
                        yield _finding(request, "and nothing was committed")
        if place in talks.taken:
            last[talks.taken[place].peer] = talks.taken[place]


def _is_handed(request: Request) -> bool:
    return request.handed


def _promises(request: Request) -> bool:
    pattern = PROMISES.get(request.ask.verb)
    return pattern is not None and pattern.fullmatch(request.reply or b"") is not None


def _finding(request: Request, why: str) -> Finding:
    return Finding("promises", request.reply_step, f"{request} was answered {request.reply!r} {why}")


def _check_done(talks: Talks) -> Iterator[Finding]:
    """The store does what it is handed, in that order and once; what it failed to do and nobody asks for again, too."""
    waiting: list[Work] = []
    turned_to: list[Work] = []
    for event in talks.events:
        match event:
            case Handed():
                waiting.append((event.peer, event.what))
            case Performing():
                turned_to = [work for work in event.works if work[0]]
                due = waiting[: len(turned_to)]
                if due != turned_to:
                    yield Finding("promises", event.step, f"the store turned to {turned_to}, and not to {due}")
                del waiting[: len(turned_to)]
            case Failed():
                waiting[:0] = [work for work in turned_to if work[1] in OWED]
                turned_to = []
            case Stopped():
                if event.how == "stopped" and waiting and not _has_failed(talks, event):
                    yield Finding("promises", event.step, f"the store was closed and never turned to {waiting}")
                waiting.clear()
    if waiting:
        yield Finding("promises", talks.events[-1].step, f"the store never turned to {waiting}")


def _has_failed(talks: Talks, stop: Stopped) -> bool:
    """Say whether the file refused something in the last moments of a server."""
    return any(isinstance(event, Failed) and event.step == stop.step for event in talks.events)
