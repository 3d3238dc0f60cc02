"""The vocabulary of Holdfast: modes, states, reasons, answers, commands and effects, one word for each thing.

Imports nothing of ours. No rule about who may hold what lives here, except the table of modes that clash.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final, final

SECOND: Final = 1_000_000_000

# Later than any deadline: some 292 years after the epoch of whichever clock is used.
FOREVER: Final = 1 << 63

# The limit of a resource that counts no units: a plain lock, where the modes alone decide.
UNLIMITED: Final = 1 << 60

KEY_BYTES_MAX: Final = 1024
GROUP_KEYS_MAX: Final = 64
VALUE_BYTES_MAX: Final = 64


class Mode(IntEnum):
    """What a claim allows its holder, and whom it keeps out."""

    NL = 0
    CR = 1
    CW = 2
    PR = 3
    PW = 4
    EX = 5


class State(IntEnum):
    """Where a claim is in its life."""

    ASKED = 0
    WAITING = 1
    HELD = 2
    CONVERTING = 3
    GONE = 4


class Reason(IntEnum):
    """Why a claim went away."""

    RELEASED = 1  # its holder gave it back
    CANCELLED = 2  # it waited, and its caller withdrew it
    EXPIRED = 3  # it was held, and its lease ran out
    TIMED_OUT = 4  # it waited, and its patience ran out
    LAPSED = 5  # its session ended
    BROKEN = 6  # an operator took it away


class Answer(IntEnum):
    """What a command came to. Every command gets exactly one, now or later."""

    GRANTED = 1
    QUEUED = 2
    BUSY = 3
    TIMED_OUT = 4
    RENEWED = 5
    ENDED = 6
    NOT_HELD = 7
    NOT_ENQUEUED = 8
    ALREADY_ENQUEUED = 9
    LEASE_EXPIRED = 10
    CONVERTING = 11
    WOULD_DEADLOCK = 12
    LIMIT_MISMATCH = 13
    TOO_MANY_KEYS = 14
    TOO_MANY_WAITERS = 15
    NO_FENCE = 16
    DRAINING = 17
    CLOSED = 18
    CANCELLED = 19
    STORE_BUSY = 20  # another process kept the store to itself for too long; nothing was changed
    STORE_FAILED = 21  # the store could not keep it; what it kept of that, if anything, nobody was told


# Modes travel as plain integers, which the compiled path handles without an object; `Mode(m).name` spells one.
NL: Final = 0
CR: Final = 1
CW: Final = 2
PR: Final = 3
PW: Final = 4
EX: Final = 5

# States and answers again as plain names: looking one up on its class costs more than some whole transitions.
ASKED: Final = State.ASKED
WAITING: Final = State.WAITING
HELD: Final = State.HELD
CONVERTING: Final = State.CONVERTING
GONE: Final = State.GONE

GRANTED: Final = Answer.GRANTED
QUEUED: Final = Answer.QUEUED
RENEWED: Final = Answer.RENEWED
ENDED: Final = Answer.ENDED
CANCELLED: Final = Answer.CANCELLED
NOT_HELD: Final = Answer.NOT_HELD
DRAINING: Final = Answer.DRAINING

# BIT[mode] marks a mode in a mask; CLASH[mode] is the mask of the modes that it cannot live with (the classic matrix,
# which is symmetric).
BIT: Final[tuple[int, ...]] = (1, 2, 4, 8, 16, 32)
CLASH: Final[tuple[int, ...]] = (
    0,  # NL lives with everything
    BIT[EX],
    BIT[PR] | BIT[PW] | BIT[EX],
    BIT[CW] | BIT[PW] | BIT[EX],
    BIT[CW] | BIT[PR] | BIT[PW] | BIT[EX],
    BIT[CR] | BIT[CW] | BIT[PR] | BIT[PW] | BIT[EX],
)


def covers(strong: int, weak: int) -> bool:
    """Say whether `strong` keeps out everything that `weak` keeps out: a partial order, PR and CW are apart."""
    return CLASH[weak] & ~CLASH[strong] == 0


# BESIDE[want] is the strongest mode that a holder may go down to so that `want` fits beside it.
BESIDE: Final[tuple[int, ...]] = (EX, PW, CW, PR, CR, NL)

# A ticket is the caller's own name for a claim: our doors count, native clients send bytes of their own.
Ticket = int | bytes

# The number of the session that is never over. It is the same in every run, so that what it holds survives a restart.
RESIDENT: Final = 0

# What a store hands to the engine so that it can mark a grant: the key's last fence goes in, a higher one and a
# fresh secret come out. It raises FenceUnavailable when no safe fence can be had.
Mint = Callable[[int], tuple[int, bytes]]

# A secret is 48 hex digits: 16 of the fence that the claim was first granted with, then 128 random bits. The token,
# which is what the line protocol shows and takes as proof, is the first 32 of them.
SECRET_BYTES: Final = 48
TOKEN_BYTES: Final = 32


@final
class Bond:
    """What ties a claim to the others of its group: granted together, and as long as they wait ended together.

    It stays with what is held, so that the ticket of the group still finds it.
    """

    __slots__ = ("count", "index", "number", "ticket", "ties")

    def __init__(self, ticket: bytes, index: int, count: int, number: int) -> None:
        self.ticket = ticket  # of the group; each member has a ticket of its own, see `member_ticket`
        self.index = index
        self.count = count
        self.number = number  # what others may see instead of the ticket, which is a secret of its caller
        self.ties: object | None = None  # how the engine finds the keys of the others


def member_ticket(ticket: bytes, index: int) -> bytes:
    """Spell the ticket of a member of a group."""
    return b"%b#%d" % (ticket, index)


@final
class More:
    """What few claims have. Nearly all live without, so that it costs them one empty place."""

    __slots__ = ("asked", "bond", "convert_deadline", "nudged", "rival", "seen")

    def __init__(self) -> None:
        self.asked = 0  # when it asked for another mode, while it converts
        self.convert_deadline = FOREVER
        self.nudged = 0
        self.rival: Claim | None = None
        self.seen: tuple[bytes, bool] | None = None
        self.bond: Bond | None = None


@final
class Claim:
    """One request on one key, for its whole life. As a command it asks to be enqueued."""

    __slots__ = (
        "about",
        "awaited",
        "book",
        "deadline",
        "fence",
        "kept",
        "key",
        "lease_ns",
        "limit",
        "listens",
        "mode",
        "more",
        "order",
        "owner",
        "patience_ns",
        "queue",
        "reason",
        "refuses",
        "session",
        "since",
        "state",
        "tail",
        "ticket",
        "token",
        "tracked",
        "units",
        "want",
    )

    def __init__(
        self,
        key: bytes,
        want: int,
        units: int,
        limit: int,
        lease_ns: int,
        patience_ns: int,
        queue: bool = True,
        tracked: bool = False,
        listens: bool = False,
    ) -> None:
        self.key = key
        self.want = want
        self.units = units
        self.limit = limit
        self.lease_ns = lease_ns  # FOREVER: held until it is ended
        self.patience_ns = patience_ns  # FOREVER: waits until it is granted or ended; 0: not at all
        # What is yes or no stands together, where it takes a byte each.
        self.queue = queue  # False: a try; granted now, or busy and no claim
        self.tracked = tracked  # its session wants to hear how it ends (the first phase of two)
        self.listens = listens  # its session wants nudges
        self.awaited = False  # a tracked one that waits: somebody has asked for it since, and is blocked
        self.refuses = False  # rather not at all than into a deadlock
        self.kept = False  # its session is gone, and it is not
        self.session = 0
        self.ticket: Ticket = 0
        self.state = ASKED
        self.mode: int = NL  # the granted mode; it alone counts against others, also while converting
        self.order = 0  # arrival number within its key
        self.deadline = FOREVER  # the end of the lease while held, of patience while waiting
        self.since = 0  # when it was granted, or when it began to wait
        self.fence = 0
        self.token = b""
        self.tail = b""  # what the secret has besides the token
        self.reason: Reason | None = None
        self.owner = b""  # who asks, in the caller's own words; shown to others, believed by nobody
        self.about = b""  # more of that, as compact JSON
        self.book: dict[Ticket, Claim] | None = None  # its session's claims, wherever they are indexed
        self.more: More | None = None

    def __repr__(self) -> str:
        return (
            f"<Claim {self.key!r} {self.session}/{self.ticket!r} {self.state.name} "
            f"mode={Mode(self.mode).name} want={Mode(self.want).name} fence={self.fence}>"
        )

    @property
    def secret(self) -> bytes:
        """The whole of what proves it; no place is spent on what the token tells anyway."""
        return self.token + self.tail

    @secret.setter
    def secret(self, secret: bytes) -> None:
        self.token = secret[:TOKEN_BYTES]
        self.tail = secret[TOKEN_BYTES:]

    def _more(self) -> More:
        if self.more is None:
            self.more = More()
        return self.more

    @property
    def convert_deadline(self) -> int:
        """The end of its patience for another mode; FOREVER unless it converts."""
        return FOREVER if self.more is None else self.more.convert_deadline

    @convert_deadline.setter
    def convert_deadline(self, when: int) -> None:
        if when != self.convert_deadline:
            self._more().convert_deadline = when

    @property
    def asked(self) -> int:
        """When it asked for another mode, while it converts; else 0."""
        return 0 if self.more is None else self.more.asked

    @asked.setter
    def asked(self, when: int) -> None:
        if when != self.asked:
            self._more().asked = when

    @property
    def nudged(self) -> int:
        """The mask of the modes already signalled since the last grant."""
        return 0 if self.more is None else self.more.nudged

    @nudged.setter
    def nudged(self, mask: int) -> None:
        if mask != self.nudged:
            self._more().nudged = mask

    @property
    def rival(self) -> "Claim | None":
        """Who held the key when this claim was refused."""
        return None if self.more is None else self.more.rival

    @rival.setter
    def rival(self, rival: "Claim | None") -> None:
        if rival is not self.rival:
            self._more().rival = rival

    @property
    def seen(self) -> tuple[bytes, bool] | None:
        """The value block as it was at the last grant, and whether it could be trusted; None if there was none."""
        return None if self.more is None else self.more.seen

    @seen.setter
    def seen(self, seen: tuple[bytes, bool] | None) -> None:
        if seen != self.seen:
            self._more().seen = seen

    @property
    def bond(self) -> Bond | None:
        """What ties it to the others of its group, if it asked as part of one."""
        return None if self.more is None else self.more.bond

    @bond.setter
    def bond(self, bond: Bond | None) -> None:
        if bond is not self.bond:
            self._more().bond = bond

    @property
    def blocks_caller(self) -> bool:
        """Whether its caller stands still while it waits: nobody waits yet for what is only enqueued."""
        return self.awaited or not self.tracked


@final
class Group:
    """Claims on several keys, granted together or not at all: nothing is held until all of them can be.

    While they wait they stand in all queues at once. Afterwards each is a claim of its own.
    """

    __slots__ = ("claims", "patience_ns", "queue", "refuses", "session", "ticket", "tracked")

    def __init__(
        self,
        ticket: bytes,
        claims: "list[Claim]",
        patience_ns: int,
        queue: bool = True,
        tracked: bool = False,
        refuses: bool = False,
    ) -> None:
        self.session = 0
        self.ticket = ticket
        self.claims = claims  # on different keys, in the caller's order; when it is answered: as they were granted
        self.patience_ns = patience_ns  # one for all of them
        self.queue = queue  # False: a try
        self.tracked = tracked  # its first phase: it is answered at once also where it has to wait
        self.refuses = refuses


@final
class Wait:
    """Wait for a claim or a group that was enqueued earlier; with `patience_ns` 0, withdraw it unless it is granted."""

    __slots__ = ("claims", "patience_ns", "request", "session", "ticket")

    def __init__(self, session: int, ticket: Ticket, patience_ns: int, request: "WaitFor | None" = None) -> None:
        self.session = session
        self.ticket = ticket
        self.patience_ns = patience_ns
        self.request = request  # what its caller is to be answered to
        self.claims: list[Claim] | None = None  # when it is answered, and the ticket is that of a group: as granted


@final
class WaitFor:
    """Wait for what this session enqueued on the key: the second phase of two, where no ticket is known."""

    __slots__ = ("key", "patience_ns", "session")

    def __init__(self, key: bytes, patience_ns: int) -> None:
        self.session = 0
        self.key = key
        self.patience_ns = patience_ns


@final
class Proof:
    """What some callers have to show besides the token: the whole of the secret, and who they said they were."""

    __slots__ = ("lease_id", "owner")

    def __init__(self, owner: bytes, lease_id: bytes) -> None:
        self.owner = owner
        self.lease_id = lease_id


@final
class Renew:
    """Start the lease of a held claim again, now."""

    __slots__ = ("key", "lease_ns", "proof", "session", "shortens", "token")

    def __init__(
        self, key: bytes, token: bytes, lease_ns: int, proof: Proof | None = None, shortens: bool = True
    ) -> None:
        self.session = 0  # who asks, which need not be who holds
        self.key = key
        self.token = token
        self.lease_ns = lease_ns
        self.proof = proof
        self.shortens = shortens  # False: a lease that would end later anyway stays as it is


@final
class Convert:
    """Change the mode of a held claim, or queue for it."""

    __slots__ = ("patience_ns", "queue", "refuses", "session", "ticket", "value", "want")

    def __init__(
        self,
        session: int,
        ticket: Ticket,
        want: int,
        patience_ns: int = FOREVER,
        queue: bool = True,
        value: bytes | None = None,
        refuses: bool = False,
    ) -> None:
        self.session = session
        self.ticket = ticket
        self.want = want
        self.patience_ns = patience_ns
        self.queue = queue
        self.value = value  # what to leave in the value block, where the old mode may write it
        self.refuses = refuses  # rather not at all than into a deadlock with other keys


@final
class End:
    """Give back what is held, proved by its token."""

    __slots__ = ("key", "proof", "reason", "session", "token", "value")

    def __init__(
        self,
        key: bytes,
        token: bytes,
        reason: Reason = Reason.RELEASED,
        value: bytes | None = None,
        proof: Proof | None = None,
    ) -> None:
        self.session = 0  # who asks, which need not be who holds
        self.key = key
        self.token = token
        self.reason = reason
        self.value = value
        self.proof = proof


@final
class Cancel:
    """Withdraw a claim by its ticket: a waiter goes, a conversion stops, what is held stays held.

    With `held`, that is given back too, as by its token. The ticket of a group means all that is left of it.
    """

    __slots__ = ("held", "quiet", "session", "ticket", "value")

    def __init__(
        self, session: int, ticket: Ticket, quiet: bool = False, held: bool = False, value: bytes | None = None
    ) -> None:
        self.session = session
        self.ticket = ticket
        self.quiet = quiet  # nobody awaits the answer
        self.held = held
        self.value = value  # what to leave in the value block of what was held


@final
class Hangup:
    """A session is over: its waiters go, and what it holds too unless `keep_held`."""

    __slots__ = ("keep_held", "session")

    def __init__(self, session: int, keep_held: bool = False) -> None:
        self.session = session
        self.keep_held = keep_held


@final
class Look:
    """Show what is known of the keys that start with `prefix`, or of the one `key`; changes nothing.

    With `count`, only so many, those that sort first behind `after`. With `deep`, the queues too. With `reach`, the
    keys over which somebody waits for somebody: from `key` on, or, without one, all that a deadlock could go over.
    """

    __slots__ = ("after", "count", "deep", "held", "key", "prefix", "reach", "session")

    def __init__(
        self,
        prefix: bytes = b"",
        key: bytes | None = None,
        after: bytes = b"",
        count: int = 0,
        held: bool | None = None,
        deep: bool = False,
        reach: bool = False,
    ) -> None:
        self.prefix = prefix
        self.key = key
        self.after = after
        self.count = count
        self.held = held  # True: only keys that somebody holds; False: only those that nobody holds
        self.deep = deep
        self.reach = reach
        self.session = 0


class Holder:
    """What a look tells of one holder."""

    __slots__ = (
        "about",
        "converting",
        "deadline",
        "fence",
        "kept",
        "listens",
        "mode",
        "owner",
        "secret",
        "session",
        "since",
        "units",
    )

    def __init__(self, c: Claim) -> None:
        self.session = c.session
        self.owner = c.owner
        self.about = c.about
        self.secret = c.secret
        self.mode = c.mode
        self.converting: int | None = c.want if c.state is CONVERTING else None  # the mode that it wants instead
        self.units = c.units
        self.fence = c.fence
        self.since = c.since
        self.deadline = c.deadline
        self.kept = c.kept
        self.listens = c.listens


class Waiter:
    """What a deep look tells of one who waits: for the key, or, `converting`, for another mode of what it holds."""

    __slots__ = (
        "about",
        "blocked",
        "converting",
        "deadline",
        "fence",
        "group",
        "order",
        "owner",
        "session",
        "since",
        "units",
        "want",
    )

    def __init__(self, c: Claim) -> None:
        bond = c.bond
        self.converting = c.state is CONVERTING
        self.session = c.session
        self.owner = c.owner
        self.about = c.about
        self.want = c.want
        self.units = c.units
        self.since = c.asked if self.converting else c.since
        self.deadline = c.convert_deadline if self.converting else c.deadline  # the end of its patience
        self.order = c.order
        self.fence = c.fence  # of what it holds, while it converts
        self.group = bond.number if bond is not None and not self.converting else 0  # 0: it asks for itself alone
        self.blocked = self.converting or c.blocks_caller


class View:
    """What a look tells of one key."""

    __slots__ = ("holders", "key", "limit", "queue", "touched", "version", "waiters")

    def __init__(
        self,
        key: bytes,
        limit: int,
        holders: list[Holder],
        waiters: int,
        touched: int,
        version: int,
        queue: list[Waiter] | None = None,
    ) -> None:
        self.key = key
        self.limit = limit
        self.version = version  # how often who holds it, or for how long, has changed
        self.holders = holders
        self.waiters = waiters
        self.queue: list[Waiter] = queue or []  # only in a deep look: conversions first, then waiters, in their order
        self.touched = touched


@final
class Census:
    """How many there are: keys, and holders and waiters on plain locks and on those with seats."""

    __slots__ = ("held", "keys", "seats_held", "seats_waiting", "waiting")

    def __init__(self, keys: int, held: int, waiting: int, seats_held: int, seats_waiting: int) -> None:
        self.keys = keys
        self.held = held
        self.waiting = waiting
        self.seats_held = seats_held
        self.seats_waiting = seats_waiting


Command = Claim | Group | Wait | Renew | Convert | End | Cancel | Hangup | Look

# What a door may hand to the desk. A Wait needs no `request` there: it is its own.
Request = Claim | Group | Wait | WaitFor | Renew | Convert | End | Cancel | Look


@final
class Granted:
    """News: a claim that waited, or a conversion that waited, has been granted."""

    __slots__ = ("claim", "together")

    def __init__(self, claim: Claim, together: list[Claim] | None = None) -> None:
        self.claim = claim
        self.together = together  # all of its group, of each of which there is news


@final
class Ended:
    """News: a claim is gone, and its own session did not ask for it."""

    __slots__ = ("claim", "reason", "was")

    def __init__(self, claim: Claim, reason: Reason, was: State) -> None:
        self.claim = claim
        self.reason = reason
        self.was = was  # what it was doing when it ended


@final
class Stayed:
    """News: a conversion that waited is over without a grant; the claim holds its old mode."""

    __slots__ = ("claim", "reason")

    def __init__(self, claim: Claim, reason: Reason) -> None:
        self.claim = claim
        self.reason = reason


@final
class Nudged:
    """News: somebody waits for `want`, which clashes with what this claim holds."""

    __slots__ = ("claim", "want")

    def __init__(self, claim: Claim, want: int) -> None:
        self.claim = claim
        self.want = want


Effect = Granted | Ended | Stayed | Nudged
