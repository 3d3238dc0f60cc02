"""Who is woken when: in order, once, and no later than asked for.

Time is in the hand of the test.
"""

from holdfast.doors.wakes import SPARE, Wakes
from holdfast.words import FOREVER


class Sleeper:
    """Notes when it was woken, and may want to be woken again."""

    def __init__(self, wakes: Wakes, again: int = FOREVER) -> None:
        self.wake = FOREVER
        self.woken: list[int] = []
        self._wakes = wakes
        self._again = again

    def tick(self, now: int) -> None:
        self.woken.append(now)
        if self._again > now:
            self._wakes.watch(self, self._again)


def wakes() -> tuple[Wakes, list[int]]:
    alarms: list[int] = []
    return Wakes(alarms.append), alarms


def test_a_sleeper_is_woken_at_its_time_and_once() -> None:
    heap, alarms = wakes()
    sleeper = Sleeper(heap)
    heap.watch(sleeper, 5)
    assert (alarms, heap.next_deadline()) == ([5], 5)
    heap.tick(4)
    assert sleeper.woken == []
    heap.tick(7)
    heap.tick(9)
    assert sleeper.woken == [7]
    assert heap.next_deadline() == FOREVER


def test_an_earlier_time_takes_the_place_of_a_later_one_and_not_the_other_way_round() -> None:
    heap, alarms = wakes()
    sleeper = Sleeper(heap)
    for when in (5, 9, 3):
        heap.watch(sleeper, when)
    assert alarms == [5, 3]
    heap.tick(10)
    assert sleeper.woken == [10]


def test_whoever_is_gone_is_not_woken() -> None:
    heap, _ = wakes()
    sleeper = Sleeper(heap)
    heap.watch(sleeper, 5)
    sleeper.wake = FOREVER
    heap.tick(5)
    assert sleeper.woken == []


def test_a_sleeper_may_turn_over_and_sleep_on() -> None:
    heap, _ = wakes()
    sleeper = Sleeper(heap, again=8)
    heap.watch(sleeper, 5)
    heap.tick(5)
    heap.tick(8)
    assert sleeper.woken == [5, 8]


def test_many_who_come_and_go_do_not_add_up() -> None:
    heap, _ = wakes()
    for _ in range(3 * SPARE):
        sleeper = Sleeper(heap)
        heap.watch(sleeper, 5)
        sleeper.wake = FOREVER
    assert len(heap._heap) <= SPARE + 1
    last = Sleeper(heap)
    heap.watch(last, 4)
    heap.tick(5)
    assert last.woken == [5]
