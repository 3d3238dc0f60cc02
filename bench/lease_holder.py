"""`python -m bench.lease_holder`: a process that holds a lock, looks at it all the time, and writes down what it sees.

It is one of the parts of `bench.lease_trials`, which tells it on its standard input when to hang. It judges nothing.
"""

import argparse
import asyncio
import json
import logging
import os
import queue
import re
import sys
import threading
import time
from typing import Any

import holdfast
from holdfast import aio

LOOK_S = 0.005
# A look that comes so much later than it should shows that this process was not let run.
LATE_NS = 25_000_000

Commands = queue.SimpleQueue[list[str]]


def say(what: str, at: int | None = None, **facts: Any) -> None:
    """Write down one thing, with the instant at which it was so."""
    line = {"what": what, "at": time.monotonic_ns() if at is None else at, **facts}
    os.write(1, json.dumps(line).encode() + b"\n")


class Looker:
    """Looks whether the lock is held, and writes down when that changes and when nobody could look."""

    def __init__(self, held: "holdfast.Held | aio.Held") -> None:
        self._held = held
        self._was_held = True
        self._at = time.monotonic_ns()

    def look(self) -> None:
        """Look once. The instant is from before the look: what is seen was so then or later."""
        at = time.monotonic_ns()
        if at - self._at >= LOOK_S * 1_000_000_000 + LATE_NS:
            say("away", self._at, until=at)
        is_held = self._held.held
        if self._was_held and not is_held:
            say("held", self._at)  # the last time that it was
            say("not held", at)
        elif is_held and not self._was_held:
            say("held", at)
        self._was_held = is_held
        self._at = at

    def end(self) -> None:
        """Say when it was held last, if it still is."""
        if self._was_held:
            say("held", self._at)


def hang(command: list[str]) -> None:
    """Hang as told: asleep, or in a search that lets no other thread of the process run."""
    what, seconds = command[0], float(command[1])
    say(what)
    if what == "sleep":
        time.sleep(seconds)
    else:
        search(seconds)
    say(f"after {what}")


def search(seconds: float) -> None:
    """Search in vain for at least so long, without ever letting go of the interpreter."""
    letters = 18
    while True:
        began = time.monotonic()
        re.match(r"(a+)+$", "a" * letters + "b")
        took = time.monotonic() - began
        if took >= seconds:
            return
        # Each letter doubles it.
        letters += max(1, int(seconds / max(took, 1e-4)).bit_length())


def hold(url: str, key: str, wishes: dict[str, Any], commands: Commands) -> None:
    """Hold in a thread."""
    with holdfast.connect(url) as client:
        held = client.lock(key, on_danger=lambda _: say("danger"), on_lost=lambda _: say("lost"), **wishes).acquire()
        say("granted", fence=held.fence)
        looker = Looker(held)
        while True:
            try:
                command = commands.get(timeout=LOOK_S)
            except queue.Empty:
                command = []
            looker.look()
            if command[:1] == ["end"]:
                break
            if command:
                hang(command)
                looker.look()
        looker.end()
        say("released")
        held.release()


async def hold_in_loop(url: str, key: str, wishes: dict[str, Any], commands: Commands) -> None:
    """Hold in an event loop, which hangs with whoever hangs in it."""
    async with aio.connect(url) as client:
        lock = client.lock(key, on_danger=lambda _: say("danger"), on_lost=lambda _: say("lost"), **wishes)
        held = await lock.acquire()
        say("granted", fence=held.fence)
        looker = Looker(held)
        while True:
            await asyncio.sleep(LOOK_S)
            looker.look()
            if commands.empty():
                continue
            command = commands.get()
            if command[:1] == ["end"]:
                break
            hang(command)
            looker.look()
        looker.end()
        say("released")
        await held.release()


def main() -> int:
    """Hold until told to end; answer the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.lease_holder", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("key")
    parser.add_argument("--lease", type=float, required=True, help="in seconds")
    parser.add_argument("--beat", type=float, default=None, help="renewal stops when this long nobody has beaten")
    parser.add_argument("--loop", action="store_true", help="hold in an event loop")
    options = parser.parse_args()
    logging.getLogger("holdfast.client").setLevel(logging.CRITICAL)  # of so much trouble there is much to tell
    commands: Commands = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            commands.put(line.split())
        commands.put(["end"])

    threading.Thread(target=listen, daemon=True).start()
    wishes = {"lease": options.lease, "beat_timeout": options.beat}
    if options.loop:
        asyncio.run(hold_in_loop(options.url, options.key, wishes, commands))
    else:
        hold(options.url, options.key, wishes, commands)
    return 0


if __name__ == "__main__":
    sys.exit(main())
