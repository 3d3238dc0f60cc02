"""What the native door keeps of requests under way, and of the claims of a session.

Only kept here; what becomes of them is decided in native_session.py and native_sight.py.
"""

from typing import Final

from holdfast.doors.native_connection import NativeConnection
from holdfast.wire import native_answers as answers
from holdfast.words import Answer, Claim, Convert, Group, Ticket, member_ticket

CLAIMS_MAX: Final = 65_536


class Asked:
    """A request that is not answered yet."""

    __slots__ = ("connection", "id", "waits")

    def __init__(self, connection: NativeConnection, id_: int | str) -> None:
        self.connection = connection
        self.id = id_
        self.waits = False  # for somebody else
        connection.in_flight += 1

    @property
    def heard(self) -> bool:
        """Whether there is somebody to hear the answer."""
        return not self.connection.closing

    def reply(self, line: bytes) -> None:
        """Answer, once."""
        connection = self.connection
        connection.in_flight -= 1
        if self.waits:
            connection.waiting -= 1
        connection.say(line)
        connection.finish()

    def refuse(self, why: Answer, claim: Claim | None = None) -> None:
        self.reply(answers.refused(self.id, why, claim))

    def wait(self) -> None:
        """Hear that somebody else has to come to an end first."""
        if not self.waits:
            self.waits = True
            self.connection.wait()


class Own:
    """What is known of one claim of a session."""

    __slots__ = ("asks", "conversion", "key", "lease_ns", "nudge", "stands", "token")

    def __init__(self, claim: Claim) -> None:
        self.key = claim.key
        self.lease_ns = claim.lease_ns
        self.nudge = False
        self.asks = 0  # how many requests for it are under way
        self.conversion: Convert | None = None  # the last request for another mode, while it is under way
        self.stands = False  # it waits, or is held
        self.token = b""  # while it is held


class Batch:
    """A renewal of many claims, which is answered once."""

    __slots__ = ("left", "renewed")

    def __init__(self, count: int) -> None:
        self.renewed: list[bool | None] = [None] * count  # None: the store could not be asked
        self.left = count


class Belongings:
    """The claims of one session: what it asks for, what waits, and what is held."""

    __slots__ = ("_held", "_owns")

    def __init__(self) -> None:
        self._owns: dict[bytes, Own] = {}  # by ticket
        self._held: dict[bytes, bytes] = {}  # the tickets of those that are held, by token

    def __len__(self) -> int:
        return len(self._owns)

    @property
    def holds_nothing(self) -> bool:
        return not self._held

    def has_room(self, claims: list[Claim]) -> bool:
        """Say whether so many may be asked for; whoever asks for what is there already takes no room."""
        if len(self._owns) + len(claims) <= CLAIMS_MAX:
            return True
        return len(self._owns) + sum(named(claim) not in self._owns for claim in claims) <= CLAIMS_MAX

    def find(self, ticket: bytes) -> Own | None:
        return self._owns.get(ticket)

    def ticket_of(self, token: bytes) -> bytes | None:
        """Find what is held by its token."""
        return self._held.get(token)

    def ask(self, claim: Claim, *, nudge: bool) -> None:
        """Note that a claim is asked for, perhaps again."""
        own = self._own(claim)
        own.asks += 1
        own.nudge = nudge

    def queue(self, claim: Claim) -> None:
        """Note that a claim waits."""
        self._own(claim).stands = True

    def hold(self, claim: Claim) -> None:
        """Note that a claim is held."""
        own = self._own(claim)
        own.stands = True
        own.lease_ns = claim.lease_ns
        self._held.pop(own.token, None)
        self._held[claim.token] = named(claim)
        own.token = claim.token

    def convert(self, request: Convert) -> None:
        """Note that another mode is asked for."""
        own = self._owns.get(_ticket(request.ticket))
        if own is not None:
            own.conversion = request

    def converted(self, request: Convert) -> None:
        """Note that a request for another mode has been answered."""
        own = self._owns.get(_ticket(request.ticket))
        if own is not None and own.conversion is request:
            own.conversion = None

    def answered(self, claim: Claim, *, gone: bool) -> None:
        """Note that a request for a claim has been answered."""
        self._owns[named(claim)].asks -= 1
        self.settle(named(claim), gone=gone)

    def settle(self, ticket: bytes, *, gone: bool) -> None:
        """Forget a claim that is gone, unless somebody is asking for it again."""
        own = self._owns.get(ticket)
        if own is None:
            return
        if gone:
            self._held.pop(own.token, None)
            own.token = b""
            own.stands = False
        if not own.stands and not own.asks:
            del self._owns[ticket]

    def drop(self, ticket: bytes, claim: Claim | None) -> None:
        """Forget what is gone: a claim, or all of a group that is named, or that waited and has lost one."""
        self.settle(ticket, gone=True)
        bond = None if claim is None else claim.bond
        if claim is not None and bond is not None and (ticket == bond.ticket or not claim.fence):
            for index in range(bond.count):
                self.settle(member_ticket(bond.ticket, index), gone=True)

    def _own(self, claim: Claim) -> Own:
        own = self._owns.get(named(claim))
        if own is None:
            own = self._owns[named(claim)] = Own(claim)
        return own


def members(request: Claim | Group) -> list[Claim]:
    return request.claims if isinstance(request, Group) else [request]


def named(claim: Claim) -> bytes:
    """Give the name of a claim. All claims of a session have one that its client has made."""
    return _ticket(claim.ticket)


def _ticket(ticket: Ticket) -> bytes:
    assert isinstance(ticket, bytes)
    return ticket
