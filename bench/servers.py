"""The servers under measurement: real processes on free loopback ports, and what the kernel says of them.

Each one is ended by its own process id when its block ends, whatever happened inside; none is ever ended by
its name.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from bench.programs import BUILD, built

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
START_S_MAX = 15.0
STOP_S_MAX = 5.0

SERVE = [sys.executable, "-m", "holdfast", "serve", "--log-level", "warning"]

Command = Callable[[int], list[str]]


class ServerFailed(Exception):
    """A server did not start, or ended before it was told to."""


class Server:
    """A running server; the process must be ours."""

    def __init__(self, name: str, port: int, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.port = port
        self.process = process

    def cpu_s(self) -> float:
        """Tell the CPU time used so far, in user and system mode, by all threads together."""
        # The name of the program, in parentheses, may hold spaces; the fields after it do not.
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND

    def memory_bytes(self) -> int:
        """Tell how much memory the process has in use."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE_BYTES

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


def floor(port: int) -> list[str]:
    """Say how to start the server that only answers."""
    return [built("floor"), str(port)]


def holdfast(port: int) -> list[str]:
    """Say how to start Holdfast with the line door over memory."""
    return [*SERVE, "--store", "memory:", "--http", "off", "--line", f"127.0.0.1:{port}"]


def holdfast_on_disk(port: int, *, http_port: int, file: Path) -> list[str]:
    """Say how to start Holdfast with both doors over a file, where every answer waits for the disk."""
    doors = ["--line", f"127.0.0.1:{port}", "--http", f"127.0.0.1:{http_port}"]
    return [*SERVE, "--store", f"sqlite:{quote(str(file))}", *doors]


def redis(port: int) -> list[str]:
    """Say how to start Redis without persistence."""
    only_memory = ["--save", "", "--appendonly", "no"]
    return ["redis-server", "--bind", "127.0.0.1", "--port", str(port), *only_memory]


def redis_is_here() -> bool:
    """Tell whether Redis is installed, and how to install it if not."""
    found = shutil.which("redis-server") is not None
    if not found:
        print("Redis is left out, because it is not installed: apt-get install redis-server\n", file=sys.stderr)
    return found


@contextmanager
def running(name: str, command: Command, extra: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Start a server on a free port, wait until it takes connections, and end it afterwards.

    `extra` is added to its environment.
    """
    port = free_port()
    BUILD.mkdir(parents=True, exist_ok=True)
    log = BUILD / f"{name}.{port}.log"
    # The settings of whoever measures must not reach the server.
    environ = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")} | dict(extra or {})
    with log.open("wb") as output:
        process = subprocess.Popen(command(port), stdout=output, stderr=output, cwd=BUILD, env=environ)
    try:
        wait_until_open(name, port, process, log)
        yield Server(name, port, process)
        if process.poll() is not None:
            raise ServerFailed(f"{name} ended with exit code {process.returncode}: {log.read_text()}")
    finally:
        stop(process)
        log.unlink()


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_open(name: str, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the port takes connections; raise when the process ended or took too long."""
    limit = time.monotonic() + START_S_MAX
    while time.monotonic() < limit:
        if process.poll() is not None:
            raise ServerFailed(f"{name} ended with exit code {process.returncode}: {log.read_text()}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
    raise ServerFailed(f"{name} took no connection within {START_S_MAX:.0f} s: {log.read_text()}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a process of ours to end, and make it end."""
    process.terminate()
    try:
        process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
