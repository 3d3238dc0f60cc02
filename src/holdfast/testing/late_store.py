"""A store that takes its time: the memory store behind a commit that somebody has to bring about.

Stands for every store whose answers come after the disk or the network. No lock rule lives here.
"""

from collections.abc import Callable

from holdfast.ports import Store
from holdfast.stores.memory import MemoryStore
from holdfast.words import Census, Command


class LateStore(Store):
    """Keeps commands back until `commit`."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.pending: list[Command] = []

    def submit(self, command: Command, now: int) -> None:
        self.pending.append(command)

    def commit(self, now: int) -> None:
        """Apply what has come so far, in order; what that brings about waits for the next commit."""
        commands, self.pending = self.pending, []
        for command in commands:
            self.store.submit(command, now)

    def tick(self, now: int) -> None:
        self.store.tick(now)

    def sweep(self, now: int) -> None:
        self.store.sweep(now)

    def next_deadline(self) -> int:
        return self.store.next_deadline()

    @property
    def fault(self) -> str | None:
        return self.store.fault

    def probe(self, done: Callable[[str | None], None]) -> None:
        self.store.probe(done)

    def count(self, done: Callable[[Census], None]) -> None:
        self.store.count(done)

    def close(self) -> None:
        self.store.close()
