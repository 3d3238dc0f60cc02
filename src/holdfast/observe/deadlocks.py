"""Looks for deadlocks a moment after somebody has begun to wait, and goes on looking until those found are gone.

It only counts, logs and tells; nobody is refused or ended here. Which cycles there are, `engine/graph.py` says.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.engine.graph import Cycle, Edge, Party, deadlocks
from holdfast.observe.logs import get_logger
from holdfast.ports import Alarm, Clock
from holdfast.words import FOREVER, SECOND, Mode, View

# Most who wait are granted sooner than this, and then nobody has to look.
PAUSE_NS: Final = SECOND // 4
# How long after the last look to see whether what it found is still there.
AGAIN_NS: Final = SECOND
# The share of the time that looking may take: one part in so many.
SHARE: Final = 20

Look = Callable[[Callable[[list[View]], None]], None]
Heard = Callable[[list[Cycle], list[Cycle]], None]

log = get_logger(part="deadlocks")


class Deadlocks:
    """The cycles that there are, as of the last look. `look` hands over views of all keys that one could go over."""

    def __init__(self, look: Look, clock: Clock, alarm: Alarm) -> None:
        self.cycles: list[Cycle] = []
        self.found = 0  # so far
        self.heard: Heard | None = None  # told of all cycles, and of those that were not there before
        self._look = look
        self._clock = clock
        self._alarm = alarm
        self._due = FOREVER
        self._rests_until = 0
        self._looking = False

    def somebody_waits(self) -> None:
        """Hear that there may be a new cycle."""
        if self._due == FOREVER:
            self._look_at(self._clock() + PAUSE_NS)

    def next_deadline(self) -> int:
        return FOREVER if self._looking else self._due

    def tick(self, now: int) -> None:
        """Look, if it is time to."""
        if self._due <= now and not self._looking:
            self._looking = True
            self._due = FOREVER
            self._look(self._seen)

    def _look_at(self, when: int) -> None:
        self._due = max(when, self._rests_until)
        if not self._looking:
            self._alarm(self._due)

    def _seen(self, views: list[View]) -> None:
        started = self._clock()
        known = {cycle.name for cycle in self.cycles}
        self.cycles = deadlocks(views)
        fresh = [cycle for cycle in self.cycles if cycle.name not in known]
        self.found += len(fresh)
        for cycle in fresh:
            log.warning("deadlock", cycle=[spell(edge) for edge in cycle.edges])
        if self.heard is not None:
            self.heard(self.cycles, fresh)
        self._rest(started)

    def _rest(self, started: int) -> None:
        now = self._clock()
        self._looking = False
        self._rests_until = now + (SHARE - 1) * (now - started)
        if self.cycles:
            self._due = min(self._due, now + AGAIN_NS)
        if self._due < FOREVER:
            self._look_at(self._due)


def spell(edge: Edge) -> str:
    """Say who waits for what and who is in the way, for a line in a log."""
    kind, _, name = edge.key.decode("utf-8", "backslashreplace").partition(":")
    place = "is before it" if edge.hindrance.ahead else "has it"
    return (
        f"{spell_party(edge.party)} waits for {kind}:{name} ({Mode(edge.want).name}); "
        f"{spell_party(edge.hindrance.party)} {place}"
    )


def spell_party(party: Party) -> str:
    """Name somebody by what it says of itself, or else by where it is."""
    who = party.owner.decode("utf-8", "backslashreplace") or _place_of(party.about)
    return f"{who} (session {party.session})"


def _place_of(about: bytes) -> str:
    try:
        told = msgspec.json.decode(about, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "somebody"
    return f"{told.get('door', 'somebody')} {told.get('peer', '')}".strip()
