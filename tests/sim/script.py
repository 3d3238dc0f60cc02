"""Histories by hand: a script of what happened, for checkers to judge.

It records what it is told and nothing follows from anything; that is what makes it useful for lies.
"""

from collections.abc import Callable, Iterator
from typing import Any

from sim.checkers.straight import straighten
from sim.checkers.talks import Finding, Talks
from sim.history import (
    Applied,
    Began,
    Came,
    CameEnd,
    Cleared,
    Committed,
    Connected,
    Cut,
    Drained,
    Failed,
    Flowed,
    Handed,
    History,
    HungUp,
    Inspected,
    Lost,
    Minted,
    Performing,
    Raised,
    Refused,
    Resurfaced,
    Rules,
    Slept,
    Stalled,
    Started,
    Stopped,
    Swept,
    Taken,
    Ticked,
    Told,
    Torn,
    Wrote,
)

SECOND = 1_000_000_000


def token(fence: int) -> str:
    """Spell a token with this fence."""
    return f"{fence:016x}{fence * 7:016x}"


class Script:
    """A history in the making. Each method but those that say `same step` begins a new one."""

    def __init__(self, peers: int = 3, **rules: Any) -> None:
        self.history = History(0)
        self.rules = Rules(**rules)
        self.start()
        for peer in range(1, peers + 1):
            self.connect(peer)

    def start(self) -> "Script":
        self.history.add(Started, self.rules, self.history.now)
        return self

    def stop(self, how: str = "killed") -> "Script":
        return self._add(Stopped, how)

    def connect(self, peer: int) -> "Script":
        return self._add(Connected, peer)

    def wait(self, seconds: float) -> "Script":
        self.history.now += round(seconds * SECOND)
        return self

    def tick(self) -> "Script":
        return self._add(Ticked)

    def sleep(self, seconds: float) -> "Script":
        until = self.history.now + round(seconds * SECOND)
        self.history.add(Slept, until)
        self.history.now = until
        return self

    # --- what a peer does ---

    def send(self, peer: int, data: str) -> "Script":
        return self._add(Came, peer, data.encode())

    def finish(self, peer: int) -> "Script":
        return self._add(CameEnd, peer)

    def ask(self, peer: int, command: str, key: str = "_", arg: str = "_") -> "Script":
        """Send a request, which is taken up at once."""
        return self.send(peer, f"{command}\n{key}\n{arg}\n").take(peer, command, key, arg)

    def leave(self, peer: int) -> "Script":
        self._add(Lost, peer)
        self.history.add(HungUp, peer)
        return self

    def tear(self, peer: int) -> "Script":
        return self._add(Torn, peer)

    # --- what the server does, in the same step ---

    def take(self, peer: int, command: str, key: str = "_", arg: str = "_") -> "Script":
        self.history.add(Taken, peer, command.encode(), key.encode(), arg.encode())
        return self

    def tell(self, peer: int, *lines: str) -> "Script":
        self.history.add(Wrote, peer, "".join(f"{line}\n" for line in lines).encode())
        return self

    def tell_raw(self, peer: int, data: str) -> "Script":
        self.history.add(Wrote, peer, data.encode())
        return self

    def mint(self, last: int, fence: int) -> "Script":
        self.history.add(Minted, last, fence)
        return self

    def refuse(self, last: int) -> "Script":
        self.history.add(Refused, last)
        return self

    def cut(self, peer: int, how: str = "close") -> "Script":
        self.history.add(Cut, peer, how)
        return self

    def give_up(self, peer: int) -> "Script":
        self.history.add(HungUp, peer)
        return self

    def stall(self, peer: int) -> "Script":
        self.history.add(Stalled, peer)
        return self

    # --- what a store of transactions does ---

    def hand(self, peer: int, what: str = "request") -> "Script":
        """In the same step, the desk hands something on."""
        self.history.add(Handed, peer, what)
        return self

    def perform(self, *works: tuple[int, str]) -> "Script":
        """Begin a transaction; what it does follows in the same step."""
        self._add(Performing, works)
        self.history.add(Began)
        return self

    def apply(self, peer: int, what: str = "request") -> "Script":
        self.history.add(Applied, peer, what)
        return self

    def commit(self) -> "Script":
        self.history.add(Committed)
        return self

    def refuse_commit(self, *, written: bool = False) -> "Script":
        self.history.add(Failed, "EIO", written=written)
        return self

    def resurface(self) -> "Script":
        """What was written and failed is in the file; the server is gone in the same step."""
        self._add(Resurfaced)
        self.history.add(Stopped, "killed")
        return self

    def outcome(self) -> "Script":
        """What was performed is told; the answers follow in the same step."""
        return self._add(Told)

    # --- more steps of the server ---

    def flow(self, peer: int) -> "Script":
        return self._add(Flowed, peer)

    def drain(self) -> "Script":
        return self._add(Drained)

    def clear(self) -> "Script":
        return self._add(Cleared)

    def sweep(self, what: str) -> "Script":
        return self._add(Swept, what)

    def inspect(self, **left: int) -> "Script":
        return self._add(Inspected, left)

    def fail(self, what: str) -> "Script":
        return self._add(Raised, what)

    def grant(self, peer: int, key: str, arg: str, fence: int, last: int = 0) -> "Script":
        """Ask for a lock, and get it at once."""
        lease = arg.split()[1]
        return self.ask(peer, "l", key, arg).mint(last, fence).tell(peer, f"ok {token(fence)} {lease}")

    def _add(self, event: Callable[..., Any], *args: object) -> "Script":
        self.history.step += 1
        self.history.add(event, *args)
        return self

    # --- the verdict ---

    def judged_by(self, check: Callable[[Talks], Iterator[Finding]]) -> list[str]:
        """Let a checker look at all this; something more happens afterwards, so that no step is left open."""
        self.tick().sweep("phases")
        return [finding.text for finding in check(straighten(Talks(self.history)))]
