"""The late store answers when it is told to, in order, and is otherwise the store behind it.

What the commands do is tested with that store.
"""

from collections.abc import Callable

from holdfast.ports import Sink
from holdfast.stores.memory import MemoryStore
from holdfast.testing.late_store import LateStore
from holdfast.testing.mint import CountingMint
from holdfast.words import EX, FOREVER, SECOND, UNLIMITED, Answer, Claim, Effect, Look, Request, View, Wait


class Answers(Sink):
    """Writes down the answers; `then` is what the first one leads to."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.then: Callable[[], None] | None = None

    def answer(self, command: Request | Wait, answer: Answer, claim: Claim | None) -> None:
        self.answers.append(answer)
        if self.then is not None:
            then, self.then = self.then, None
            then()

    def seen(self, look: Look, views: list[View]) -> None:
        raise AssertionError

    def news(self, effects: list[Effect]) -> None:
        """Nobody waits for any."""


def late_store() -> tuple[LateStore, Answers]:
    memory = MemoryStore(CountingMint(), lambda when: None, keys_max=10, waiters_max=0, idle_max_ns=SECOND)
    memory.sink = answers = Answers()
    return LateStore(memory), answers


def ask(store: LateStore, ticket: int) -> None:
    claim = Claim(b"lock:job", EX, 1, UNLIMITED, 30 * SECOND, FOREVER)
    claim.ticket = ticket
    store.submit(claim, SECOND)


def test_answers_come_with_the_commit_and_in_order() -> None:
    store, answers = late_store()
    ask(store, 1)
    ask(store, 2)
    assert answers.answers == []
    store.commit(SECOND)
    assert answers.answers == [Answer.GRANTED, Answer.QUEUED]
    store.commit(SECOND)
    assert len(answers.answers) == 2


def test_what_an_answer_leads_to_waits_for_the_next_commit() -> None:
    store, answers = late_store()
    answers.then = lambda: ask(store, 2)
    ask(store, 1)
    store.commit(SECOND)
    assert answers.answers == [Answer.GRANTED]
    store.commit(SECOND)
    assert answers.answers == [Answer.GRANTED, Answer.QUEUED]


def test_time_is_the_business_of_the_store_behind_it() -> None:
    store, _ = late_store()
    ask(store, 1)
    store.commit(SECOND)
    assert store.next_deadline() == 31 * SECOND
    store.tick(31 * SECOND)
    assert store.next_deadline() == FOREVER
    store.sweep(60 * SECOND)
    assert store.store.table.resources == {}
    store.close()
