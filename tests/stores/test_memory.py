"""The memory store: every command is answered before `submit` returns, its news comes after, and alarms come in time.

What a command means is tested with the engine; here it is enough that each one reaches it.
"""

from collections.abc import Callable

import pytest

from holdfast.ports import Sink
from holdfast.stores.memory import MemoryStore
from holdfast.testing.mint import CountingMint
from holdfast.words import (
    CW,
    EX,
    FOREVER,
    PR,
    SECOND,
    UNLIMITED,
    Answer,
    Cancel,
    Claim,
    Convert,
    Effect,
    End,
    Ended,
    Granted,
    Hangup,
    Look,
    Nudged,
    Reason,
    Renew,
    Request,
    Stayed,
    View,
    Wait,
)

NOW = 1000 * SECOND


class Log(Sink):
    """Writes down what it is told; `then` is what the next answer leads to."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.views: list[View] = []
        self.then: Callable[[], None] | None = None

    def answer(self, command: Request | Wait, answer: Answer, claim: Claim | None) -> None:
        self.told.append(answer)
        if self.then is not None:
            then, self.then = self.then, None
            then()

    def seen(self, look: Look, views: list[View]) -> None:
        self.told.append("seen")
        self.views = views

    def news(self, effects: list[Effect]) -> None:
        self.told += [type(effect) for effect in effects]

    def take(self) -> list[object]:
        told, self.told = self.told, []
        return told


class Shop:
    """A store, its sink and its alarms."""

    def __init__(self, *, keys_max: int = 100, waiters_max: int = 0, idle_max_ns: int = 60 * SECOND) -> None:
        self.log = Log()
        self.alarms: list[int] = []
        self.store = MemoryStore(
            CountingMint(), self.alarms.append, keys_max=keys_max, waiters_max=waiters_max, idle_max_ns=idle_max_ns
        )
        self.store.sink = self.log
        self.tickets = 0

    def ask(
        self,
        key: bytes = b"lock:job",
        want: int = EX,
        *,
        session: int = 1,
        limit: int = UNLIMITED,
        lease_ns: int = 30 * SECOND,
        patience_ns: int = FOREVER,
        listens: bool = False,
        now: int = NOW,
    ) -> Claim:
        claim = Claim(key, want, 1, limit, lease_ns, patience_ns, listens=listens)
        self.tickets += 1
        claim.session, claim.ticket = session, self.tickets
        self.store.submit(claim, now)
        return claim


@pytest.fixture
def shop() -> Shop:
    return Shop()


# --- every command ---


def test_a_claim_is_answered_before_submit_returns(shop: Shop) -> None:
    held = shop.ask()
    assert shop.log.take() == [Answer.GRANTED]
    assert held.fence == 1
    shop.ask(session=2)
    assert shop.log.take() == [Answer.QUEUED]
    shop.ask(session=3, patience_ns=0)
    assert shop.log.take() == [Answer.TIMED_OUT]


def test_an_end_is_answered_before_its_news_is_told(shop: Shop) -> None:
    held = shop.ask()
    shop.ask(session=2)
    shop.log.take()
    shop.store.submit(End(held.key, held.token), NOW)
    assert shop.log.take() == [Answer.ENDED, Granted]
    shop.store.submit(End(held.key, held.token), NOW)
    assert shop.log.take() == [Answer.NOT_HELD]


def test_a_claim_that_nudges_a_holder_is_answered_first(shop: Shop) -> None:
    shop.ask(listens=True)
    shop.log.take()
    shop.ask(session=2)
    assert shop.log.take() == [Answer.QUEUED, Nudged]


def test_a_renewal(shop: Shop) -> None:
    held = shop.ask()
    shop.log.take()
    shop.store.submit(Renew(held.key, held.token, 90 * SECOND), NOW)
    assert shop.log.take() == [Answer.RENEWED]
    assert held.deadline == NOW + 90 * SECOND


def test_a_wait(shop: Shop) -> None:
    shop.ask()
    waiter = shop.ask(session=2)
    shop.log.take()
    shop.store.submit(Wait(2, waiter.ticket, 5 * SECOND), NOW)
    assert shop.log.take() == [Answer.QUEUED]
    shop.store.submit(Wait(2, 999, 5 * SECOND), NOW)
    assert shop.log.take() == [Answer.NOT_ENQUEUED]


def test_a_conversion(shop: Shop) -> None:
    one, _ = shop.ask(want=PR), shop.ask(want=PR, session=2)
    shop.log.take()
    shop.store.submit(Convert(1, one.ticket, EX), NOW)
    assert shop.log.take() == [Answer.CONVERTING]
    shop.store.submit(Cancel(1, one.ticket), NOW)
    assert shop.log.take() == [Answer.CANCELLED, Stayed]


def test_a_cancel_that_lets_somebody_in(shop: Shop) -> None:
    shop.ask(want=PR)
    writer = shop.ask(want=EX, session=2)
    shop.ask(want=PR, session=3)
    shop.log.take()
    shop.store.submit(Cancel(2, writer.ticket), NOW)
    assert shop.log.take() == [Answer.CANCELLED, Granted]


def test_a_hangup_has_no_answer_and_makes_news(shop: Shop) -> None:
    shop.ask()
    shop.ask(session=2)
    shop.log.take()
    shop.store.submit(Hangup(1), NOW)
    assert shop.log.take() == [Ended, Granted]


def test_a_look_shows_every_key_with_the_prefix(shop: Shop) -> None:
    held = shop.ask()
    shop.ask(session=2)
    shop.ask(b"sem:pool", CW, limit=3)
    shop.log.take()
    shop.store.submit(Look(), NOW)
    assert shop.log.take() == ["seen"]
    job, pool = shop.log.views
    assert (job.key, job.limit, job.waiters, job.touched) == (b"lock:job", UNLIMITED, 1, NOW)
    (holder,) = job.holders
    assert (holder.session, holder.fence, holder.units, holder.deadline) == (1, held.fence, 1, held.deadline)
    assert (pool.key, pool.limit, pool.waiters, len(pool.holders)) == (b"sem:pool", 3, 0, 1)
    shop.store.submit(Look(b"sem:"), NOW)
    assert [view.key for view in shop.log.views] == [b"sem:pool"]
    shop.store.submit(Look(b"nothing"), NOW)
    assert shop.log.views == []


def test_the_limits_are_those_of_the_table() -> None:
    shop = Shop(keys_max=1, waiters_max=1)
    shop.ask()
    shop.ask(b"lock:other")
    shop.ask(session=2)
    shop.ask(session=3, patience_ns=0)
    assert shop.log.take() == [Answer.GRANTED, Answer.TOO_MANY_KEYS, Answer.QUEUED, Answer.TOO_MANY_WAITERS]


# --- an answer that leads to the next command ---


def test_what_an_answer_leads_to_does_not_repeat_the_news(shop: Shop) -> None:
    # The answer to a quiet command brings about a command with news: once the news was told twice.
    held = shop.ask()
    shop.ask(session=2)
    shop.log.take()
    shop.log.then = lambda: shop.store.submit(End(held.key, held.token), NOW)
    shop.ask(b"lock:other")
    assert shop.log.take() == [Answer.GRANTED, Answer.ENDED, Granted]


def test_an_end_whose_answer_leads_to_another_tells_the_news_of_both_once(shop: Shop) -> None:
    one, other = shop.ask(), shop.ask(b"lock:other")
    shop.ask(session=2)
    shop.ask(b"lock:other", session=2)
    shop.log.take()
    shop.log.then = lambda: shop.store.submit(End(other.key, other.token), NOW)
    shop.store.submit(End(one.key, one.token), NOW)
    assert shop.log.take() == [Answer.ENDED, Answer.ENDED, Granted, Granted]
    shop.log.then = lambda: shop.store.submit(End(one.key, one.token), NOW)
    shop.store.submit(End(one.key, one.token), NOW)
    assert shop.log.take() == [Answer.NOT_HELD, Answer.NOT_HELD]


# --- time ---


def test_the_alarm_is_set_for_the_first_deadline_and_again_only_for_an_earlier_one(shop: Shop) -> None:
    shop.ask(b"lock:a", lease_ns=30 * SECOND)
    shop.ask(b"lock:b", lease_ns=40 * SECOND)
    shop.ask(b"lock:c", lease_ns=20 * SECOND)
    assert shop.alarms == [NOW + 30 * SECOND, NOW + 20 * SECOND]
    assert shop.store.next_deadline() == NOW + 20 * SECOND


def test_a_tick_does_what_is_due_and_tells_of_it(shop: Shop) -> None:
    shop.ask()
    shop.ask(session=2, patience_ns=5 * SECOND)
    shop.log.take()
    shop.store.tick(NOW + 4 * SECOND)
    assert shop.log.take() == []
    shop.store.tick(NOW + 5 * SECOND)
    assert shop.log.take() == [Ended]
    assert shop.store.next_deadline() == NOW + 30 * SECOND
    shop.store.tick(NOW + 30 * SECOND)
    assert shop.store.next_deadline() == FOREVER


def test_after_a_tick_the_alarm_is_set_anew_for_what_comes_then(shop: Shop) -> None:
    shop.ask(lease_ns=10 * SECOND)
    shop.store.tick(NOW + 10 * SECOND)
    shop.ask(lease_ns=10 * SECOND, now=NOW + 10 * SECOND)
    assert shop.alarms == [NOW + 10 * SECOND, NOW + 20 * SECOND]


def test_what_is_held_for_ever_needs_no_alarm(shop: Shop) -> None:
    shop.ask(lease_ns=FOREVER)
    assert shop.alarms == []
    assert shop.store.next_deadline() == FOREVER


def test_a_sweep_forgets_keys_that_nobody_uses() -> None:
    shop = Shop(idle_max_ns=10 * SECOND)
    held = shop.ask()
    shop.store.submit(End(held.key, held.token, Reason.RELEASED), NOW)
    shop.store.sweep(NOW + 10 * SECOND)
    assert held.key in shop.store.table.resources
    shop.store.sweep(NOW + 10 * SECOND + 1)
    assert shop.store.table.resources == {}


def test_closing_is_quiet(shop: Shop) -> None:
    shop.ask()
    shop.log.take()
    shop.store.close()
    assert shop.log.take() == []
