"""What tests of codecs share: what is asked, and a server that says the same bytes whole and one by one.

No protocol and no expectation lives here.
"""

from collections.abc import Callable
from typing import Any

from holdfast.client.asks import Answer, Ask, Member, Proof, Want
from holdfast.client.dialects.codec import Codec

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
TICKET = "ticket-of-a-0001"
TOKEN = f"{7:016x}{1:016x}"
WANT = Want(key="job", ticket=TICKET, lease_ns=30 * SECOND)
SEATS = Want(key="pool", ticket=TICKET, lease_ns=30 * SECOND, mode="CW", limit=3)
MEMBERS = (Member("from"), Member("to", "PR"), Member("seats", "CW", 5))
GROUP = Want(key="from + to + seats", ticket=TICKET, lease_ns=30 * SECOND, members=MEMBERS)


def proof(want: Want = WANT, **changes: Any) -> Proof:
    return Proof(want, **({"token": TOKEN, "fence": 7, "lease_id": "one-lease", "owner": "me/1"} | changes))


def hear(codec: Codec, said: bytes, *, by: int | None = None) -> list[tuple[Any, Answer]]:
    """Let the server say bytes: whole, or in pieces of so many."""
    pieces = [said] if by is None else [said[at : at + by] for at in range(0, len(said), by)]
    return [answered for piece in pieces for answered in codec.read(piece)]


def answers(make: Callable[[], Codec], asks: list[Ask], said: bytes) -> list[Answer]:
    """Give what requests are answered, in the order of the requests; however the bytes are cut, that is the same."""
    ways = []
    for by in (None, 1, 3):
        codec = make()
        for number, ask in enumerate(asks):
            codec.write(ask, number)
        ways.append(dict(hear(codec, said, by=by)))
    assert repr(ways[0]) == repr(ways[1]) == repr(ways[2])  # two errors are never equal
    assert list(ways[0]) == sorted(ways[0])
    return list(ways[0].values())
