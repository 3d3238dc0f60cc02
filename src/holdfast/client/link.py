"""One connection of the keeper, from its opening to its end: what is asked over it, and what was never answered.

It never waits, and it is never opened twice: whoever needs another connection makes another link.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.client.asks import Answer, Ask, News, Refusal
from holdfast.client.dialects.codec import Codec
from holdfast.client.ports import Address, Opener, Pipe
from holdfast.errors import BadPeer, BadRequest, HoldfastError, Unavailable, Unknown

FOREVER: Final = 1 << 63
SECOND: Final = 1_000_000_000
# How long a connection may take to be there and greeted.
OPEN_NS_MAX: Final = 5 * SECOND


class Call:
    """One request on its way, and what became of it: either `answer` or `error` is there when it is `done`."""

    __slots__ = ("_done", "answer", "ask", "error", "link", "over", "sent_at", "until")

    def __init__(self, ask: Ask, until: int, done: "Callable[[Call], None]") -> None:
        self.ask = ask
        self.until = until  # when the answer is overdue, and the connection with it
        self.sent_at = 0  # before it left; 0: it has not
        self.answer: Answer | None = None
        self.error: HoldfastError | None = None
        self.over = False
        self.link: Link | None = None
        self._done = done

    def answered(self, answer: Answer) -> None:
        if not self.over:
            self.over = True
            self.answer = answer
            self._done(self)

    def after(self, more: "Callable[[Call], None]") -> None:
        """Have something else done as well, before whoever asked hears of it."""
        done = self._done

        def both(call: Call) -> None:
            more(call)
            done(call)

        self._done = both

    def failed(self, why: str) -> None:
        """It will not be answered. Whether it was heard is unknown once it has been sent."""
        self.refused(Unknown(why) if self.sent_at else Unavailable(why))

    def refused(self, error: HoldfastError) -> None:
        if not self.over:
            self.over = True
            self.error = error
            self._done(self)


class Link:
    """A connection with a codec. Its owner hears of news and of its end."""

    def __init__(
        self,
        address: Address,
        codec: Codec,
        opener: Opener,
        now: int,
        *,
        greeted: "Callable[[Link, int], None] | None" = None,
        told: Callable[[list[News], int], None] | None = None,
        over: "Callable[[Link, str, int], None] | None" = None,
    ) -> None:
        self.address = address
        self.codec = codec
        self.is_over = False
        self.opened = False
        self.ready_once = False
        self._speaks = False  # it has said something that can be understood
        self.told_watches = False  # there is something to take back before it is told what to watch
        self.used_at = now
        self._on_greeted = greeted
        self._on_told = told
        self._on_over = over
        self._queue: deque[Call] = deque()
        # What was sent and has no answer yet. A codec forgets a request whose answer it cannot read; this does not.
        self._sent: dict[Call, None] = {}
        self._open_by = now + OPEN_NS_MAX
        self._pipe: Pipe = opener(address, self)

    @property
    def ready(self) -> bool:
        return self.opened and self.codec.ready and not self.is_over

    @property
    def idle(self) -> bool:
        return not self._queue and not self._sent

    def submit(self, call: Call, now: int) -> None:
        """Send a request as soon as that can be."""
        if self.is_over:
            call.failed("the connection is over")
            return
        call.link = self
        self._queue.append(call)
        self._flush(now)

    def close(self, why: str, now: int) -> None:
        """Let go of the connection; its owner hears of it as of any other end."""
        if not self.is_over:
            self._pipe.close()
            self._end(why, now)

    def tick(self, now: int) -> int:
        """Give up on a server that takes too long; answer when to look again."""
        if self.is_over:
            return FOREVER
        deadline = FOREVER if self.ready else self._open_by
        for call in self._sent:  # also for one that nobody waits for any more: the server owes an answer
            if call.until < deadline:
                deadline = call.until
        for call in self._queue:
            if call.until < deadline and not call.over:
                deadline = call.until
        if deadline > now:
            return deadline
        self.close("the server did not answer in time", now)
        return FOREVER

    # --- from the network ---

    def connected(self, now: int) -> None:
        self.opened = True
        greeting = self.codec.greeting()
        if greeting:
            self._pipe.write(greeting)
        self._note_ready(now)
        self._flush(now)

    def received(self, data: bytes, now: int) -> None:
        if self.is_over:
            return
        try:
            answers = self.codec.read(data)
        except HoldfastError as error:
            self._distrust(error, now)
            return
        self._note_ready(now)
        self._speaks = self._speaks or bool(answers or self.codec.news)
        self._answer(answers)
        self._tell(now)
        self._flush(now)

    def broken(self, why: str, now: int) -> None:
        if self.is_over:
            return
        try:
            answers = self.codec.end()
        except HoldfastError as error:
            self._distrust(error, now)
            return
        self._answer(answers)
        self._end(why, now)

    # --- inside ---

    def _distrust(self, error: HoldfastError, now: int) -> None:
        """The other side has said what no peer of ours says, or refuses us as a whole.

        Who was understood before has stumbled, and may be asked again; who never was speaks something else.
        """
        for call in [*self._sent, *self._queue]:
            if isinstance(error, BadPeer) and call.sent_at and self._speaks:
                call.failed(str(error))
            else:
                call.refused(error)
        self.close(str(error), now)

    def _note_ready(self, now: int) -> None:
        if self.ready and not self.ready_once:
            self.ready_once = True
            if self._on_greeted is not None:
                self._on_greeted(self, now)

    def _answer(self, answers: list[tuple[Call, Answer]]) -> None:
        for call, answer in answers:
            self._sent.pop(call, None)
            call.answered(answer)

    def _tell(self, now: int) -> None:
        news, self.codec.news = self.codec.news, []
        if news and self._on_told is not None:
            try:
                self._on_told(news, now)
            except BadPeer as error:
                self._distrust(error, now)

    def _flush(self, now: int) -> None:
        while self._queue and self.ready and self.codec.has_room():
            call = self._queue.popleft()
            if call.over:
                continue
            try:
                data = self.codec.write(call.ask, call)
            except BadRequest as error:
                call.answered(Refusal(error))
                continue
            call.sent_at = self.used_at = now
            self._sent[call] = None
            self._pipe.write(data)

    def _end(self, why: str, now: int) -> None:
        self.is_over = True
        calls = [*self._sent, *self._queue]
        self._sent.clear()
        self._queue.clear()
        for call in calls:
            call.failed(why)
        if self._on_over is not None:
            self._on_over(self, why, now)
