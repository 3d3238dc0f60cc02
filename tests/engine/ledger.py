"""A ledger of claims, kept from answers and effects alone: what a caller must believe is what the table must hold.

It knows no rule of admission, only what may never happen: overtaking, ending twice, a fence that falls, a promise
that is broken.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from holdfast.engine.resource import Resource, holders
from holdfast.words import (
    BIT,
    CLASH,
    FOREVER,
    NL,
    SECOND,
    WAITING,
    Claim,
    Effect,
    Ended,
    Granted,
    Nudged,
    Reason,
    Stayed,
    Ticket,
)
from tests.engine.kit import BYSTANDERS

Name = tuple[int, Ticket]


def span(seconds: int | None) -> int:
    return FOREVER if seconds is None else seconds * SECOND


def name_of(c: Claim) -> Name:
    return c.session, c.ticket


@dataclass
class Entry:
    """What must be true of one claim that is not gone. It waits for as long as it has no fence."""

    name: Name
    key: bytes
    want: int
    lease_ns: int
    deadline: int
    mode: int = NL
    fence: int = 0
    token: bytes = b""
    convert_deadline: int | None = None  # None: it does not convert
    kept: bool = False  # its session is gone, and it is not
    group: tuple[Name, ...] = ()  # all that it was asked for with, itself among them

    @property
    def due(self) -> int:
        return self.deadline if self.convert_deadline is None else min(self.deadline, self.convert_deadline)

    def tells(self) -> tuple[object, ...]:
        return self.name, self.mode, self.want, self.fence, self.token, self.deadline, self.convert_deadline


def told_by(c: Claim) -> tuple[object, ...]:
    patience = None if c.convert_deadline == FOREVER and c.want == c.mode else c.convert_deadline
    if c.state is WAITING:
        patience = None
    return name_of(c), c.mode, c.want, c.fence, c.token, c.deadline, patience


class Ledger:
    """All that callers know."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self.entries: dict[Name, Entry] = {}
        self.queues: dict[bytes, list[Name]] = {key: [] for key in keys}
        self.fences: dict[bytes, int] = dict.fromkeys(self.queues, 0)
        self.gone: dict[Name, Reason] = {}
        self.tokens: list[tuple[bytes, bytes]] = []  # all that were ever shown to anybody, with their keys

    # --- what a command's own answer says ---

    def queue(self, entry: Entry) -> None:
        self.entries[entry.name] = entry
        self.queues[entry.key].append(entry.name)

    def hold(self, entry: Entry, c: Claim, now: int) -> None:
        """Write down that a newcomer was granted at once."""
        assert not self.queues[entry.key], "a newcomer overtook a waiter"
        self.entries[entry.name] = entry
        self._grant(entry, c, now, above=self.fences[entry.key])

    def change(self, entry: Entry, c: Claim, now: int, *, above: int) -> None:
        """Write down a conversion that was granted at once; `above` is the last fence from before the command.

        PR to CW takes one side and frees the other: whom it lets in has been read by now, with the later fence.
        """
        self._grant(entry, c, now, above=above)

    def strike(self, name: Name, reason: Reason) -> None:
        """Write down an end; there is exactly one for each claim."""
        assert name not in self.gone
        entry = self.entries.pop(name)
        if name in self.queues[entry.key]:
            self.queues[entry.key].remove(name)
        self.gone[name] = reason

    # --- what effects say ---

    def read(
        self,
        out: list[Effect],
        now: int,
        *,
        stuck: set[bytes],
        lapsing: int,
        asker: Name | None,
        withdrawn: Collection[Name] = (),
    ) -> None:
        """Write down the effects of one command, in their order. What it has `withdrawn` need not have been due."""
        dues: dict[bytes, int] = {}
        known = self._groups_that_wait()
        over = set(withdrawn)
        for effect in out:
            name = name_of(effect.claim)
            assert name in self.entries, "news of a claim that has ended"
            entry = self.entries[name]
            if isinstance(effect, Granted):
                self._read_granted(entry, effect.claim, now, dues, stuck, asker)
            elif isinstance(effect, Ended):
                self._read_ended(entry, effect.reason, now, dues, lapsing, over)
                over.update(entry.group)  # of a group, one is due, and takes the others along
            elif isinstance(effect, Stayed):
                self._read_stayed(entry, effect.reason, now, dues, lapsing)
            else:
                assert isinstance(effect, Nudged)
                assert entry.fence
                assert effect.claim.listens
                assert name == asker or CLASH[entry.mode] & BIT[effect.want]
        for group in known:
            waiting = [name in self.entries and not self.entries[name].fence for name in group]
            assert all(waiting) or not any(waiting), "a part of a group was left waiting"

    def _groups_that_wait(self) -> set[tuple[Name, ...]]:
        return {entry.group for entry in self.entries.values() if entry.group and not entry.fence}

    def _read_granted(
        self, entry: Entry, c: Claim, now: int, dues: dict[bytes, int], stuck: set[bytes], asker: Name | None
    ) -> None:
        if entry.fence:
            assert entry.convert_deadline is not None, "granted what is held already"
        else:
            assert self.queues[entry.key][0] == entry.name, "granted ahead of an older waiter"
            self.queues[entry.key].pop(0)
            # However late the tick, whoever is out of patience gets only what came free before that.
            keys = {self.entries[name].key for name in entry.group} or {entry.key}
            in_time = entry.deadline > now or any(dues.get(key, FOREVER) <= entry.deadline for key in keys)
            assert in_time or keys & stuck
            assert all(name in self.entries for name in entry.group), "a part of a group was granted"
        self._grant(entry, c, now, above=0 if entry.name == asker else self.fences[entry.key])

    def _read_ended(
        self, entry: Entry, reason: Reason, now: int, dues: dict[bytes, int], lapsing: int, over: set[Name]
    ) -> None:
        if reason is Reason.EXPIRED:
            assert entry.fence
            assert entry.deadline <= now
            self._in_order(entry, entry.deadline, dues)
        elif reason is Reason.TIMED_OUT:
            assert not entry.fence
            if entry.name not in over:
                assert entry.deadline <= now
                self._in_order(entry, entry.deadline, dues)
        elif reason is Reason.LAPSED:
            assert entry.name[0] == lapsing
        self.strike(entry.name, reason)

    def _read_stayed(self, entry: Entry, reason: Reason, now: int, dues: dict[bytes, int], lapsing: int) -> None:
        assert entry.convert_deadline is not None
        if reason is Reason.TIMED_OUT:
            assert entry.convert_deadline <= now
            self._in_order(entry, entry.convert_deadline, dues)
        else:
            assert reason is Reason.CANCELLED or entry.name[0] == lapsing
        entry.want, entry.convert_deadline = entry.mode, None

    def _in_order(self, entry: Entry, due: int, dues: dict[bytes, int]) -> None:
        assert due >= dues.get(entry.key, 0), "what was due later happened first"
        dues[entry.key] = due

    def _grant(self, entry: Entry, c: Claim, now: int, *, above: int) -> None:
        downwards = entry.fence and c.fence == entry.fence
        assert downwards or c.fence > above, "the fences of a key rise with each grant"
        self.fences[entry.key] = max(c.fence, self.fences[entry.key])
        # A conversion starts the lease again, but never takes back what a renewal promised.
        entry.deadline = max(now + entry.lease_ns, entry.deadline if entry.fence else 0)
        if not entry.fence:
            self.tokens.append((entry.key, c.token))
        entry.mode, entry.fence, entry.token = entry.want, c.fence, c.token
        entry.convert_deadline = None

    # --- against the table ---

    def compare(self, resources: dict[bytes, Resource]) -> None:
        """Nothing held is lost, nobody waits unknown, and everybody has the deadline that they were promised."""
        for key, queue in self.queues.items():
            r = resources.get(key)
            held = [told_by(c) for c in holders(r) if c.session != BYSTANDERS] if r is not None else []
            waiting = [told_by(c) for c in (r.waiting or {}).values()] if r is not None else []
            known = [e.tells() for e in self.entries.values() if e.key == key and e.fence]
            assert sorted(held, key=repr) == sorted(known, key=repr)
            assert waiting == [self.entries[name].tells() for name in queue]
