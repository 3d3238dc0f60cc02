"""A caller at the desk who can be awaited: one session, many requests at once, each with a future for its answer.

It serves doors that are written with `async`; which protocol asks, and what the answers mean, is their business.
"""

import asyncio
from collections.abc import Callable

from holdfast.desk import Desk
from holdfast.ports import Clock, Face
from holdfast.words import GRANTED, QUEUED, Answer, Claim, Effect, End, Look, Request, View, WaitFor

Outcome = tuple[Answer, Claim | None]

# What was seen; or, with nothing seen, the answer that says why.
Sight = tuple[Answer | None, list[View]]


class Asker(Face):
    """One session. `resident`: the one that is never over, for callers who are bound to nothing."""

    def __init__(
        self,
        desk: Desk,
        clock: Clock,
        *,
        resident: bool = False,
        told: Callable[[Effect], None] | None = None,
        about: bytes = b"",
    ) -> None:
        self._desk = desk
        self._clock = clock
        self._told = told
        self._about = about
        self._awaited: dict[int, asyncio.Future[Outcome]] = {}  # by the identity of the request
        self._looks: dict[int, asyncio.Future[Sight]] = {}  # by the identity of the look; seen in their order
        self.session = desk.reside(self) if resident else desk.open(self)

    async def ask(self, request: Request) -> Outcome:
        """Hand a request in and wait for its answer.

        Whoever stops waiting, because the caller is gone, withdraws a claim by that: if it is granted all the same,
        it is given back, unless its caller has named it with a ticket and may come back for it.
        """
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._awaited[id(request)] = future
        named = isinstance(request, Claim) and bool(request.ticket)
        self._desk.submit(self.session, request, self._clock())
        try:
            return await future
        except asyncio.CancelledError:
            if isinstance(request, (Claim, WaitFor)):
                self._abandon(request, future, named)
            raise

    def _abandon(self, request: Claim | WaitFor, future: asyncio.Future[Outcome], named: bool) -> None:
        """Nobody waits for this answer any more, whether it is there or not."""
        if not future.cancelled() and future.done():
            answer, granted = future.result()
        else:
            # The answer is still to come: keep a place for it, which outlives the caller.
            late: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            self._awaited[id(request)] = late
            late.add_done_callback(lambda done: self._give_back(request, *done.result(), named))
            self._desk.withdraw(self.session, request, self._clock())
            return
        self._give_back(request, answer, granted, named)

    def _give_back(self, request: Claim | WaitFor, answer: Answer, claim: Claim | None, named: bool) -> None:
        if answer is GRANTED and claim is not None and not named:
            self._desk.give_back(self.session, End(claim.key, claim.token), self._clock())
        elif answer is QUEUED:
            self._desk.withdraw(self.session, request, self._clock())

    async def look(self, look: Look) -> list[View]:
        """See what is known of some keys; nothing, where the service cannot tell."""
        _, views = await self.see(look)
        return views

    async def see(self, look: Look) -> Sight:
        """See what is known of some keys, or why that cannot be told."""
        future: asyncio.Future[Sight] = asyncio.get_running_loop().create_future()
        self._looks[id(look)] = future
        self._desk.submit(self.session, look, self._clock())
        return await future

    def close(self) -> None:
        """The session is cut off; whoever still waits is told that it is closed."""
        self._desk.close(self.session, self._clock())
        self._tell_all_closed()

    def dismiss(self) -> None:
        """The session is over because its caller says so, and all that it holds is given back."""
        self._desk.dismiss(self.session, self._clock())
        self._tell_all_closed()

    def _tell_all_closed(self) -> None:
        for future in list(self._awaited.values()):
            if not future.done():
                future.set_result((Answer.CLOSED, None))
        for looking in list(self._looks.values()):
            if not looking.done():
                looking.set_result((Answer.CLOSED, []))
        self._awaited.clear()
        self._looks.clear()

    # --- from the desk ---

    def answer(self, request: Request, answer: Answer, claim: Claim | None) -> None:
        if isinstance(request, Look):  # the desk drains, or the store cannot be read
            looking = self._looks.pop(id(request), None)
            if looking is not None and not looking.done():
                looking.set_result((answer, []))
            return
        waiting = self._awaited.pop(id(request), None)
        if waiting is not None and not waiting.done():
            waiting.set_result((answer, claim))

    def seen(self, views: list[View]) -> None:
        looking = self._looks.pop(next(iter(self._looks)))
        if not looking.done():
            looking.set_result((None, views))

    def news(self, effect: Effect) -> None:
        if self._told is not None:
            self._told(effect)

    def about(self) -> bytes:
        return self._about
