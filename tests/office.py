"""A desk with everything behind it, and callers that write down what they are told.

No expectation lives here; doors and protocols are not known.
"""

from collections.abc import Callable
from typing import Any

from holdfast.desk import Desk, Session
from holdfast.ports import Face
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import HandClock
from holdfast.testing.late_store import LateStore
from holdfast.testing.mint import CountingMint
from holdfast.words import EX, FOREVER, SECOND, UNLIMITED, Answer, Claim, Effect, End, Request, View, WaitFor

KEY = b"lock:job"


class Caller(Face):
    """One caller: what it asks, and what it is told. `then` is what it does with its next answer."""

    def __init__(self, office: "Office") -> None:
        self.office = office
        self.answers: list[Answer] = []
        self.answered: list[tuple[Request, Answer, Claim | None]] = []
        self.told: list[Effect] = []
        self.views: list[View] | None = None
        self.then: Callable[[], None] | None = None
        self.session: Session = office.desk.open(self)

    def answer(self, request: Request, answer: Answer, claim: Claim | None) -> None:
        self.answers.append(answer)
        self.answered.append((request, answer, claim))
        if self.then is not None:
            then, self.then = self.then, None
            then()

    def seen(self, views: list[View]) -> None:
        self.views = views

    def news(self, effect: Effect) -> None:
        self.told.append(effect)

    # --- what it asks ---

    def submit(self, request: Request) -> None:
        self.office.desk.submit(self.session, request, self.office.clock.now)

    def acquire(
        self, want: int = EX, *, key: bytes = KEY, lease_s: float = 30, patience_ns: int = FOREVER, **more: Any
    ) -> Claim:
        limit = more.pop("limit", UNLIMITED)
        claim = Claim(key, want, 1, limit, round(lease_s * SECOND), patience_ns, **more)
        self.submit(claim)
        return claim

    def enqueue(self, *, lease_s: float = 30) -> Claim:
        return self.acquire(lease_s=lease_s, tracked=True)

    def wait(self, patience_s: float = 60, key: bytes = KEY) -> None:
        self.submit(WaitFor(key, round(patience_s * SECOND)))

    def release(self, claim: Claim) -> None:
        self.submit(End(claim.key, claim.token))

    def leave(self) -> None:
        self.office.desk.close(self.session, self.office.clock.now)

    def take(self) -> list[Answer]:
        answers, self.answers = self.answers, []
        return answers

    def take_news(self) -> list[type]:
        told, self.told = self.told, []
        return [type(effect) for effect in told]


class Office:
    """A desk, its store and its clock."""

    def __init__(self, *, release_on_disconnect: bool = True, late: bool = False, **limits: int) -> None:
        self.clock = HandClock()
        self.mint = CountingMint()
        settings = {"keys_max": 100, "waiters_max": 0, "idle_max_ns": 60 * SECOND} | limits
        self.memory = MemoryStore(self.mint, lambda when: None, **settings)
        self.late = LateStore(self.memory)
        self.desk = Desk(self.late if late else self.memory, release_on_disconnect=release_on_disconnect)
        self.memory.sink = self.desk

    def caller(self) -> Caller:
        return Caller(self)

    def callers(self, count: int) -> list[Caller]:
        return [self.caller() for _ in range(count)]

    def after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.memory.tick(self.clock.now)

    def commit(self) -> None:
        self.late.commit(self.clock.now)
