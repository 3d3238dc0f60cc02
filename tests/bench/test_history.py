"""The rules that the soak relies on, each shown a history that breaks it and one that does not.

No server runs here; `test_soak.py` has one.
"""

from bench.history import History


def test_a_grant_after_the_holder_gave_up_is_fine() -> None:
    history = History("k")
    history.granted(1, now_s=0.0, until_s=30.0)
    history.given_up(1)
    history.granted(2, now_s=1.0, until_s=31.0)
    assert history.finished() == []
    assert history.grants == 2


def test_a_grant_beside_a_holder_is_a_violation() -> None:
    history = History("k")
    history.granted(1, now_s=0.0, until_s=30.0)
    history.granted(2, now_s=1.0, until_s=31.0)
    assert history.finished() == ["k: fence 2 was granted while 1 is held"]


def test_a_grant_after_the_lease_ran_out_is_fine() -> None:
    history = History("k")
    history.granted(1, now_s=0.0, until_s=30.0)
    history.renewed(1, until_s=1.0)
    history.granted(2, now_s=1.0, until_s=31.0)
    assert history.finished() == []


def test_a_renewed_lease_excludes_for_longer() -> None:
    history = History("k")
    history.granted(1, now_s=0.0, until_s=1.0)
    history.renewed(1, until_s=30.0)
    history.granted(2, now_s=2.0, until_s=31.0)
    assert history.finished() == ["k: fence 2 was granted while 1 is held"]


def test_a_grant_that_is_gone_is_neither_renewed_nor_given_up_for_its_successor() -> None:
    history = History("k")
    history.granted(1, now_s=0.0, until_s=1.0)
    history.granted(2, now_s=1.0, until_s=31.0)
    history.given_up(1)
    history.renewed(1, until_s=0.0)
    history.granted(3, now_s=2.0, until_s=32.0)
    assert history.finished() == ["k: fence 3 was granted while 2 is held"]


def test_a_fence_that_does_not_rise_is_a_violation() -> None:
    history = History("k")
    for fence in (5, 5, 4, 6):
        history.granted(fence, now_s=0.0, until_s=30.0)
        history.given_up(fence)
    assert history.finished() == ["k: fence 5 was granted after 5", "k: fence 4 was granted after 5"]


def test_waiters_served_in_the_order_of_their_places_are_fine_in_whatever_order_they_tell() -> None:
    history = History("k")
    first, second, _gone, fourth = (history.joined() for _ in range(4))
    history.served(fourth, 9, now_s=1.0)
    history.served(first, 3, now_s=1.0)
    history.served(second, 4, now_s=1.0)
    assert history.finished() == []


def test_a_waiter_that_overtakes_is_a_violation() -> None:
    history = History("k")
    first, second = history.joined(), history.joined()
    history.served(second, 3, now_s=1.0)
    history.served(first, 4, now_s=2.0)
    assert history.finished() == [f"k: place {second} got fence 3, after a later place"]


def test_a_waiter_may_leave_after_earlier_places_were_served_and_before_later_ones_are() -> None:
    history = History("k")
    first, second, third = (history.joined() for _ in range(3))
    history.served(first, 3, now_s=1.0)
    history.served(third, 4, now_s=2.0)
    history.left(second, until_s=2.0)
    assert history.finished() == []


def test_a_waiter_that_is_passed_over_until_it_leaves_is_a_violation() -> None:
    history = History("k")
    first, second = history.joined(), history.joined()
    history.served(second, 3, now_s=1.0)
    history.left(first, until_s=2.0)
    assert history.finished() == [f"k: place {first} still waited when a later place was served"]
