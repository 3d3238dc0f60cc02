"""Watches every instant of a world in virtual time: what clients believe to hold, against what the server could grant.

It changes nothing in the world. What happens there is decided in `lease_trial.py`.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.testing.checkers import Finding, fences_rise, judge, one_end_per_claim
from holdfast.testing.history import Danger, Grantable, Granted, Held, Lost, Record, Released
from holdfast.testing.program import Program
from holdfast.testing.timeline import Event
from holdfast.testing.world import World

PREFIX = {"lock": b"lock:", "semaphore": b"sem:"}


class Believed(Protocol):
    """What a client has in its hand."""

    @property
    def held(self) -> bool: ...

    @property
    def reason(self) -> str: ...


@dataclass(slots=True)
class Tracked:
    """One grant: what its holder believes and was told, and when the server could grant it to another."""

    claim: str
    key: bytes
    token: bytes
    held: Believed
    program: Program
    lease_ns: int
    danger_at: int | None = None
    lost_at: int | None = None
    deadline: int = 0  # the last one that the server had for it, by its own clock
    grantable_at: int | None = None
    early: bool = False  # the server ended it before its time
    broken: bool = False  # somebody has had it ended, so that its holder cannot know in time
    released: bool = False

    @property
    def stood_still(self) -> bool:
        """Whether its process could not be told something in time."""
        assert self.grantable_at is not None
        since = self.grantable_at - 2 * self.lease_ns
        return any(start <= (self.grantable_at or 0) and end >= since for start, end in self.program.spells)


class Monitor:
    """The watch over one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.history: list[Record] = []
        self.findings: list[Finding] = []
        self.tracked: list[Tracked] = []
        self.looks = 0  # how many instants were looked at while somebody held something
        self.forgives = False  # the server has forgotten what it held: nobody can know that in time
        self._open: list[Tracked] = []
        self._stop: Event | None = None
        self._stop_at = -1
        self._claims = 0
        world.timeline.watchers.append(self.look)

    # --- what the callers say ---

    def name(self, who: str) -> str:
        """Name a new claim."""
        self._claims += 1
        return f"{who}/{self._claims}"

    def add(self, kind: type[Record], claim: str, **facts: Any) -> None:
        self.history.append(kind(self.world.timeline.now, claim, **facts))

    def track(self, claim: str, held: Any, program: Program, lease_ns: int) -> Tracked:
        """Watch a grant from now on."""
        key = PREFIX[held.kind] + held.key.encode()
        tracked = Tracked(claim, key, held.token.encode(), held, program, lease_ns)
        self.add(Granted, claim, fence=held.fence)
        self.tracked.append(tracked)
        self._open.append(tracked)
        self.look()
        return tracked

    def danger(self, tracked: Tracked) -> None:
        tracked.danger_at = self.world.timeline.now
        if not tracked.released:
            self.add(Danger, tracked.claim)

    def lost(self, tracked: Tracked) -> None:
        if tracked.lost_at is not None:
            self.find("notices", f"{tracked.claim} is told twice that it is lost")
        tracked.lost_at = self.world.timeline.now
        if not tracked.released:
            self.add(Lost, tracked.claim)

    def released(self, tracked: Tracked) -> None:
        """Its holder is about to give it back."""
        tracked.released = True
        if tracked.lost_at is None:
            self.add(Released, tracked.claim)

    def broken(self, key: bytes) -> None:
        """Somebody is about to have all holders of a key ended."""
        for tracked in self._open:
            tracked.broken = tracked.broken or tracked.key == key

    def find(self, checker: str, what: str) -> None:
        self.findings.append(Finding(checker, self.world.timeline.now, what))

    # --- every instant ---

    def look(self) -> None:
        """Compare what is believed with what the server knows, and come back when that may change by itself."""
        if not self._open:
            return
        self.looks += 1
        run = self.world.server.run
        if run is None:
            return  # nobody can be granted anything; the next server will be looked at from its first instant on
        now = run.clock()
        soonest = None
        for tracked in list(self._open):
            claim = run.table.holder(tracked.key, tracked.token)
            if claim is not None and claim.deadline > now:
                tracked.deadline = claim.deadline
                if soonest is None or claim.deadline < soonest:
                    soonest = claim.deadline
            else:
                self._could_grant(tracked, now)
        if soonest is not None and soonest != self._stop_at:
            if self._stop is not None:
                self._stop.cancel()
            self._stop_at = soonest
            self._stop = self.world.timeline.at(self.world.server.instant(soonest, run.clock), lambda: None)

    def _could_grant(self, tracked: Tracked, now: int) -> None:
        """From now on the server could grant this to somebody else: nobody may believe to hold it."""
        self._open.remove(tracked)
        tracked.grantable_at = self.world.timeline.now
        tracked.early = now < tracked.deadline
        excused = tracked.program.dead or tracked.broken or self.forgives
        if tracked.held.held and not excused:
            self.find("held_in_time", f"{tracked.claim} believes to hold what the server could grant to another")
            self.add(Held, tracked.claim)
        if not tracked.released:
            self.add(Grantable, tracked.claim)

    # --- the end ---

    def close(self) -> list[Finding]:
        """Judge the whole."""
        self.world.timeline.watchers.remove(self.look)
        for tracked in self.tracked:
            self._judge_notices(tracked)
        history = self._told_in_time()
        self.findings += [*fences_rise(history), *one_end_per_claim(history)] if self.forgives else judge(history)
        return self.findings

    def _told_in_time(self) -> list[Record]:
        """Leave out what is heard by those who cannot hear in time: the dead, and those who stood still."""
        late = {tracked.claim for tracked in self.tracked if self._is_late(tracked)}
        return [record for record in self.history if not (isinstance(record, (Lost, Danger)) and record.claim in late)]

    def _is_late(self, tracked: Tracked) -> bool:
        if tracked.grantable_at is None:
            return False
        return tracked.program.dead or tracked.broken or tracked.stood_still

    def _judge_notices(self, tracked: Tracked) -> None:
        """Whoever runs hears of danger before it hears of the loss, and of the loss before it matters."""
        at = tracked.grantable_at
        if at is None or tracked.released or tracked.early or self.forgives or self._is_late(tracked):
            return
        if tracked.lost_at is None or tracked.lost_at > at:
            self.find("notices", f"{tracked.claim} was not told that it is lost before the server could grant it")
        elif "ran out" in tracked.held.reason and (tracked.danger_at is None or tracked.danger_at >= tracked.lost_at):
            self.find("notices", f"{tracked.claim} was not told of the danger before the loss")
