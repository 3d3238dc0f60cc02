"""Small random tables on which everybody holds and wants something, and a slow way to find out who can never go on.

The slow way tries out on the engine itself all that those who wait for nothing could give back, in every order.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from holdfast.engine import group as groups
from holdfast.engine.document import decode, encode
from holdfast.engine.resource import Resource, everybody
from holdfast.engine.table import Table
from holdfast.engine.view import view_of
from holdfast.testing.mint import CountingMint
from holdfast.words import (
    CONVERTING,
    CR,
    CW,
    EX,
    FOREVER,
    PR,
    PW,
    SECOND,
    UNLIMITED,
    WAITING,
    Answer,
    Cancel,
    Claim,
    Convert,
    End,
    Group,
    Hangup,
    Mode,
    View,
    Wait,
    member_ticket,
)
from tests.engine.naive import compatible

NOW = 1000 * SECOND
LIMITS = {b"a": UNLIMITED, b"b": UNLIMITED, b"c": 3, b"d": 2}
MODES = (EX, EX, EX, PR, PR, CW, CR, PW)

Actor = tuple[int, bytes]
Name = tuple[int, bytes]


def actor_of(c: Claim) -> Actor:
    return c.session, c.owner


def is_blocked(c: Claim) -> bool:
    return c.state is CONVERTING or (c.state is WAITING and c.blocks_caller)


@dataclass
class World:
    """A table, and the names of all claims on it."""

    table: Table = field(default_factory=lambda: Table(CountingMint(), 100, 0, 60 * SECOND))
    names: list[Name] = field(default_factory=list)

    @property
    def claims(self) -> list[Claim]:
        found = (self.table.find(*name) for name in self.names)
        return [c for c in found if c is not None]

    @property
    def views(self) -> list[View]:
        return [view_of(r, True) for r in self.table.resources.values()]

    def blocked(self) -> set[Actor]:
        return {actor_of(c) for c in self.claims if is_blocked(c)}

    def copy(self) -> "World":
        world = World(names=self.names)
        assert isinstance(self.table.mint, CountingMint)
        world.table.mint = CountingMint(self.table.mint.next)
        for key, r in self.table.resources.items():
            world.table.adopt(decode(key, encode(r)))
        return world

    def state(self) -> frozenset[tuple[Name, int]]:
        """Tell who still has what: all that the future depends on, as the orders in the queues are given."""
        return frozenset(((c.session, bytes(c.ticket)), int(c.state)) for c in self.claims)


class Builder:
    """Makes a world from a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.world = World()
        self.actors = self._actors()
        self.keys = self.dice.sample(list(LIMITS), self.dice.randint(2, 4))

    def _actors(self) -> list[Actor]:
        count = self.dice.randint(2, 6)
        return [(number // 2 + 1, b"%d" % (number % 2)) for number in range(count)]

    def build(self) -> World:
        for _ in range(self.dice.randint(6, 24)):
            actor = self.dice.choice(self.actors)
            if actor in self.world.blocked() and self.dice.random() < 0.85:
                continue  # most callers do one thing at a time
            acts = [self.claim, self.claim_all, self.convert, self.wait, self.leave]
            self.dice.choices(acts, [10, 2, 3, 1, 0.3])[0](actor)
        return self.world

    def new(self, actor: Actor, key: bytes) -> Claim:
        limit = LIMITS[key]
        units = 1 if limit == UNLIMITED else self.dice.randint(1, limit)
        want = self.dice.choice(MODES) if limit == UNLIMITED or self.dice.random() < 0.2 else CW
        c = Claim(key, want, units, limit, FOREVER, FOREVER)
        c.session, c.owner = actor
        return c

    def name(self, c: Claim) -> None:
        c.ticket = b"t%d" % len(self.world.names)
        self.world.names.append((c.session, c.ticket))

    def claim(self, actor: Actor) -> None:
        mine = {c.key for c in self.world.claims if actor_of(c) == actor}
        key = self.dice.choice(self.keys)
        if key in mine and self.dice.random() < 0.9:
            return  # few are so careless
        c = self.new(actor, key)
        c.tracked = self.dice.random() < 0.15
        self.name(c)
        self.world.table.enqueue(c, NOW, [])

    def claim_all(self, actor: Actor) -> None:
        claims = [self.new(actor, key) for key in self.dice.sample(self.keys, 2)]
        group = Group(b"g%d" % len(self.world.names), claims, FOREVER, tracked=self.dice.random() < 0.15)
        group.session = actor[0]
        groups.enqueue(self.world.table, group, NOW, [])
        self.world.names += [(group.session, member_ticket(group.ticket, index)) for index in range(len(claims))]

    def convert(self, actor: Actor) -> None:
        held = [c for c in self.world.claims if actor_of(c) == actor and c.state is not WAITING]
        if held:
            c = self.dice.choice(held)
            self.world.table.convert(Convert(c.session, c.ticket, self.dice.choice(MODES)), NOW, [])

    def wait(self, actor: Actor) -> None:
        tracked = [c for c in self.world.claims if actor_of(c) == actor and c.state is WAITING and c.tracked]
        if tracked:
            c = self.dice.choice(tracked)
            self.world.table.wait(Wait(c.session, c.ticket, FOREVER), NOW, [])

    def leave(self, actor: Actor) -> None:
        self.world.table.hangup(Hangup(actor[0], keep_held=True), NOW, [])


# --- the slow way ---


def name_of(c: Claim) -> Name:
    return c.session, bytes(c.ticket)  # type: ignore[arg-type]


def play_out(world: World) -> tuple[set[Actor], World]:
    """Try out everything that can happen; say who is where it was in any case, and what is left in the end."""
    world = world.copy()
    everybody_blocked = world.blocked()
    free = frozenset(actor_of(c) for c in world.claims) - everybody_blocked
    free |= _watch(world, lambda: _end_kept(world))
    seen: set[tuple[frozenset[Actor], frozenset[tuple[Name, int]]]] = set()
    ever_free: set[Actor] = set()
    ends: dict[frozenset[tuple[Name, int]], World] = {}
    todo = [(world, free)]
    while todo:
        world, free = todo.pop()
        if (free, world.state()) in seen:
            continue
        seen.add((free, world.state()))
        ever_free |= free
        following = list(_next_worlds(world, free))
        todo.extend(following)
        if not following:
            ends[world.state()] = world
    (end,) = ends.values()  # whatever the order, it ends in the same way
    return everybody_blocked - ever_free, end


def _watch(world: World, act: Callable[[], object]) -> frozenset[Actor]:
    """Do something, and say who was granted what it waited for."""
    before = [c for c in world.claims if is_blocked(c)]
    act()
    return frozenset(actor_of(c) for c in before if c.book is not None and not is_blocked(c))


def _end_kept(world: World) -> None:
    """Let all leases end of what nobody is there for any more."""
    for r in world.table.resources.values():
        for c in everybody(r):
            if c.kept:
                world.table.end(End(r.key, c.token), NOW, [])


def _next_worlds(world: World, free: frozenset[Actor]) -> Iterator[tuple[World, frozenset[Actor]]]:
    """Let each one who can do something give back one thing, or stop waiting for one."""
    for c in world.claims:
        if actor_of(c) in free:
            other = world.copy()
            yield other, free | _watch(other, partial(give_back, other, name_of(c)))


def give_back(world: World, name: Name) -> None:
    answer, _ = world.table.cancel(Cancel(*name, held=True), NOW, [])
    assert answer in (Answer.ENDED, Answer.CANCELLED)


# --- what a cycle is made of, looked up the slow way ---


def in_circles(world: World, actors: set[Actor]) -> set[Actor]:
    """List those of some actors that hinder themselves, over however many others."""
    counting = that_count(world)
    hindered_by = {one: {other for other in actors if hinders(world, counting, one, other)} for one in actors}
    for middle in actors:
        for one in actors:
            if middle in hindered_by[one]:
                hindered_by[one] |= hindered_by[middle]
    return {actor for actor in actors if actor in hindered_by[actor]}


def hinders(world: World, counting: list[Claim], one: Actor, other: Actor) -> bool:
    """Say whether something that `one` waits for is kept from it by something that `other` has."""
    return any(other in _who_hinders(r, counting, one) for r in world.table.resources.values())


def that_count(world: World) -> list[Claim]:
    """List who waits so that its caller cannot go on, though it may be blocked by something that comes after that."""
    counting = [c for c in world.claims if is_blocked(c)]
    for c in counting:  # which becomes longer meanwhile
        queue = queue_of(world.table.resources[c.key])
        mine = [other for other in queue[: queue.index(c)] if actor_of(other) == actor_of(c)]
        bond = c.bond if c.state is WAITING else None
        tied = [o for o in world.claims if bond and o.bond and (o.session, o.bond.ticket) == (c.session, bond.ticket)]
        counting += [other for other in mine + tied if other not in counting]
    return counting


def queue_of(r: Resource) -> list[Claim]:
    return [*(r.converting or {}).values(), *(r.waiting.values() if r.waiting is not None else [])]


def _who_hinders(r: Resource, counting: list[Claim], actor: Actor) -> set[Actor]:
    queue = queue_of(r)
    found: set[Actor] = set()
    for at, c in enumerate(queue):
        if actor_of(c) == actor and c in counting:
            found |= {actor_of(h) for h in holders_in_the_way(r, c)} or _next_before(queue[:at], actor)
    return found


def _next_before(queue: list[Claim], actor: Actor) -> set[Actor]:
    found: set[Actor] = set()
    for c in reversed(queue):
        if actor_of(c) == actor:
            break
        found.add(actor_of(c))
        if is_blocked(c):
            break
    return found


def holders_in_the_way(r: Resource, c: Claim) -> list[Claim]:
    held = [h for h in everybody(r) if h.state is not WAITING]
    short = c.state is WAITING and sum(h.units for h in held) + c.units > r.limit
    return [
        h for h in held if (h is not c and not compatible(Mode(h.mode).name, Mode(c.want).name)) or (short and h.units)
    ]
