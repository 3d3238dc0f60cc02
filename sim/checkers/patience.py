"""Nobody is told too early that their patience is over, and nobody is left waiting for longer.

A grant counts as an answer here; who deserves it is judged elsewhere.
"""

from collections.abc import Iterator

from sim.checkers.asks import ACQUIRE, WAIT
from sim.checkers.ends import first_ends
from sim.checkers.sleep import Sleep
from sim.checkers.talks import Finding, Request, Talks


def check_patience(talks: Talks) -> Iterator[Finding]:
    sleep = Sleep(talks.events)
    ends = first_ends(talks.events)
    last = talks.events[-1]
    for request in talks.requests:
        if request.ask.verb in (ACQUIRE, WAIT):
            yield from _check(request, sleep, ends.get(request.peer, last).at)


def _check(request: Request, sleep: Sleep, end: int) -> Iterator[Finding]:
    due = request.at + request.ask.patience_ns
    latest = sleep.wake_after(due)
    if request.reply is None:
        if end > latest:
            yield Finding("patience", request.step, f"{request} was not answered when its patience was over")
    elif request.reply_at > latest:
        yield Finding("patience", request.reply_step, f"{request} was answered after its patience was over")
    elif request.reply == b"timeout" and request.reply_at < due:
        yield Finding("patience", request.reply_step, f"{request} was answered before its patience was over")
