"""What a shelf has on its table and what its backend keeps of that: how the one becomes the other, and back.

The rules of locks are the engine's; when a transaction begins and ends is the shelf's business.
"""

from collections.abc import Mapping
from typing import Final

from holdfast.engine.document import decode, encode
from holdfast.engine.foreign import stranger, usurp
from holdfast.engine.resource import Resource, first_holder, is_idle
from holdfast.engine.restart import survive
from holdfast.engine.table import Table
from holdfast.engine.view import census_of
from holdfast.secret import lease_id_of
from holdfast.stores.backend import Backend, Keeping, Record
from holdfast.words import UNLIMITED, Census, Claim, Effect

# How a claim is shown to people that came through a door without saying who it is.
NAMELESS: Final = b"session/%d"

# What the backend surely keeps of a key: fence, version, document.
Kept = tuple[int, int, bytes | None]
NEVER: Final[Kept] = (0, 0, None)


class Ledger:
    """Knows what has changed on the table since the last transaction, and how to undo it."""

    def __init__(self, table: Table, backend: Backend, resident: int) -> None:
        self._table = table
        self._backend = backend
        self._resident = resident
        self._kept: dict[bytes, Kept] = {}
        self._read: dict[bytes, Kept] = {}  # what somebody else has written, read in a transaction that goes on
        self._former: dict[bytes, Record] = {}  # what was there at the start, until it is written anew
        table.changed = {}

    # --- in ---

    def read_all(self) -> None:
        """Read what somebody holds, as it is after a restart."""
        for record in self._backend.load_busy():
            self._kept[record.key] = (record.fence, record.version, record.document)
            self._former[record.key] = record
            self._adopt_former(record)

    def _adopt_former(self, record: Record) -> None:
        """Take in what a former run or somebody else has written, and see that it is written anew."""
        r = self._resource(record, UNLIMITED)
        survive(r, self._resident)
        self._table.adopt(r)
        self._mark(r)

    def fetch(self, claims: Mapping[bytes, Claim]) -> None:
        """Read what is kept of keys that are to be claimed and are not on the table."""
        table = self._table
        unknown = [key for key in claims if key not in table.resources]
        if not unknown:
            return
        for record in self._backend.load(unknown):
            if len(table.resources) < table.keys_max:
                table.adopt(self._resource(record, claims[record.key].limit))
                self._kept[record.key] = (record.fence, record.version, record.document)

    def read_changes(self, now: int, news: list[Effect]) -> None:
        """Somebody else has written. Their word counts: they may have given a key to somebody."""
        busy = {record.key: record for record in self._backend.load_busy()}
        self._forget_idle(busy)
        freed = [key for key, kept in self._kept.items() if kept[2] is not None and key not in busy]
        taken: list[Resource] = []
        for record in [*busy.values(), *self._backend.load(freed)]:
            kept = self._kept.get(record.key)
            if kept is None or kept[:2] != (record.fence, record.version):
                self._take_over(record, kept, news, taken)
        # Only now, when all of it is known: a group may wait for one of these keys that is free by now, and for
        # another one that is not.
        for r in taken:
            self._table.serve(r, now, news)

    def _forget_idle(self, busy: Mapping[bytes, Record]) -> None:
        """Somebody may have held a key in between that was free before and is free again, so that its fence has risen.

        What is kept of it is read again when it is claimed.
        """
        for key, r in list(self._table.resources.items()):
            if key not in busy and is_idle(r) and self._kept.get(key, NEVER)[2] is None:
                self._table.drop(key)
                self._kept.pop(key, None)

    def _take_over(self, record: Record, kept: Kept | None, news: list[Effect], taken: list[Resource]) -> None:
        old = self._table.resources.get(record.key)
        self._read[record.key] = (record.fence, record.version, record.document)
        if old is not None and kept is not None and kept[1] == record.version:
            old.fence = max(old.fence, record.fence)  # whoever holds and waits is the same
            self._mark(old)
            return
        new = self._resource(record, old.limit if old is not None else UNLIMITED)
        survive(new, self._resident)  # should there be a document that we did not write, its sessions are not ours
        waiting = usurp(old, new, news) if old is not None else []
        self._table.adopt(new)
        for c in waiting:
            self._table.rejoin(new, c)
        self._mark(new)
        taken.append(new)

    def _resource(self, record: Record, limit: int) -> Resource:
        """Make a resource of a record: of its document, unless somebody else has written beside it since."""
        if record.document is not None:
            r = decode(record.key, record.document)
            if r.version == record.version:
                r.fence = max(r.fence, record.fence)
                return r
        r = Resource(record.key, limit, record.fence)
        r.version = record.version
        if record.owner is not None and record.held_fence:
            _, spare = self._table.mint(0)
            stranger(r, record.owner, record.held_fence, record.lease_id or b"", spare, record.deadline)
        return r

    def _mark(self, r: Resource) -> None:
        assert self._table.changed is not None
        self._table.changed[r.key] = r

    # --- out ---

    def changes(self, now: int, *, must: bool) -> Keeping | None:
        """Say what has to be kept; None if that is nothing, unless something `must` be written."""
        table = self._table
        assert table.changed is not None
        records: list[Record] = []
        granted: list[Record] = []
        forgotten: list[bytes] = []
        for key, r in table.changed.items():
            if (there := table.resources.get(key)) is not r:
                if there is None:
                    forgotten.append(key)
                continue  # what stands there now has been read from the backend and nobody has changed it
            record = record_of(r)
            kept = self._read.get(key) or self._kept.get(key)
            if kept is not None and kept == (record.fence, record.version, record.document):
                continue
            if kept is None and record.document is None and not record.fence:
                continue  # it was asked for and never granted
            records.append(record)
            if kept is None or kept[0] != record.fence:
                granted.append(record)
        forgotten = [key for key in forgotten if key in self._kept]
        if not (records or forgotten or must):
            self._settle()
            return None
        return Keeping(records, granted, forgotten, now)

    def kept(self, keeping: Keeping) -> None:
        """The transaction has lasted."""
        self._settle()
        for record in keeping.records:
            self._kept[record.key] = (record.fence, record.version, record.document)
        for key in keeping.forgotten:
            del self._kept[key]

    def _settle(self) -> None:
        """All that has changed is written, and all that was read is true."""
        self._kept.update(self._read)
        self._read.clear()
        self._former.clear()
        self._table.changed = {}

    def undo(self) -> None:
        """The transaction has failed: the table is again what it was before."""
        table = self._table
        changed, table.changed = table.changed, {}
        assert changed is not None
        self._read.clear()
        for key in changed:
            table.drop(key)  # all of them first: a ticket may have gone from one key to another
        for key in changed:
            kept = self._kept.get(key)
            if key in self._former:
                self._adopt_former(self._former[key])
            elif kept is None or kept[2] is None:
                self._kept.pop(key, None)  # it is read again when somebody asks for it
            else:
                r = decode(key, kept[2])
                r.fence = max(r.fence, kept[0])
                table.adopt(r)

    def census(self) -> Census:
        return census_of(self._table)


def record_of(r: Resource) -> Record:
    """Write down a resource; a key that is free and has no value needs no document."""
    document = None if is_idle(r) and r.value is None else encode(r)
    c = first_holder(r)
    if c is None:
        return Record(r.key, r.fence, r.version, document, held_fence=r.fence)
    owner = c.owner or NAMELESS % c.session
    return Record(r.key, r.fence, r.version, document, owner, lease_id_of(c.secret), c.fence, c.deadline)
