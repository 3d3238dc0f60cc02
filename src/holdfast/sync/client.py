# Made from aio/client.py by tools/faces.py: change that one, and run `python -m tools.faces`.

"""The client: `connect()` and what one can ask for.

Each thing that it gives is in a file of its own; which server is asked is decided here.
"""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Unpack

from holdfast.client.options import Options, Seconds, check_name, optional_ns, span_ns
from holdfast.client.ports import World
from holdfast.client.url import targets_of
from holdfast.client.world import real_world
from holdfast.sync import locks
from holdfast.sync.decorators import Key, Locks, RunsOnce, locked_by, once_by
from holdfast.sync.election import Election, Told
from holdfast.sync.group import Group
from holdfast.sync.held import Held
from holdfast.sync.locks import Lock, Place, RWLock, Semaphore
from holdfast.sync.seeing import Seeing
from holdfast.sync.server import Server
from holdfast.sync.waiting import Channel
from holdfast.sync.waiting import Place as Home
from holdfast.sync.wishes import Wishes, options_for

if TYPE_CHECKING:
    import ssl

SECOND: Final = 1_000_000_000
# How long a client that is closed waits for what it held to be given back.
CLOSE_NS_MAX: Final = 2 * SECOND


def connect(
    url: str | None = None,
    *,
    name: str | None = None,
    auth: str | None = None,
    tls: "ssl.SSLContext | None" = None,
    timeout: Seconds = 10.0,
    margin: Seconds | None = None,
    world: World | None = None,
) -> "Client":
    """Make a client. It connects when it is first asked for something.

    `url` names one server or, with commas, several that share the keys; without it, HOLDFAST_SERVER does, or it is
    holdfast://127.0.0.1:6388. `timeout` is how long an answer may take that has nothing to wait for, and how long a
    server that is out of reach is put up with. `margin` is by how much earlier than the server this side lets a lease
    end: 2 % and 20 ms unless said. `world` is for tests.
    """
    return Client(url, name=name, auth=auth, tls=tls, timeout=timeout, margin=margin, world=world)


class Client(Seeing):
    """A program's way to its servers. `with` closes it at the end, and so gives back what is still held."""

    def __init__(
        self,
        url: str | None,
        *,
        name: str | None,
        auth: str | None,
        tls: "ssl.SSLContext | None",
        timeout: Seconds,
        margin: Seconds | None,
        world: World | None,
    ) -> None:
        world = real_world() if world is None else world
        self._timeout_ns = timeout_ns = span_ns(timeout, "timeout", least=0.001)
        optional_ns(margin, "margin")
        self._margin = margin
        self._name = check_name(name)
        self._watching: set[Channel] = set()
        home = Home(world)
        self._servers = [
            Server(target, home, world, name=self._name, timeout_ns=timeout_ns)
            for target in targets_of(url, auth=auth, tls=tls)
        ]

    def __repr__(self) -> str:
        return f"<Client {self._name!r} of {', '.join(str(server.target.address) for server in self._servers)}>"

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what is held, within two seconds, and let go of the connections. It may be called again."""
        for channel in self._watching:
            channel.put(channel)
        for server in self._servers:
            server.retire()
        try:
            until = self._servers[0].clock() + min(self._timeout_ns, CLOSE_NS_MAX)
            for server in self._servers:
                server.close(until)
        finally:
            for server in self._servers:
                server.abort()

    # --- locks ---

    def lock(
        self,
        key: str,
        lease: Seconds = 30.0,
        patience: Seconds | None = None,
        *,
        mode: str = "EX",
        **wishes: Unpack[Wishes],
    ) -> Lock:
        """Give a lock by its name; `with` takes it.

        `lease` is how long it stays ours when nothing is heard of us any more, while it lives it is renewed. `patience`
        is how long to wait for it: for ever unless said, 0 is not at all. `mode` is one of NL, CR, CW, PR, PW, EX.
        """
        return Lock(self._server_of(key), key, self._options(lease, patience, wishes, mode=mode))

    def rwlock(
        self, key: str, lease: Seconds = 30.0, patience: Seconds | None = None, **wishes: Unpack[Wishes]
    ) -> RWLock:
        """Give a lock for many readers or one writer: `with rwlock.read()`, `with rwlock.write()`."""
        return RWLock(self._server_of(key), key, self._options(lease, patience, wishes))

    def semaphore(
        self,
        key: str,
        limit: int,
        units: int = 1,
        *,
        lease: Seconds = 30.0,
        patience: Seconds | None = None,
        **wishes: Unpack[Wishes],
    ) -> Semaphore:
        """Give a semaphore with so many seats, of which `units` are taken. All callers have to name the same limit."""
        options = self._options(lease, patience, wishes, mode="CW", limit=limit, units=units)
        return Semaphore(self._server_of(key), key, options)

    def try_lock(self, key: str, lease: Seconds = 30.0, *, mode: str = "EX", **wishes: Unpack[Wishes]) -> Held | None:
        """Take a lock if nobody has it or waits for it; None otherwise."""
        return self.lock(key, lease, mode=mode, **wishes).try_acquire()

    def enqueue(
        self,
        key: str,
        lease: Seconds = 30.0,
        *,
        mode: str = "EX",
        limit: int | None = None,
        units: int = 1,
        **wishes: Unpack[Wishes],
    ) -> Place:
        """Take a place in the queue for a lock, or for a semaphore where there is a limit; it is waited for later."""
        mode = mode if limit is None else "CW"
        options = self._options(lease, None, wishes, mode=mode, limit=limit, units=units)
        return locks.enqueue(self._server_of(key), key, options)

    def all(
        self,
        *keys: str,
        lease: Seconds = 30.0,
        patience: Seconds | None = None,
        mode: str = "EX",
        **wishes: Unpack[Wishes],
    ) -> Group:
        """Give several locks as one: `with` takes all of them, and waits without any until all are to be had.

        Over dflock:// and http://, and from one server to the next where there are several, locks are taken one after
        the other in an order that all groups share: they cannot block each other in a circle, but hold some while they
        wait for others.
        """
        return Group(self._servers, keys, self._options(lease, patience, wishes, mode=mode))

    def election(
        self,
        key: str,
        lease: Seconds = 30.0,
        *,
        on_elected: Told | None = None,
        on_deposed: Told | None = None,
        **wishes: Unpack[Wishes],
    ) -> Election:
        """Give a candidate for an office: inside its `with` it stands for election, and leads while it holds the lock.

        `on_elected` and `on_deposed` are called with what is held, each time that it begins and ceases to lead.
        """
        return Election(self._server_of(key), key, self._options(lease, None, wishes), on_elected, on_deposed)

    # --- functions ---

    def locked(
        self, key: Key, *, lease: Seconds = 30.0, patience: Seconds | None = None, **wishes: Unpack[Wishes]
    ) -> Locks:
        """Have a function run under a lock, which each call waits for.

        `key` is a text, or a function that makes one of the arguments of the call.
        """
        return locked_by(self._myself, key, lease, patience, wishes)

    def once(self, key: Key, *, at_least: Seconds = 0.0, lease: Seconds = 30.0, **wishes: Unpack[Wishes]) -> RunsOnce:
        """Have a function run only where nobody else runs it: a call that finds the lock taken answers None.

        The lock stays taken for `at_least` so long from the beginning of the call, also when the function is done or
        has failed earlier and this process is gone: machines whose clocks differ by less than that run a job once.
        Over http:// it stays taken for `lease`, if that is longer: nobody can make a lease shorter there.
        """
        return once_by(self._myself, key, at_least, lease, wishes)

    def _myself(self) -> "Client":
        return self

    def _options(self, lease: Seconds, patience: Seconds | None, wishes: Wishes, **more: Any) -> Options:
        return options_for(lease, patience, wishes, self._margin, **more)

    def until(self, key: str, at_least_ns: int) -> int:
        """Say when so much time will have passed; refuse a server whose locks end with their connection."""
        server = self._server_of(key)
        if at_least_ns:
            server.needs_leases("at_least")
        return server.clock() + at_least_ns
