"""The queue of waiters against the plainest model: a list from which those who leave are taken out."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.queue import LEFT_LEAST, Queue
from holdfast.words import ASKED, EX, FOREVER, UNLIMITED, WAITING, Claim


def waiter() -> Claim:
    c = Claim(b"k", EX, 1, UNLIMITED, FOREVER, FOREVER)
    c.state = WAITING
    return c


def leave(queue: Queue, c: Claim) -> None:
    c.state = ASKED
    queue.left()


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), max_size=200))
def test_whoever_comes_last_leaves_anywhere_and_the_oldest_is_first(steps: list[int | None]) -> None:
    queue, model = Queue(), list[Claim]()
    for step in steps:
        if step is None:
            model.append(waiter())
            queue.append(model[-1])
        elif model:
            leave(queue, model.pop(step % len(model)))
        assert queue.values() == model
        assert len(queue) == len(model)
        assert not model or queue.first() is model[0]


def test_places_that_were_left_do_not_pile_up_behind_one_who_stays() -> None:
    queue, stays = Queue(), waiter()
    queue.append(stays)
    for _ in range(10 * LEFT_LEAST):
        c = waiter()
        queue.append(c)
        leave(queue, c)
        assert len(queue._claims) <= 2 * LEFT_LEAST
    assert queue.first() is stays
