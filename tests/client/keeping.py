"""What tests of the keeper share: a clock in the hand, a steward whose server is the test, connections of paper.

No network and no expectation lives here.
"""

import json
from typing import Any

from holdfast.client.asks import Answer, Ask, Proof, Refusal, Renewed, Want
from holdfast.client.keeper import Keeper
from holdfast.client.lease import Lease, Notice
from holdfast.client.link import FOREVER, Call
from holdfast.client.ports import Address, Receiver
from holdfast.client.steward import Kept, Steward
from holdfast.errors import HoldfastError

SECOND = 1_000_000_000
START = 1_000 * SECOND  # an instant of 0 is for what has never happened
ADDRESS = Address("server", 6388)
TOKEN = "0123456789abcdef" * 2


class PaperPipe:
    """A connection of paper: what was written is in `sent`, and the test says what happens at the other end."""

    def __init__(self, hands: "Hands", receiver: Receiver) -> None:
        self._hands = hands
        self._receiver = receiver
        self.sent = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.sent += data

    def close(self) -> None:
        self.closed = True

    # --- the other end ---

    def take(self) -> bytes:
        """Read what was sent since the last time."""
        sent, self.sent = self.sent, b""
        return sent

    def opens(self) -> None:
        self._receiver.connected(self._hands.now)

    def says(self, data: bytes) -> None:
        self._receiver.received(data, self._hands.now)

    def breaks(self, why: str = "reset") -> None:
        self._receiver.broken(why, self._hands.now)


class NativePeer:
    """The far end of a connection of paper as a native server: it greets, and answers what it is told to."""

    def __init__(self, pipe: PaperPipe) -> None:
        self.pipe = pipe

    def greet(self, session: str = "s" * 32, *, resumed: bool = False, line_bytes_max: int = 65_536) -> dict[str, Any]:
        """Open the connection, take the hello, and answer it."""
        self.pipe.opens()
        head, text = self.pipe.take().split(b"\n_\n")
        assert head == b"hello"
        greeting = {
            "session": session,
            "resumed": resumed,
            "grace_ms": 30_000,
            "line_bytes_max": line_bytes_max,
            "in_flight_max": 1000,
        }
        self.pipe.says(b"ok " + json.dumps(greeting).encode() + b"\n")
        hello: dict[str, Any] = json.loads(text.splitlines()[0])
        return hello

    def asked(self) -> list[dict[str, Any]]:
        """Read the requests that have come since the last time."""
        return [json.loads(line) for line in self.pipe.take().splitlines()]

    def say(self, **fields: Any) -> None:
        self.pipe.says(json.dumps(fields).encode() + b"\n")


class Hands:
    """A keeper and its clock, which the test turns. `at` and all that it answers are seconds from the start."""

    def __init__(self) -> None:
        self.now = START
        self.pipes: list[PaperPipe] = []
        self.keeper = Keeper(lambda: self.now, lambda: 0.5, self._open)
        self.heard: list[Notice] = []

    def _open(self, _address: Address, receiver: Receiver) -> PaperPipe:
        self.pipes.append(PaperPipe(self, receiver))
        return self.pipes[-1]

    @property
    def at(self) -> float:
        return (self.now - START) / SECOND

    def to(self, seconds: float) -> float | None:
        """Let time pass, and everything happen at its instant; say when the keeper wants to come next."""
        end = START + int(seconds * SECOND)
        self._turn_until(end)
        self.now = end
        self._tick()
        self._turn_until(end)
        return None if self.keeper.due == FOREVER else (self.keeper.due - START) / SECOND

    def _turn_until(self, end: int) -> None:
        turns = 0
        while self.keeper.due <= end:
            self.now = max(self.now, self.keeper.due)
            self._tick()
            turns += 1
            assert turns < 10_000, "the keeper goes round in circles"

    def sleep(self, seconds: float) -> None:
        """Let time pass in which this process does nothing."""
        self.now += int(seconds * SECOND)

    def _tick(self) -> None:
        self.keeper.tick(self.now)
        for notice in self.keeper.take_notices():
            notice()

    # --- leases ---

    def kept(self, key: str = "job", *, lease: float = 30, ticket: str = "", **options: Any) -> Kept:
        """Make a claim that was granted just now."""
        want = Want(key=key, ticket=ticket or f"ticket-of-{key}", lease_ns=int(lease * SECOND))
        beat_ns = options.pop("beat_ns", None)
        of_lease = Lease(lambda: self.now, sent_at=self.now, lease_ns=want.lease_ns, margin_ns=SECOND, beat_ns=beat_ns)
        return Kept(of_lease, Proof(want, TOKEN, 7), self.heard.append, **options)


class PaperSteward(Steward):
    """A steward whose requests the test answers."""

    def __init__(self, hands: Hands) -> None:
        super().__init__(hands.keeper, ADDRESS)
        self.hands = hands
        self.calls: list[Call] = []
        self.unreachable: HoldfastError | None = None
        self.hung_up = False
        hands.keeper.add(self)

    def deliver(self, call: Call, now: int) -> None:
        if self.unreachable is not None:
            call.failed(str(self.unreachable))
            return
        call.sent_at = now
        self.calls.append(call)

    def cancel(self, call: Call) -> None:
        call.over = True

    def tend(self, now: int) -> int:
        """What is overdue ends as it would with its connection."""
        for call in list(self.calls):
            if call.until <= now:
                self.calls.remove(call)
                call.failed("the server did not answer in time")
        return min((call.until for call in self.calls), default=FOREVER)

    def hang_up(self) -> None:
        self.hung_up = True

    # --- the server ---

    def asked(self) -> Ask:
        """Look at the only request that is on its way."""
        (call,) = self.calls
        return call.ask

    def answer(self, answer: Answer | HoldfastError) -> None:
        """Answer the oldest request."""
        self.calls.pop(0).answered(Refusal(answer) if isinstance(answer, HoldfastError) else answer)

    def renew(self, *renewed: bool | None) -> None:
        """Answer a renewal."""
        self.answer(Renewed(list(renewed or (True,))))

    def lose(self, why: str = "the connection broke") -> None:
        """Lose the answer to the oldest request."""
        self.calls.pop(0).failed(why)
