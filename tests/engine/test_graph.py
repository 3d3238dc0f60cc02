"""Who waits for whom: what is said of cycles and of what is in the way, against trying everything out.

The random tables and the slow way are in graphs.py; who never goes on, without cycles, is tested here too.
"""

import os

import pytest

from holdfast.engine.graph import (
    CHAIN_MAX,
    CYCLES_MAX,
    HINDRANCES_MAX,
    Cycle,
    Explanation,
    deadlocked,
    deadlocks,
    explain,
)
from holdfast.engine.table import Table
from holdfast.engine.view import view_of, views_of
from holdfast.testing.mint import CountingMint
from holdfast.words import CW, EX, FOREVER, PR, SECOND, UNLIMITED, Claim, Look, View
from tests.engine.graphs import (
    Actor,
    Builder,
    World,
    holders_in_the_way,
    in_circles,
    is_blocked,
    play_out,
    queue_of,
    that_count,
)
from tests.engine.graphs import actor_of as by
from tests.engine.kit import KEY, Scene

# Every one of them is a world of its own; the environment may ask for more.
WORLDS = int(os.environ.get("HOLDFAST_GRAPHS", "1500"))
BATCHES = 10
OTHER = b"orders/18"
THIRD = b"orders/19"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_worlds_are_seen_as_they_are_found_to_be_by_trying_everything_out(batch: int) -> None:
    for seed in range(batch * WORLDS // BATCHES, (batch + 1) * WORLDS // BATCHES):
        world = Builder(seed).build()
        never, end = play_out(world)
        assert deadlocked(world.views) == never, seed
        cycles = deadlocks(world.views)
        assert actors_in(cycles) == in_circles(end, never), seed
        assert bool(cycles) == bool(never), seed
        assert as_text(deadlocks(views_of(world.table, Look(reach=True)))) == as_text(cycles), seed
        for cycle in cycles:
            check_cycle(cycle, end)
        for key in world.table.resources:
            check_explanation(world, key, never, cycles)


def actors_in(cycles: list[Cycle]) -> set[Actor]:
    return {edge.party.actor for cycle in cycles for edge in cycle.edges}


def as_text(cycles: list[Cycle]) -> list[str]:
    return [str(cycle) for cycle in cycles]


def check_cycle(cycle: Cycle, end: World) -> None:
    """Each is in the way of the one before, on the key that is named, with what is named."""
    counting = that_count(end)
    for edge, following in zip(cycle.edges, [*cycle.edges[1:], cycle.edges[0]], strict=True):
        hindrance = edge.hindrance
        assert hindrance.party.actor == following.party.actor
        r = end.table.resources[edge.key]
        queue = queue_of(r)
        mine = [c for c in queue if by(c) == edge.party.actor and c.want == edge.want and c in counting]
        assert mine
        if hindrance.ahead:
            before = [c for c in queue_of(r) if c.order < max(c.order for c in mine) or not c.order]
            assert hindrance.party.actor in {by(c) for c in before} | {by(c) for c in (r.converting or {}).values()}
        else:
            assert any(hindrance.party.actor in {by(h) for h in holders_in_the_way(r, c)} for c in mine)


def check_explanation(world: World, key: bytes, never: set[Actor], cycles: list[Cycle]) -> None:
    explanation = explain(views_of(world.table, Look(key=key, reach=True)), key)
    queue = queue_of(world.table.resources[key])
    assert [(wish.party.actor, wish.want, wish.blocked, wish.ahead) for wish in explanation.queue] == [
        (by(c), c.want, is_blocked(c), at) for at, c in enumerate(queue)
    ]
    known = {(h.session, h.owner) for h in explanation.holders if not h.kept} | {by(c) for c in queue}
    for wish, c in zip(explanation.queue, queue, strict=True):
        assert wish.deadlocked == (is_blocked(c) and by(c) in never)
        in_the_way = {(h.party.session, h.party.owner, h.fence) for h in wish.hindrances if not h.ahead}
        assert in_the_way == {(*by(h), h.fence) for h in holders_in_the_way(world.table.resources[key], c)}
        assert [h.party.actor for h in wish.hindrances if h.ahead] == (
            [by(queue[wish.ahead - 1])] if wish.ahead else []
        )
    told = {(wish.party.actor, wish.key) for wish in explanation.queue + explanation.chain}
    for wish in explanation.queue + explanation.chain:
        known |= {h.party.actor for h in wish.hindrances if not h.party.kept}
    assert told == {
        (by(c), c.key) for c in world.claims if by(c) in known and c in queue_of(world.table.resources[c.key])
    }
    assert as_text(list(explanation.cycles)) == as_text([cycle for cycle in cycles if actors_in([cycle]) & known])


# --- by hand ---


def views(scene: Scene) -> list[View]:
    return [view_of(r, True) for r in scene.table.resources.values()]


def names(scene: Scene, cycle: Cycle) -> list[tuple[str, bytes, bool]]:
    """Write a cycle down: who waits for what, and whether the next one is only ahead in the queue."""
    sessions = {number: name for name, number in scene.sessions.items()}
    return [(sessions[edge.party.session], edge.key, edge.hindrance.ahead) for edge in cycle.edges]


@pytest.fixture
def scene() -> Scene:
    """Two who hold one key each, and want the other's."""
    scene = Scene()
    scene.ask("a", by="A")
    scene.ask("b", key=OTHER, by="B")
    scene.ask("a2", key=OTHER, by="A")
    scene.ask("b2", by="B")
    return scene


def test_two_who_want_what_the_other_has(scene: Scene) -> None:
    (cycle,) = deadlocks(views(scene))
    assert names(scene, cycle) == [("A", OTHER, False), ("B", KEY, False)]
    edge = cycle.edges[0]
    assert (edge.want, edge.units, edge.limit, edge.converting, edge.group) == (EX, 1, UNLIMITED, False, 0)
    assert (edge.since, edge.hindrance.since) == (scene.now, scene.now)
    assert (edge.hindrance.mode, edge.hindrance.fence) == (EX, scene["b"].fence)


def test_who_only_waits_for_them_is_stuck_too_and_in_no_cycle(scene: Scene) -> None:
    scene.ask("c", by="C")
    assert deadlocked(views(scene)) == {(scene.session(name), b"") for name in "ABC"}
    (cycle,) = deadlocks(views(scene))
    assert {name for name, _, _ in names(scene, cycle)} == {"A", "B"}


def test_the_name_of_a_cycle_stays_the_same_while_others_come_and_go(scene: Scene) -> None:
    (before,) = deadlocks(views(scene))
    scene.ask("c", by="C")
    scene.sleep(1)
    scene.renew("a", 30)
    (after,) = deadlocks(views(scene))
    assert after.name == before.name


def test_a_cycle_may_go_over_one_who_is_only_ahead_in_the_queue() -> None:
    scene = Scene()
    scene.ask("x", PR, by="X")
    scene.ask("b", key=OTHER, by="B")
    scene.ask("a", EX, by="A")
    scene.ask("b2", PR, by="B")
    scene.ask("x2", key=OTHER, by="X")
    (cycle,) = deadlocks(views(scene))
    assert names(scene, cycle) == [("X", OTHER, False), ("B", KEY, True), ("A", KEY, False)]


def test_so_many_cycles_are_named_and_no_more() -> None:
    scene = Scene(keys_max=10_000)
    for number in range(CYCLES_MAX + 1):
        scene.ask(f"a{number}", key=b"%d" % number, by=f"S{number}")
        scene.ask(f"b{number}", key=b"%d" % number, by=f"S{number}")
    assert len(deadlocks(views(scene))) == CYCLES_MAX


def test_time_passes_and_what_nobody_is_there_for_any_more_is_given_back() -> None:
    scene = Scene()
    scene.ask("a", by="A")
    scene.ask("b", key=OTHER, by="B", lease=30)
    scene.ask("a2", key=OTHER, by="A")
    scene.hangup("B", keep_held=True)
    scene.ask("b2", by="B")
    assert deadlocks(views(scene)) == []
    wish = explain(views(scene), OTHER).queue[0]
    assert wish.hindrances[0].party.kept
    assert not wish.deadlocked


# --- explanations ---


def test_of_a_key_that_nobody_knows_there_is_nothing_to_explain() -> None:
    assert explain([], KEY) == Explanation(KEY)


def test_an_explanation_follows_those_in_the_way_to_the_end() -> None:
    scene = Scene()
    scene.ask("a", by="A")
    scene.ask("b", key=OTHER, by="B")
    scene.ask("c", CW, key=THIRD, by="C", limit=1)
    scene["c"].owner, scene["c"].about = b"it", b"{}"
    scene.ask("a2", key=OTHER, by="A")
    scene.ask("b2", CW, key=THIRD, by="B", limit=1)
    scene.ask("d", by="D")
    told = explain(views_of(scene.table, Look(key=KEY, reach=True)), KEY)
    assert (told.key, told.limit, [h.fence for h in told.holders]) == (KEY, UNLIMITED, [scene["a"].fence])
    assert [wish.party.session for wish in told.queue] == [scene.session("D")]
    assert [(wish.party.session, wish.key) for wish in told.chain] == [
        (scene.session("A"), OTHER),
        (scene.session("B"), THIRD),
    ]
    last = told.chain[-1].hindrances[0]
    assert (last.party.session, last.party.owner, last.party.about) == (scene.session("C"), b"it", b"{}")
    assert told.cycles == ()


def test_an_explanation_tells_of_a_cycle_that_it_leads_to(scene: Scene) -> None:
    scene.ask("c", key=THIRD, by="B")
    scene.ask("d", key=THIRD, by="D")
    told = explain(views_of(scene.table, Look(key=THIRD, reach=True)), THIRD)
    assert [names(scene, cycle) for cycle in told.cycles] == [[("A", OTHER, False), ("B", KEY, False)]]
    assert told.queue[0].deadlocked


def test_an_explanation_has_an_end() -> None:
    table = Table(CountingMint(), 10_000, 0, SECOND)

    def ask(session: int, key: bytes, want: int = EX) -> None:
        c = Claim(key, want, 1, UNLIMITED, FOREVER, FOREVER)
        c.session, c.ticket = session, len(table.sessions.get(session, ())) + 1
        table.enqueue(c, 0, [])

    for number in range(CHAIN_MAX + 10):
        ask(number, b"%d" % number)
    for number in range(CHAIN_MAX + 9):
        ask(number, b"%d" % (number + 1))
    assert len(explain(views_of(table, Look(deep=True)), b"0").chain) == CHAIN_MAX
    for number in range(HINDRANCES_MAX + 1):
        ask(10_000 + number, KEY, PR)
    ask(20_000, KEY)
    assert len(explain(views_of(table, Look(deep=True)), KEY).queue[0].hindrances) == HINDRANCES_MAX
