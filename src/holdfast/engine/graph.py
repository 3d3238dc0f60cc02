"""Who waits for whom: the cycles in which nobody can go on, and what stands between a caller and a key.

Pure functions on deep views that reach far enough, see `Look.reach`. Nothing is changed here, and nobody is judged.
"""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from holdfast.engine.knot import Actor, Held, Knot, Line, Place
from holdfast.words import UNLIMITED, Holder, View, Waiter

# How much is told at most. Who has to act upon it begins with the first ones anyway.
CYCLES_MAX: Final = 100
HINDRANCES_MAX: Final = 100
CHAIN_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Party:
    """Somebody who holds or waits."""

    session: int
    owner: bytes
    about: bytes
    kept: bool = False  # its session is over, and this is left of it

    @property
    def actor(self) -> Actor:
        return self.session, self.owner


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Somebody who is in the way: a holder, or one that stands before us in the queue."""

    party: Party
    ahead: bool  # False: it holds
    mode: int  # what it holds, or, ahead in the queue, what it wants
    units: int
    since: int
    fence: int  # of what it holds, or 0


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody waits for, and who is in the way of that."""

    party: Party
    key: bytes
    limit: int
    want: int
    units: int
    since: int
    deadline: int  # the end of its patience
    converting: bool  # to another mode of what it holds
    group: int  # 0: it asks for itself alone
    blocked: bool  # False: its place is kept, and its caller does something else meanwhile
    ahead: int  # how many stand before it in the queue
    deadlocked: bool  # nobody who is in its way will ever go on
    hindrances: tuple[Hindrance, ...]  # holders first, then who stands next before it


@dataclass(frozen=True, slots=True)
class Edge:
    """One part of a cycle: who waits for which key, and who of the same cycle is in the way."""

    party: Party
    key: bytes
    limit: int
    want: int
    units: int
    since: int
    converting: bool
    group: int
    hindrance: Hindrance


@dataclass(frozen=True, slots=True)
class Cycle:
    """Each waits for the next, and the last for the first."""

    edges: tuple[Edge, ...]

    @property
    def name(self) -> frozenset[tuple[int, bytes, bytes]]:
        """What stays the same for as long as the cycle does."""
        return frozenset((edge.party.session, edge.party.owner, edge.key) for edge in self.edges)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a key is not to be had at once."""

    key: bytes
    limit: int = UNLIMITED
    holders: tuple[Holder, ...] = ()
    queue: tuple[Wish, ...] = ()  # who waits for it, in order
    chain: tuple[Wish, ...] = ()  # what all of these wait for elsewhere, who is in the way there, and so on
    cycles: tuple[Cycle, ...] = ()  # that any of these are part of, or wait for


# What keeps somebody from going on: where it stands, and who is in the way there.
_Reason = tuple[Place, list[Held | Place]]
_Reasons = dict[Actor, list[_Reason]]


def deadlocks(views: list[View]) -> list[Cycle]:
    """Name cycles in which nobody can go on, until everybody who is part of one has been named."""
    return _cycles(Knot(views))


def deadlocked(views: list[View]) -> set[Actor]:
    """Say who can never go on, whatever others give back: those in a cycle, and those who wait for them."""
    return Knot(views).stuck


def closes(views: list[View], newcomers: list[tuple[bytes, Waiter]]) -> bool:
    """Say whether somebody would close a cycle who would stand last in the queues of these keys."""
    all_views = {view.key: view for view in views}
    for key, waiter in newcomers:
        waiter.blocked = True
        view = all_views[key]
        # It comes after those who wait for the same: conversions go before others.
        queue = sorted([*view.queue, waiter], key=lambda other: not other.converting)
        all_views[key] = View(key, view.limit, view.holders, view.waiters, view.touched, view.version, queue)
    knot = Knot(list(all_views.values()))
    me = newcomers[0][1].session, newcomers[0][1].owner
    return me in knot.stuck and _loop(me, _reasons(knot), knot.stuck) is not None


def explain(views: list[View], key: bytes) -> Explanation:
    """Tell who holds a key and who waits for it, what those wait for themselves, and whether that goes in a circle."""
    view = next((view for view in views if view.key == key), None)
    if view is None:
        return Explanation(key)
    knot = Knot(views)
    queue = _wishes(view, knot.stuck)
    chain, known = _chain(views, view, queue, knot.stuck)
    cycles = [cycle for cycle in _cycles(knot) if any(edge.party.actor in known for edge in cycle.edges)]
    return Explanation(key, view.limit, tuple(view.holders), tuple(queue), tuple(chain), tuple(cycles))


# --- what somebody waits for ---


def _party(seen: Holder | Waiter) -> Party:
    return Party(seen.session, seen.owner, seen.about, isinstance(seen, Holder) and seen.kept)


def _hindrance(cause: Held | Place) -> Hindrance:
    if isinstance(cause, Place):
        waiter = cause.waiter
        return Hindrance(_party(waiter), True, waiter.want, waiter.units, waiter.since, 0)
    seen = cause.seen
    return Hindrance(_party(seen), False, cause.mode, seen.units, seen.since, seen.fence)


def _wishes(view: View, stuck: Collection[Actor]) -> list[Wish]:
    """Tell of everybody who waits for a key."""
    line = Line.of(view)
    wishes: list[Wish] = []
    before: Place | None = None
    for ahead, place in enumerate(line.queue):
        waiter = place.waiter
        causes: list[Held | Place] = [*line.in_the_way(place)[:HINDRANCES_MAX]]
        if before is not None:
            causes.append(before)
        wishes.append(
            Wish(
                _party(waiter),
                view.key,
                view.limit,
                waiter.want,
                waiter.units,
                waiter.since,
                waiter.deadline,
                waiter.converting,
                waiter.group,
                waiter.blocked,
                ahead,
                waiter.blocked and place.actor in stuck,
                tuple(_hindrance(cause) for cause in causes),
            )
        )
        before = place
    return wishes


def _chain(
    views: list[View], first: View, queue: list[Wish], stuck: Collection[Actor]
) -> tuple[list[Wish], set[Actor]]:
    """Follow what holders and waiters of a key wait for elsewhere, the nearest first."""
    elsewhere: dict[Actor, list[Wish]] = {}
    for view in views:
        if view is not first:
            for wish in _wishes(view, stuck):
                elsewhere.setdefault(wish.party.actor, []).append(wish)
    todo = deque([_party(holder) for holder in first.holders] + [wish.party for wish in queue])
    known: set[Actor] = set()
    chain: list[Wish] = []
    while todo and len(chain) < CHAIN_MAX:
        party = todo.popleft()
        if party.kept or party.actor in known:
            continue
        known.add(party.actor)
        for wish in elsewhere.get(party.actor, []):
            chain.append(wish)
            todo.extend(hindrance.party for hindrance in wish.hindrances)
    return chain, known


# --- cycles ---


def _reasons(knot: Knot) -> _Reasons:
    """Say of each who can never go on where it stands, and who of the others is in the way there.

    Whoever stands before somebody in a queue counts only where no holder is in the way, so that a cycle does not go
    through people who merely wait for the same.
    """
    reasons: _Reasons = {actor: [] for actor in knot.stuck}
    queues = [line.queue for line in knot.lines]
    counting = _that_count(knot, queues)
    for queue in queues:
        for at in range(len(queue) - 1, -1, -1):
            place = queue[at]
            if place in counting:
                causes: list[Held | Place] = [*place.line.in_the_way(place)] or [*_next_before(queue, at)]
                reasons[place.actor].append((place, causes))
    return reasons


def _that_count(knot: Knot, queues: list[list[Place]]) -> set[Place]:
    """Find the places that keep somebody from going on: where it is blocked, its own before that, and their groups."""
    before: dict[Place, Place] = {}  # the next one of the same caller in the same queue
    todo: list[Place] = []
    for queue in queues:
        last: dict[Actor, Place] = {}
        for place in queue:
            if place.actor in last:
                before[place] = last[place.actor]
            last[place.actor] = place
            if place.waiter.blocked:
                todo.append(place)
    counting: set[Place] = set()
    while todo:
        place = todo.pop()
        if place not in counting:
            counting.add(place)
            todo.extend(knot.together(place))
            if place in before:
                todo.append(before[place])
    return counting


def _next_before(queue: list[Place], at: int) -> Iterable[Place]:
    """List who stands next before a place: up to the first whose own reasons tell the rest."""
    for before in range(at - 1, -1, -1):
        place = queue[before]
        if place.actor == queue[at].actor:
            return
        yield place
        if place.waiter.blocked:
            return


def _cycles(knot: Knot) -> list[Cycle]:
    reasons = _reasons(knot)
    left = _in_the_way_of_somebody(reasons)
    named: set[Actor] = set()
    cycles: list[Cycle] = []
    for actor in sorted(left):
        if actor in named or len(cycles) == CYCLES_MAX:
            continue
        loop = _loop(actor, reasons, left)
        if loop is not None:
            named.update(place.actor for place, _ in loop)
            cycles.append(Cycle(tuple(_edge(place, cause) for place, cause in loop)))
    return cycles


def _in_the_way_of_somebody(reasons: _Reasons) -> set[Actor]:
    """Leave out whoever is in nobody's way, and then whoever was only in the way of those: most who wait."""
    hindered: dict[Actor, int] = dict.fromkeys(reasons, 0)
    for whose in reasons.values():
        for cause in _causes(whose):
            hindered[cause.actor] += 1
    todo = [actor for actor, count in hindered.items() if not count]
    left = set(reasons).difference(todo)
    while todo:
        for cause in _causes(reasons[todo.pop()]):
            hindered[cause.actor] -= 1
            if not hindered[cause.actor]:
                left.discard(cause.actor)
                todo.append(cause.actor)
    return left


def _causes(whose: list[_Reason]) -> Iterable[Held | Place]:
    return (cause for _, causes in whose for cause in causes)


def _loop(start: Actor, reasons: _Reasons, among: Collection[Actor]) -> list[tuple[Place, Held | Place]] | None:
    """Find the shortest way from somebody back to itself."""
    came: dict[Actor, tuple[Place, Held | Place]] = {}
    todo = deque([start])
    while todo and start not in came:
        for place, causes in reasons[todo.popleft()]:
            for cause in causes:
                if cause.actor not in came and cause.actor in among:
                    came[cause.actor] = place, cause
                    todo.append(cause.actor)
    if start not in came:
        return None
    loop = [came[start]]
    while loop[-1][0].actor != start:
        loop.append(came[loop[-1][0].actor])
    return loop[::-1]


def _edge(place: Place, cause: Held | Place) -> Edge:
    waiter = place.waiter
    return Edge(
        _party(waiter),
        place.line.key,
        place.line.limit,
        waiter.want,
        waiter.units,
        waiter.since,
        waiter.converting,
        waiter.group,
        _hindrance(cause),
    )
