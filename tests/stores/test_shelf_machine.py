"""Random commands, failures, restarts and strangers on a shelf, under the eyes of the engine's ledger of callers.

What callers believe is in tests/engine/ledger.py; that table and backend agree is asserted by shelf_table.py.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from holdfast.engine.resource import holders
from holdfast.errors import FenceUnavailable, StoreBusy, StoreFailed
from holdfast.stores.backend import Record
from holdfast.stores.fence import DenseMint
from holdfast.testing.mint import CountingMint
from holdfast.testing.paper_backend import PaperBackend
from holdfast.words import EX, RESIDENT, SECOND, UNLIMITED, Answer, Effect, Group, Reason
from tests.engine.ledger import Entry, span
from tests.engine.machine import LIMITS, WAITERS_MAX, Machine
from tests.stores.rig import PaperDice
from tests.stores.shelf_table import ShelfTable

# The keys that others may write, too: they know of no limits.
STRANGE_KEYS = [key for key, limit in LIMITS.items() if limit == UNLIMITED]
STRANGE = st.sampled_from(STRANGE_KEYS)
CALLS = ["begin", "has_changed", "load", "load_busy", "keep", "commit"]


class DryDenseMint(CountingMint):
    """Counts for each key, and runs dry on demand."""

    def __init__(self) -> None:
        super().__init__()
        self._dense = DenseMint(PaperDice())

    def __call__(self, last: int) -> tuple[int, bytes]:
        if self.dry:
            raise FenceUnavailable
        return self._dense(last)


class ShelfMachine(Machine):
    """Does to a shelf what the engine's machine does to a table, and a shelf's own troubles besides."""

    def __init__(self) -> None:
        super().__init__()
        self.paper = PaperBackend()
        self.mint = DryDenseMint()
        self.strangers = 0
        self.start()

    def start(self) -> None:
        self.table: Any = ShelfTable(
            self.paper,
            self.mint,
            self.now,
            keys_max=len(LIMITS),
            waiters_max=WAITERS_MAX,
            idle_max_ns=20 * SECOND,
        )

    @rule(call=st.sampled_from(CALLS), kind=st.sampled_from([StoreBusy, StoreFailed]), torn=st.integers(0, 2))
    def fail_next(self, call: str, kind: type[StoreBusy] | type[StoreFailed], torn: int) -> None:
        """The next transaction fails, should it get as far as this call."""
        self.table.trouble = call, kind
        self.paper.torn_records = torn

    def ask_for_all(self, table: Any, group: Group, out: list[Effect]) -> Answer:
        return table.enqueue_all(group, self.now, out)

    @rule()
    def restart(self) -> None:
        """Whoever holds keeps it until the lease ends; all others are gone."""
        self.paper = self.paper.restarted()
        self.start()
        entries = list(self.ledger.entries.values())
        self.ledger.entries.clear()
        for queue in self.ledger.queues.values():
            queue.clear()
        for entry in entries:
            if not entry.fence:
                self.ledger.gone[entry.name] = Reason.LAPSED
                continue
            name = (RESIDENT, entry.name[1])
            group = tuple((RESIDENT, ticket) for _, ticket in entry.group)
            after = replace(entry, name=name, group=group, want=entry.mode, convert_deadline=None, kept=True)
            self.ledger.entries[name] = after

    # --- strangers ---

    def record(self, key: bytes) -> Record:
        return self.paper.durable.get(key) or Record(key, 0, 0)

    @precondition(lambda self: self.is_open_to_strangers())
    @rule(key=STRANGE, seconds=st.integers(0, 5), odd=st.booleans())
    def stranger_acquires(self, key: bytes, seconds: int, odd: bool) -> None:
        """Somebody else gives the key to somebody, whoever has it. Their server does not know what we wrote beside."""
        fence = self.scribble_holder(key, seconds, odd)
        self.heed({key: fence})
        self.remember(key)

    @precondition(lambda self: self.is_open_to_strangers())
    @rule(key=STRANGE, grants=st.integers(0, 2))
    def stranger_releases(self, key: bytes, grants: int) -> None:
        """Somebody else has held the key so often since we last looked, and left it free."""
        if grants or self.record(key).fence:
            self.heed({key: self.scribble_free(key, grants)})

    @precondition(lambda self: self.is_open_to_strangers())
    @rule(keys=st.permutations(STRANGE_KEYS), seconds=st.integers(1, 5))
    def stranger_moves_on(self, keys: list[bytes], seconds: int) -> None:
        """Somebody else has left one key and taken another since we last looked."""
        left, taken = keys
        fences = {left: self.scribble_free(left, 1), taken: self.scribble_holder(taken, seconds, odd=False)}
        self.heed(fences)
        self.remember(taken)

    def scribble_holder(self, key: bytes, seconds: int, odd: bool) -> int:
        was = self.record(key)
        self.strangers += 1
        lease_id = b"odd" if odd else b"%08d-1234-4123-a123-123456789abc" % self.strangers
        fence, deadline = was.fence + 1, self.now + span(seconds)
        self.paper.scribble(Record(key, fence, was.version + 1, was.document, b"them", lease_id, fence, deadline))
        return fence

    def scribble_free(self, key: bytes, grants: int) -> int:
        was = self.record(key)
        fence = was.fence + grants
        self.paper.scribble(Record(key, fence, was.version + 1 + grants, was.document, held_fence=fence))
        return fence

    def is_open_to_strangers(self) -> bool:
        return not self.mint_is_dry and not any(r.stuck for r in self.table.resources.values())

    def heed(self, fences: dict[bytes, int]) -> None:
        """Let the shelf hear of it."""
        for key, fence in fences.items():
            self.ledger.fences[key] = max(fence, self.ledger.fences[key])

        def act(table: ShelfTable, out: list[Effect]) -> Answer | None:
            table.probe(self.now, out)
            return None

        answer, out = self.apply(act)
        assert answer is None
        known = [effect for effect in out if (effect.claim.session, effect.claim.ticket) in self.ledger.entries]
        strangers = [effect for effect in out if effect not in known]
        assert all(effect.claim.owner == b"them" for effect in strangers)
        self.ledger.read(known, self.now, stuck=set(LIMITS), lapsing=-1, asker=None)

    def remember(self, key: bytes) -> None:
        """Write down whom a stranger has given the key to."""
        (c,) = (c for c in holders(self.table.resources[key]) if c.owner == b"them")
        name = (c.session, c.ticket)
        self.ledger.entries[name] = Entry(name, c.key, EX, c.lease_ns, c.deadline, c.mode, c.fence, c.token, kept=True)
        self.ledger.tokens.append((c.key, c.token))


TestShelfMachine = ShelfMachine.TestCase
TestShelfMachine.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


@pytest.mark.parametrize("call", CALLS)
def test_a_machine_that_meets_every_failure_once_goes_on(call: str) -> None:
    machine = ShelfMachine()
    machine.fail_next(call, StoreFailed, 1)
    machine.enqueue(1, b"lock", EX, 1, None, None, (False, False), "")
    machine.restart()
    machine.fail_next(call, StoreBusy, 0)
    machine.stranger_acquires(b"lock", 5, True)
    machine.pass_in_time(6)
    machine.all_is_well()
