"""The world: everything follows from the seed, much can happen, and whatever the server lets out is kept.

Whether what happens is right is judged elsewhere.
"""

from itertools import pairwise

import pytest

from sim.bugs import BUGS
from sim.history import Event, Raised
from sim.planting import planted
from sim.trace import trace
from sim.world import World


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_the_same_seed_makes_the_same_history(seed: int) -> None:
    assert World(seed).run().events == World(seed).run().events


def test_other_seeds_make_other_histories() -> None:
    histories = [World(seed).run().events for seed in range(10)]
    assert all(one != other for number, one in enumerate(histories) for other in histories[:number])


def test_everything_that_can_happen_does() -> None:
    seen: set[type[Event]] = set()
    for seed in range(100):
        seen |= {type(event) for event in World(seed).run().events}
    assert seen == set(Event.__subclasses__()) - {Raised}


def test_steps_and_time_only_go_forward() -> None:
    events = World(2).run().events
    assert all(one.step <= other.step and one.at <= other.at for one, other in pairwise(events))


def test_whatever_the_server_raises_ends_the_history() -> None:
    with planted(BUGS["locks_do_not_exclude"]):
        history = World(1).run()
    assert isinstance(history.events[-1], Raised)
    assert "AssertionError" in history.events[-1].what


def test_a_trace_has_a_line_for_every_event() -> None:
    for seed in range(20):
        history = World(seed).run()
        assert len(trace(history, len(history.events))) == len(history.events)


def test_a_trace_ends_where_it_is_told_to() -> None:
    history = World(2).run()
    assert all(int(line.split()[1]) <= 20 for line in trace(history, 1000, until_step=20))
