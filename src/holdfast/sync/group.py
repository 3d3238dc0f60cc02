# Made from aio/group.py by tools/faces.py: change that one, and run `python -m tools.faces`.

"""Several locks at once: all or nothing, in an order in which groups cannot wait for each other in a circle.

One native server grants a whole group in one step. Elsewhere the locks are taken one after the other, and which comes
first is decided here.
"""

from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Final

from holdfast.client.asks import Member
from holdfast.client.core import Acquiring
from holdfast.client.options import AS_BEFORE, AsBefore, Options, Seconds, check_key, optional_ns
from holdfast.client.url import shard_of
from holdfast.errors import BadRequest, Busy, HoldfastError, LeaseLost, TimedOut
from holdfast.sync.held import Held, group_of
from holdfast.sync.locks import left, want_for
from holdfast.sync.server import Server
from holdfast.sync.waiting import Event, Interrupter, current

KEYS_MAX: Final = 64


class HeldGroup:
    """All that a group holds: by key, and as one."""

    __slots__ = ("_interrupter", "_lost", "_members")

    def __init__(self, members: dict[str, Held], interrupter: Interrupter | None, lost: Event) -> None:
        self._members = members
        self._interrupter = interrupter
        self._lost = lost

    def __repr__(self) -> str:
        return f"<HeldGroup {', '.join(map(repr, self._members))} remaining={self.remaining:.3f}>"

    def __getitem__(self, key: str) -> Held:
        return self._members[key]

    def __iter__(self) -> Iterator[Held]:
        return iter(self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    @property
    def held(self) -> bool:
        """Whether all of it is held at this moment."""
        return all(member.held for member in self)

    @property
    def remaining(self) -> float:
        """For how many seconds all of it may be relied on if nothing is renewed; 0.0 when that is over."""
        return min(member.remaining for member in self)

    @property
    def lost(self) -> Event:
        """An event that is set when the first of them is lost."""
        return self._lost

    def check(self) -> None:
        """Raise LeaseLost unless all of it is held at this moment. Asks nobody."""
        for member in self:
            member.check()

    def beat(self) -> None:
        """Show that the work goes on."""
        for member in self:
            member.beat()

    def release(self) -> bool:
        """Give everything back; say whether all of it was ours until then."""
        if self._interrupter is not None:
            self._interrupter.stand_down()
        return _give_back(list(self))

    def leave(self, error: BaseException | None) -> None:
        """End a `with` block that ended with this error, or with none; as a single lock does."""
        interrupted = self._interrupter is not None and self._interrupter.disarm(error)
        lost = [member for member in self if not member.held]
        were_held = self.release()
        if interrupted or (error is None and not were_held):
            keys = ", ".join(repr(member.key) for member in lost)
            raise LeaseLost(f"{keys or 'the group'} was lost before the work under it was done") from error


class Group:
    """Locks by their names, and how to take all of them. `with` takes them, keeps them alive and gives them back."""

    __slots__ = ("_entered", "_keys", "_options", "_servers")

    def __init__(self, servers: list[Server], keys: tuple[str, ...], options: Options) -> None:
        if not 1 <= len(keys) <= KEYS_MAX:
            raise BadRequest(f"a group has 1 to {KEYS_MAX} keys, not {len(keys)}")
        if len({check_key(key) for key in keys}) < len(keys):
            raise BadRequest("a group names each key once")
        self._servers = servers
        self._keys = keys
        self._options = options
        self._entered: dict[object, list[HeldGroup]] = {}

    def __repr__(self) -> str:
        return f"<Group {', '.join(map(repr, self._keys))}>"

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the locks."""
        return self._keys

    def acquire(self, *, patience: Seconds | AsBefore | None = AS_BEFORE) -> HeldGroup:
        """Take all of it, waiting for as long as the patience lasts; None is for ever. Raises TimedOut, or Busy."""
        patience_ns = self._options.patience_ns
        if not isinstance(patience, AsBefore):
            patience_ns = optional_ns(patience, "patience")
        clock = self._servers[0].clock
        until = None if patience_ns is None else clock() + patience_ns
        lost = Event()
        interrupter = Interrupter(self._servers[0].place) if self._options.cancel_on_lost else None
        taken: list[Held] = []
        try:
            for server, keys in self._steps():
                left_ns = None if until is None else max(0, until - clock())
                acquiring = self._acquiring(server, keys, left_ns)
                _run(server, acquiring, waits=patience_ns != 0)
                taken += group_of(server, acquiring, self._options, interrupter, lost.set)
            members = {member.key: member for member in taken}
            group = HeldGroup({key: members[key] for key in self._keys}, interrupter, lost)
            group.check()  # the first may have been lost while the last was waited for
        except BaseException as error:
            if interrupter is not None:
                interrupter.disarm(error)
            if isinstance(error, HoldfastError):
                _give_back(taken)
            for member in taken:
                member.abandon()
            raise
        return group

    def try_acquire(self) -> HeldGroup | None:
        """Take all of it if that can be at once; None otherwise."""
        try:
            return self.acquire(patience=0)
        except Busy:
            return None

    def _steps(self) -> Iterator[tuple[Server, list[str]]]:
        """Say what is asked for together, and in which order.

        Server by server, and at a server that grants no groups key by key: whoever names the same servers goes the
        same way, so nobody holds what another one needs who holds what this one needs.
        """
        shards = {key: shard_of(key, self._servers) for key in self._keys}
        for number, server in enumerate(self._servers):
            keys = sorted(key for key in self._keys if shards[key] == number)
            if server.native and keys:
                yield server, keys
            else:
                yield from ((server, [key]) for key in keys)

    def _acquiring(self, server: Server, keys: list[str], patience_ns: int | None) -> Acquiring:
        want = want_for(server, keys[0], self._options)
        if len(keys) > 1:
            members = tuple(Member(key, self._options.mode) for key in keys)
            want = replace(want, key=" + ".join(keys), members=members)
        return Acquiring(server.rules, want, patience_ns)

    def __enter__(self) -> HeldGroup:
        group = self.acquire()
        self._entered.setdefault(current(), []).append(group)
        return group

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left(self._entered).leave(error)


def _run(server: Server, acquiring: Acquiring, *, waits: bool) -> None:
    """Take one step. Who had patience for the group has run out of it, even if none was left for this step."""
    try:
        server.run(acquiring)
    except Busy as error:
        if waits:
            raise TimedOut(f"{acquiring.want.key!r} was not to be had: {error}") from error
        raise


def _give_back(left: list[Held]) -> bool:
    """Give back what is held, the last first; whoever is interrupted meanwhile does not wait for the rest."""
    were_held = True
    try:
        while left:
            were_held = left[-1].release() and were_held
            del left[-1]
    finally:
        for member in left:
            member.abandon()
    return were_held
