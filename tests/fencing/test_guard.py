"""The guard in memory: what it accepts, what it refuses, how many keys it remembers, and many threads at once.

A paused holder is played by a thread that comes back late.
"""

import threading
from contextlib import suppress

import pytest

from holdfast.errors import BadRequest, LeaseLost, TooMany
from holdfast.fencing import FencingGuard, StaleToken
from holdfast.fencing.guard import KEY_BYTES_MAX, TOKEN_MAX


class Lease:
    """Stands for its token, as the leases of the client do."""

    def __index__(self):
        return 7


@pytest.fixture
def guard():
    return FencingGuard()


def test_a_token_is_accepted_when_nothing_higher_was_seen(guard):
    assert [guard.check(token) for token in (1, 1, 2, 5, 5)] == [1, 1, 2, 5, 5]
    assert guard.highest() == 5


def test_a_lower_token_is_stale_and_the_error_has_both_numbers(guard):
    guard.check(34, "account")
    with pytest.raises(StaleToken) as refused:
        guard.check(33, "account")
    assert (refused.value.token, refused.value.highest, refused.value.key) == (33, 34, "account")
    assert str(refused.value) == "the token 33 is stale for 'account': 34 has been seen"
    assert isinstance(refused.value, LeaseLost)
    assert guard.highest("account") == 34


def test_keys_have_nothing_to_do_with_each_other(guard):
    guard.check(9, "a")
    assert guard.check(1, "b") == 1
    assert (guard.highest("a"), guard.highest("b"), guard.highest("c")) == (9, 1, 0)


def test_a_lease_stands_for_its_token(guard):
    assert guard.check(Lease()) == 7


@pytest.mark.parametrize("token", [0, -1, TOKEN_MAX + 1, True, 1.0, "1", None])
def test_what_is_no_token_is_refused(guard, token):
    with pytest.raises(BadRequest, match="a fencing token is"):
        guard.check(token)


@pytest.mark.parametrize("key", [b"x", None, "x" * (KEY_BYTES_MAX + 1), "\u20ac" * KEY_BYTES_MAX])
def test_what_is_no_key_is_refused(guard, key):
    with pytest.raises(BadRequest, match="a key"):
        guard.check(1, key)


def test_no_more_keys_are_remembered_than_said_and_none_is_forgotten_by_itself():
    guard = FencingGuard(keys_max=2)
    guard.check(5, "a")
    guard.check(5, "b")
    with pytest.raises(TooMany, match="keys_max"):
        guard.check(5, "c")
    with pytest.raises(StaleToken):
        guard.check(4, "a")
    guard.forget("a")
    assert guard.check(1, "c") == 1
    guard.forget("never seen")


def test_a_guard_for_no_key_is_refused():
    with pytest.raises(BadRequest, match="keys_max is at least 1"):
        FencingGuard(keys_max=0)


def test_a_paused_holder_cannot_write_after_the_next_one():
    """The whole point: A checks in time, is paused, and comes back when B has written."""
    guard, book = FencingGuard(), []
    paused, go_on, refused = threading.Event(), threading.Event(), []

    def paused_holder():
        with guard.admit(33):
            book.append("A, in time")
        paused.set()
        assert go_on.wait(10)
        try:
            with guard.admit(33):
                book.append("A, too late")
        except StaleToken as error:
            refused.append(error)

    thread = threading.Thread(target=paused_holder)
    thread.start()
    assert paused.wait(10)
    with guard.admit(34):
        book.append("B")
    go_on.set()
    thread.join(10)
    assert book == ["A, in time", "B"]
    assert (refused[0].token, refused[0].highest) == (33, 34)


def test_nobody_else_is_let_in_while_somebody_writes():
    guard, inside, leave, order = FencingGuard(), threading.Event(), threading.Event(), []

    def older():
        with guard.admit(1, "k"):
            inside.set()
            assert leave.wait(10)
            order.append(1)

    def newer():
        with guard.admit(2, "k"):
            order.append(2)

    threads = [threading.Thread(target=older), threading.Thread(target=newer)]
    threads[0].start()
    assert inside.wait(10)
    threads[1].start()
    assert guard.check(1, "another") == 1  # other keys are not held up
    leave.set()
    for thread in threads:
        thread.join(10)
    assert order == [1, 2]


def test_a_write_that_fails_lets_the_next_one_in(guard):
    with pytest.raises(ZeroDivisionError), guard.admit(5):
        raise ZeroDivisionError
    assert guard.check(5) == 5


def test_many_threads_see_the_mark_rise_only():
    guard, seen, rounds = FencingGuard(), [], 300

    def caller(start):
        for token in range(start, rounds, 4):
            with suppress(StaleToken), guard.admit(token):
                seen.append(token)

    threads = [threading.Thread(target=caller, args=(start,)) for start in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert seen == sorted(seen)
    assert guard.highest() == rounds - 1
