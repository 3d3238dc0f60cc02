"""When connections end, seen from the server: nobody need be answered after that.

Why they end, and whether they may, is judged elsewhere.
"""

from collections.abc import Iterable

from sim.history import Connected, Cut, Event, Lost, Stopped, Torn


def first_ends(events: Iterable[Event]) -> dict[int, Event]:
    """Find for each peer the first event that ends its connection."""
    ends: dict[int, Event] = {}
    open_: set[int] = set()
    for event in events:
        if isinstance(event, Connected):
            open_.add(event.peer)
        elif isinstance(event, (Cut, Lost, Torn)):
            ends.setdefault(event.peer, event)
        elif isinstance(event, Stopped):
            for peer in open_:
                ends.setdefault(peer, event)
    return ends
