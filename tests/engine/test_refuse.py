"""Whoever would rather be refused is refused exactly if it would close a cycle, and leaves no trace.

Random worlds and the slow way to judge them are in graphs.py.
"""

import random

import pytest

from holdfast.engine import group as groups
from holdfast.engine.document import encode
from holdfast.words import CW, EX, FOREVER, PR, WAITING, Answer, Claim, Convert, Effect, Group, Reason
from tests.engine.graphs import NOW, Builder, World, actor_of, in_circles, play_out
from tests.engine.kit import KEY, Scene

WORLDS = 600
OTHER = b"orders/18"


def documents(world: World) -> dict[bytes, bytes]:
    return {key: encode(r) for key, r in world.table.resources.items()}


def closes_a_circle(world: World, c: Claim) -> bool:
    """Let it wait, and see what comes of that."""
    never, end = play_out(world)
    return actor_of(c) in in_circles(end, never)


@pytest.mark.parametrize("batch", range(5))
def test_a_claim_is_refused_iff_it_would_close_a_circle(batch: int) -> None:
    for seed in range(batch * WORLDS // 5, (batch + 1) * WORLDS // 5):
        builder = Builder(seed)
        world, twin = builder.build(), builder.world.copy()
        actor = builder.dice.choice(builder.actors)
        c = builder.new(actor, builder.dice.choice(builder.keys))
        c.ticket = b"new"
        same = Claim(c.key, c.want, c.units, c.limit, c.lease_ns, c.patience_ns)
        same.session, same.owner, same.ticket = c.session, c.owner, c.ticket
        twin.names = [*twin.names, (c.session, c.ticket)]
        answer = twin.table.enqueue(same, NOW, [])
        expected = Answer.WOULD_DEADLOCK if answer is Answer.QUEUED and closes_a_circle(twin, same) else answer
        c.refuses = True
        before, out = documents(world), list[Effect]()
        assert world.table.enqueue(c, NOW, out) is expected, seed
        if expected is Answer.WOULD_DEADLOCK:
            assert out == []
            assert documents(world) == before | ({c.key: before[c.key]} if c.key in before else {})
            assert world.table.find(c.session, c.ticket) is None


@pytest.mark.parametrize("batch", range(5))
def test_a_conversion_is_refused_iff_it_would_close_a_circle(batch: int) -> None:
    tried = 0
    for seed in range(batch * WORLDS // 5, (batch + 1) * WORLDS // 5):
        world = Builder(seed).build()
        held = [c for c in world.claims if c.state is not WAITING]
        if not held:
            continue
        dice = random.Random(seed)
        c, want = dice.choice(held), dice.choice([EX, PR, CW])
        name = c.session, c.ticket
        twin = world.copy()
        answer, same = twin.table.convert(Convert(*name, want), NOW, [])
        expected = answer
        if answer is Answer.CONVERTING:
            tried += 1
            assert same is not None
            expected = Answer.WOULD_DEADLOCK if closes_a_circle(twin, same) else answer
        before = documents(world)
        assert world.table.convert(Convert(*name, want, refuses=True), NOW, [])[0] is expected, seed
        if expected is Answer.WOULD_DEADLOCK:
            assert documents(world) == before
    assert tried > 3


# --- by hand ---


def ask(scene: Scene, name: str, by: str, key: bytes, *, refuses: bool = True) -> Answer:
    c = Claim(key, EX, 1, 1 << 60, 1 << 63, 1 << 63, listens=True)
    c.session, c.ticket, c.refuses = scene.session(by), name.encode(), refuses
    scene.claims[name] = c
    out: list[Effect] = []
    return scene._seen(scene.table.enqueue(c, scene.now, out), out)


def test_the_closing_edge_is_refused_without_a_trace_and_without_a_nudge() -> None:
    scene = Scene()
    ask(scene, "a", "A", KEY)
    ask(scene, "b", "B", OTHER)
    assert ask(scene, "a2", "A", OTHER) is Answer.QUEUED
    assert scene.news == [("nudged", "b", EX)]
    before = encode(scene.key)
    assert ask(scene, "b2", "B", KEY) is Answer.WOULD_DEADLOCK
    assert scene.news == []
    assert encode(scene.key) == before
    scene.end("b")
    assert scene.news == [("ended", "b", Reason.RELEASED), ("granted", "a2")]


def test_who_is_not_asked_to_refuse_waits_in_a_cycle() -> None:
    scene = Scene()
    ask(scene, "a", "A", KEY)
    ask(scene, "b", "B", OTHER)
    ask(scene, "a2", "A", OTHER)
    assert ask(scene, "b2", "B", KEY, refuses=False) is Answer.QUEUED


def test_waiting_for_those_in_a_cycle_closes_none() -> None:
    scene = Scene()
    ask(scene, "a", "A", KEY, refuses=False)
    ask(scene, "a2", "A", KEY, refuses=False)
    assert ask(scene, "b", "B", KEY) is Answer.QUEUED


def test_a_first_phase_counts_as_if_somebody_waited_for_it() -> None:
    scene = Scene()
    ask(scene, "a", "A", KEY)
    c = Claim(KEY, EX, 1, 1 << 60, 1 << 63, 1 << 63, tracked=True)
    c.session, c.ticket, c.refuses = scene.session("A"), b"a2", True
    assert scene.table.enqueue(c, scene.now, []) is Answer.WOULD_DEADLOCK


@pytest.mark.parametrize("batch", range(5))
def test_a_group_is_refused_iff_it_would_close_a_circle(batch: int) -> None:
    refused = 0
    for seed in range(batch * WORLDS // 5, (batch + 1) * WORLDS // 5):
        builder = Builder(seed)
        world, twin = builder.build(), builder.world.copy()
        actor, keys = builder.dice.choice(builder.actors), builder.dice.sample(builder.keys, 2)
        claims = [builder.new(actor, key) for key in keys]
        same = [Claim(c.key, c.want, c.units, c.limit, c.lease_ns, c.patience_ns) for c in claims]
        for c in same:
            c.session, c.owner = actor
        twin.names = [*twin.names, (actor[0], b"new#0"), (actor[0], b"new#1")]
        answer = ask_all(twin, same, refuses=False)
        expected = Answer.WOULD_DEADLOCK if answer is Answer.QUEUED and closes_a_circle(twin, same[0]) else answer
        before = documents(world)
        assert ask_all(world, claims, refuses=True) is expected, seed
        if expected is Answer.WOULD_DEADLOCK:
            refused += 1
            assert {key: document for key, document in documents(world).items() if key in before} == before
            assert not any(is_known(world, c) for c in claims)
    assert refused


def ask_all(world: World, claims: list[Claim], *, refuses: bool) -> Answer:
    group = Group(b"new", claims, FOREVER, refuses=refuses)
    group.session = claims[0].session
    return groups.enqueue(world.table, group, NOW, [])[0]


def is_known(world: World, c: Claim) -> bool:
    return world.table.find(c.session, c.ticket) is not None
