"""A town of callers who lock, wait, convert and leave at random, over the native and the line door.

What the doors tell of it is for a test to compare with what is true; here is only who does what, and who is who.
"""

import random
from typing import Any

from holdfast.engine.resource import Resource
from holdfast.engine.table import Table
from holdfast.testing.line_stage import CountingTransport, LineCaller
from holdfast.testing.native_stage import Line, NativeCaller, NativeStage, ticket
from holdfast.wire.native_meaning import key_of
from holdfast.words import Claim
from tests.engine.graphs import Actor, World, actor_of, is_blocked

LOCKS = ("a", "b")
SEMAPHORES = {"c": 3, "d": 2}
MODES = ("EX", "EX", "EX", "PR", "PR", "CW", "CR", "PW")
LONG_MS = 10**9

# The name of a key, and its kind.
Named = tuple[str, str]
KEYS: tuple[Named, ...] = (*((name, "lock") for name in LOCKS), *((name, "semaphore") for name in SEMAPHORES))


class Wired(CountingTransport):
    """A transport that knows where its peer is."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.peer = f"10.0.0.3:{port}"

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return tuple(self.peer.split(":")) if name == "peername" else default


class Person:
    """Somebody who does one thing at a time."""

    def __init__(self, town: "Town", who: str) -> None:
        self.town = town
        self.who = who  # as others are shown it
        self.tickets: list[str] = []

    def act(self, dice: random.Random) -> None:
        raise NotImplementedError


class Thread(Person):
    """One thread of a client of the native door."""

    def __init__(self, town: "Town", caller: NativeCaller, client: str, name: str) -> None:
        super().__init__(town, f"{client}@?:?/{name}")
        self.caller = caller
        self._name = name

    def act(self, dice: random.Random) -> None:
        ways = [self._claim, self._claim_all, self._enqueue, self._convert, self._wait, self._end]
        dice.choices(ways, [8, 2, 2, 3, 1, 0.5])[0](dice)

    def _claim(self, dice: random.Random) -> None:
        self._ask("acquire", **self._place(dice, dice.choice(KEYS)))

    def _claim_all(self, dice: random.Random) -> None:
        self._ask("acquire", keys=[self._place(dice, key) for key in dice.sample(KEYS, 2)])

    def _enqueue(self, dice: random.Random) -> None:
        self._ask("enqueue", **self._place(dice, dice.choice(KEYS)))

    def _place(self, dice: random.Random, key: Named) -> Line:
        name, kind = key
        if kind == "lock":
            return {"key": name, "mode": dice.choice(MODES)}
        limit = SEMAPHORES[name]
        mode = dice.choice(MODES) if dice.random() < 0.2 else "CW"
        return {"key": name, "limit": limit, "units": dice.randint(1, limit), "mode": mode}

    def _ask(self, op: str, **fields: Any) -> None:
        name = ticket(f"{self.who.partition('@')[0]}-{self._name}-{len(self.tickets)}")
        self.tickets += [f"{name}#0", f"{name}#1"] if "keys" in fields else [name]
        self._post(op, ticket=name, lease_ms=LONG_MS, meta={"thread": self._name}, **fields)

    def _convert(self, dice: random.Random) -> None:
        self._post_one("convert", dice, mode=dice.choice(MODES))

    def _wait(self, dice: random.Random) -> None:
        self._post_one("wait", dice)

    def _end(self, dice: random.Random) -> None:
        self._post_one("end", dice)

    def _post_one(self, op: str, dice: random.Random, **fields: Any) -> None:
        if self.tickets:
            self._post(op, ticket=dice.choice(self.tickets), **fields)

    def _post(self, op: str, **fields: Any) -> None:
        if not self.caller.closed:
            self.caller.post(op, **fields)


class Liner(Person):
    """A connection of the line protocol."""

    def __init__(self, town: "Town", caller: LineCaller, peer: str) -> None:
        super().__init__(town, peer)
        self.caller = caller

    def act(self, dice: random.Random) -> None:
        name, kind = dice.choice(KEYS)
        if kind == "lock":
            self.caller.ask("l", name, "99999 99999")
        else:
            self.caller.ask("sl", name, f"99999 {SEMAPHORES[name]} 99999")


class Town:
    """Everything that happens under a seed; the same every time."""

    def __init__(self, seed: int) -> None:
        self.stage = NativeStage(native={"session_grace_ns": 0})
        self.people: list[Person] = []
        self.names: dict[int, str] = {}  # of the connections of the line protocol, by their sessions
        self.watcher = self.stage.client(client="watcher")
        dice = random.Random(seed)
        self._settle_in(dice)
        for _ in range(dice.randint(6, 20)):
            person = dice.choice(self.people)
            if not self.is_blocked(person):
                person.act(dice)
        if dice.random() < 0.2:
            self._leave(dice)

    def _settle_in(self, dice: random.Random) -> None:
        for number in range(dice.randint(1, 2)):
            caller = self.stage.client(client=f"c{number}")
            self.people += [Thread(self, caller, f"c{number}", f"t{at}") for at in range(dice.randint(1, 2))]
        for number in range(dice.randint(1, 2)):
            transport = Wired(number)
            caller_by_line = self.stage.caller(transport)
            session = next(one for one in self.stage.desk.sessions.values() if one.face is caller_by_line.connection)
            self.names[session.id] = transport.peer
            self.people.append(Liner(self, caller_by_line, transport.peer))

    def _leave(self, dice: random.Random) -> None:
        """Let a client be cut off, and not come back: what it holds is kept."""
        person = dice.choice(self.people)
        if isinstance(person, Thread):
            person.caller.vanish()
            self.stage.native.tick(self.stage.clock.now)

    # --- what is true ---

    @property
    def table(self) -> Table:
        return self.stage.memory.table

    def resource(self, key: Named) -> Resource | None:
        return self.table.resources.get(key_of(*key))

    def claims(self) -> list[Claim]:
        return [c for book in self.table.sessions.values() for c in book.values()]

    def who(self, c: Claim) -> str:
        return self.name(actor_of(c))

    def name(self, actor: Actor) -> str:
        session, owner = actor
        return owner.decode() or self.names[session]

    def is_blocked(self, person: Person) -> bool:
        return any(self.who(c) == person.who and is_blocked(c) for c in self.claims())

    def world(self) -> World:
        """Copy what is true, to try things out on it; all claims there have tickets of one kind."""
        names = [(session, name) for session, book in self.table.sessions.items() for name in book]
        world = World(table=self.table, names=names).copy()  # type: ignore[arg-type]  # they are about to be
        for book in world.table.sessions.values():
            for name in [name for name in book if isinstance(name, int)]:
                c = book.pop(name)
                c.ticket = b"line-%d" % name
                book[c.ticket] = c
        world.names = [(session, name) for session, book in world.table.sessions.items() for name in book]  # type: ignore[misc]
        return world

    # --- what is told ---

    def ask(self, op: str, **fields: Any) -> Line:
        self.watcher.lines()
        return self.watcher.call(op, **fields)

    def explanation(self, key: Named) -> Line:
        told: Line = self.ask("explain", key=key[0], kind=key[1])["explanation"]
        return told


def who(told: Line) -> str:
    """Name somebody that was told of."""
    return str(told.get("owner") or told["peer"])
