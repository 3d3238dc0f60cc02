"""The world: everything follows from the seed, much can happen, and whatever the server lets out is kept.

Whether what happens is right is judged elsewhere.
"""

from itertools import pairwise

import pytest

from sim.bugs import BUGS
from sim.checkers.straight import Derived
from sim.history import Committed, Event, Failed, Raised, Rules, Started, Stopped
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
    for seed in range(200):
        seen |= {type(event) for event in World(seed).run().events}
    assert seen == set(Event.__subclasses__()) - {Raised, Derived}


def test_steps_and_time_only_go_forward() -> None:
    events = World(2).run().events
    assert all(one.step <= other.step and one.at <= other.at for one, other in pairwise(events))


def test_some_worlds_keep_what_they_know_and_survive_everything() -> None:
    histories = [World(seed).run() for seed in range(60)]
    on_file = [history.events for history in histories if rules(history.events[0]).durable]
    assert 0 < len(on_file) < len(histories)
    ends = {event.how for events in on_file for event in events if isinstance(event, Stopped)}
    assert ends == {"killed", "power cut", "stopped"}
    assert all(any(isinstance(event, kind) for events in on_file for event in events) for kind in (Committed, Failed))


def rules(first: Event) -> Rules:
    assert isinstance(first, Started)
    return first.rules


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
