"""The book of bells: who is woken, and that nothing that rang between a try and the wait is missed."""

from holdfast.leases.bells import ANY, ASKED_MAX, Bells


class Waiter:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def test_who_waits_for_a_bell_is_woken_by_it_and_by_no_other() -> None:
    bells, first, second = Bells(), Waiter(), Waiter()
    assert bells.enter("a", first.wake)
    assert bells.enter("b", second.wake)
    bells.ring("a")
    assert (first.woken, second.woken) == (1, 0)
    bells.ring_all()
    assert (first.woken, second.woken) == (2, 1)


def test_what_rings_between_the_try_and_the_wait_is_not_missed() -> None:
    bells, waiter = Bells(), Waiter()
    bells.ask("a")
    bells.ring("a")
    assert not bells.enter("a", waiter.wake)
    assert bells.enter("a", waiter.wake)  # once told, it is forgotten


def test_a_new_try_forgets_what_rang_before_it() -> None:
    bells, waiter = Bells(), Waiter()
    bells.ask("a")
    bells.ring("a")
    bells.ask("a")
    assert bells.enter("a", waiter.wake)


def test_what_nobody_asked_for_is_not_remembered() -> None:
    bells, waiter = Bells(), Waiter()
    bells.ring("a")
    assert bells.enter("a", waiter.wake)
    bells.ask("b")
    bells.forget("b")
    bells.ring("b")
    assert bells.enter("b", waiter.wake)


def test_who_leaves_is_not_woken_and_nobody_is_awaited_then() -> None:
    bells, waiter = Bells(), Waiter()
    bells.enter("a", waiter.wake)
    assert bells.awaited
    bells.leave("a", waiter.wake)
    bells.leave("a", waiter.wake)
    bells.ring("a")
    assert waiter.woken == 0
    assert not bells.awaited


def test_the_book_has_a_limit() -> None:
    bells, waiter = Bells(), Waiter()
    for number in range(ASKED_MAX + 1):
        bells.ask(str(number))
    bells.ring_all()
    assert not bells.enter("0", waiter.wake)
    assert bells.enter(str(ASKED_MAX), waiter.wake)


def test_who_waits_for_any_bell_hears_each() -> None:
    bells, first, second = Bells(), Waiter(), Waiter()
    assert bells.enter(ANY, first.wake)
    assert bells.enter("a", second.wake)
    bells.ring("a")
    bells.ring("b")
    assert (first.woken, second.woken) == (2, 1)
    bells.leave(ANY, first.wake)
    bells.ring("b")
    assert first.woken == 2
