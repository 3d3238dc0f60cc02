"""Who asked what and what came back: the events of a history, joined into requests with their replies.

The n-th reply on a connection belongs to its n-th request; that is the whole protocol. No judgement lives here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sim.checkers.asks import Ask, read
from sim.history import Connected, Event, Handed, History, Rules, Started, Taken, Wrote

GRANT = re.compile(rb"(ok|acquired) ([0-9a-f]{32}) ([0-9]+)")


@dataclass(slots=True)
class Finding:
    """Something that must not have happened."""

    checker: str
    step: int
    text: str

    def __str__(self) -> str:
        return f"{self.checker}: step {self.step}: {self.text}"


@dataclass(slots=True)
class Request:
    """One request, from the moment the server took it up."""

    run: int
    peer: int
    place: int  # among all events
    step: int
    at: int
    ask: Ask
    reply: bytes | None = None
    reply_place: int = 0
    reply_step: int = 0
    reply_at: int = 0
    token: bytes = b""  # of the grant, if the reply is one
    granted_lease_ns: int = 0
    handed: bool = False  # to a store of transactions
    failed: bool = False  # with the transaction that it was part of
    told_at: int = 0  # when its reply was written, which may be later than when it was decided
    connections: int | None = None  # how many there were then

    @property
    def fence(self) -> int:
        return int(self.token[:16], 16)

    def __str__(self) -> str:
        return f"peer {self.peer}'s {self.ask.verb} of {self.ask.key} in step {self.step}"


@dataclass(slots=True)
class Talk:
    """All that was said on one connection."""

    run: int
    peer: int
    rules: Rules
    greeted: bool  # the server answers the token of the connection before it takes up any request
    requests: list[Request] = field(default_factory=list)
    replied: int = 0
    greeting: bytes | None = None
    surplus: list[tuple[int, bytes]] = field(default_factory=list)  # replies that no request was left for


class Talks:
    """A history, read once for all checkers."""

    def __init__(self, history: History) -> None:
        self.events = history.events
        self.raw = self  # what was seen, where this is a straightened view of it
        self.by_peer: dict[int, Talk] = {}
        self.requests: list[Request] = []
        self.taken: dict[int, Request] = {}  # by the place of the event
        self.answered: dict[int, list[Request]] = {}  # by the place of the event
        self._rules = Rules()
        self._run = 0
        for place, event in enumerate(self.events):
            self._join(place, event)

    def _join(self, place: int, event: Event) -> None:
        match event:
            case Taken():
                self._take(place, event)
            case Wrote():
                self._answer(place, event)
            case Handed(what="request"):
                self.by_peer[event.peer].requests[-1].handed = True
            case Connected():
                greeted = self._rules.auth_token is None
                self.by_peer[event.peer] = Talk(self._run, event.peer, self._rules, greeted)
            case Started():
                self._rules = event.rules
                self._run += 1

    def _take(self, place: int, event: Taken) -> None:
        talk = self.by_peer[event.peer]
        ask = read(event.command, event.key, event.arg, talk.rules.lease_default_ns)
        request = Request(talk.run, talk.peer, place, event.step, event.at, ask)
        talk.requests.append(request)
        self.requests.append(request)
        self.taken[place] = request

    def _answer(self, place: int, event: Wrote) -> None:
        talk = self.by_peer[event.peer]
        answered = self.answered[place] = []
        for line in event.data.split(b"\n")[:-1]:
            if not talk.greeted:
                talk.greeted = True
                talk.greeting = line
            elif talk.replied == len(talk.requests):
                talk.surplus.append((place, line))
            else:
                request = talk.requests[talk.replied]
                talk.replied += 1
                answered.append(request)
                _fill(request, place, event, line)

    def grants(self) -> Iterator[Request]:
        """Give all requests that were answered with a grant."""
        return (request for request in self.requests if request.token)


def _fill(request: Request, place: int, event: Wrote, line: bytes) -> None:
    request.reply = line
    request.reply_place = place
    request.reply_step = event.step
    request.reply_at = event.at
    found = GRANT.fullmatch(line)
    if found:
        request.token = found[2]
        request.granted_lease_ns = int(found[3]) * 1_000_000_000
