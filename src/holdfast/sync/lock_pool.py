# Made from aio/lock_pool.py by tools/faces.py: change that one, and run `python -m tools.faces`.

"""Connections to one HTTP server, kept for the next request, each with one exchange at a time.

Bytes go out, an answer comes back, and a failure tells whether the request may have been applied. What is asked is none
of its business.
"""

import threading

from holdfast.client.clock import now_ns
from holdfast.client.http import Answer, AnswerReader
from holdfast.client.lock_api import Ask
from holdfast.client.ports import Address
from holdfast.client.process import generation
from holdfast.errors import Closed, Unavailable, Unknown
from holdfast.sync.lock_tools import DIAL_ERRORS, Wire, dial

IDLE_MAX = 16


class Hand:
    """Lets somebody else break off an exchange."""

    def __init__(self) -> None:
        self.wire: Wire | None = None
        self.broken = False

    def take(self, wire: Wire | None) -> None:
        self.wire = wire
        if self.broken and wire is not None:
            wire.close()

    def break_off(self) -> None:
        self.broken = True
        if self.wire is not None:
            self.wire.close()


class Pool:
    """Idle connections, the latest first. Threads may share it; a child of a fork begins with none."""

    def __init__(self, address: Address, *, idle_max: int = IDLE_MAX) -> None:
        self._address = address
        self._idle_max = idle_max
        self._idle: list[Wire] = []
        self._lock = threading.Lock()
        self._closed = False
        self._generation = generation()

    def exchange(self, ask: Ask, until: int, *, hand: Hand | None = None, twice: bool = True) -> Answer:
        """Send a request and read its answer.

        Raises Unavailable when it was certainly not applied, Unknown when it may have been, BadPeer when the answer is
        none. A kept connection that the server has closed meanwhile is replaced, if the request may be sent twice.
        """
        wire = self._take()
        if wire is not None:
            answer = self._try(wire, ask, until, hand, kept=twice)
            if answer is not None:
                return answer
        try:
            wire = dial(self._address, until)
        except DIAL_ERRORS as error:
            raise Unavailable(f"{self._address} cannot be reached: {error or type(error).__name__}") from error
        answer = self._try(wire, ask, until, hand, kept=False)
        assert answer is not None, "only what is tried on a kept connection may be tried again"
        return answer

    def _try(self, wire: Wire, ask: Ask, until: int, hand: Hand | None, *, kept: bool) -> Answer | None:
        """Exchange over this connection; nothing if it was kept and turns out to be closed."""
        reader = AnswerReader(ask.method)
        keep = False
        if hand is not None:
            hand.take(wire)
        try:
            wire.send(ask.data, until)
            answer = None
            while answer is None:
                data = wire.receive(until)
                if not data:
                    if kept and not reader.begun:
                        return None
                    answer = reader.end()
                else:
                    answer = reader.feed(data)
            keep = answer.keeps
            return answer
        except TimeoutError as error:
            raise Unknown(f"{self._address} has not answered in time") from error
        except OSError as error:
            if kept and not reader.begun and now_ns() < until:
                return None
            raise Unknown(f"the connection to {self._address} broke: {error}") from error
        finally:
            if hand is not None:
                hand.take(None)
            self._put(wire, keep=keep)

    def close(self) -> None:
        """Let go of what is kept; exchanges under way end as they will."""
        self._begin_anew_after_fork()
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.close()

    def _begin_anew_after_fork(self) -> None:
        """Leave to the parent what is its own; it goes on with these connections."""
        if self._generation != generation():
            self._generation = generation()
            self._lock = threading.Lock()  # the old one may be held by a thread that does not exist here
            strangers, self._idle = self._idle, []
            for wire in strangers:
                wire.forsake()

    def _take(self) -> Wire | None:
        self._begin_anew_after_fork()
        with self._lock:
            if self._closed:
                raise Closed("the client is closed")
            while self._idle:
                wire = self._idle.pop()
                if wire.quiet:
                    return wire
                wire.close()
        return None

    def _put(self, wire: Wire, *, keep: bool) -> None:
        with self._lock:
            if keep and not self._closed and len(self._idle) < self._idle_max and self._generation == generation():
                self._idle.append(wire)
                return
        wire.close()
