"""One server, from start to stop: the real door, desk, store and fences, wired as `holdfast.server` wires them.

No event loop and no clock: the world calls in here, and everything that happens is written into the history.
"""

import random
from collections.abc import Callable

from holdfast import system
from holdfast.desk import Desk, Session
from holdfast.doors.line import LineConnection, LineDoor, LineSettings
from holdfast.engine.invariants import check_table
from holdfast.errors import FenceUnavailable
from holdfast.ports import Clock, Face, Store
from holdfast.stores.fence import DenseMint, Fences, Mint
from holdfast.stores.journal import Journal
from holdfast.stores.memory import MemoryStore
from holdfast.testing.disk import PaperDisk
from holdfast.wire.line import Frame, LineCodec
from holdfast.words import FOREVER, RESIDENT
from holdfast.words import Mint as MintStamp
from sim.files import SickBackend
from sim.history import History, HungUp, Minted, Refused, Rules, Swept, Taken, Ticked
from sim.shelves import PaperRunner, WitnessShelf


class Dice:
    """Random bytes under the seed."""

    def __init__(self, source: random.Random) -> None:
        self.roll = source.randbytes


class Witness(LineCodec):
    """A codec that writes down whose request is taken up, and when."""

    def __init__(self, codec: LineCodec, history: History, peer: int) -> None:
        super().__init__(codec.lease_default_ns)
        self._codec = codec
        self._history = history
        self._peer = peer

    def decode(self, command: bytes, key: bytes, arg: bytes) -> Frame:
        self._history.add(Taken, self._peer, command, key, arg)
        return self._codec.decode(command, key, arg)


class Counter(Desk):
    """A desk that writes down whose session ends, and when."""

    def __init__(self, store: Store, history: History, *, release_on_disconnect: bool, tickets: int) -> None:
        super().__init__(store, release_on_disconnect=release_on_disconnect, tickets=tickets)
        self.peer = 0  # who is connecting
        self._history = history
        self._peers: dict[int, int] = {}

    def open(self, face: Face) -> Session:
        session = super().open(face)
        self._peers[session.id] = self.peer
        return session

    def peer_of(self, session: int) -> int:
        return self._peers[session]

    def close(self, session: Session, now: int) -> None:
        if session.id in self.sessions:
            self._history.add(HungUp, self._peers[session.id])
        super().close(session, now)


class Node:
    """A server that runs. Its clock is the world's time, `skew` apart, unless what it keeps is later."""

    def __init__(
        self,
        history: History,
        rules: Rules,
        *,
        skew: int,
        dice: random.Random,
        disk: PaperDisk | None,
        fence_range: int,
        backend: SickBackend | None = None,
    ) -> None:
        self.history = history
        self.rules = rules
        self.backend = backend
        self.clock: Clock = lambda: history.now + skew
        self._timer_at = FOREVER
        self._journal: Journal | None = None
        self._runner = PaperRunner(history)
        self.store: MemoryStore | WitnessShelf
        if backend is None:
            self.store = self._open_memory(disk, fence_range, dice)
        else:
            self.store = self._open_shelf(backend, dice)
        self._skew = self.clock() - history.now
        self.desk = Counter(
            self.store, history, release_on_disconnect=rules.release_on_disconnect, tickets=self.clock()
        )
        if isinstance(self.store, WitnessShelf):
            self.store.peer_of = self.desk.peer_of
        self.store.sink = self.desk
        self.door = LineDoor(self.desk, self.clock, self._alarm, line_settings(rules))
        self._codec = self.door.codec
        self._alarm(self.store.next_deadline())

    def _open_memory(self, disk: PaperDisk | None, fence_range: int, dice: random.Random) -> MemoryStore:
        self._mint: MintStamp
        if disk is None:
            self._mint = Mint(Fences(self.clock()), Dice(dice))
        else:
            self._journal = journal = Journal.open("fences", self.clock(), disk, fence_range)
            self._mint = Mint(Fences(journal.floor, journal.ceiling, journal.extend), Dice(dice))
        return MemoryStore(self._mint_and_tell, self._alarm, **self._limits())

    def _open_shelf(self, backend: SickBackend, dice: random.Random) -> WitnessShelf:
        self.clock = system.not_before(self.clock, backend.open())
        self._mint = DenseMint(Dice(dice))
        shelf = WitnessShelf(
            self.history,
            backend,
            self._runner,
            self.clock,
            self._mint_and_tell,
            self._alarm,
            **self._limits(),
            batch_max=self.rules.batch_max,
            resident=RESIDENT,
        )
        shelf.open()
        return shelf

    def _limits(self) -> dict[str, int]:
        rules = self.rules
        return {"keys_max": rules.keys_max, "waiters_max": rules.waiters_max, "idle_max_ns": rules.idle_max_ns}

    def _mint_and_tell(self, last: int) -> tuple[int, bytes]:
        try:
            fence, secret = self._mint(last)
        except FenceUnavailable:
            self.history.add(Refused, last)
            raise
        self.history.add(Minted, last, fence)
        return fence, secret

    # --- time ---

    def _alarm(self, when: int) -> None:
        if when < self._timer_at:
            self._timer_at = when

    def next_tick(self) -> int:
        """Say at which time of the world the server wants to be woken."""
        return max(self._timer_at - self._skew, self.history.now) if self._timer_at < FOREVER else FOREVER

    def tick(self) -> None:
        self._timer_at = FOREVER
        now = self.clock()
        self.history.add(Ticked)
        self.store.tick(now)
        self.door.tick(now)
        self._alarm(min(self.store.next_deadline(), self.door.next_deadline()))

    def sweep_phases(self) -> None:
        self.history.add(Swept, "phases")
        self.desk.sweep()

    def sweep_keys(self) -> None:
        self.history.add(Swept, "keys")
        self.store.sweep(self.clock())

    # --- transactions ---

    @property
    def has_work(self) -> bool:
        """Say whether the store has something to do that takes its time."""
        return self._runner.has_work

    def work(self) -> None:
        """Let the store do the next piece of it."""
        self._runner.advance()

    # --- callers ---

    def connect(self, peer: int, left: Callable[[], None]) -> LineConnection:
        self.desk.peer = peer
        self.door.codec = Witness(self._codec, self.history, peer)
        return self.door.connect(left)

    def drain(self) -> None:
        self.desk.drain(self.clock())

    def close(self) -> None:
        """Let go of the files, as a stop in good order does."""
        self.store.close()
        if self._journal is not None:
            self._journal.close()

    # --- what tests may see, and nobody else ---

    def check(self) -> None:
        """Assert that the invariants of the engine hold."""
        check_table(self.store.table, self.clock())

    def leftovers(self) -> dict[str, int]:
        """Count what must be gone when everybody has left and every lease is over."""
        table = self.store.table
        return {
            "sessions": len(self.desk.sessions),
            "connections": len(self.door.connections),
            "books": len(table.sessions),
            "keys": len(table.resources),
            "timers": sum(part.next_deadline() < FOREVER for part in (self.store, self.door)),
        }


def line_settings(rules: Rules) -> LineSettings:
    return LineSettings(
        read_timeout_ns=rules.read_timeout_ns,
        idle_timeout=rules.idle_timeout,
        write_timeout_ns=rules.write_timeout_ns,
        pending_bytes_max=rules.pending_bytes_max,
        lease_default_ns=rules.lease_default_ns,
        auth_token=rules.auth_token,
    )
