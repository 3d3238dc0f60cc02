"""One native connection among threads, without a thread of its own: one of those who wait reads for all.

Written by hand; `aio/connection.py` does the same for an event loop. When to ask again is not decided here.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.client.asks import Answer, Ask, Query
from holdfast.client.ports import Address, Mutex, Network, Stream
from holdfast.errors import HoldfastError, Unavailable, Unknown

if TYPE_CHECKING:
    from holdfast.client.dialects.native import NativeCodec

SECOND: Final = 1_000_000_000
# When somebody waits and nothing has come for so long, the server is asked whether it is there.
SILENCE_NS_MAX: Final = 10 * SECOND
FAR: Final = 1 << 62


class Slot:
    """Where one answer goes; its thread sleeps on the bell while another one reads."""

    __slots__ = ("answer", "bell", "error", "until")

    def __init__(self, until: int) -> None:
        self.until = until
        self.answer: Answer | None = None
        self.error: HoldfastError | None = None
        self.bell: Mutex | None = None

    def ring(self) -> None:
        """Wake its thread, if that sleeps."""
        if self.bell is not None:
            with suppress(RuntimeError):  # it has been rung already
                self.bell.release()


class Connection:
    """A connection that has been greeted."""

    def __init__(
        self,
        stream: Stream,
        codec: "NativeCodec",
        clock: Callable[[], int],
        timeout_ns: int,
        lock: Callable[[], Mutex] = threading.Lock,
    ) -> None:
        self._stream = stream
        self._codec = codec
        self._clock = clock
        self._timeout_ns = timeout_ns
        self._lock = lock
        self._writing = threading.Lock()  # for the codec's books and the stream's order
        self._reading = threading.Lock()  # whoever has it reads for all
        self._heard_at = clock()
        self._ping: Slot | None = None
        self._why: HoldfastError | None = None
        self.is_over = False

    def ask(self, ask: Ask, until: int | None) -> Answer:
        """Ask, and wait for the answer; one that is overdue at `until` ends the connection."""
        slot = Slot(FAR if until is None else until)
        self._send(ask, slot)
        try:
            self._wait(slot)
        except BaseException:
            slot.bell = None  # its thread does not wait any more, and so cannot read for the others
            self._appoint()
            raise
        if slot.error is not None:
            raise slot.error
        assert slot.answer is not None
        return slot.answer

    def post(self, ask: Ask) -> bool:
        """Ask behind everything that was asked before, and care for no answer; say whether it could be asked."""
        if self.is_over or not self._codec.has_room():
            return False
        self._send(ask, Slot(FAR))
        return not self.is_over

    def close(self) -> None:
        """Let go of it; whoever waits hears that the answer is unknown."""
        self._end(Unknown("the connection was closed here"))

    # --- out ---

    def _send(self, ask: Ask, slot: Slot) -> None:
        with self._writing:
            if self.is_over:
                raise Unavailable("the connection is over")
            if not self._codec.has_room():
                raise Unavailable("as many requests wait on this connection as the server lets")
            data = self._codec.write(ask, slot)
            try:
                self._stream.send(data)
                return
            except OSError as error:
                trouble = Unknown(f"the connection broke: {error}")
            except BaseException:
                # Half a line may have left: nobody can use this connection any more.
                self._end(Unknown("the request was interrupted"))
                raise
        self._end(trouble)

    # --- in ---

    def _wait(self, slot: Slot) -> None:
        """Wait until there is something in this slot: read, or sleep while another thread does."""
        while slot.answer is None and slot.error is None:
            if self.is_over:
                slot.error = self._why  # it ended while this request was on its way out
            elif self._reading.acquire(blocking=False):
                try:
                    self._read_until(slot)
                finally:
                    self._reading.release()
                    self._appoint()
            else:
                self._sleep(slot)

    def _read_until(self, slot: Slot) -> None:
        """Read for everybody, until there is an answer in this slot."""
        while slot.answer is None and slot.error is None and not self.is_over:
            now = self._clock()
            until = min(slot.until, self._heard_at + SILENCE_NS_MAX if self._ping is None else self._ping.until)
            try:
                data = self._stream.receive(until)
            except TimeoutError:
                self._silent(slot)
                continue
            except OSError as error:
                self._end(Unknown(f"the connection broke: {error}"))
                return
            except ValueError as error:  # the file number of a socket that was closed meanwhile
                self._end(Unknown(f"the connection was closed: {error}"))
                return
            except BaseException:
                # What had come may be lost, and with it the answers of others: nobody can use this connection any more.
                self._end(Unknown("reading was interrupted"))
                raise
            if not data:
                self._end(Unknown("the server closed the connection"))
                return
            self._heard_at = now
            self._take(data)

    def _take(self, data: bytes) -> None:
        try:
            with self._writing:
                answers = self._codec.read(data)
        except HoldfastError as error:
            self._end(error)
            return
        for slot, answer in answers:
            slot.answer = answer
            slot.ring()
            if slot is self._ping:
                self._ping = None

    def _silent(self, slot: Slot) -> None:
        """Nothing came: an answer is overdue, or the server has to show that it is there."""
        now = self._clock()
        overdue = [waiting for waiting in self._codec.waiting if waiting.until <= now]
        if overdue or slot.until <= now:
            self._end(Unknown("the server did not answer in time"))
        elif self._ping is None and now - self._heard_at >= SILENCE_NS_MAX:
            self._ping = Slot(now + self._timeout_ns)
            self._send(Query("ping"), self._ping)

    # --- among threads ---

    def _sleep(self, slot: Slot) -> None:
        """Wait until the one who reads has the answer, or stops reading."""
        if slot.bell is None:
            slot.bell = self._lock()
            slot.bell.acquire()
            return  # somebody may have rung before there was a bell
        left = (slot.until - self._clock()) / SECOND
        slot.bell.acquire(timeout=min(max(left, 0.001), 3600.0))

    def _appoint(self) -> None:
        """Let another thread that waits do the reading from now on."""
        with self._writing:
            for slot in self._codec.waiting:
                if slot.bell is not None and slot.answer is None:
                    slot.ring()
                    return

    def _end(self, error: HoldfastError) -> None:
        if self.is_over:
            return
        self._why = error
        self.is_over = True
        self._stream.close()
        for slot in self._codec.waiting:
            slot.error = error
            slot.ring()


def connect(
    network: Network,
    address: Address,
    codec: "NativeCodec",
    clock: Callable[[], int],
    timeout_ns: int,
    *,
    lock: Callable[[], Mutex] = threading.Lock,
) -> Connection:
    """Connect and greet. Raises Unavailable where nobody answers, and what the server says where it refuses."""
    until = clock() + timeout_ns
    try:
        stream = network.dial(address, until)
    except OSError as error:
        raise Unavailable(f"cannot connect to {address}: {error or type(error).__name__}") from error
    try:
        stream.send(codec.greeting())
        while not codec.ready:
            data = stream.receive(until)
            if not data:
                raise Unavailable(f"{address} closed the connection instead of answering hello")
            codec.read(data)
    except OSError as error:
        stream.close()
        raise Unavailable(f"{address} did not answer hello: {error or type(error).__name__}") from error
    except BaseException:
        stream.close()
        raise
    return Connection(stream, codec, clock, timeout_ns, lock)
