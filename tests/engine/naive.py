"""A slow and simple model of one key without time, written from the statements alone, to hold the engine against.

It keeps three lists and no sums, looks at everybody every time, and shares no code with the engine.
"""

from dataclasses import dataclass, field

# A row is what is granted, a column what is asked for; 1 is yes (the table of section 4.1).
TABLE = {
    #      NL CR CW PR PW EX
    "NL": "1  1  1  1  1  1",
    "CR": "1  1  1  1  1  0",
    "CW": "1  1  1  0  0  0",
    "PR": "1  1  0  1  0  0",
    "PW": "1  1  0  0  0  0",
    "EX": "1  0  0  0  0  0",
}
NAMES = list(TABLE)


def compatible(one: str, other: str) -> bool:
    return TABLE[one].split()[NAMES.index(other)] == "1"


def is_way_down(old: str, new: str) -> bool:
    """Say whether whoever could live beside `old` can live beside `new`."""
    return all(compatible(new, mode) for mode in NAMES if compatible(old, mode))


@dataclass
class Lock:
    name: str
    mode: str
    units: int = 1
    want: str = ""  # while it converts


@dataclass
class Naive:
    """One key. Every method answers with a word and the names that were granted because of it, in order."""

    limit: int = 10**9
    held: list[Lock] = field(default_factory=list)
    converting: list[Lock] = field(default_factory=list)
    waiting: list[Lock] = field(default_factory=list)

    def ask(self, name: str, want: str, units: int = 1, queue: bool = True) -> tuple[str, list[str]]:
        new = Lock(name, want, units)
        if not self.converting and not self.waiting and self._fits(new):  # S1
            self.held.append(new)
            return "granted", []
        if units > self.limit:
            return "limit_mismatch", []
        if not queue:
            return "busy", []
        self.waiting.append(new)  # S2
        return "queued", []

    def end(self, name: str) -> tuple[str, list[str]]:
        lock = self._holder(name)
        if lock is None:
            return "not_held", []
        self.held.remove(lock)
        if lock in self.converting:
            self.converting.remove(lock)
        return "ended", self._grant_pass()

    def cancel(self, name: str) -> tuple[str, list[str]]:
        for waiter in self.waiting:
            if waiter.name == name:
                self.waiting.remove(waiter)  # S21
                return "ended", self._grant_pass()
        lock = self._holder(name)
        if lock is not None and lock in self.converting:
            self.converting.remove(lock)  # S22
            lock.want = ""
            return "ended", self._grant_pass()
        return ("busy" if lock else "not_held"), []  # S23

    def convert(self, name: str, want: str, queue: bool = True) -> tuple[str, list[str]]:
        lock = self._holder(name)
        if lock is None:
            return "not_held", []
        if lock in self.converting:
            return "busy", []  # S14
        others = [other for other in self.held if other is not lock]
        if is_way_down(lock.mode, want) or all(compatible(other.mode, want) for other in others):  # S8, S9
            lock.mode = want
            self.held.remove(lock)
            self.held.append(lock)
            return "granted", self._grant_pass()
        if not queue:
            return "busy", []  # S13
        if any(not compatible(lock.mode, ahead.want) for ahead in self.converting):
            return "would_deadlock", []  # S17, S18
        lock.want = want
        self.converting.append(lock)  # S10
        return "converting", []

    def _holder(self, name: str) -> Lock | None:
        return next((lock for lock in self.held if lock.name == name), None)

    def _fits(self, new: Lock) -> bool:
        enough = sum(lock.units for lock in self.held) + new.units <= self.limit
        return enough and all(compatible(lock.mode, new.mode) for lock in self.held)

    def _grant_pass(self) -> list[str]:
        granted: list[str] = []
        while self.converting:  # S11
            first = self.converting[0]
            if not all(compatible(lock.mode, first.want) for lock in self.held if lock is not first):
                return granted
            self.converting.pop(0)
            first.mode, first.want = first.want, ""
            self.held.remove(first)
            self.held.append(first)
            granted.append(first.name)
        while self.waiting and self._fits(self.waiting[0]):  # S3
            lock = self.waiting.pop(0)
            self.held.append(lock)
            granted.append(lock.name)
        return granted


@dataclass
class Wish:
    """What somebody asks for in one go: a lock on each of these keys."""

    name: str
    locks: dict[str, Lock]


@dataclass
class NaiveKeys:
    """Several keys, where one may ask for some of them at once; nobody converts. All who wait stand in one list."""

    limit: int = 10**9
    held: list[Wish] = field(default_factory=list)
    waiting: list[Wish] = field(default_factory=list)

    def ask(self, name: str, wants: dict[str, str], queue: bool = True) -> tuple[str, set[str]]:
        wish = Wish(name, {key: Lock(name, want) for key, want in wants.items()})
        if self._may_have(wish, self.waiting):
            self.held.append(wish)
            return "granted", set()
        if not queue:
            return "busy", set()
        self.waiting.append(wish)
        return "queued", set()

    def give_back(self, name: str, key: str) -> set[str]:
        """Give back one of the locks that somebody holds."""
        wish = next(wish for wish in self.held if wish.name == name)
        del wish.locks[key]
        if not wish.locks:
            self.held.remove(wish)
        return self._grant_pass()

    def withdraw(self, name: str) -> set[str]:
        self.waiting = [wish for wish in self.waiting if wish.name != name]
        return self._grant_pass()

    def holders(self, key: str) -> list[Lock]:
        return [wish.locks[key] for wish in self.held if key in wish.locks]

    def queue(self, key: str) -> list[str]:
        return [wish.name for wish in self.waiting if key in wish.locks]

    def _may_have(self, wish: Wish, before: list[Wish]) -> bool:
        """Say whether all of it is free, and nobody who came before waits for any of it."""
        for key, lock in wish.locks.items():
            if any(key in other.locks for other in before):
                return False
            held = self.holders(key)
            if len(held) >= self.limit or not all(compatible(other.mode, lock.mode) for other in held):
                return False
        return True

    def _grant_pass(self) -> set[str]:
        granted: set[str] = set()
        at = 0
        while at < len(self.waiting):
            if self._may_have(self.waiting[at], self.waiting[:at]):
                granted.add(self.waiting[at].name)
                self.held.append(self.waiting.pop(at))
                at = 0
            else:
                at += 1
        return granted
