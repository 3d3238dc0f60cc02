"""Watches every instant of a world in virtual time: what clients believe to hold, against what the server could grant.

It changes nothing in the world. What happens there is decided in `lease_trial.py`.
"""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.testing.checkers import Finding, fences_rise, judge, one_end_per_claim
from holdfast.testing.history import Converted, Danger, GaveUp, Grantable, Granted, Lost, Record, Released
from holdfast.testing.history import Held as SaidHeld
from holdfast.testing.program import Program
from holdfast.testing.timeline import Event
from holdfast.testing.world import World
from holdfast.words import FOREVER, SECOND

if TYPE_CHECKING:
    from holdfast import aio, sync

# Trouble that takes no more than this share of a lease costs nobody anything: it is renewed often enough.
SURVIVED = 0.25
PREFIX = {"lock": b"lock:", "semaphore": b"sem:"}


@dataclass(slots=True)
class Tracked:
    """One grant: what its holder believes and was told, and when the server could grant it to another."""

    claim: str
    key: bytes
    token: bytes
    held: "sync.Held | aio.Held"
    program: Program
    lease_ns: int
    beat_ns: int | None = None  # without a sign of life for so long, its holder is to be let go
    beaten_at: int = 0
    outstayed: bool = False  # the server has kept it for longer than such a holder may have it
    danger_at: int | None = None
    lost_at: int | None = None
    deadline: int = 0  # the last one that the server had for it, by its own clock
    grantable_at: int | None = None
    early: bool = False  # the server ended it before its time
    broken: bool = False  # somebody has had it ended, so that its holder cannot know in time
    released: bool = False

    @property
    def is_believed(self) -> bool:
        """Whether its holder would say that it is held; the look leaves no trace, as the real one does."""
        return copy(self.held._lease).held

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
        self._told: list[Tracked] = []  # whose holders were told that it is lost
        self._broken: set[bytes] = set()
        self._unheard: set[str] = set()
        self._troubles: list[tuple[int, int]] = []  # from when to when something was wrong
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
        if claim not in self._unheard or kind is GaveUp:
            self.history.append(kind(self.world.timeline.now, claim, **facts))

    def track(
        self,
        claim: str,
        held: "sync.Held | aio.Held",
        program: Program,
        lease_ns: int,
        *,
        beat_ns: int | None = None,
    ) -> Tracked:
        """Watch a grant from now on."""
        key = PREFIX[held.kind] + held.key.encode()
        tracked = Tracked(claim, key, held.token.encode(), held, program, lease_ns, beat_ns, self.world.timeline.now)
        tracked.broken = tracked.token in self._broken
        if tracked.broken:  # before it was heard of: as far as the others go, it has never been
            self._unheard.add(claim)
            self.add(GaveUp, claim)
        else:
            self.add(Granted, claim, fence=held.fence)
        self.tracked.append(tracked)
        self._open.append(tracked)
        self.look()
        return tracked

    @contextmanager
    def beating(self, tracked: Tracked) -> Iterator[None]:
        """Its holder gives a sign of life, for as long as the block takes."""
        tracked.beaten_at = FOREVER
        try:
            yield
        finally:
            tracked.beaten_at = self.world.timeline.now

    def convert(self, tracked: Tracked, mode: str) -> None:
        """Its holder has it in another mode."""
        if tracked.lost_at is None and tracked.grantable_at is None:
            self.add(Converted, tracked.claim, mode=mode)

    def danger(self, tracked: Tracked) -> None:
        tracked.danger_at = self.world.timeline.now
        if not tracked.released:
            self.add(Danger, tracked.claim)

    def lost(self, tracked: Tracked) -> None:
        if tracked.lost_at is not None:
            self.find("notices", f"{tracked.claim} is told twice that it is lost")
        tracked.lost_at = self.world.timeline.now
        self._told.append(tracked)
        if not tracked.released:
            self.add(Lost, tracked.claim)

    def released(self, tracked: Tracked) -> None:
        """Its holder is about to give it back, or it is over anyway."""
        if tracked.lost_at is None and tracked.grantable_at is None:
            tracked.released = True
            self.add(Released, tracked.claim)

    def broken(self, token: bytes) -> None:
        """Somebody is about to have a claim ended, which its holder may not even have heard of yet."""
        self._broken.add(token)
        for tracked in self._open:
            tracked.broken = tracked.broken or tracked.token == token

    def trouble(self, span_ns: int) -> None:
        """Something goes wrong from now on, for so long; leases may be lost over it."""
        now = self.world.timeline.now
        self._troubles.append((now, now + span_ns))

    def find(self, checker: str, what: str) -> None:
        self.findings.append(Finding(checker, self.world.timeline.now, what))

    # --- every instant ---

    def look(self) -> None:
        """Compare what is believed with what the server knows, and come back when that may change by itself."""
        for tracked in [tracked for tracked in self._told if tracked.is_believed]:
            self._told.remove(tracked)
            self.add(SaidHeld, tracked.claim)
        if not self._open:
            return
        self.looks += 1
        server = self.world.server
        run = server.run
        if run is None:
            return  # nobody can be granted anything; the next server will be looked at from its first instant on
        now = run.clock()
        soonest = None
        for tracked in list(self._open):
            claim = run.table.holder(tracked.key, tracked.token)
            if claim is not None and claim.deadline > now:
                tracked.deadline = claim.deadline
                self._look_for_life(tracked, server.instant(claim.deadline, run.clock))
                if soonest is None or claim.deadline < soonest:
                    soonest = claim.deadline
            else:
                self._could_grant(tracked, now)
        if soonest is not None and soonest != self._stop_at:
            if self._stop is not None:
                self._stop.cancel()
            self._stop_at = soonest
            self._stop = self.world.timeline.at(server.instant(soonest, run.clock), lambda: None)

    @staticmethod
    def _look_for_life(tracked: Tracked, until: int) -> None:
        """Who gives no sign of life is renewed for so long, and has what is then left of the lease."""
        if tracked.beat_ns is not None:
            most_ns = (tracked.beat_ns + tracked.lease_ns) * 5 // 4
            tracked.outstayed = tracked.outstayed or until > tracked.beaten_at + most_ns

    def _could_grant(self, tracked: Tracked, now: int) -> None:
        """From now on the server could grant this to somebody else: nobody may believe to hold it."""
        self._open.remove(tracked)
        tracked.grantable_at = self.world.timeline.now
        tracked.early = now < tracked.deadline
        excused = tracked.program.dead or tracked.broken or self.forgives
        if tracked.is_believed and not excused:
            self.find("held_in_time", f"{tracked.claim} believes to hold what the server could grant to another")
        # Nobody can believe for longer than a lease what the server has not confirmed since.
        self.world.timeline.after(tracked.lease_ns, lambda: self._must_know(tracked))
        if not tracked.released:
            self.add(Grantable, tracked.claim)

    def _must_know(self, tracked: Tracked) -> None:
        if tracked.is_believed and not tracked.program.dead:
            self.find("held_in_time", f"{tracked.claim} is believed a whole lease after the server could grant it")

    # --- the end ---

    def close(self) -> list[Finding]:
        """Judge the whole."""
        self.world.timeline.watchers.remove(self.look)
        for tracked in self.tracked:
            self._judge_notices(tracked)
            self._judge_loss(tracked)
            if tracked.outstayed and not self._troubles:
                self.find("let_go", f"{tracked.claim} is kept for a holder that gives no sign of life")
        history = self._told_in_time()
        self.findings += [*fences_rise(history), *one_end_per_claim(history)] if self.forgives else judge(history)
        return self.findings

    def _told_in_time(self) -> list[Record]:
        """Leave out what is heard too late by those who cannot hear in time: the dead, and those who stood still."""
        late: dict[Hashable, int] = {
            tracked.claim: tracked.grantable_at or 0 for tracked in self.tracked if self._is_late(tracked)
        }
        return [
            record
            for record in self.history
            if not (isinstance(record, (Lost, Danger)) and record.at >= late.get(record.claim, FOREVER))
        ]

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

    def _judge_loss(self, tracked: Tracked) -> None:
        """Nothing is lost without a cause: there was trouble enough, or somebody took it, or its holder hung."""
        at = tracked.lost_at
        if at is None or tracked.broken or tracked.beat_ns is not None or self.forgives:
            return
        since = at - 2 * tracked.lease_ns
        trouble_ns = sum(max(0, min(end, at) - max(start, since)) for start, end in self._troubles)
        if trouble_ns < tracked.lease_ns * SURVIVED:
            span = f"{trouble_ns / SECOND:g} s of trouble"
            self.find("lost_for_a_reason", f"{tracked.claim} is lost ({tracked.held.reason}) over no more than {span}")
