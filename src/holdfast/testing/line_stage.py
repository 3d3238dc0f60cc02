"""The line door on a stage: the real door, desk and memory store, under a clock in the hand and without a network.

Only the stage and its callers live here; what they should hear is for a test or a story to say.
"""

from collections.abc import Callable
from typing import Any

from holdfast.desk import Desk
from holdfast.doors.line import LineConnection, LineDoor, LineSettings
from holdfast.engine.invariants import check_table
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import HandClock
from holdfast.testing.late_store import LateStore
from holdfast.testing.mint import CountingMint, secret_of
from holdfast.testing.transport import PaperTransport
from holdfast.words import SECOND, TOKEN_BYTES

LINE_SETTINGS: dict[str, Any] = {
    "read_timeout_ns": 23 * SECOND,
    "idle_timeout": False,
    "write_timeout_ns": 5 * SECOND,
    "pending_bytes_max": 4096,
    "lease_default_ns": 33 * SECOND,
    "auth_token": None,
}


class CountingTransport(PaperTransport):
    """A paper transport that counts how often it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes += 1
        super().write(data)


class LineStage:
    """Everything between the bytes of the callers and the table of keys; `line` changes settings of the door."""

    def __init__(
        self,
        *,
        release_on_disconnect: bool = True,
        keys_max: int = 1024,
        waiters_max: int = 0,
        idle_max_ns: int = 60 * SECOND,
        late: bool = False,
        soon: Callable[[Callable[[], None]], object] | None = None,
        **line: Any,
    ) -> None:
        self.clock = HandClock()
        self.mint = CountingMint()
        self.alarms: list[int] = []
        self.memory = MemoryStore(
            self.mint, self.alarms.append, keys_max=keys_max, waiters_max=waiters_max, idle_max_ns=idle_max_ns
        )
        self.late = LateStore(self.memory) if late else None
        self.desk = Desk(self.late or self.memory, release_on_disconnect=release_on_disconnect)
        self.memory.sink = self.desk
        self.settings = LineSettings(**(LINE_SETTINGS | line))
        self.door = LineDoor(self.desk, self.clock, self.alarms.append, self.settings, soon=soon)
        self.callers: list[LineCaller] = []

    def caller(self, transport: CountingTransport | None = None) -> "LineCaller":
        """Let somebody connect."""
        caller = LineCaller(self, transport or CountingTransport())
        self.callers.append(caller)
        return caller

    def after(self, seconds: float) -> None:
        """Let time pass, and let everything happen at its instant."""
        until = self.clock.now + round(seconds * SECOND)
        while (due := self.next_deadline()) <= until:
            self.clock.advance_to(max(due, self.clock.now))
            self.tick()
        self.clock.advance_to(until)
        self.settle()

    def next_deadline(self) -> int:
        return min(self.memory.next_deadline(), self.door.next_deadline())

    def tick(self) -> None:
        """Do what the server's timer does."""
        self.memory.tick(self.clock.now)
        self.door.tick(self.clock.now)
        self.settle()

    def sweep(self) -> None:
        """Do what the server's chores do."""
        self.desk.sweep()
        self.memory.sweep(self.clock.now)

    def commit(self) -> None:
        """Let a late store do what it was asked for."""
        assert self.late is not None
        self.late.commit(self.clock.now)
        self.settle()

    def drain(self) -> None:
        self.desk.drain(self.clock.now)
        self.settle()

    def settle(self) -> None:
        """Let connections that are over say farewell, and see that the table is sound."""
        for caller in self.callers:
            caller.transport.farewell()
        check_table(self.memory.table, self.clock.now)


class LineCaller:
    """One client: what it says, and what it hears."""

    def __init__(self, stage: LineStage, transport: CountingTransport) -> None:
        self.stage = stage
        self.transport = transport
        self.lefts = 0  # how often the door said that this connection is over
        self.connection: LineConnection = stage.door.connect(self._leave)
        self.transport.connect(self.connection)

    def _leave(self) -> None:
        self.lefts += 1

    def send(self, data: bytes) -> None:
        """Say bytes, in one segment."""
        self.transport.arrive(data)
        self.stage.settle()

    def ask(self, command: str, key: str = "_", arg: str = "_") -> str:
        """Send one request; answer what was heard since the last time."""
        self.send(f"{command}\n{key}\n{arg}\n".encode())
        return self.heard()

    def heard(self) -> str:
        """Take what has arrived: whole lines, the last line feed left out."""
        text = self.transport.take().decode()
        assert text == "" or text.endswith("\n")
        self.stage.settle()
        return text.removesuffix("\n")

    def hang_up(self) -> None:
        """Stop talking and go away."""
        self.transport.arrive_end()
        self.stage.settle()

    def vanish(self) -> None:
        """Be gone without a word."""
        self.transport.reset()
        self.stage.settle()

    @property
    def closed(self) -> bool:
        """Whether the server has ended this connection, or is about to when its last bytes are out."""
        return self.transport.is_closing()


def token(number: int) -> str:
    """Spell the token of the grant with this number: on a stage, the first one is 1."""
    return secret_of(number)[:TOKEN_BYTES].decode()
