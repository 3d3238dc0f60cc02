"""The callers: programs that lock, wait, renew, give up, lie and vanish, each with manners of its own.

A caller knows only what it has read. What the answers should have been is no concern of it.
"""

import random
from collections import deque

from sim.network import Link
from sim.plan import SECOND, Plan

# How often a caller that holds nothing does what, by its manners; who holds something mostly gives it back.
MANNERS = (
    {"acquire": 80, "release": 10, "renew": 3, "enqueue": 0, "wait": 1, "ping": 1, "stats": 1},
    {"acquire": 5, "release": 10, "renew": 5, "enqueue": 50, "wait": 50, "ping": 1, "stats": 1},
    {"acquire": 30, "release": 15, "renew": 10, "enqueue": 15, "wait": 15, "ping": 3, "stats": 5},
    {"acquire": 20, "release": 30, "renew": 30, "enqueue": 5, "wait": 10, "ping": 10, "stats": 10},
)
WITH_TOKEN = {"release": 70, "renew": 10}
RENEWALS_OF_KEEPERS = 300  # some hold on for long

MALFORMED = (
    b"\n\n\n",
    b"L\njob-0\n1\n",
    b"l \njob-0\n1\n",
    b"l\n\n1\n",
    b"l\njob 0\n1\n",
    b"l\njob-0\n-1\n",
    b"l\njob-0\n\n",
    b"l\njob-0\n1 0\n",
    b"l\njob-0\n1 2 3\n",
    b"l\njob-0\n9223372037\n",
    b"l\njob-0\n1_0\n",
    b"l\njob-0\n99999999999999999999\n",
    b"sl\npool\n1\n",
    b"sl\npool\n1 0\n",
    b"se\npool\n\n",
    b"e\njob-0\n1 2\n",
    b"w\njob-0\n1 2\n",
    b"w\njob-0\n\n",
    b"r\njob-0\n\n",
    b"r\njob-0\n   \n",
    b"n\njob-0\n\n",
    b"n\njob-0\nnobody 1 2\n",
    b"auth\n_\nopen sesame\n",
    b"signal\njob-0\nx\n",
)
OVERSIZE = (
    b"l" * 300 + b"\njob-0\n1\n",
    b"l\n" + b"k" * 257 + b"\n1\n",
    b"l\n" + b"k" * 256 + b"\r\n1\n",
    b"l\njob-0\n" + b"1" * 400 + b"\n",
)


class Caller:
    """One program, with one connection at a time."""

    def __init__(self, plan: Plan, dice: random.Random, gossip: list[tuple[bytes, bytes, bytes]]) -> None:
        self.link: Link | None = None
        self.deaf_until = 0
        self._plan = plan
        self._dice = dice
        self._gossip = gossip  # tokens that other callers have seen
        self._open: deque[tuple[str, bytes, bytes]] = deque()
        self._got = b""
        self._tokens: list[tuple[bytes, bytes, bytes]] = []
        self._spent: list[tuple[bytes, bytes, bytes]] = []
        manners = dict(dice.choice(MANNERS))
        self._verbs, self._weights = list(manners), list(manners.values())
        holding = manners | WITH_TOKEN
        if dice.random() < 0.2:
            holding["renew"] = RENEWALS_OF_KEEPERS
        self._weights_holding = [holding[verb] for verb in self._verbs]
        self._line_end = b"\r\n" if dice.random() < 0.1 else b"\n"

    @property
    def waits(self) -> bool:
        return bool(self._open)

    def meet(self, link: Link) -> None:
        """Start anew on a new connection; tokens may outlive the old one."""
        self.link = link
        self.deaf_until = 0
        self._open.clear()
        self._got = b""
        if self._plan.rules.auth_token is not None:
            token = self._plan.rules.auth_token if self._dice.random() < 0.9 else b"guess"
            self._send("auth", b"", b"", b"auth\n_\n%b\n" % token)

    # --- asking ---

    def ask(self) -> None:
        """Send one request."""
        dice = self._dice
        if dice.random() < self._plan.mistakes:
            self._blunder()
            return
        weights = self._weights_holding if self._tokens else self._weights
        verb = dice.choices(self._verbs, weights)[0]
        if verb in ("release", "renew"):
            self._use_token(verb)
        elif verb in ("ping", "stats"):
            self._send(verb, b"", b"", verb.encode() + b"\n_\n_\n")
        else:
            self._approach(verb)

    def _approach(self, verb: str) -> None:
        dice, plan = self._dice, self._plan
        place = dice.randrange(len(plan.locks) + len(plan.semaphores))
        lease = b"" if dice.random() < 0.1 else b"%d" % dice.choice(plan.leases_s)
        patience = b"%d" % dice.choice(plan.patiences_s)
        space, limit = b"", b""
        if place < len(plan.locks):
            key = plan.locks[place]
        else:
            key, usual = plan.semaphores[place - len(plan.locks)]
            space, limit = b"s", b"%d" % (usual if dice.random() < 0.95 else usual + 1)
        if verb == "acquire":
            self._send_frame(verb, space, b"l", key, patience, limit, lease)
        elif verb == "enqueue":
            self._send_frame(verb, space, b"e", key, limit, lease)
        else:
            self._send_frame(verb, space, b"w", key, patience)

    def _use_token(self, verb: str) -> None:
        dice = self._dice
        pool = self._tokens
        strange = dice.random()
        if strange < self._plan.secondhand / 2 and self._spent:
            pool = self._spent
        elif strange < self._plan.secondhand and self._gossip:
            pool = self._gossip
        elif strange > 1 - self._plan.mistakes:
            pool = [(b"", self._plan.locks[0], b"%032x" % dice.getrandbits(128))]
        if not pool:
            self._approach("acquire")
            return
        entry = dice.choice(pool)
        space, key, token = entry
        if verb == "release":
            self._spend(entry)
            self._send_frame(verb, space, b"r", key, token)
        else:
            lease = b"" if dice.random() < 0.3 else b"%d" % dice.choice(self._plan.leases_s)
            self._send_frame(verb, space, b"n", key, token, lease)

    def _spend(self, entry: tuple[bytes, bytes, bytes]) -> None:
        if entry in self._tokens:
            self._tokens.remove(entry)
            self._spent.append(entry)

    def _blunder(self) -> None:
        if self._dice.random() < 0.2:
            self._send("oversize", b"", b"", self._dice.choice(OVERSIZE))
        else:
            self._send("malformed", b"", b"", self._dice.choice(MALFORMED))

    def _send_frame(self, verb: str, space: bytes, command: bytes, key: bytes, *words: bytes) -> None:
        end = self._line_end
        arg = b" ".join(word for word in words if word)
        self._send(verb, space, key, b"%b%b%b%b%b%b%b" % (space, command, end, key, end, arg, end))

    def _send(self, verb: str, space: bytes, key: bytes, frame: bytes) -> None:
        assert self.link is not None
        self._open.append((verb, space, key))
        self.link.on_way += frame

    # --- listening ---

    def may_listen(self, now: int) -> bool:
        link = self.link
        return link is not None and link.has_mail and self.deaf_until <= now

    def listen(self) -> None:
        """Read what has come, and learn from it."""
        assert self.link is not None
        self.link.room = None
        *lines, self._got = (self._got + self.link.take()).split(b"\n")
        for line in lines:
            verb, space, key = self._open.popleft() if self._open else ("", b"", b"")
            words = line.split(b" ")
            if verb in ("acquire", "enqueue", "wait") and len(words) == 3:
                self._tokens.append((space, key, words[1]))
                self._gossip.append(self._tokens[-1])
            elif verb == "renew" and words[0] != b"ok" and self._tokens:
                self._spend(self._tokens[0])

    # --- leaving ---

    def leave(self) -> None:
        """Stop sending, or vanish; either way nothing more will be asked on this connection."""
        link = self.link
        assert link is not None
        if self._dice.random() < 0.5:
            link.end_on_way = True
        else:
            link.reset()
        self.forget()

    def forget(self) -> None:
        """The connection is gone, or will be."""
        self.link = None
        if len(self._gossip) > 50:
            del self._gossip[:25]

    def fall_deaf(self, now: int) -> None:
        """Read nothing for a while, with little room for what comes meanwhile."""
        assert self.link is not None
        self.link.room = self._dice.choice((0, 10, 100))
        self.deaf_until = now + self._dice.choice((1, 3, 10, 1000)) * SECOND
