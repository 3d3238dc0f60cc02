"""Who of those that wait can never go on, whatever the others give back: found by letting everybody else give back all.

Works on views, so it can be asked of any snapshot. Why somebody cannot go on is told in graph.py; no clock is read.
"""

from typing import Final

from holdfast.words import BIT, CLASH, Holder, Mode, View, Waiter

# Who waits, and may hold meanwhile: an owner in a session. What outlived its session has nobody: it is an actor of its
# own, that waits for nothing.
Actor = tuple[int, bytes]

MODES: Final = len(Mode)


class Held:
    """What somebody holds on one key."""

    __slots__ = ("actor", "mode", "number", "seen", "units")

    def __init__(self, actor: Actor, seen: Holder | Waiter, mode: int, number: int) -> None:
        self.actor = actor
        self.seen = seen  # a waiter where somebody is given what nobody waits for yet
        self.mode = mode
        self.units = seen.units
        self.number = number  # its fence; that of a waiter is below zero


class Place:
    """Where somebody stands in the queue of one key."""

    __slots__ = ("actor", "gone", "line", "waiter")

    def __init__(self, actor: Actor, waiter: Waiter, line: "Line") -> None:
        self.actor = actor
        self.waiter = waiter
        self.line = line
        self.gone = False


class Line:
    """One key: what is held, and who stands in line for it."""

    __slots__ = ("_counts", "_mask", "_used", "conversions", "held", "key", "limit", "waiters")

    def __init__(self, key: bytes, limit: int) -> None:
        self.key = key
        self.limit = limit
        self.held: dict[int, Held] = {}  # by number
        self.conversions: list[Place] = []  # the first one last, as in `waiters`, so that leaving is cheap
        self.waiters: list[Place] = []
        self._counts = [0] * MODES
        self._mask = 0
        self._used = 0

    @classmethod
    def of(cls, view: View, *, kept: bool = True) -> "Line":
        """Make a line of what was seen of a key; on demand without what outlived its session."""
        line = cls(view.key, view.limit)
        for holder in view.holders:
            if kept or not holder.kept:
                line.hold(Held((holder.session, holder.owner), holder, holder.mode, holder.fence))
        for waiter in reversed(view.queue):
            queue = line.conversions if waiter.converting else line.waiters
            queue.append(Place((waiter.session, waiter.owner), waiter, line))
        return line

    @property
    def queue(self) -> list[Place]:
        """List who still stands in line, in the order in which they are served."""
        return [place for queue in (self.conversions, self.waiters) for place in reversed(queue) if not place.gone]

    def hold(self, held: Held) -> None:
        self.held[held.number] = held
        self._counts[held.mode] += 1
        self._mask |= BIT[held.mode]
        self._used += held.units

    def let_go(self, held: Held) -> None:
        del self.held[held.number]
        self._counts[held.mode] -= 1
        self._used -= held.units
        if not self._counts[held.mode]:
            self._mask &= ~BIT[held.mode]

    def first(self) -> Place | None:
        """Find who is next; conversions go first."""
        for queue in (self.conversions, self.waiters):
            while queue and queue[-1].gone:
                queue.pop()
            if queue:
                return queue[-1]
        return None

    def fits(self, place: Place) -> bool:
        """Say whether somebody's wish can be granted beside what is held."""
        waiter = place.waiter
        if waiter.converting:
            mine = self.held[waiter.fence]
            mask = self._mask if self._counts[mine.mode] > 1 else self._mask & ~BIT[mine.mode]
            return not mask & CLASH[waiter.want]
        return not self._mask & CLASH[waiter.want] and self._used + waiter.units <= self.limit

    def in_the_way(self, place: Place) -> list[Held]:
        """List the holders beside whom somebody's wish cannot be granted."""
        waiter = place.waiter
        mine = waiter.fence if waiter.converting else 0
        short = not waiter.converting and self._used + waiter.units > self.limit
        clash = CLASH[waiter.want]
        return [
            held
            for held in self.held.values()
            if held.number != mine and (BIT[held.mode] & clash or (short and held.units))
        ]


class Knot:
    """Views, reduced to what those hold and want who can never go on."""

    def __init__(self, views: list[View]) -> None:
        # In an order of their own, so that the same cycles are found whoever looks.
        self.lines = [Line.of(view, kept=False) for view in sorted(views, key=_key_of)]
        self.places: dict[Actor, list[Place]] = {}
        self.stuck: set[Actor] = set()  # in the end: who can never go on
        self._held: dict[Actor, list[tuple[Line, Held]]] = {}
        self._groups: dict[tuple[int, int], list[Place]] = {}
        self._todo: list[Line] = list(self.lines)
        self._list_actors()
        for line in self.lines:
            self._drop_all_but_stuck(line)
        while self._todo:
            self._serve(self._todo.pop())

    def _list_actors(self) -> None:
        for line in self.lines:
            for held in line.held.values():
                self._held.setdefault(held.actor, []).append((line, held))
            for place in line.conversions + line.waiters:
                self.places.setdefault(place.actor, []).append(place)
                if place.waiter.blocked:
                    self.stuck.add(place.actor)
                if place.waiter.group:
                    self._groups.setdefault((place.waiter.session, place.waiter.group), []).append(place)

    def _drop_all_but_stuck(self, line: Line) -> None:
        """Take away what those have who wait for nothing: kept claims were not even counted."""
        for held in list(line.held.values()):
            if held.actor not in self.stuck:
                line.let_go(held)
        for place in line.conversions + line.waiters:
            place.gone = place.actor not in self.stuck

    def _serve(self, line: Line) -> None:
        """Grant what can be granted: whoever is granted what it waits for goes on, and gives back all it has."""
        while (place := line.first()) is not None and self._may_have(place):
            if place.waiter.blocked:
                self._set_free(place.actor)
            else:
                self._take(place)

    def _may_have(self, place: Place) -> bool:
        return all(other.line.first() is other and other.line.fits(other) for other in self.together(place))

    def together(self, place: Place) -> list[Place]:
        """List all that is granted along with it."""
        return self._groups.get((place.waiter.session, place.waiter.group)) or [place]

    def _set_free(self, actor: Actor) -> None:
        self.stuck.discard(actor)
        for line, held in self._held.get(actor, []):
            line.let_go(held)
            self._todo.append(line)
        for place in self.places[actor]:
            place.gone = True
            self._todo.append(place.line)

    def _take(self, place: Place) -> None:
        """Somebody who waits for something else is granted what nobody waits for yet: it is held from now on."""
        for other in self.together(place):
            other.gone = True
            held = Held(other.actor, other.waiter, other.waiter.want, -other.waiter.order)
            other.line.hold(held)
            self._held.setdefault(other.actor, []).append((other.line, held))
            self._todo.append(other.line)


def _key_of(view: View) -> bytes:
    return view.key
