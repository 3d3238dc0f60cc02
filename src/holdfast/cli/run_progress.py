"""Who is in the way of a lock that is waited for: a line for people that follows the queue.

It has a connection of its own, and whatever goes wrong with it does not disturb the wait.
"""

import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import click

from holdfast.cli.calling import opened, scheme_of, url_of
from holdfast.cli.explain import caller
from holdfast.cli.listing import cut, seconds, text
from holdfast.errors import HoldfastError

# Most locks are had at once, and there is nothing to be told then.
FIRST_LOOK_S = 0.3
LOOK_S = 1.0
# Where lines cannot be written over, as in a log.
LOG_LOOK_S = 10.0
END_S_MAX = 2.0
CLEAR_LINE = "\r\x1b[K"


class Progress:
    """Tells for as long as its block lasts, if it is to be shown."""

    def __init__(self, server: str | None, key: str, kind: str, *, shown: bool) -> None:
        self._server = server
        self._key = key
        self._kind = kind
        self._over = threading.Event()
        self._on_terminal = sys.stderr.isatty()
        self._wrote = False
        self._waits_s = 0.0
        self._thread = threading.Thread(target=self._run, name="holdfast-progress", daemon=True) if shown else None

    def __enter__(self) -> "Progress":
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(END_S_MAX)
            if self._wrote and self._on_terminal:
                click.echo(CLEAR_LINE, nl=False, err=True)

    def _run(self) -> None:
        if self._over.wait(FIRST_LOOK_S):
            return
        self._waits_s = FIRST_LOOK_S
        if scheme_of(url_of(self._server)) != "holdfast":
            self._tell_until_over(lambda: None)
            return
        try:
            with opened(self._server, name="holdfast run") as client:
                self._tell_until_over(lambda: client.show(self._key, kind=self._kind))
        except HoldfastError as error:
            self._write(f"waiting for {text(self._key)}; who is in the way is not known: {error}")

    def _tell_until_over(self, look: Callable[[], dict[str, Any] | None]) -> None:
        pause_s = LOOK_S if self._on_terminal else LOG_LOOK_S
        while True:
            view = look()
            if self._over.is_set():
                return
            self._write(line(self._key, view, self._waits_s))
            if self._over.wait(pause_s):
                return
            self._waits_s += pause_s

    def _write(self, told: str) -> None:
        if self._over.is_set():
            return
        self._wrote = True
        if self._on_terminal:
            click.echo(CLEAR_LINE + cut(told, shutil.get_terminal_size().columns - 1), nl=False, err=True)
        else:
            click.echo(f"holdfast: {told}", err=True)


def line(key: str, view: dict[str, Any] | None, waits_s: float) -> str:
    """Say who is in the way."""
    told = f"waiting for {text(key)} for {seconds(waits_s)}"
    if view is None:
        return told
    holders = view.get("holders", [])
    if holders:
        told += f": held by {caller(holders[0])} for {seconds(holders[0].get('since_ms', 0) / 1000)}"
        told += f" and {len(holders) - 1} more" if len(holders) > 1 else ""
    ahead = ahead_of_us(view.get("queue", []))
    return told + (f", {ahead} ahead of us" if ahead else ", we are next" if ahead == 0 else "")


def ahead_of_us(queue: list[dict[str, Any]]) -> int | None:
    """Count who stands before us; None when we do not stand there."""
    for place, waiter in enumerate(queue):
        if waiter.get("pid") == os.getpid() and waiter.get("host") == socket.gethostname():
            return place
    return None
