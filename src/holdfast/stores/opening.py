"""From a store's URL to a store that is open, with the mint and the clock that go with it.

What the stores do is theirs; here they are only put together.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.config import Config, parse_store
from holdfast.errors import DocumentError, StoreFailed, StoreFileError
from holdfast.observe.logs import get_logger
from holdfast.ports import Alarm, Clock, Dice, Sink, Store
from holdfast.stores.fence import DenseMint, Fences, Mint
from holdfast.stores.journal import Journal
from holdfast.stores.memory import MemoryStore
from holdfast.stores.shelf import Shelf
from holdfast.stores.sqlite import SqliteBackend
from holdfast.stores.writer import Writer
from holdfast.system import not_before
from holdfast.words import RESIDENT, SECOND

log = get_logger(part="store")


@dataclass(slots=True)
class Opened:
    """A store, and what its server has to know of it."""

    store: MemoryStore | Shelf
    clock: Clock  # no lease may be judged by an earlier one
    start: Callable[[asyncio.AbstractEventLoop], None]
    close: Callable[[], None]

    def join(self, sink: Sink) -> Store:
        """Let answers and news go to `sink`."""
        self.store.sink = sink
        return self.store


def open_store(config: Config, clock: Clock, alarm: Alarm, dice: Dice) -> Opened:
    """Open the store of a Config; raises ConfigError."""
    choice = parse_store(config.store)
    if choice.scheme == "memory":
        return _open_memory(config, clock, alarm, dice, choice.fence_file)
    assert choice.path is not None
    return _open_sqlite(config, clock, alarm, dice, choice.path)


def _open_memory(config: Config, clock: Clock, alarm: Alarm, dice: Dice, fence_file: str | None) -> Opened:
    journal = None if fence_file is None else Journal.open(fence_file, clock())
    if journal is not None and journal.damaged:
        log.warning("the fence file had a damaged record", file=fence_file, first_fence=journal.floor + 1)
    fences = Fences(clock()) if journal is None else Fences(journal.floor, journal.ceiling, journal.extend)
    store = MemoryStore(
        Mint(fences, dice).__call__,
        alarm,
        keys_max=config.keys_max,
        waiters_max=config.waiters_max,
        idle_max_ns=config.gc_idle_max_ns,
    )

    def close() -> None:
        store.close()
        if journal is not None:
            journal.close()

    return Opened(store, clock, lambda _loop: None, close)


def _open_sqlite(config: Config, clock: Clock, alarm: Alarm, dice: Dice, path: str) -> Opened:
    backend = SqliteBackend(path, config.store_busy_timeout_ns / SECOND)
    steady = not_before(clock, backend.open())
    writer = Writer()
    shelf = Shelf(
        backend,
        writer,
        steady,
        DenseMint(dice).__call__,
        alarm,
        keys_max=config.keys_max,
        waiters_max=config.waiters_max,
        idle_max_ns=config.gc_idle_max_ns,
        batch_max=config.store_batch_max,
        resident=RESIDENT,
    )
    try:
        shelf.open()
    except (StoreFailed, DocumentError) as error:
        shelf.close()
        raise StoreFileError(f"store {path}: {error.detail}") from error
    return Opened(shelf, steady, writer.start, shelf.close)
