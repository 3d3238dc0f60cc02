"""Where lease trials with real processes take place: servers that can be killed, holders, commands, and who comes next.

What happens to them is decided in `bench/lease_trials.py`, and judged in `bench/lease_verdict.py`.
"""

import asyncio
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from asyncio import StreamReader
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

from bench.servers import SERVE, wait_until_open
from holdfast import HoldfastError, aio

# Below what the system gives to those who call: while a server is down, nobody else may get its port.
PORTS = range(15_000, 30_000)
LOOKS = 3
END_S_MAX = 10.0


def environment() -> dict[str, str]:
    """Leave out the settings of whoever tries, which must not reach what is tried."""
    return {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}


def port_for_long(dice: Random) -> int:
    """Find a port that nobody listens on, and that nobody gets by chance."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            port = dice.choice(PORTS)
            probe.bind(("127.0.0.1", port))
            return port


class Site:
    """One real server on a file, and a client of ours that asks for what others hold."""

    def __init__(self, folder: Path, dice: Random) -> None:
        folder.mkdir()
        self._folder = folder
        self._log = folder / "server.log"
        self._server: subprocess.Popen[bytes] | None = None
        self.port = port_for_long(dice)
        self.client = aio.connect(self.url(self.port), timeout=30)

    @staticmethod
    def url(port: int) -> str:
        """Spell where a server is."""
        return f"holdfast://127.0.0.1:{port}"

    async def start(self) -> None:
        """Start the server, for the first time or on what the last one has left."""
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        store = f"sqlite:{quote(str(self._folder / 'locks.db'))}"
        command = [*SERVE, "--store", store, "--line", f"127.0.0.1:{self.port}", "--http", "off"]
        with self._log.open("ab") as output:
            self._server = subprocess.Popen(
                command, stdout=output, stderr=output, stdin=DEVNULL, cwd=self._folder, env=environment()
            )
        wait_until_open("holdfast", self.port, self._server, self._log)

    def kill(self) -> None:
        """Kill the server on the spot."""
        assert self._server is not None
        self._server.kill()
        self._server.wait()

    async def close(self) -> None:
        """End everything."""
        with suppress(HoldfastError):
            await self.client.close()
        if self._server is not None:
            self.kill()

    async def be_next(self, key: str, lease_s: float) -> tuple[int, int]:
        """Wait for a lock that somebody else holds; answer since when we have it, at the latest, and our fence."""
        while True:
            with suppress(HoldfastError):  # its server is down; the place in the queue is resumed, or taken again
                held = await self.client.lock(key, lease=lease_s, patience=60).acquire()
                break
            await asyncio.sleep(0.05)
        instants = [time.monotonic_ns()]
        for _ in range(LOOKS):
            # The server knows for how long we have had it, so the way of its word here is not counted.
            with suppress(HoldfastError):
                seen = await self.client.show(key)
                now = time.monotonic_ns()
                instants += [
                    now - round(holder["since_ms"] * 1_000_000)
                    for holder in seen["holders"]
                    if holder["fence"] == held.fence
                ]
        await held.release()
        return min(instants), held.fence


class NotBegunError(Exception):
    """A process ended before it held anything."""


class Subject:
    """A process that a trial is about."""

    process: Process | None = None

    def stop(self) -> None:
        """Let it stand still."""
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send it a signal, if it is there."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    async def end(self) -> int | None:
        """See to it that it ends; answer its exit code."""
        if self.process is None:
            return None
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S_MAX):
                    await self.process.wait()
        finally:
            self.signal(signal.SIGKILL)
            code = await self.process.wait()
        return code


class Holder(Subject):
    """A process that holds a lock and writes down what it sees."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._granted = asyncio.Event()

    async def start(self, url: str, key: str, *options: str) -> None:
        """Start it, and wait until it has the lock."""
        command = [sys.executable, "-m", "bench.lease_holder", url, key, *options]
        self.process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=environment())
        assert self.process.stdout is not None
        self._reading = asyncio.create_task(self._read(self.process.stdout))
        await self._granted.wait()
        if not self.lines:
            raise NotBegunError(f"the holder ended before it held anything: {await self.process.wait()}")

    async def _read(self, written: StreamReader) -> None:
        try:
            async for line in written:
                self.lines.append(json.loads(line))
                self._granted.set()
        finally:
            self._granted.set()

    def tell(self, command: str) -> None:
        """Have it do something."""
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.write(command.encode() + b"\n")

    async def end(self) -> int | None:
        """Have it give the lock back, and read all that it has written."""
        if self.process is None:
            return None
        self.tell("end")
        code = await super().end()
        await self._reading
        return code


class Run(Subject):
    """`holdfast run`, with a command that shows that it lives."""

    def __init__(self, folder: Path, key: str) -> None:
        path = folder / f"{key}.alive"
        path.write_bytes(bytes(mmap.PAGESIZE))
        self._path = path
        with path.open("r+b") as file:
            self._page = memoryview(mmap.mmap(file.fileno(), mmap.PAGESIZE)).cast("q")

    async def start(self, url: str, key: str, *options: str) -> None:
        """Start it, and wait until its command lives."""
        command = [sys.executable, "-S", str(Path(__file__).with_name("lease_command.py")), str(self._path)]
        run = [sys.executable, "-m", "holdfast", "run", "--server", url, *options, key, "--", *command]
        self.process = await asyncio.create_subprocess_exec(*run, stdin=DEVNULL, stderr=DEVNULL, env=environment())
        while self.alive_ns == 0:
            if self.process.returncode is not None:
                raise NotBegunError(f"holdfast run ended before its command began: {self.process.returncode}")
            await asyncio.sleep(0.01)

    @property
    def alive_ns(self) -> int:
        """Say when the command last showed that it lives."""
        return self._page[0]

    async def end(self) -> int | None:
        """End it, if it has not ended."""
        self.signal(signal.SIGHUP)  # passed on to the command, which does not ignore this one
        return await super().end()
