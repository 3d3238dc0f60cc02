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
from holdfast.cli.run_kernel import SECOND, now_ns
from holdfast.errors import HoldfastError

# Most locks are had at once, and there is nothing to be told then.
FIRST_LOOK_S = 0.3
LOOK_S = 1.0
# Where lines cannot be written over, as in a log.
LOG_LOOK_S = 10.0
# Nobody is told anything new while a look is under way.
TIMEOUT_S = 2.0
END_S_MAX = 2.0
OUR_NAME = "holdfast run"
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
        self._began = 0
        self._thread = threading.Thread(target=self._run, name="holdfast-progress", daemon=True) if shown else None

    def __enter__(self) -> "Progress":
        self._began = now_ns()
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
        if scheme_of(url_of(self._server)) != "holdfast":
            self._tell_until_over(lambda: None)
            return
        with opened(self._server, name=OUR_NAME, timeout_s=TIMEOUT_S) as client:
            self._tell_until_over(lambda: client.show(self._key, kind=self._kind))

    def _tell_until_over(self, look: Callable[[], dict[str, Any] | None]) -> None:
        trouble_before = ""
        while not self._over.is_set():
            view, trouble = None, ""
            try:
                view = look()
            except HoldfastError as error:
                trouble = str(error)
            told = line(self._key, view, (now_ns() - self._began) / SECOND)
            if not trouble:
                self._write(told)
            elif self._on_terminal or trouble != trouble_before:
                self._write(f"{told}; who is in the way is not known: {trouble}")
            trouble_before = trouble
            self._over.wait(LOOK_S if self._on_terminal else LOG_LOOK_S)

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
