"""A machine that does random things to a table and keeps a ledger beside it. Test files run it in several makes.

What must be true is said in ledger.py and in the invariants of the engine.
"""

from collections.abc import Callable, Collection

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.engine import group as groups
from holdfast.engine.invariants import check_table
from holdfast.engine.table import Table
from holdfast.testing.mint import CountingMint
from holdfast.words import (
    SECOND,
    UNLIMITED,
    Answer,
    Cancel,
    Claim,
    Convert,
    Effect,
    End,
    Group,
    Hangup,
    Mode,
    Reason,
    Renew,
    Wait,
    member_ticket,
)
from tests.engine.ledger import Entry, Ledger, Name, span

LIMITS = {b"lock": UNLIMITED, b"modes": UNLIMITED, b"seats": 3}
WAITERS_MAX = 5
SESSIONS = st.integers(1, 4)
KEYS = st.sampled_from([b"lock", b"modes", b"seats"])
MODES = st.sampled_from(list(Mode))
SPANS = st.sampled_from([1, 1, 2, 3, 5, 8, None])
PATIENCE = st.one_of(SPANS, st.just(0))
PICKS = st.integers(0, 1000)

Act = Callable[[Table, list[Effect]], Answer | None]


def ticket_of(member: Entry) -> bytes:
    """Give the ticket of the group."""
    ticket = member.name[1]
    assert isinstance(ticket, bytes)
    return ticket.partition(b"#")[0]


def new_table() -> Table:
    return Table(CountingMint(), len(LIMITS), WAITERS_MAX, 20 * SECOND)


class Machine(RuleBasedStateMachine):
    """Every rule is one command, or some time that passes."""

    def __init__(self) -> None:
        super().__init__()
        self.table = new_table()
        self.mint_is_dry = False
        self.now = 1000 * SECOND
        self.tickets = 0
        self.ledger = Ledger(LIMITS)

    # --- commands ---

    @rule(
        session=SESSIONS,
        key=KEYS,
        want=MODES,
        units=st.sampled_from([1, 1, 1, 2, 3, 4]),
        lease=SPANS,
        patience=PATIENCE,
        flags=st.tuples(st.booleans(), st.booleans()),
        odd=st.sampled_from(["", "", "", "", "try", "limit"]),
    )
    def enqueue(
        self,
        session: int,
        key: bytes,
        want: Mode,
        units: int,
        lease: int | None,
        patience: int | None,
        flags: tuple[bool, bool],
        odd: str,
    ) -> None:
        self.tickets += 1
        name = (session, self.tickets)
        limit = 7 if odd == "limit" and key in self.table.resources else LIMITS[key]

        def act(table: Table, out: list[Effect]) -> Answer:
            c = Claim(key, want, units, limit, span(lease), span(patience), odd != "try", *flags)
            c.session, c.ticket = name
            return table.enqueue(c, self.now, out)

        answer = self.perform(act)
        entry = Entry(name, key, want, span(lease), self.now + span(patience))
        if answer is Answer.GRANTED:
            self.ledger.hold(entry, self.claim(name), self.now)
        elif answer is Answer.QUEUED:
            assert patience != 0
            self.ledger.queue(entry)
        else:
            assert answer is not None
            why = {
                Answer.BUSY: odd == "try",
                Answer.TIMED_OUT: patience == 0,
                Answer.LIMIT_MISMATCH: limit == 7 or units > limit,
                Answer.TOO_MANY_WAITERS: len(self.ledger.queues[key]) == WAITERS_MAX,
                Answer.NO_FENCE: self.mint_is_dry,
            }
            assert why[answer]

    @rule(
        session=SESSIONS,
        keys=st.permutations(list(LIMITS)),
        count=st.integers(2, len(LIMITS)),
        wants=st.lists(MODES, min_size=len(LIMITS), max_size=len(LIMITS)),
        lease=SPANS,
        patience=PATIENCE,
        tracked=st.booleans(),
        odd=st.sampled_from(["", "", "", "", "try", "limit"]),
    )
    def enqueue_all(
        self,
        session: int,
        keys: list[bytes],
        count: int,
        wants: list[Mode],
        lease: int | None,
        patience: int | None,
        tracked: bool,
        odd: str,
    ) -> None:
        """Ask for several keys at once."""
        self.tickets += 1
        ticket = b"group-%d" % self.tickets
        names = tuple((session, member_ticket(ticket, index)) for index in range(count))
        limits = LIMITS | ({keys[0]: 7} if odd == "limit" and keys[0] in self.table.resources else {})
        asked = list(zip(names, keys, wants, strict=False))

        def act(table: Table, out: list[Effect]) -> Answer:
            claims = [Claim(key, want, 1, limits[key], span(lease), span(patience)) for _, key, want in asked]
            group = Group(ticket, claims, span(patience), odd != "try", tracked)
            group.session = session
            return self.ask_for_all(table, group, out)

        answer = self.perform(act)
        for name, key, want in asked:
            entry = Entry(name, key, want, span(lease), self.now + span(patience), group=names)
            if answer is Answer.GRANTED:
                self.ledger.hold(entry, self.claim(name), self.now)
            elif answer is Answer.QUEUED:
                self.ledger.queue(entry)
        if answer not in (Answer.GRANTED, Answer.QUEUED):
            assert answer is not None
            why = {
                Answer.BUSY: odd == "try",
                Answer.TIMED_OUT: patience == 0,
                Answer.LIMIT_MISMATCH: limits[keys[0]] == 7,
                Answer.TOO_MANY_WAITERS: any(len(self.ledger.queues[key]) == WAITERS_MAX for key in keys[:count]),
                Answer.NO_FENCE: self.mint_is_dry,
            }
            assert why[answer]

    def ask_for_all(self, table: Table, group: Group, out: list[Effect]) -> Answer:
        assert groups.again(table, group, self.now, out) is None
        return groups.enqueue(table, group, self.now, out)[0]

    @precondition(lambda self: self.has_groups())
    @rule(pick=PICKS, patience=PATIENCE)
    def wait_for_all(self, pick: int, patience: int | None) -> None:
        group = self.pick_group(pick)
        how = Wait(group[0].name[0], ticket_of(group[0]), span(patience))
        withdrawn = [entry.name for entry in group if not entry.fence and patience == 0]
        answer = self.perform(lambda table, out: table.wait(how, self.now, out)[0], withdrawn=withdrawn)
        for entry in group:
            if answer is Answer.GRANTED:
                assert entry.fence
                entry.deadline = self.now + entry.lease_ns
            elif answer is Answer.QUEUED:
                assert not entry.fence
                entry.deadline = self.now + span(patience)
            elif answer is Answer.TIMED_OUT:
                assert self.ledger.gone[entry.name] is Reason.TIMED_OUT
            else:
                assert answer in (Answer.LEASE_EXPIRED, Answer.NOT_ENQUEUED)
        if answer is Answer.GRANTED:
            assert {entry.name for entry in group} == set(group[0].group), "what is left was taken for all of it"

    @precondition(lambda self: self.has_groups())
    @rule(pick=PICKS, held=st.booleans())
    def cancel_all(self, pick: int, held: bool) -> None:
        group = self.pick_group(pick)
        how = Cancel(group[0].name[0], ticket_of(group[0]), held=held)
        answer = self.perform(lambda table, out: table.cancel(how, self.now, out)[0], group[0])
        left = [entry for entry in group if entry.name in self.ledger.entries]
        if answer is Answer.ENDED:
            assert held
            for entry in left:
                self.ledger.strike(entry.name, Reason.RELEASED)
        elif answer is Answer.NOT_HELD:
            assert all(entry.kept for entry in left)
        elif answer is Answer.BUSY:
            assert not held
            assert all(entry.fence and entry.convert_deadline is None for entry in left)
        else:
            assert answer is Answer.CANCELLED
            assert all(entry.fence and entry.convert_deadline is None for entry in left)

    def has_groups(self) -> bool:
        return any(entry.group for entry in self.ledger.entries.values())

    def pick_group(self, pick: int) -> list[Entry]:
        """Give what is left of a group."""
        found = [entry for entry in self.ledger.entries.values() if entry.group]
        group = found[pick % len(found)].group
        return [self.ledger.entries[name] for name in group if name in self.ledger.entries]

    @precondition(lambda self: self.ledger.tokens)
    @rule(pick=PICKS, reason=st.sampled_from([Reason.RELEASED, Reason.BROKEN]), value=st.sampled_from([None, b"v"]))
    def end(self, pick: int, reason: Reason, value: bytes | None) -> None:
        key, token = self.ledger.tokens[pick % len(self.ledger.tokens)]
        holder = self.holder(token)
        answer = self.perform(lambda table, out: table.end(End(key, token, reason, value), self.now, out))
        if holder is None or self.ledger.gone.get(holder.name) is Reason.EXPIRED:
            assert answer is Answer.NOT_HELD
        else:
            assert answer is Answer.ENDED
            if holder.name not in self.ledger.gone:
                self.ledger.strike(holder.name, reason)
            assert self.ledger.gone[holder.name] is reason

    @precondition(lambda self: self.ledger.tokens)
    @rule(pick=PICKS, lease=SPANS)
    def renew(self, pick: int, lease: int | None) -> None:
        key, token = self.ledger.tokens[pick % len(self.ledger.tokens)]
        answer = self.perform(lambda table, out: table.renew(Renew(key, token, span(lease)), self.now, out))
        holder = self.holder(token)
        assert answer is (Answer.NOT_HELD if holder is None else Answer.RENEWED)
        if holder is not None:
            holder.deadline = self.now + span(lease)

    @precondition(lambda self: self.ledger.entries)
    @rule(pick=PICKS, patience=PATIENCE)
    def wait(self, pick: int, patience: int | None) -> None:
        entry = self.pick(pick)
        how = Wait(*entry.name, span(patience))
        withdrawn = entry.group if not entry.fence and patience == 0 else ()
        answer = self.perform(lambda table, out: table.wait(how, self.now, out)[0], entry, withdrawn=withdrawn)
        if answer is Answer.GRANTED:
            assert entry.fence
            entry.deadline = self.now + entry.lease_ns
        elif answer is Answer.QUEUED:
            assert not entry.fence
            for name in entry.group or [entry.name]:
                self.ledger.entries[name].deadline = self.now + span(patience)
        elif answer is Answer.TIMED_OUT:
            assert patience == 0
        elif answer is Answer.LEASE_EXPIRED:
            assert self.ledger.gone[entry.name] is Reason.EXPIRED
        else:
            assert answer is Answer.NOT_ENQUEUED
            assert entry.kept or self.ledger.gone[entry.name] is Reason.TIMED_OUT

    @precondition(lambda self: self.ledger.entries)
    @rule(
        pick=PICKS,
        want=MODES,
        patience=PATIENCE,
        queue=st.sampled_from([True, True, False]),
        value=st.sampled_from([None, b"v"]),
    )
    def convert(self, pick: int, want: Mode, patience: int | None, queue: bool, value: bytes | None) -> None:
        entry = self.pick(pick)
        how = Convert(*entry.name, want, span(patience), queue, value)
        last = self.ledger.fences[entry.key]
        answer = self.perform(lambda table, out: table.convert(how, self.now, out)[0], entry)
        if answer is Answer.GRANTED:
            assert entry.convert_deadline is None
            entry.want = want
            self.ledger.change(entry, self.claim(entry.name), self.now, above=last)
        elif answer is Answer.CONVERTING:
            assert entry.convert_deadline is None
            assert queue
            entry.want = want
            entry.convert_deadline = self.now + span(patience)
        elif answer is Answer.NO_FENCE:
            assert self.mint_is_dry
        elif answer is Answer.NOT_HELD:
            assert entry.kept or entry.name in self.ledger.gone or not entry.fence
        else:
            assert answer in (Answer.BUSY, Answer.WOULD_DEADLOCK)

    @precondition(lambda self: self.ledger.entries)
    @rule(pick=PICKS)
    def cancel(self, pick: int) -> None:
        entry = self.pick(pick)
        answer = self.perform(lambda table, out: table.cancel(Cancel(*entry.name), self.now, out)[0], entry)
        if answer is Answer.BUSY:
            assert entry.fence
        elif answer is Answer.NOT_HELD:
            assert entry.kept or entry.name in self.ledger.gone
        else:
            assert answer is Answer.CANCELLED
            assert entry.convert_deadline is None

    @rule(session=SESSIONS, keep_held=st.sampled_from([True, False, False]))
    def hangup(self, session: int, keep_held: bool) -> None:
        self.perform(lambda table, out: table.hangup(Hangup(session, keep_held), self.now, out), lapsing=session)
        for entry in self.ledger.entries.values():
            if entry.name[0] == session and not entry.kept:
                assert keep_held, "no claim outlives its session"
                assert entry.fence, "no waiter outlives its session"
                assert entry.convert_deadline is None
                entry.kept = True

    # --- time, and trouble ---

    @rule(seconds=st.integers(0, 6))
    def pass_in_time(self, seconds: int) -> None:
        """Tick at each instant at which something is due, as a timer does."""
        until = self.now + span(seconds)
        while (when := self.table.next_deadline()) <= until:
            self.now = max(self.now, when)
            self.tick()
        self.now = until
        self.tick()

    @rule(seconds=st.integers(0, 12))
    def pass_late(self, seconds: int) -> None:
        """Tick once, after all of it."""
        self.now += span(seconds)
        self.tick()

    @rule(seconds=st.integers(1, 3))
    def pass_unseen(self, seconds: int) -> None:
        """Do not tick at all: the next command on a key finds what has run out."""
        self.now += span(seconds)

    def tick(self) -> None:
        self.perform(lambda table, out: table.tick(self.now, out))
        assert all(entry.due > self.now for entry in self.ledger.entries.values()), "somebody was slept through"

    @rule()
    def sweep(self) -> None:
        def act(table: Table, _out: list[Effect]) -> None:
            table.sweep(self.now)

        self.perform(act)

    @rule(dry=st.sampled_from([True, False, False]))
    def change_mint(self, dry: bool) -> None:
        self.mint_is_dry = dry

    # --- how it is done ---

    def pick(self, pick: int) -> Entry:
        return list(self.ledger.entries.values())[pick % len(self.ledger.entries)]

    def holder(self, token: bytes) -> Entry | None:
        return next((entry for entry in self.ledger.entries.values() if entry.token == token), None)

    def claim(self, name: Name) -> Claim:
        c = self.table.find(*name)
        assert c is not None
        return c

    def apply(self, act: Act) -> tuple[Answer | None, list[Effect]]:
        out: list[Effect] = []
        assert isinstance(self.table.mint, CountingMint)
        self.table.mint.dry = self.mint_is_dry
        return act(self.table, out), out

    def perform(
        self, act: Act, asker: Entry | None = None, *, lapsing: int = 0, withdrawn: Collection[Name] = ()
    ) -> Answer | None:
        """Run one command and write down its effects; a waiter that it withdrew is written down first."""
        stuck = {key for key, r in self.table.resources.items() if r.stuck}
        answer, out = self.apply(act)
        if asker is not None and not asker.fence and answer in (Answer.TIMED_OUT, Answer.CANCELLED):
            self.ledger.strike(asker.name, Reason.CANCELLED)
        name = None if asker is None else asker.name
        self.ledger.read(out, self.now, stuck=stuck, lapsing=lapsing, asker=name, withdrawn=withdrawn)
        return answer

    @invariant()
    def all_is_well(self) -> None:
        check_table(self.table, self.now)
        self.ledger.compare(self.table.resources)
