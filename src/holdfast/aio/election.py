"""An election: lead while holding a lock, stand again when it is lost, and hand the office on at the end.

What a lease is worth is judged elsewhere; nothing here decides that somebody leads.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Final

from holdfast.aio.held import Held, held_of
from holdfast.aio.locks import want_for
from holdfast.aio.server import Server
from holdfast.aio.waiting import Companion, Event, sleep_until, wait_for
from holdfast.client.core import Acquiring
from holdfast.client.options import Options
from holdfast.errors import BadPeer, BadRequest, Closed, Forbidden, HoldfastError, LeaseLost, LimitMismatch

logger: Final = logging.getLogger("holdfast.client")
SECOND: Final = 1_000_000_000
# How long to leave a server alone that could not be reached, or did not want us.
PAUSE_NS: Final = SECOND
# Trouble that no time cures.
LASTING: Final = (BadRequest, Forbidden, BadPeer, LimitMismatch)
# How long the end of an election may take.
END_NS_MAX: Final = 5 * SECOND

Told = Callable[[Held], object]


class Election:
    """One candidate. Inside its `with` it stands for election, and leads while it holds the lock."""

    def __init__(
        self, server: Server, key: str, options: Options, on_elected: Told | None, on_deposed: Told | None
    ) -> None:
        self._server = server
        self._key = key
        self._on_lost = options.on_lost
        self._options = replace(options, patience_ns=None, on_lost=self._lost)
        self._on_elected = on_elected
        self._on_deposed = on_deposed
        self._held: Held | None = None
        self._standing: Acquiring | None = None
        self._companion: Companion | None = None
        self._over = False
        self._news = Event()  # the office is lost, or the election over
        self._trouble: HoldfastError | None = None
        self._deposed: Event | None = None

    def __repr__(self) -> str:
        return f"<Election {self._key!r} {'leading' if self.leading else 'standing' if self._companion else 'over'}>"

    @property
    def key(self) -> str:
        """The name of the lock that leads."""
        return self._key

    @property
    def leading(self) -> bool:
        """Whether this one leads, and nobody else can, at this moment. Asks nobody."""
        held = self._held
        return held is not None and held.held

    @property
    def held(self) -> Held | None:
        """What is held while this one leads."""
        held = self._held
        return held if held is not None and held.held else None

    def check(self) -> None:
        """Raise LeaseLost unless this one leads at this moment. Asks nobody."""
        if not self.leading:
            raise LeaseLost(f"this one does not lead under {self._key!r}")

    async def __aenter__(self) -> "Election":
        if self._companion is not None:
            raise BadRequest("this election goes on already; make one for each candidate")
        self._over = False
        self._news = Event()
        self._trouble = None
        self._server.enter()
        self._companion = Companion(self._server.place, self._stand, f"holdfast-election {self._key}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        companion, self._companion = self._companion, None
        assert companion is not None
        self._over = True
        self._news.set()
        standing = self._standing
        if standing is not None:
            self._server.forget(standing.want, None)  # which ends the wait, too
        until = self._server.clock() + END_NS_MAX
        try:
            await companion.join(self._server.world, until)
            if self._deposed is not None:
                await wait_for(self._server.world, self._deposed, until)
        finally:
            if self._held is not None:
                self._held.abandon()
        if self._trouble is not None and error is None:
            raise self._trouble

    # --- beside ---

    async def _stand(self) -> None:
        """Stand for election again and again, until it is over."""
        while not self._over:
            try:
                held = await self._win()
            except HoldfastError as error:
                if not self._bears(error):
                    return
                await sleep_until(self._server.world, self._server.clock() + PAUSE_NS)
            else:
                await self._lead(held)

    def _bears(self, error: HoldfastError) -> bool:
        """Say whether to try again after such trouble."""
        if self._over:
            return False
        if isinstance(error, LASTING):
            logger.error("cannot stand for election under %r: %s", self._key, error)
            self._trouble = error
            return False
        logger.warning("could not stand for election under %r yet: %s", self._key, error)
        return True

    async def _win(self) -> Held:
        self._standing = Acquiring(self._server.rules, want_for(self._server, self._key, self._options), None)
        try:
            if self._over:
                raise Closed("the election is over")
            await self._server.run(self._standing)
            return held_of(self._server, self._standing, self._options)
        finally:
            self._standing = None

    async def _lead(self, held: Held) -> None:
        self._held = held
        try:
            if not self._over:
                self._tell(self._on_elected, held)
                await wait_for(self._server.world, self._news)
                self._deposed = self._tell(self._on_deposed, held)
                if not self._over:
                    self._news.clear()
        finally:
            await held.release()
            self._held = None

    def _tell(self, function: Told | None, held: Held) -> Event | None:
        return None if function is None else self._server.place.told(function, held)

    def _lost(self, held: Held) -> object:
        self._news.set()
        return None if self._on_lost is None else self._on_lost(held)
