"""The document of a resource: all that its transitions depend on, as versioned bytes that a store can keep.

What follows from something else is worked out again. No rule lives here, nor who loads a document or when.
"""

from collections import OrderedDict
from typing import Annotated, Final

import msgspec

from holdfast.engine.queue import Queue
from holdfast.engine.resource import MODES, Resource, hold, holder, holders
from holdfast.engine.table import Table
from holdfast.errors import DocumentError
from holdfast.words import CONVERTING, HELD, WAITING, Bond, Claim, State, Ticket

# The shape below. Another shape gets another number, and code that still reads this one.
VERSION: Final = 2

# This one ends with `kept` in its rows; what stands behind that is filled in with what can be known of it.
FIRST: Final = 1


# A document may only name modes that exist.
ModeNumber = Annotated[int, msgspec.Meta(ge=0, lt=MODES)]


class _Row(msgspec.Struct, array_like=True, gc=False):
    """One claim, as a list."""

    session: int
    ticket: Ticket
    state: State
    mode: ModeNumber
    want: ModeNumber
    units: int
    lease_ns: int
    patience_ns: int
    tracked: bool
    listens: bool
    order: int
    deadline: int
    convert_deadline: int
    fence: int
    secret: bytes
    nudged: int
    owner: bytes
    kept: bool
    about: bytes = b""
    since: int = 0
    awaited: bool = False
    refuses: bool = False
    more: "_More | None" = None


class _More(msgspec.Struct, array_like=True, gc=False):
    """What few claims have, as a list."""

    asked: int
    seen: tuple[bytes, bool] | None
    bond: tuple[bytes, int, int, int] | None


class _Document(msgspec.Struct, array_like=True, gc=False):
    """One resource, as a list. The version comes first, so that every release finds it."""

    version: int
    limit: int
    fence: int
    orders: int
    soonest: int
    touched: int
    version_of_key: int
    stuck: bool
    value: bytes | None
    value_seq: int
    value_valid: bool
    held: list[_Row]
    waiting: list[_Row]


class _Head(msgspec.Struct, array_like=True, gc=False):
    """What the documents of all versions begin with."""

    version: int


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Document)
_head_decoder: Final = msgspec.msgpack.Decoder(_Head)


def encode(r: Resource) -> bytes:
    """Write the document of a resource; the key is not in it."""
    return _encoder.encode(
        _Document(
            VERSION,
            r.limit,
            r.fence,
            r.orders,
            r.soonest,
            r.touched,
            r.version,
            r.stuck,
            r.value,
            r.value_seq,
            r.value_valid,
            [_row(c) for c in holders(r)],
            [_row(c) for c in r.waiting.values()] if r.waiting is not None else [],
        )
    )


def _row(c: Claim) -> _Row:
    return _Row(
        c.session,
        c.ticket,
        c.state,
        c.mode,
        c.want,
        c.units,
        c.lease_ns,
        c.patience_ns,
        c.tracked,
        c.listens,
        c.order,
        c.deadline,
        c.convert_deadline,
        c.fence,
        c.secret,
        c.nudged,
        c.owner,
        c.kept,
        c.about,
        c.since,
        c.awaited,
        c.refuses,
        _more(c) if c.more is not None else None,
    )


def _more(c: Claim) -> _More | None:
    bond = c.bond
    tie = None if bond is None else (bond.ticket, bond.index, bond.count, bond.number)
    return _More(c.asked, c.seen, tie) if c.asked or c.seen or tie else None


def decode(key: bytes, document: bytes) -> Resource:
    """Read a resource back from its document. Its claims stand in no session's book; the caller sees to that."""
    try:
        version = _head_decoder.decode(document).version
        if version not in (FIRST, VERSION):
            raise DocumentError(f"the document of {key!r} has version {version}; this release reads {VERSION}")
        read = _decoder.decode(document)
    except msgspec.DecodeError as error:
        raise DocumentError(f"the document of {key!r} cannot be read: {error}") from error
    r = Resource(key, read.limit, read.fence)
    r.orders = read.orders
    r.soonest = read.soonest
    r.touched = read.touched
    r.version = read.version_of_key
    r.stuck = read.stuck
    r.value = read.value
    r.value_seq = read.value_seq
    r.value_valid = read.value_valid
    _fill_held(r, read.held)
    _fill_waiting(r, read.waiting)
    return r


def _claim(r: Resource, row: _Row) -> Claim:
    c = Claim(r.key, row.want, row.units, r.limit, row.lease_ns, row.patience_ns)
    c.tracked = row.tracked
    c.listens = row.listens
    c.session = row.session
    c.ticket = row.ticket
    c.state = row.state
    c.mode = row.mode
    c.order = row.order
    c.deadline = row.deadline
    c.convert_deadline = row.convert_deadline
    c.fence = row.fence
    c.secret = row.secret
    c.nudged = row.nudged
    c.owner = row.owner
    c.kept = row.kept
    c.about = row.about
    c.since = row.since or _since(row)
    c.awaited = row.awaited
    c.refuses = row.refuses
    if row.more is not None:
        c.asked = row.more.asked
        c.seen = row.more.seen
        if row.more.bond is not None:
            c.bond = Bond(*row.more.bond)
    return c


def _since(row: _Row) -> int:
    """Say since when, as far as the first version tells: since the last renewal, or since the last wait began."""
    return max(0, row.deadline - (row.patience_ns if row.state is WAITING else row.lease_ns))


def _fill_held(r: Resource, rows: list[_Row]) -> None:
    converting: list[Claim] = []
    for row in rows:
        c = _claim(r, row)
        if c.state is CONVERTING:
            converting.append(c)
        elif c.state is not HELD:
            raise DocumentError(f"the document of {r.key!r} lists a claim as held that is {c.state.name}")
        if holder(r, c.token) is not None:
            raise DocumentError(f"the document of {r.key!r} lists a holder twice")
        hold(r, c)
    if converting:
        converting.sort(key=_order_of)
        r.converting = OrderedDict((c.order, c) for c in converting)


def _fill_waiting(r: Resource, rows: list[_Row]) -> None:
    if not rows:
        return
    waiting = [_claim(r, row) for row in rows]
    for c in waiting:
        if c.state is not WAITING:
            raise DocumentError(f"the document of {r.key!r} lists a claim as waiting that is {c.state.name}")
    r.waiting = Queue()
    for c in waiting:
        r.waiting.append(c)
    if len({c.order for c in waiting}) != len(waiting):
        raise DocumentError(f"the document of {r.key!r} lists a waiter twice")


def _order_of(c: Claim) -> int:
    return c.order


def reload(table: Table, key: bytes) -> None:
    """Put what a resource's document tells in the place of the live resource: nothing may come of it."""
    table.exchange(decode(key, encode(table.resources[key])))
