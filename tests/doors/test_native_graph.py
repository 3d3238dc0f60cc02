"""What the native door explains is what is true, in random towns: who is in whose way, and who can never go on.

What is true is looked up in the table in a slow way that shares no code with the explanation, or tried out.
"""

import os

import pytest

from holdfast.engine.resource import holders
from holdfast.testing.native_stage import Line
from holdfast.wire.native_meaning import key_of
from holdfast.words import CONVERTING, WAITING, Cancel, Claim, End, Mode
from tests.doors.town import KEYS, Named, Town, who
from tests.engine.graphs import (
    World,
    holders_in_the_way,
    in_circles,
    is_blocked,
    name_of,
    play_out,
    queue_of,
)

# Every one of them is a town of its own; the environment may ask for more.
TOWNS = int(os.environ.get("HOLDFAST_GRAPHS", "120"))
BATCHES = 4


@pytest.mark.parametrize("batch", range(BATCHES))
def test_what_is_explained_is_what_is_true(batch: int) -> None:
    for seed in range(batch * TOWNS // BATCHES, (batch + 1) * TOWNS // BATCHES):
        town = Town(seed)
        never, end = play_out(town.world())
        stuck = {town.name(actor) for actor in never}
        cycles = town.ask("deadlocks")["cycles"]
        assert members(cycles) == {town.name(actor) for actor in in_circles(end, never)}, seed
        assert bool(cycles) == bool(stuck), seed
        for cycle in cycles:
            check_cycle(cycle)
        for key in KEYS:
            told = town.explanation(key)
            check_holders(town, key, told)
            check_queue(town, key, told, stuck)
            check_chain(town, key, told, cycles)


def members(cycles: list[list[Line]]) -> set[str]:
    return {who(edge) for cycle in cycles for edge in cycle}


def check_cycle(cycle: list[Line]) -> None:
    """Each waits for the next, and the last for the first."""
    for edge, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        assert who(edge["behind"]) == who(following)


def check_holders(town: Town, key: Named, told: Line) -> None:
    r = town.resource(key)
    held = [] if r is None else holders(r)
    assert [(who(one), one["mode"], one["units"], one["fence"], "kept" in one) for one in told["holders"]] == [
        (town.who(c), Mode(c.mode).name, c.units, c.fence, c.kept) for c in held
    ]


def check_queue(town: Town, key: Named, told: Line, stuck: set[str]) -> None:
    """All who wait are told of in their order, each with those who are in its way, and nobody else."""
    r = town.resource(key)
    queue = [] if r is None else queue_of(r)
    assert told["waiting"] == len(queue)
    for at, (wish, c) in enumerate(zip(told["queue"], queue, strict=True)):
        assert (who(wish), wish["want"], wish["units"]) == (town.who(c), Mode(c.want).name, c.units)
        assert (wish["before"], wish["converting"], wish["blocked"]) == (at, c.state is CONVERTING, is_blocked(c))
        assert wish["deadlocked"] == (is_blocked(c) and town.who(c) in stuck)
        assert r is not None
        assert [one["fence"] for one in wish["behind"] if not one["ahead"]] == [
            h.fence for h in holders_in_the_way(r, c)
        ]
        assert [who(one) for one in wish["behind"] if one["ahead"]] == [town.who(before) for before in queue[:at][-1:]]


def check_chain(town: Town, key: Named, told: Line, cycles: list[list[Line]]) -> None:
    """All that those wait for elsewhere who hold the key, wait for it, or are in the way of one who is told of."""
    wishes = told["queue"] + told["chain"]
    known = {who(one) for one in told["holders"] if "kept" not in one} | {who(wish) for wish in wishes}
    known |= {who(one) for wish in wishes for one in wish["behind"] if "kept" not in one}
    truth = [(town.who(c), c.key) for c in town.claims() if c.state in (WAITING, CONVERTING) and town.who(c) in known]
    assert sorted((who(wish), wish["kind"], wish["key"]) for wish in wishes) == sorted(
        (name, "lock" if place.startswith(b"lock:") else "semaphore", place.partition(b":")[2].decode())
        for name, place in truth
    )
    assert members(told["cycles"]) == members([cycle for cycle in cycles if members([cycle]) & known])


# --- tried out ---


def test_whoever_is_said_to_be_in_the_way_is_and_nobody_else() -> None:
    tried = 0
    for seed in range(TOWNS // 2):
        town = Town(seed)
        world = town.world()
        told = {key: town.explanation(key) for key in KEYS}
        for key in KEYS:
            for at in range(len(told[key]["queue"])):
                check_by_trying(world, told, key, at)
                tried += 1
    assert tried > TOWNS // 4


def check_by_trying(world: World, told: dict[Named, Line], key: Named, at: int) -> None:
    """Without those in the way it goes on; with nobody but them there, it does not."""
    places = together(world, key, at)
    named = {
        one["fence"] for place, number in places for one in told[place]["queue"][number]["behind"] if not one["ahead"]
    }
    without, only = world.copy(), world.copy()
    for other in (without, only):
        for place, number in places:
            for c in reversed(queue_at(world, place)[:number]):
                other.table.cancel(Cancel(*name_of(c), held=c.state is WAITING), 0, [])
    mine = name_of(queue_at(world, key)[at])
    for place in KEYS:
        for held in holders_at(world, place):
            if name_of(held) != mine:
                other = without if held.fence in named else only
                other.table.end(End(held.key, held.token), 0, [])
    assert not stands_in_line(without, mine)
    assert stands_in_line(only, mine) == bool(named)


def together(world: World, key: Named, at: int) -> list[tuple[Named, int]]:
    """List all places at which a claim waits: those of its group, or its own."""
    bond = queue_at(world, key)[at].bond
    if bond is None or queue_at(world, key)[at].state is CONVERTING:
        return [(key, at)]
    return [
        (place, number)
        for place in KEYS
        for number, c in enumerate(queue_at(world, place))
        if c.bond is not None and c.state is WAITING and c.bond.number == bond.number
    ]


def queue_at(world: World, key: Named) -> list[Claim]:
    r = world.table.resources.get(key_of(*key))
    return [] if r is None else queue_of(r)


def holders_at(world: World, key: Named) -> list[Claim]:
    r = world.table.resources.get(key_of(*key))
    return [] if r is None else holders(r)


def stands_in_line(world: World, name: tuple[int, bytes]) -> bool:
    c = world.table.find(*name)
    assert c is not None
    return c.state in (WAITING, CONVERTING)
