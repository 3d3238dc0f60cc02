"""A history for a person to read: one line for each event, with the time since the start.

It shows what was recorded and judges nothing.
"""

from sim.history import (
    Applied,
    Began,
    Came,
    CameEnd,
    Cleared,
    Committed,
    Connected,
    Cut,
    Drained,
    Event,
    Failed,
    Flowed,
    Freed,
    Handed,
    History,
    HungUp,
    Inspected,
    Lost,
    Minted,
    Noted,
    Occupied,
    Performing,
    Raised,
    Refused,
    Resurfaced,
    Slept,
    Stalled,
    Started,
    Stopped,
    Swept,
    Taken,
    Ticked,
    Told,
    Torn,
    Wrote,
)

SECOND = 1_000_000_000
DATA_BYTES_MAX = 70


def trace(history: History, count: int, until_step: int | None = None) -> list[str]:
    """Spell the last events, up to and with a step where one is given."""
    events = [event for event in history.events if until_step is None or event.step <= until_step]
    return [_line(event) for event in events[-count:]]


def _line(event: Event) -> str:
    return f"  step {event.step:4}  {event.at / SECOND:10.3f} s  {_spell(event)}"


def _spell(event: Event) -> str:
    peer = getattr(event, "peer", None)
    if isinstance(event, Applied) and not peer:
        return f"store     turns to its {event.what}"
    if peer is not None:
        return f"peer {peer:3}  {_spell_peer(event)}"
    match event:
        case Minted():
            return f"fence     {event.fence} (the key had {event.last})"
        case Refused():
            return f"no fence  (the key has {event.last})"
        case Started():
            return f"server    starts: {event.rules}"
        case Stopped():
            return f"server    is gone: {event.how}"
        case Slept():
            return f"server    sleeps until {event.until / SECOND:.3f} s"
        case Inspected():
            return f"server    keeps {event.left}"
        case Raised():
            return f"server    raises {event.what}"
        case Noted():
            return f"world     {event.text}"
        case Swept():
            return f"server    sweeps {event.what}"
        case Ticked() | Drained() | Cleared():
            return f"server    {WORDS[type(event)]}"
    return f"store     {_spell_store(event)}"


def _spell_store(event: Event) -> str:
    match event:
        case Performing():
            return f"turns to {', '.join(f'{what} {peer}' if peer else what for peer, what in event.works)}"
        case Failed():
            return f"fails: {event.how}"
    return WORDS[type(event)]


WORDS: dict[type[Event], str] = {
    Connected: "connects",
    CameEnd: "has finished sending",
    Stalled: "does not read",
    Flowed: "reads again",
    Torn: "is gone, and the server does not know yet",
    HungUp: "is given up by the server",
    Lost: "is gone",
    Ticked: "does its timed work",
    Drained: "is asked to finish",
    Cleared: "cuts whoever is left",
    Occupied: "has something to do",
    Freed: "has nothing to do any more",
    Began: "begins a transaction",
    Committed: "has made it last",
    Told: "tells what came of it",
    Resurfaced: "has in its file what it thought had failed",
}


def _spell_peer(event: Event) -> str:
    match event:
        case Came():
            return f"sent       {_data(event.data)}"
        case Wrote():
            return f"was told   {_data(event.data)}"
        case Taken():
            return f"asks       {_data(b' | '.join((event.command, event.key, event.arg)))}"
        case Cut():
            return f"is cut off by the server: {event.how}"
        case Handed():
            return f"hands on   {event.what}"
        case Applied():
            return f"is served  {event.what}"
    return WORDS[type(event)]


def _data(data: bytes) -> str:
    text = repr(data)[2:-1]
    return text if len(text) <= DATA_BYTES_MAX else f"{text[:DATA_BYTES_MAX]}... ({len(data)} bytes)"
