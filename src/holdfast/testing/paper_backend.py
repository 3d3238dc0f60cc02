"""A backend of paper: records in a dict, in transactions that can be refused, fail half-way, or be cut off.

It knows records only; what a shelf should make of a failure is for a test to say.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy

from holdfast.errors import StoreBusy, StoreFailed
from holdfast.stores.backend import Backend, Keeping, Record
from holdfast.testing.disk import PowerCut


class PaperBackend(Backend):
    """Keeps what is committed in `durable`; another one made of that is the next start."""

    def __init__(self, durable: Mapping[bytes, Record] | None = None, clock: int = 0) -> None:
        self.durable: dict[bytes, Record] = dict(durable or {})
        self.clock = clock
        self.log: list[str] = []
        self.refused: dict[str, type[StoreBusy] | type[StoreFailed]] = {}  # calls that fail, and how
        self.torn_records = 0  # how many records a refused `keep` takes in all the same
        self.calls_left: int | None = None  # calls until the power goes
        self.closed = False
        self.hurried = False
        self._written: tuple[dict[bytes, Record], int] | None = None  # by the transaction that goes on
        self._others_wrote = False

    def restarted(self) -> "PaperBackend":
        """Give what the next start finds."""
        return PaperBackend(self.durable, self.clock)

    def scribble(self, record: Record) -> None:
        """Write as somebody else would, behind the back of whoever has this open."""
        assert self._written is None, "others cannot write while a transaction goes on"
        self.durable[record.key] = record
        self._others_wrote = True

    def _call(self, name: str) -> None:
        self.log.append(name)
        if self.calls_left is not None:
            if self.calls_left == 0:
                raise PowerCut
            self.calls_left -= 1
        if name in self.refused:
            raise self.refused[name](f"paper refuses to {name}")

    def open(self) -> int:
        self._call("open")
        return self.clock

    def hurry(self, hurried: bool) -> None:
        self.hurried = hurried

    def begin(self) -> None:
        self._call("begin")
        assert self._written is None, "a transaction within a transaction"
        self._written = dict(self.durable), self.clock

    def has_changed(self) -> bool:
        self._call("has_changed")
        assert self._written is not None
        changed, self._others_wrote = self._others_wrote, False
        return changed

    def load(self, keys: Sequence[bytes]) -> Iterable[Record]:
        self._call("load")
        return [copy(self.durable[key]) for key in keys if key in self.durable]

    def load_busy(self) -> Iterable[Record]:
        self._call("load_busy")
        return [copy(r) for r in self.durable.values() if r.document is not None or r.owner is not None]

    def keep(self, keeping: Keeping) -> None:
        assert self._written is not None
        records, _ = self._written
        for record in keeping.records[: self.torn_records] if "keep" in self.refused else keeping.records:
            records[record.key] = copy(record)
        self._call("keep")
        raised = {record.key for record in keeping.granted}
        for record in keeping.records:
            known = self.durable.get(record.key)
            assert (known is None or known.fence != record.fence) == (record.key in raised)
        for key in keeping.forgotten:
            records[key] = Record(key, records[key].fence, 0)
        self._written = records, keeping.now

    def commit(self) -> None:
        self._call("commit")
        assert self._written is not None
        (self.durable, self.clock), self._written = self._written, None

    def rollback(self) -> None:
        self.log.append("rollback")
        self._written = None

    def close(self) -> None:
        self.log.append("close")
        self.closed = True
