"""A store, a clock and a sink, driven by hand: short ways to say what tests of stores say often.

No expectation lives here.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.engine.invariants import check_table
from holdfast.engine.table import Table
from holdfast.ports import Clock, Sink, Store
from holdfast.stores.backend import Backend
from holdfast.stores.fence import DenseMint
from holdfast.stores.memory import MemoryStore
from holdfast.stores.shelf import Shelf
from holdfast.stores.sqlite import SqliteBackend
from holdfast.system import not_before
from holdfast.testing.clock import HandClock
from holdfast.testing.hand_runner import HandRunner
from holdfast.testing.mint import CountingMint
from holdfast.testing.paper_backend import PaperBackend
from holdfast.words import (
    EX,
    FOREVER,
    RESIDENT,
    SECOND,
    UNLIMITED,
    Answer,
    Census,
    Claim,
    Command,
    Effect,
    End,
    Granted,
    Group,
    Hangup,
    Look,
    Proof,
    Renew,
    Request,
    Ticket,
    View,
    Wait,
)

KEY = b"lock:job"

Limits = dict[str, int]
LIMITS: Limits = {"keys_max": 100, "waiters_max": 0, "idle_max_ns": 60 * SECOND}


class PaperDice:
    """Dice that always fall the same way."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def roll(self, count: int) -> bytes:
        return self._random.randbytes(count)


class Log(Sink):
    """Writes down what it is told. `then` is what the next answer leads to."""

    def __init__(self) -> None:
        self.told: list[object] = []  # answers, "seen", and effects, in order
        self.answered: dict[int, Answer] = {}  # by the identity of the command
        self.commands: list[Request | Wait] = []  # keeps them alive, so that no identity comes twice
        self.claims: dict[tuple[int, Ticket], Claim] = {}  # as they were last heard of
        self.views: list[View] = []
        self.then: Callable[[], None] | None = None

    def answer(self, command: Request | Wait, answer: Answer, claim: Claim | None) -> None:
        assert id(command) not in self.answered, "a second answer"
        self.told.append(answer)
        self.answered[id(command)] = answer
        self.commands.append(command)
        if claim is not None:
            self.claims[claim.session, claim.ticket] = claim
        if self.then is not None:
            then, self.then = self.then, None
            then()

    def seen(self, look: Look, views: list[View]) -> None:
        self.told.append("seen")
        self.views = views

    def news(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.told.append(effect)
            if isinstance(effect, Granted):
                self.claims[effect.claim.session, effect.claim.ticket] = effect.claim

    def take(self) -> list[object]:
        """Give what was told since the last time: answers, and effects by their kind or their reason."""
        told, self.told = self.told, []
        return [spelled(one) for one in told]


def spelled(one: object) -> object:
    """Spell an effect: its kind, and its reason if there is one."""
    if isinstance(one, (Answer, str)):
        return one
    return (type(one), one.reason) if hasattr(one, "reason") else type(one)


class Rig:
    """A store and those who use it. `settle` lets everything be done that has been asked for."""

    store: Store

    def __init__(self) -> None:
        self.clock = HandClock()
        self.steady: Clock = self.clock  # what the store goes by; it does not go back when the clock is set
        self.log = Log()
        self.tickets = 0
        self.alarms: list[int] = []

    @property
    def table(self) -> Table:
        raise NotImplementedError

    def settle(self) -> None:
        """Let everything be done that has been asked for."""
        check_table(self.table, self.clock.now)

    # --- what is asked ---

    def claim(
        self,
        key: bytes = KEY,
        want: int = EX,
        *,
        session: int = 1,
        units: int = 1,
        limit: int = UNLIMITED,
        lease_s: float | None = 30,
        patience_s: float | None = None,
        ticket: Ticket | None = None,
        owner: bytes = b"",
        **flags: bool,
    ) -> Claim:
        """Make a claim; nobody is asked yet."""
        claim = Claim(key, want, units, limit, span(lease_s), span(patience_s), **flags)
        self.tickets += 1
        claim.session = session
        claim.ticket = self.tickets if ticket is None else ticket
        claim.owner = owner
        return claim

    def put(self, *commands: Command) -> None:
        """Hand in commands; a store that takes its time does so."""
        for command in commands:
            self.store.submit(command, self.steady())

    def do(self, *commands: Command) -> Answer | None:
        """Hand in commands together and let them be done; tell the answer to the last."""
        self.put(*commands)
        self.settle()
        return self.log.answered.get(id(commands[-1]))

    def ask(self, key: bytes = KEY, want: int = EX, **more: Any) -> Claim:
        claim = self.claim(key, want, **more)
        self.do(claim)
        return claim

    def group(self, *keys: bytes, session: int = 1, patience_s: float | None = None, **more: Any) -> Group:
        """Make a group; nobody is asked yet."""
        tracked, queue = more.pop("tracked", False), more.pop("queue", True)
        ticket = more.pop("ticket", b"group-%d" % self.tickets)
        claims = [self.claim(key, session=session, patience_s=patience_s, **more) for key in keys]
        group = Group(ticket, claims, span(patience_s), queue, tracked)
        group.session = session
        return group

    def ask_all(self, *keys: bytes, **more: Any) -> Group:
        group = self.group(*keys, **more)
        self.do(group)
        return group

    def now_is(self, claim: Claim) -> Claim:
        """Give the claim as its session last heard of it."""
        return self.log.claims.get((claim.session, claim.ticket), claim)

    def end(self, claim: Claim, **more: Any) -> Answer | None:
        return self.do(End(claim.key, self.now_is(claim).token, **more))

    def renew(self, claim: Claim, lease_s: float, proof: Proof | None = None, shortens: bool = True) -> Answer | None:
        return self.do(Renew(claim.key, self.now_is(claim).token, span(lease_s), proof, shortens))

    def hangup(self, session: int, *, keep_held: bool = False) -> None:
        self.do(Hangup(session, keep_held))

    def look(self, *, prefix: bytes = b"", **more: Any) -> list[View]:
        self.do(Look(prefix, **more))
        return self.log.views

    def held(self) -> dict[bytes, list[int]]:
        """Tell by key the fences of those who hold."""
        return {view.key: [holder.fence for holder in view.holders] for view in self.look(held=True)}

    def census(self) -> Census:
        heard: list[Census] = []
        self.store.count(heard.append)
        self.settle()
        return heard[0]

    def probe(self) -> str | None:
        heard: list[str | None] = []
        self.store.probe(heard.append)
        self.settle()
        (fault,) = heard
        return fault

    # --- time ---

    def after(self, seconds: float) -> None:
        """Let time pass, with a tick whenever the store wants one."""
        until = self.clock.now + round(seconds * SECOND)
        while (due := self.store.next_deadline()) <= until:
            self.clock.advance_to(max(due, self.clock.now))
            self.tick()
        self.clock.advance_to(until)

    def tick(self) -> None:
        self.store.tick(self.steady())
        self.settle()

    def sweep(self) -> None:
        self.store.sweep(self.steady())
        self.settle()


class MemoryRig(Rig):
    """The memory store."""

    def __init__(self, **limits: int) -> None:
        super().__init__()
        self.memory = MemoryStore(CountingMint(), self.alarms.append, **(LIMITS | limits))
        self.memory.sink = self.log
        self.store = self.memory

    @property
    def table(self) -> Table:
        return self.memory.table


class ShelfRig(Rig):
    """A shelf on backends that `make` makes: one for each start."""

    def __init__(self, make: Callable[[], Backend], *, batch_max: int = 1000, ahead: bool = False, **limits: int):
        super().__init__()
        self._make = make
        self._settings = LIMITS | {"batch_max": batch_max} | limits
        self._ahead = ahead
        self._starts = 0
        self.start()

    def start(self) -> None:
        self._starts += 1
        self.backend = self._make()
        self.steady = not_before(self.clock, self.backend.open())
        self.runner = HandRunner(ahead=self._ahead)
        mint = DenseMint(PaperDice(self._starts)).__call__
        self.shelf = self.store = Shelf(
            self.backend, self.runner, self.steady, mint, self.alarms.append, resident=RESIDENT, **self._settings
        )
        self.shelf.sink = self.log
        self.shelf.open()

    def kill(self) -> None:
        """Let the process be gone: nothing more is done, and the kernel closes its files."""
        self.backend.close()

    def restart(self) -> None:
        self.kill()
        self.start()

    def settle(self) -> None:
        self.runner.finish()
        check_table(self.table, self.steady())

    @property
    def table(self) -> Table:
        return self.shelf._table


class PaperRig(ShelfRig):
    """A shelf on paper."""

    paper: PaperBackend

    def __init__(self, paper: PaperBackend | None = None, **more: Any) -> None:
        self.paper = PaperBackend() if paper is None else paper
        super().__init__(lambda: self.paper, **more)

    def kill(self) -> None:
        super().kill()
        self.paper = self.paper.restarted()


class SqliteRig(ShelfRig):
    """A shelf on a real file."""

    backend: SqliteBackend

    def __init__(self, path: Path, *, timeout_s: float = 0.01, **more: Any) -> None:
        self.path = path
        super().__init__(lambda: SqliteBackend(str(path), timeout_s), **more)

    def __enter__(self) -> "SqliteRig":
        return self

    def __exit__(self, *_: object) -> None:
        self.backend.close()


def span(seconds: float | None) -> int:
    return FOREVER if seconds is None else round(seconds * SECOND)
