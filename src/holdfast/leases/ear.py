"""A thread that listens for bells while somebody waits for one, so that a waiter wakes at once.

Without it, or while the database is away, waiters simply wait for as long as they said.
"""

import select
import socket
import threading
from contextlib import suppress
from typing import Any, Final

from holdfast.client.process import generation
from holdfast.errors import HoldfastError
from holdfast.leases.bells import Bells
from holdfast.leases.drivers.port import QUICK, Driver, Listener

# How long it goes on to listen when nobody waits, and how soon it connects again.
IDLE_S: Final = 30.0
AGAIN_S: Final = 1.0


class Ear:
    """One for each backend whose database rings."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._begin()

    def _begin(self) -> None:
        self._generation = generation()
        self.bells = Bells()
        self._lock = threading.Lock()
        self._thread: _Listening | None = None

    def wait(self, bell: str, seconds: float) -> None:
        """Wait until it rings, and no longer than that."""
        if self._generation != generation():
            self._begin()
        rung = threading.Event()
        if not self.bells.enter(bell, rung.set):
            return
        try:
            with self._lock:
                if self._thread is None:
                    self._thread = _Listening(self)
                    self._thread.start()
            rung.wait(seconds)
        finally:
            self.bells.leave(bell, rung.set)

    def close(self) -> None:
        """Stop listening; who waits is woken."""
        if self._generation != generation():
            return
        with self._lock:
            thread, self._thread = self._thread, None
        self.bells.ring_all()
        if thread is not None:
            thread.stop()

    def done(self, thread: "_Listening") -> bool:
        """Let a thread go that nobody needs."""
        with self._lock:
            if self._thread is thread:
                if self.bells.awaited:
                    return False
                self._thread = None
            return True

    def connect(self) -> Listener:
        return self._driver.listen(QUICK)


class _Listening(threading.Thread):
    """The thread."""

    def __init__(self, ear: Ear) -> None:
        super().__init__(name="holdfast-leases-ear", daemon=True)
        self._ear = ear
        self._stopped = threading.Event()
        self._woken, self._waker = socket.socketpair()

    def stop(self) -> None:
        self._stopped.set()
        self._waker.send(b"!")
        self.join(QUICK.connect_s + QUICK.answer_s)

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                # Whatever is wrong with the database, those who poll it are told.
                with suppress(HoldfastError):
                    self._listen()
                if self._stopped.is_set() or self._ear.done(self):
                    return
                self._hears(None, AGAIN_S)
        finally:
            self._woken.close()
            self._waker.close()

    def _listen(self) -> None:
        """Listen until nobody needs it, or the connection is over."""
        listener = self._ear.connect()
        try:
            self._ear.bells.ring_all()
            while not self._stopped.is_set():
                if self._hears(listener, IDLE_S):
                    for bell in listener.heard():
                        self._ear.bells.ring(bell)
                elif not self._ear.bells.awaited:
                    return
        finally:
            listener.close()

    def _hears(self, listener: Listener | None, seconds: float) -> bool:
        """Wait for the listener, and say whether it has something."""
        files: list[Any] = [self._woken] if listener is None else [self._woken, listener]
        ready, _, _ = select.select(files, [], [], seconds)
        return listener is not None and listener in ready
