"""What the server owes: replies that have to be written before a step is over, and what they have to say.

Why they are due is known to the ledger alone.
"""

from collections.abc import Collection

from sim.checkers.asks import ENQUEUE
from sim.checkers.book import Claim
from sim.checkers.talks import Request


class DiscrepancyError(Exception):
    """The server did what the book does not explain."""


class Dues:
    """The requests that have to be answered now."""

    def __init__(self) -> None:
        self._owed: dict[int, tuple[Request, tuple[bytes, ...]]] = {}  # by the place of the request

    def add(self, request: Request, *replies: bytes) -> None:
        """From now on this request has to be answered with one of these."""
        self._owed[request.place] = request, replies

    def add_grant(self, request: Request, claim: Claim) -> None:
        """The reply has to be a grant of this claim; what it says is the claim's token from now on."""
        if request.reply is None:
            self.add(request)
            return
        word = b"acquired" if request.ask.verb == ENQUEUE else b"ok"
        lease = b"%d" % (claim.lease_ns // 1_000_000_000)
        claim.token = claim.token or request.token
        if claim.token[:16] != b"%016x" % claim.fence:
            raise DiscrepancyError(f"{request} was answered {request.reply!r} instead of the grant of {claim.fence}")
        self.add(request, b"%b %b %b" % (word, claim.token, lease))

    def pay(self, request: Request) -> None:
        """The reply to this request has been written."""
        owed = self._owed.pop(request.place, None)
        if owed is None:
            raise DiscrepancyError(f"{request} was answered {request.reply!r} for no reason")
        if request.reply not in owed[1]:
            raise DiscrepancyError(f"{request} was answered {request.reply!r} instead of {_either(owed[1])}")

    def close(self, reachable: Collection[int]) -> None:
        """The step is over: whoever could be told has been told."""
        for request, replies in self._owed.values():
            if request.peer in reachable:
                raise DiscrepancyError(f"{request} was not answered {_either(replies)}")
        self._owed.clear()

    def clear(self) -> None:
        """The server is gone, and owes nothing any more."""
        self._owed.clear()


def _either(replies: tuple[bytes, ...]) -> str:
    return " or ".join(map(repr, replies)) or "a grant"
