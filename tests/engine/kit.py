"""Short ways to say what tests of the engine say often: a scene with named claims, on a table without a store.

No expectation lives here, except that the invariants hold after everything that happens.
"""

from collections.abc import Mapping

from holdfast.engine import group as groups
from holdfast.engine.invariants import check_table
from holdfast.engine.resource import Resource, holders
from holdfast.engine.table import Table
from holdfast.testing.mint import CountingMint
from holdfast.words import (
    EX,
    FOREVER,
    NL,
    SECOND,
    UNLIMITED,
    Answer,
    Cancel,
    Claim,
    Convert,
    Effect,
    End,
    Ended,
    Granted,
    Group,
    Hangup,
    Nudged,
    Reason,
    Renew,
    Stayed,
    Wait,
)

KEY = b"orders/17"

# The session of those who are only there to make a crowd.
BYSTANDERS = 10**6

# One piece of news, as tests write it down.
News = tuple[str, str] | tuple[str, str, Reason] | tuple[str, str, int]


def span(seconds: float | None) -> int:
    """Turn seconds into what the engine counts in; None is for ever."""
    return FOREVER if seconds is None else round(seconds * SECOND)


def bystander(key: bytes, limit: int, number: int) -> Claim:
    """Make a claim that is in nobody's way and never ends."""
    c = Claim(key, NL, 0, limit, FOREVER, FOREVER)
    c.session, c.ticket = BYSTANDERS, number
    return c


class Scene:
    """A table, and claims that are known by the names of who asked for them: `scene["a"]`.

    Every name is a session of its own, with one ticket, unless `ask` is told otherwise.
    """

    def __init__(self, *, keys_max: int = 1000, waiters_max: int = 0, idle_max: float = 60) -> None:
        self.mint = CountingMint()
        self.table = Table(self.mint, keys_max, waiters_max, span(idle_max))
        self.now = 1000 * SECOND
        self.claims: dict[str, Claim] = {}
        self.sessions: dict[str, int] = {}
        self.news: list[News] = []  # of the last thing that happened

    def __getitem__(self, name: str) -> Claim:
        return self.claims[name]

    @property
    def key(self) -> Resource:
        return self.table.resources[KEY]

    @property
    def holders(self) -> list[str]:
        return [self.name_of(c) for c in holders(self.key) if c.session != BYSTANDERS]

    @property
    def waiters(self) -> list[str]:
        return [self.name_of(c) for c in (self.key.waiting or {}).values()]

    @property
    def converters(self) -> list[str]:
        return [self.name_of(c) for c in (self.key.converting or {}).values()]

    def name_of(self, c: Claim) -> str:
        names = [name for name, claim in self.claims.items() if claim is c]
        if names:
            return names[0]
        assert isinstance(c.ticket, bytes)
        return c.ticket.decode()  # another one has its name by now

    def session(self, name: str) -> int:
        return self.sessions.setdefault(name, len(self.sessions) + 1)

    def ask(
        self,
        name: str,
        want: int = EX,
        *,
        units: int = 1,
        limit: int = UNLIMITED,
        lease: float | None = None,
        patience: float | None = None,
        queue: bool = True,
        tracked: bool = False,
        listens: bool = False,
        key: bytes = KEY,
        by: str | None = None,
    ) -> Answer:
        c = Claim(key, want, units, limit, span(lease), span(patience), queue, tracked, listens)
        c.session = self.session(by or name)
        c.ticket = name.encode()
        out: list[Effect] = []
        answer = self.table.enqueue(c, self.now, out)
        self.claims[name] = c
        return self._seen(answer, out)

    def crowd(self, count: int) -> None:
        """Let so many bystanders hold the key: they are in nobody's way, never end, and are not told of."""
        for number in range(count):
            c = bystander(KEY, UNLIMITED, number)
            assert self.table.enqueue(c, self.now, []) is Answer.GRANTED

    def ask_all(
        self,
        name: str,
        *keys: bytes,
        want: int = EX,
        wants: Mapping[bytes, int] | None = None,
        units: int = 1,
        limits: Mapping[bytes, int] | None = None,
        lease: float | None = None,
        patience: float | None = None,
        queue: bool = True,
        tracked: bool = False,
        refuses: bool = False,
        by: str | None = None,
    ) -> Answer:
        """Ask for several keys at once. The members of group `g` are called `g#0`, `g#1` and so on."""
        wants, limits = wants or {}, limits or {}
        claims = [
            Claim(key, wants.get(key, want), units, limits.get(key, UNLIMITED), span(lease), span(patience))
            for key in keys
        ]
        group = Group(name.encode(), claims, span(patience), queue, tracked, refuses)
        group.session = self.session(by or name)
        out: list[Effect] = []
        known = groups.again(self.table, group, self.now, out)
        if known is None:
            known, self.hindered = groups.enqueue(self.table, group, self.now, out)
        for index, c in enumerate(group.claims):
            if c.book is not None:
                self.claims[f"{name}#{index}"] = c
        self.group = group
        return self._seen(known, out)

    def wait_all(self, name: str, patience: float | None = None, *, by: str | None = None) -> Answer:
        """Wait for a group by its own ticket."""
        out: list[Effect] = []
        self.waited = Wait(self.session(by or name), name.encode(), span(patience))
        return self._seen(self.table.wait(self.waited, self.now, out)[0], out)

    def cancel_all(self, name: str, *, held: bool = False, by: str | None = None) -> Answer:
        """End what is left of a group by its own ticket."""
        out: list[Effect] = []
        how = Cancel(self.session(by or name), name.encode(), held=held)
        return self._seen(self.table.cancel(how, self.now, out)[0], out)

    def wait(self, name: str, patience: float | None = None) -> Answer:
        out: list[Effect] = []
        c = self[name]
        answer, _ = self.table.wait(Wait(c.session, c.ticket, span(patience)), self.now, out)
        return self._seen(answer, out)

    def renew(self, name: str, lease: float | None) -> Answer:
        out: list[Effect] = []
        c = self[name]
        return self._seen(self.table.renew(Renew(c.key, c.token, span(lease)), self.now, out), out)

    def end(
        self, name: str, reason: Reason = Reason.RELEASED, value: bytes | None = None, *, by: str | None = None
    ) -> Answer:
        out: list[Effect] = []
        c = self[name]
        how = End(c.key, c.token, reason, value)
        how.session = self.session(by) if by else c.session
        return self._seen(self.table.end(how, self.now, out), out)

    def convert(
        self,
        name: str,
        want: int,
        *,
        patience: float | None = None,
        queue: bool = True,
        value: bytes | None = None,
    ) -> Answer:
        out: list[Effect] = []
        c = self[name]
        how = Convert(c.session, c.ticket, want, span(patience), queue, value)
        answer, _ = self.table.convert(how, self.now, out)
        return self._seen(answer, out)

    def cancel(self, name: str) -> Answer:
        out: list[Effect] = []
        c = self[name]
        answer, _ = self.table.cancel(Cancel(c.session, c.ticket), self.now, out)
        return self._seen(answer, out)

    def hangup(self, name: str, *, keep_held: bool = False) -> None:
        out: list[Effect] = []
        self.table.hangup(Hangup(self.session(name), keep_held), self.now, out)
        self._note(out)

    def after(self, seconds: float, *, late: bool = False) -> list[News]:
        """Let time pass, with a tick at every deadline or, if late, with one at the end."""
        until = self.now + span(seconds)
        out: list[Effect] = []
        while not late and self.table.next_deadline() <= until:
            self.now = max(self.now, self.table.next_deadline())
            self.table.tick(self.now, out)
        self.now = until
        self.table.tick(self.now, out)
        self._note(out)
        return self.news

    def sleep(self, seconds: float) -> None:
        """Let time pass unseen: no tick."""
        self.now += span(seconds)

    def _seen(self, answer: Answer, out: list[Effect]) -> Answer:
        self._note(out)
        return answer

    def _note(self, out: list[Effect]) -> None:
        self.news = [self._told(effect) for effect in out]
        check_table(self.table, self.now)

    def _told(self, effect: Effect) -> News:
        name = self.name_of(effect.claim)
        if isinstance(effect, Granted):
            return "granted", name
        if isinstance(effect, Ended):
            return "ended", name, effect.reason
        if isinstance(effect, Stayed):
            return "stayed", name, effect.reason
        assert isinstance(effect, Nudged)
        return "nudged", name, effect.want
