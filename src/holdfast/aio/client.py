"""The client: `connect()` and what one can ask for.

Each thing that it gives is in a file of its own; which server is asked is decided here.
"""

import logging
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from holdfast.aio import locks
from holdfast.aio.held import Held
from holdfast.aio.locks import Lock, Place, RWLock, Semaphore
from holdfast.aio.server import Server
from holdfast.aio.waiting import Place as Home
from holdfast.client.asks import Query
from holdfast.client.core import Asking
from holdfast.client.options import Options, Seconds, check_key, check_name, options_of, span_ns
from holdfast.client.ports import World
from holdfast.client.url import shard_of, targets_of
from holdfast.client.world import real_world
from holdfast.errors import BadRequest

if TYPE_CHECKING:
    import ssl

Told = Callable[[Held], object]

logger: Final = logging.getLogger("holdfast.client")
SECOND: Final = 1_000_000_000


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
    return Client(
        url, name=name, auth=auth, tls=tls, timeout=timeout, margin=margin, world=world
    )
