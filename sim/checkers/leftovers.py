"""When everybody has left and every lease is over, nothing is left: not for those who ask, not inside.

Also here: that the server never raised, and that the invariants of its engine always held.
"""

import json
from collections.abc import Iterator

from sim.checkers.asks import STATS
from sim.checkers.talks import Finding, Talks
from sim.history import Drained, Inspected, Raised, Started


def check_leftovers(talks: Talks) -> Iterator[Finding]:
    talks = talks.raw
    draining = False
    for event in talks.events:
        if isinstance(event, (Started, Drained)):
            draining = isinstance(event, Drained)
        elif isinstance(event, Raised):
            yield Finding("leftovers", event.step, f"the server raised:\n{event.what}")
        elif isinstance(event, Inspected):
            left = ", ".join(f"{count} {name}" for name, count in event.left.items() if count)
            if left:
                yield Finding("leftovers", event.step, f"when everybody had left, there were {left}")
            if not draining:
                yield from _check_last_stats(talks)


def _check_last_stats(talks: Talks) -> Iterator[Finding]:
    """The last who came, alone, asked for nothing but what there is."""
    last = talks.requests[-1] if talks.requests else None
    if last is None or last.ask.verb != STATS or last.reply is None or not last.reply.startswith(b"ok {"):
        return
    alone = talks.by_peer[last.peer].requests == [last] and last.peer == max(talks.by_peer)
    stats = json.loads(last.reply[3:])
    busy = [f"{name}: {stats[name]}" for name in ("locks", "semaphores") if stats[name]]
    if alone and (busy or stats["connections"] != 1):
        yield Finding("leftovers", last.step, f"the last caller was told of {stats['connections']} and {busy}")
