"""What callers were told of their keys by a server that dies again and again, and which answers may follow from that.

Only what was acknowledged counts; of what was under way when the server died, both ways are right. No I/O lives here.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

# How far the clocks of callers and server may be apart: both read the same one, but not in the same instant.
SLACK_S = 0.05


@dataclass(slots=True)
class Entry:
    """One key."""

    holder: str | None = None
    token: str = ""  # of the holder, or of the last one
    until_s: float = 0.0  # the holder may believe in it until then
    leaving: bool = False  # a release is under way, and may have happened
    fence: int = 0  # the highest that anybody was told of
    asking: int = 0  # how many are asking for it right now
    ghost_until_s: float = 0.0  # somebody may hold it who was never told, until then


@dataclass(slots=True)
class Diary:
    """All keys, and everything that should not have been."""

    violations: list[str] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    entries: dict[str, Entry] = field(default_factory=dict)

    def entry(self, key: str) -> Entry:
        return self.entries.setdefault(key, Entry())

    def object(self, what: str) -> None:
        """Note that a rule was broken."""
        self.violations.append(what)

    # --- what callers ask, and what they are told ---

    def asks(self, key: str) -> None:
        self.entry(key).asking += 1

    def is_refused(self, key: str) -> None:
        self.entry(key).asking -= 1
        self.tally["refused"] += 1

    def is_granted(self, key: str, holder: str, token: str, *, now_s: float, until_s: float) -> None:
        """Somebody is told of a grant; `until_s` counts from before the request was sent."""
        entry = self.entry(key)
        entry.asking -= 1
        self.tally["grants"] += 1
        fence = fence_of(token)
        if fence <= entry.fence:
            self.object(f"{key}: {holder} got fence {fence} after fence {entry.fence}")
        if entry.holder is not None and not entry.leaving and now_s < entry.until_s - SLACK_S:
            self.object(f"{key}: {holder} got {token} while {entry.holder} holds {entry.token}")
        entry.holder, entry.token, entry.fence = holder, token, max(fence, entry.fence)
        entry.until_s, entry.leaving = until_s, False

    def renews(self, key: str, *, until_s: float) -> None:
        """A renewal is on its way: from now on the lease is sure for as long as both of them."""
        entry = self.entry(key)
        entry.until_s = min(entry.until_s, until_s)

    def is_renewed(self, key: str, token: str, *, accepted: bool, now_s: float, until_s: float) -> None:
        entry = self.entry(key)
        self.tally["renewals" if accepted else "renewals refused"] += 1
        if not self._is_mine(entry, token):
            return
        if accepted:
            entry.until_s = until_s
        else:
            self._is_lost(key, entry, "a renewal", now_s)

    def releases(self, key: str) -> None:
        self.entry(key).leaving = True

    def is_released(self, key: str, token: str, *, accepted: bool, now_s: float) -> None:
        entry = self.entry(key)
        self.tally["releases" if accepted else "releases refused"] += 1
        if self._is_mine(entry, token):
            if not accepted:
                self._is_lost(key, entry, "a release", now_s)
            entry.holder = None
            entry.leaving = False

    def _is_mine(self, entry: Entry, token: str) -> bool:
        """Say whether nobody else was granted the key in the meantime."""
        return entry.holder is not None and entry.token == token

    def _is_lost(self, key: str, entry: Entry, what: str, now_s: float) -> None:
        if now_s < entry.until_s - SLACK_S:
            left_s = entry.until_s - now_s
            self.object(f"{key}: {what} of {entry.token} was refused, {left_s:.3f} s before the end of its lease")
        entry.holder = None

    # --- the death of a server, and what may be left ---

    def server_dies(self, *, ghosts_until_s: float) -> None:
        """Who was asking may have been granted the key and will never know."""
        for entry in self.entries.values():
            if entry.asking:
                entry.ghost_until_s = ghosts_until_s
            entry.asking = 0

    def believed(self, now_s: float) -> list[tuple[str, str]]:
        """List the keys, with their tokens, that somebody surely holds."""
        return [
            (key, entry.token)
            for key, entry in self.entries.items()
            if entry.holder is not None and not entry.leaving and now_s < entry.until_s - SLACK_S
        ]

    def doubtful(self) -> list[tuple[str, str]]:
        """List the keys, with their tokens, whose release was under way."""
        return [(key, entry.token) for key, entry in self.entries.items() if entry.leaving]

    def left(self, now_s: float) -> list[tuple[str, str]]:
        """List the keys that nobody can hold, with the last token that was given back."""
        return [
            (key, entry.token)
            for key, entry in self.entries.items()
            if entry.holder is None and entry.token and entry.ghost_until_s < now_s - SLACK_S
        ]

    def settle(self, key: str) -> None:
        """A release that was under way has now been answered, one way or the other."""
        entry = self.entry(key)
        entry.holder, entry.leaving = None, False
        self.tally["releases in doubt"] += 1

    def compare(self, tokens: Mapping[str, int], held: Mapping[str, int], now_s: float) -> None:
        """Hold the tables against what was told: the last token of each key, and the token of whoever holds it."""
        for key, entry in self.entries.items():
            if tokens.get(key, 0) < entry.fence:
                self.object(f"{key}: the last token in the file is {tokens.get(key)}, and {entry.fence} was given")
        for key, token in self.believed(now_s):
            if held.get(key) != fence_of(token):
                self.object(f"{key}: the file says that {held.get(key)} holds it, and not {token}")


def fence_of(token: str) -> int:
    """Read the fence, which is the first half of a token."""
    return int(token[:16], 16)
